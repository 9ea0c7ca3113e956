// Takes the pictures of the pages for the documents, as scripts/pictures does.
//
//   node pictures.mjs http://127.0.0.1:PORT DIR

import { PHONE, launch, open, settle } from "./browser.mjs";

const [base, folder] = process.argv.slice(2);
// As wide as a page of the book shows without making text too small to read.
const PAGE = { width: 1120 };
const problems = [];

// Takes the first `height` pixels of a page, five minutes after the sweep.
async function picture(browser, name, path, { height, colorScheme, viewport = PAGE }) {
  const page = await open(browser, base, problems, { viewport: { ...viewport, height }, colorScheme });
  const { at } = await (await fetch(`${base}/live`)).json();
  await page.clock.setFixedTime(Date.parse(at) + 5 * 60_000);
  await page.goto(base + path);
  await settle(page);
  await page.screenshot({ path: `${folder}/${name}.png` });
  await page.context().close();
}

// The address of the task with the most points of use, with its run.
async function runWithCurves(runs) {
  let [address, most] = [null, 0];
  for (const { run } of runs) {
    const path = `/runs/${id(run)}`;
    const { bars } = await (await fetch(`${base}${path}/timeline.json`)).json();
    for (const task of bars.task) {
      const { at } = await (await fetch(`${base}${path}/usage.json?task=${task}`)).json();
      if (at.length > most) [address, most] = [`${path}?task=${task}`, at.length];
    }
  }
  return address;
}

const id = (text) => encodeURIComponent(text);

const browser = await launch();
try {
  const { items: findings } = await (await fetch(`${base}/v1/findings`)).json();
  const { items: steps } = await (await fetch(`${base}/v1/steps`)).json();
  const { items: runs } = await (await fetch(`${base}/v1/runs`)).json();
  const idle = findings.find(({ kind }) => kind === "idle_node");
  const run = await runWithCurves(runs);
  const step = steps.find(({ finding }) => finding !== null);
  await picture(browser, "pages-overview", "/", { height: 860 });
  await picture(browser, "pages-findings", "/findings", { height: 760 });
  await picture(browser, "pages-node", `/nodes/${id(idle.resource.id)}`, { height: 820 });
  await picture(browser, "pages-step", `/steps/${id(step.step)}`, { height: 860 });
  await picture(browser, "pages-run", run, { height: 1000 });
  await picture(browser, "pages-run-dark", run, { height: 1000, colorScheme: "dark" });
  await picture(browser, "pages-phone", "/", { viewport: PHONE, height: 844 });
} finally {
  await browser.close();
}
for (const problem of problems) console.error(`pictures: ${problem}`);
process.exitCode = problems.length ? 1 : 0;
