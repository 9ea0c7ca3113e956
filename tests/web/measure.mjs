// Measures the pages of a large deployment, as scripts/bench-pages does.
//
//   node measure.mjs http://127.0.0.1:PORT TASKS

import { launch, open, settle } from "./browser.mjs";

const RUN = "/runs/large-run";
const VIEWS = 5;
const SECONDS = 3;
const TASKS = 100_000;
const STEPS = 40;
const LANES = 25;

const [base, tasks] = process.argv.slice(2);

function line(what, measured, goal, isMet) {
  console.log(`${what.padEnd(58)} ${measured.padStart(12)} ${goal.padStart(10)} ${isMet ? "met" : "MISSED"}`);
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

// The first view of a browser that has nothing of it yet: the median of some, and the slowest. The
// server has nothing of the first page in memory, either.
async function firstView(browser, path) {
  const times = [];
  let bytes = 0;
  for (let n = 0; n < VIEWS; n += 1) {
    const page = await open(browser, base, []);
    await page.goto(base + path, { waitUntil: "load" });
    const seen = await page.evaluate(() => {
      const [navigation] = performance.getEntriesByType("navigation");
      const all = [navigation, ...performance.getEntriesByType("resource").filter(({ name }) => !name.endsWith(".json"))];
      return { ms: navigation.loadEventEnd, bytes: all.reduce((sum, entry) => sum + entry.transferSize, 0) };
    });
    times.push(seen.ms);
    bytes = seen.bytes;
    await page.context().close();
  }
  for (const [what, ms] of [["first view", median(times)], [`slowest of ${VIEWS}`, Math.max(...times)]]) {
    line(`${path}: ${what}`, `${Math.round(ms)} ms`, "1000 ms", ms <= 1000);
  }
  line(`${path}: transfer`, `${(bytes / 1000).toFixed(0)} kB`, "300 kB", bytes <= 300_000);
}

// Frames per second while the timeline moves with each frame, and the longest of 95 % of the frames.
async function frames(page, what, wheel) {
  const times = await page.evaluate(({ wheel, seconds }) => new Promise((done) => {
    const canvas = document.querySelector(".gantt canvas");
    const { left, top, width } = canvas.getBoundingClientRect();
    const times = [];
    const before = canvas.toDataURL();
    let isMoving = false;
    const frame = (at) => {
      times.push(at);
      if (times.length === 10) isMoving = canvas.toDataURL() !== before;
      if (at - times[0] > seconds * 1000) {
        done(isMoving ? times : []);
        return;
      }
      // There and back, so that it does not stop at a limit.
      const sign = Math.floor((at - times[0]) / 500) % 2 ? -1 : 1;
      const { deltaX, deltaY, ctrlKey } = wheel;
      canvas.dispatchEvent(new WheelEvent("wheel", {
        deltaX: deltaX * sign, deltaY: deltaY * sign, ctrlKey, clientX: left + width / 2, clientY: top + 60, cancelable: true,
      }));
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }), { wheel, seconds: SECONDS });
  if (!times.length) throw new Error(`${what}: the drawing does not change`);
  const lengths = times.slice(1).map((at, n) => at - times[n]).toSorted((a, b) => a - b);
  const rate = (lengths.length / (times.at(-1) - times[0])) * 1000;
  const long = lengths[Math.floor(lengths.length * 0.95)];
  line(`${what} (95 % within ${long.toFixed(0)} ms)`, `${rate.toFixed(0)} a second`, "30", rate >= 30);
}

async function timeline(browser, what, answer) {
  const page = await open(browser, base, []);
  if (answer) await page.route("**/timeline.json*", (route) => route.fulfill({ json: answer }));
  await page.goto(base + RUN, { waitUntil: "load" });
  const begin = Date.now();
  await settle(page);
  const ms = Date.now() - begin;
  line(`${what}: timeline drawn after the page`, `${ms} ms`, "2000 ms", ms <= 2000);
  await frames(page, `${what}: zoom`, { deltaX: 0, deltaY: -6, ctrlKey: true });
  for (let n = 0; n < 2; n += 1) await page.click("[data-gantt=in]");
  await frames(page, `${what}: pan`, { deltaX: 25, deltaY: 0, ctrlKey: false });
  await page.context().close();
}

// More bars than the server sends: one for each of 100,000 tasks.
function unmerged() {
  const bars = { queued: [], start: [], end: [], expected: [], state: [], step: [], lane: [], node: [], task: [], count: [] };
  for (let n = 0; n < TASKS; n += 1) {
    const [step, lane] = [n % STEPS, Math.floor(n / STEPS) % LANES];
    const start = Math.floor(n / (STEPS * LANES)) * 800 + ((n * 7919) % 400);
    const values = { queued: start - 20, start, end: start + 100 + ((n * 104729) % 300), expected: null, state: n % 200 ? 0 : 5, step, lane, node: 0, task: n, count: 1 };
    for (const [name, value] of Object.entries(values)) bars[name].push(value);
  }
  return {
    schema: "ebb.timeline/1", begin: "2026-01-01T00:00:00Z", seconds: Math.max(...bars.end.slice(-1000)),
    states: ["done", "ended", "running", "lost", "stalled", "failed"],
    steps: Array.from({ length: STEPS }, (_, n) => `STEP_${n}`), lanes: Array(STEPS).fill(LANES),
    nodes: ["node"], tasks: TASKS, left_out: 0, merged: false, bars,
  };
}

const browser = await launch();
try {
  console.log(`A report of 10,000 nodes and a run of ${tasks} tasks (simulated), ${browser.version()}.\n`);
  console.log(`${"what".padEnd(58)} ${"measured".padStart(12)} ${"goal".padStart(10)}`);
  for (const path of [RUN, "/", "/nodes"]) await firstView(browser, path);
  await timeline(browser, `${tasks} tasks`, null);
  await timeline(browser, `${TASKS} bars`, unmerged());
} finally {
  await browser.close();
}
