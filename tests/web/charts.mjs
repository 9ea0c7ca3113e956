// The words of charts about the use of a task. This test answers in place of the server, so that the
// use has gaps and unknown parts.

import { open, settle, violations } from "./browser.mjs";

const USAGE = {
  schema: "ebb.usage/1",
  at: [1772625600, 1772626200, 1772626800],
  cores: [1.5, null, 3.5],
  memory_bytes: [1073741824, 2147483648, null],
  disk_bytes_per_second: [0, 1048576, 2097152],
  network_bytes_per_second: [null, null, null],
  gpus: [null, null, null],
  requested_cores: 8, requested_memory_bytes: null, peak_cores: 3.5, peak_memory_bytes: 2147483648,
};

// The sentence about an unknown use, and what the page has in its place for a known one.
const UNKNOWN = /<p class="soft">[^<]*<\/p>(?=\s*<div class="columns">\s*<div><h3>Use)/;
const BOX = '<div class="charts" data-usage="/runs/r/usage.json"></div>';

const WORDS = [
  "Cores over 20 min. used: at most 3.5, 2.5 on average, unknown at 1 of 3 times. Requested: 8.",
  "Memory over 20 min. used: at most 2 GiB, 1.5 GiB on average, unknown at 1 of 3 times.",
  "Disk and network over 20 min. disk: at most 2 MiB/s, 1 MiB/s on average.",
];

export async function charts(browser, base, path, problems, check) {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open(browser, base, problems, { colorScheme });
    await page.route(/usage\.json/, (route) => route.fulfill({ json: USAGE }));
    await page.route((url) => url.href === base + path, async (route) => {
      const answer = await route.fetch();
      const text = await answer.text();
      await route.fulfill({ response: answer, body: text.replace(UNKNOWN, BOX) });
    });
    await page.goto(base + path);
    await settle(page);
    if (await page.locator(".charts").count() === 0) {
      check(false, `${path}: no sentence about an unknown use`);
      return;
    }
    const words = await page.$$eval(".chart [role=img]", (all) => all.map((chart) => chart.getAttribute("aria-label")));
    check(String(words) === String(WORDS), `charts: ${words}`);
    check((await page.textContent(".charts")).includes("Unknown: GPUs."), "an unknown use is not reported");
    await page.waitForSelector(".chart:nth-of-type(3) canvas");
    for (const one of await violations(page)) check(false, `charts (${colorScheme}): ${one}`);
    await page.context().close();
  }
}
