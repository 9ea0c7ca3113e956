// The browser of the tests, and one page of it that notes everything which must not happen.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

// The packages are in the cache of Ebb, not in the work tree.
const require = createRequire(`${process.env.EBB_NODE_MODULES}/`);
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const DESKTOP = { width: 1280, height: 900 };
export const PHONE = { width: 390, height: 844 };

export async function launch() {
  const options = ["--disable-gpu", "--disable-lcd-text"];
  // The sandbox of the browser does not start as root, as in a container.
  if (process.getuid() === 0) options.push("--no-sandbox");
  return chromium.launch({ executablePath: process.env.EBB_BROWSER, args: options });
}

// A page at this size and colour scheme. `problems` collects errors of scripts, messages on the
// console, and requests to other hosts.
export async function open(browser, base, problems, { viewport = DESKTOP, colorScheme = "light" } = {}) {
  const context = await browser.newContext({ viewport, colorScheme, isMobile: viewport.width < 600, hasTouch: viewport.width < 600 });
  const page = await context.newPage();
  const note = (text) => problems.push(`${page.url()}: ${text}`);
  page.on("pageerror", (error) => note(`error ${error.message}`));
  page.on("console", (message) => {
    // The browser reports the status of a page that is a problem on purpose.
    const isStatus = message.text().startsWith("Failed to load resource") && page.url().includes("expect-a-problem");
    if (["error", "warning"].includes(message.type()) && !isStatus) note(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.origin !== base && url.protocol !== "data:") note(`request to ${url.origin}`);
  });
  return page;
}

// Violations of accessibility rules. The check runs outside the page's Content-Security-Policy.
export async function violations(page) {
  await page.evaluate(`${AXE}; undefined`);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)} (${nodes.length})`);
}

// Waits until the scripts of the page have fetched and drawn everything.
export async function settle(page) {
  await page.waitForFunction(() => !document.querySelector(":is([data-timeline], [data-usage]):not([data-drawn=yes])"));
  await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
}
