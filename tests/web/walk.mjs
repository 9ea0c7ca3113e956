// Walks the pages of a deployment in a browser, as scripts/check-pages does for the demo account.
//
//   node walk.mjs http://127.0.0.1:PORT

import { DESKTOP, PHONE, launch, open, settle, violations } from "./browser.mjs";
import { charts } from "./charts.mjs";
import { figures } from "./figures.mjs";
import { keyboard } from "./keyboard.mjs";
import { live } from "./live.mjs";
import { slack } from "./slack.mjs";

const MAX_FIRST_VIEW_BYTES = 300_000;
const MAX_FIRST_VIEW_MS = 1_000;
const MAX_LINKS = 2_000;

const base = process.argv[2];
const problems = [];
let checks = 0;

// A wrong condition is a problem; the walk goes on.
export function check(isRight, what) {
  checks += 1;
  if (!isRight) problems.push(what);
}

// The links of a page; none of a file.
async function linksOf(path) {
  const answer = await fetch(base + path);
  // The API refuses a recommendation that needs more tasks.
  const isRefused = /^\/(v1|data)\//.test(path) && answer.status === 409;
  check(answer.status === 200 || isRefused, `${path}: status ${answer.status}`);
  const text = await answer.text();
  if (!answer.headers.get("content-type")?.startsWith("text/html")) return null;
  const hrefs = [...text.matchAll(/\shref="([^"]+)"/g)].map(([, href]) => href.replaceAll("&amp;", "&").replaceAll("&#x2f;", "/"));
  const urls = hrefs.map((href) => new URL(href, base + path)).filter(({ origin }) => origin === base);
  return urls.map(({ pathname, search }) => pathname + search);
}

// Follows every link of every page, without a browser. Returns the addresses of all pages.
async function crawl() {
  const pages = [];
  const known = new Set(["/"]);
  const waiting = ["/"];
  while (waiting.length && known.size < MAX_LINKS) {
    const paths = waiting.splice(0, 8);
    const links = await Promise.all(paths.map(linksOf));
    pages.push(...paths.filter((_, n) => links[n]));
    for (const next of links.flatMap((some) => some ?? [])) {
      if (!known.has(next)) waiting.push(next);
      known.add(next);
    }
  }
  check(known.size < MAX_LINKS, `more than ${MAX_LINKS} links`);
  return pages;
}

// What a page is: its address without names and values.
function kindOf(path) {
  const url = new URL(path, base);
  const [, folder, name] = url.pathname.split("/");
  return `/${folder}${name ? "/{}" : ""}?${[...url.searchParams.keys()].sort().join("&")}`;
}

// One page of each kind.
function examples(pages) {
  const byKind = new Map();
  for (const path of pages) {
    if (!byKind.has(kindOf(path))) byKind.set(kindOf(path), path);
  }
  return [...byKind.values()];
}

// Opens each kind of page at one size and colour scheme.
async function checkKinds(browser, paths, [viewport, colorScheme]) {
  const page = await open(browser, base, problems, { viewport, colorScheme });
  for (const path of paths) {
    await page.goto(base + path);
    await settle(page);
    const where = `${path} (${viewport.width} pixels, ${colorScheme})`;
    for (const one of await violations(page)) check(false, `${where}: ${one}`);
    const wide = await page.evaluate((width) => document.documentElement.scrollWidth - width, viewport.width);
    check(wide <= 0, `${where}: ${wide} pixels wider than the window`);
    const isDrawn = await page.evaluate(() => [...document.querySelectorAll(".gantt canvas, .chart canvas")].every((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.some((value) => value !== 0);
    }));
    check(isDrawn, `${where}: an empty drawing`);
  }
  await page.context().close();
}

// The size and the time in milliseconds of the first view of a browser that has nothing of it yet.
async function firstView(browser, path) {
  const page = await open(browser, base, problems);
  await page.goto(base + path, { waitUntil: "load" });
  const view = await page.evaluate(() => {
    const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
    return [entries.reduce((sum, entry) => sum + entry.transferSize, 0), entries[0].loadEventEnd || performance.now()];
  });
  await page.context().close();
  return view;
}

async function checkFirstView(browser, paths) {
  let [most, slowest] = [0, 0];
  for (const path of paths) {
    let [bytes, ms] = await firstView(browser, path);
    // Other work of the machine can slow down one of two views.
    if (ms > MAX_FIRST_VIEW_MS) [, ms] = await firstView(browser, path);
    check(bytes > 0 && bytes <= MAX_FIRST_VIEW_BYTES, `${path}: the first view is ${bytes} bytes`);
    check(ms <= MAX_FIRST_VIEW_MS, `${path}: the first view takes ${Math.round(ms)} ms`);
    [most, slowest] = [Math.max(most, bytes), Math.max(slowest, ms)];
  }
  return `first view at most ${Math.round(most / 1000)} kB and ${Math.round(slowest)} ms`;
}

// A selected task with curves of its use, which the demo account has for tasks that several sweeps observed.
async function withCurves(paths) {
  for (const path of paths.filter((path) => kindOf(path) === "/runs/{}?task")) {
    const text = await (await fetch(base + path)).text();
    if (text.includes("data-usage=")) return [path];
  }
  check(false, "no page of a task has curves");
  return [];
}

async function checkProblemPage(page) {
  const answer = await page.goto(`${base}/runs/expect-a-problem`);
  check(answer.status() === 404, `an unknown run has status ${answer.status()}`);
  check(await page.locator("main a[href='/']").count() === 1, "the page about a problem has no way back");
  await page.goto("about:blank");
}

async function main() {
  const begin = Date.now();
  const browser = await launch();
  try {
    const pages = await crawl();
    const kinds = [...examples([...pages, "/search?q=a"]), ...await withCurves(pages)];
    const run = pages.find((path) => kindOf(path) === "/runs/{}?task");
    check(run !== undefined, "no page has a link to a task");
    const page = await open(browser, base, problems);
    await checkProblemPage(page);
    await figures(page, base, pages, check);
    const first = await checkFirstView(browser, kinds);
    const modes = [[DESKTOP, "light"], [DESKTOP, "dark"], [PHONE, "light"], [PHONE, "dark"]];
    await Promise.all(modes.map((mode) => checkKinds(browser, kinds, mode)));
    if (run) await charts(browser, base, run, problems, check);
    await keyboard(page, base, check);
    await live(await open(browser, base, problems), base, check);
    await slack(page, base, check);
    for (const problem of problems) console.error(`pages: ${problem}`);
    if (!problems.length) {
      const seconds = Math.round((Date.now() - begin) / 1000);
      console.log(`pages: ${pages.length} pages, ${kinds.length} of them in every mode, and ${checks} checks in ${seconds} s; ${first}`);
    }
  } finally {
    await browser.close();
  }
  process.exitCode = problems.length ? 1 : 0;
}

await main();
