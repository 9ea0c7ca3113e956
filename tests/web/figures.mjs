// Compares the figures on the pages with the answers of the API.

// The numbers in a text such as "$1,953.26".
const numbers = (text) => (text.match(/\d[\d,]*(\.\d+)?/g) ?? []).map((word) => word.replaceAll(",", ""));

// Whether a text shows an amount, rounded to the digits that it has.
function shows(text, amount) {
  const [word] = numbers(text);
  if (word === undefined || amount === null || amount === undefined) return false;
  const digits = word.split(".")[1]?.length ?? 0;
  return Math.abs(Number(word) - Number(amount)) <= 0.5 * 10 ** -digits + 1e-9;
}

// An amount of money, or words if there is none. 0 in place of an unknown amount is an error.
function showsMoney(text, usd) {
  return usd === null || usd === undefined ? !/\d/.test(text) : text.includes("$") && shows(text, usd);
}

export async function figures(page, base, pages, check) {
  const ask = async (path) => (await fetch(base + path)).json();
  const rows = (selector) => page.$$eval(`${selector} tbody tr`, (all) => all.map((row) => (
    [...row.cells].map((cell) => cell.textContent.trim().replace(/\s+/g, " ")))));
  const report = await ask("/v1/report");
  await overview(page, base, report, check);
  await findings(page, base, { ask, rows }, check);
  await nodes(page, base, { ask, rows }, check);
  await steps(page, base, { ask, rows }, check);
  await runs(page, base, { ask, rows, pages }, check);
  await costs(page, base, { report, rows }, check);
}

async function overview(page, base, { totals, findings, gaps, own_cost: own }, check) {
  await page.goto(`${base}/`);
  const tiles = new Map(await page.$$eval(".tile", (all) => all.map((tile) => (
    [tile.querySelector("h2").textContent, [...tile.querySelectorAll("p")].map((line) => line.textContent).join(" ")]))));
  check(shows(tiles.get("Can be saved a month"), totals.saving_a_month_usd), `saving: ${tiles.get("Can be saved a month")}`);
  const atMost = numbers(tiles.get("Can be saved a month"))[1];
  check(shows(atMost ?? "", totals.at_most.saving_a_month_usd), `saving at most: ${atMost}`);
  check(shows(tiles.get("Waste now"), totals.waste_per_hour_usd), `waste: ${tiles.get("Waste now")}`);
  check(shows(numbers(tiles.get("Waste now"))[1] ?? "", totals.spent_usd), `spent: ${tiles.get("Waste now")}`);
  const [count, unpriced] = numbers(tiles.get("Findings"));
  check(Number(count) === findings.length, `findings: ${count}`);
  check(Number(unpriced) === totals.without_price, `without a price: ${unpriced}`);
  const [heard, running] = numbers(tiles.get("Nodes with a probe"));
  check(Number(heard) === totals.with_probe && Number(running) === totals.running_instances, `probes: ${heard} of ${running}`);
  check(showsMoney(tiles.get("Ebb itself a month"), own.a_month_usd), `cost of Ebb: ${tiles.get("Ebb itself a month")}`);
  check(tiles.get("Last sweep").includes("data is missing") === (gaps.length > 0), "gaps are not reported");
}

async function findings(page, base, { ask, rows }, check) {
  await page.goto(`${base}/findings`);
  const { items } = await ask("/v1/findings");
  const shown = await rows(".findings");
  check(shown.length === items.length, `${shown.length} findings of ${items.length}`);
  items.forEach(({ id, cost }, n) => {
    check(showsMoney(shown[n]?.[0] ?? "", cost?.saving_a_month_usd), `${id}: ${shown[n]?.[0]}`);
  });
  for (const { id, cost } of items) {
    await page.goto(`${base}/findings/${encodeURIComponent(id)}`);
    const text = await page.textContent(".panel p");
    const known = cost ? showsMoney(text.split(" costs ")[1] ?? "", cost.saving_a_month_usd) : text.includes("not known");
    check(known, `${id}: ${text}`);
  }
}

async function nodes(page, base, { ask, rows }, check) {
  await page.goto(`${base}/nodes`);
  const { items } = await ask("/v1/nodes");
  const shown = await rows("main");
  check(shown.length === items.length, `${shown.length} nodes of ${items.length}`);
  for (const { id, name, per_hour_usd: price, basis, heard_at: heard, findings } of items) {
    const row = shown.find(([text]) => text.includes(id) || text === name) ?? [];
    check(showsMoney(row[6] ?? "", price), `price of ${id}: ${row[6]}`);
    check((row[6] ?? "").startsWith("at most") === (basis === "list_price_as_upper_bound"), `bound of ${id}: ${row[6]}`);
    check((row[5] === "no probe") === (heard === null), `probe of ${id}: ${row[5]}`);
    check(Number(row[7]) <= findings.length, `findings of ${id}: ${row[7]}`);
  }
}

async function steps(page, base, { ask, rows }, check) {
  await page.goto(`${base}/steps`);
  const { items } = await ask("/v1/steps");
  const shown = await rows("main");
  check(shown.length === items.length, `${shown.length} steps of ${items.length}`);
  for (const { step, runs, failed, saving_a_month: saving, saving_at_most_a_month: atMost } of items) {
    const row = shown.find(([text]) => text.split(" ")[0] === step) ?? [];
    check(Number(row[1]) === runs && Number(row[2]) === failed, `tasks of ${step}: ${row[1]}, ${row[2]} failed`);
    check(showsMoney(row[8] ?? "", saving ?? atMost), `saving of ${step}: ${row[8]}`);
  }
}

async function runs(page, base, { ask, rows, pages }, check) {
  await page.goto(`${base}/runs`);
  const { items } = await ask("/v1/runs");
  const shown = await rows("main");
  check(shown.length === items.length, `${shown.length} runs of ${items.length}`);
  const links = await page.$$eval("main tbody th a", (all) => all.map((link) => link.getAttribute("href")));
  for (const { run, steps: tasks, running, failed } of items) {
    const row = shown[links.findIndex((link) => decodeURIComponent(link) === `/runs/${run}`)] ?? [];
    const expected = [tasks, running, failed].filter((count, n) => n === 0 || count > 0);
    const found = numbers(row[2] ?? "").map(Number);
    check(String(found) === String(expected), `tasks of ${run}: ${row[2]}`);
  }
  for (const path of pages.filter((path) => /^\/runs\/[^?]+$/.test(path))) {
    const timeline = await fetch(`${base}${path}/timeline.json`).then((answer) => answer.json());
    const count = timeline.bars.count.reduce((sum, one) => sum + one, 0);
    check(count === timeline.tasks, `${path}: bars for ${count} of ${timeline.tasks} tasks`);
    const listed = items.find(({ run }) => `/runs/${run}` === decodeURIComponent(path));
    const known = timeline.tasks + timeline.left_out;
    await cost(page, base + path, listed?.cost, check);
    check(known === 0 || !listed || known === listed.steps, `${path}: ${known} tasks, the API has ${listed?.steps}`);
  }
}

// The page of a run has the cost of the API, which is that of the page of costs, or else an estimate.
async function cost(page, url, listed, check) {
  await page.goto(url);
  const tile = page.locator(".tile", { has: page.locator("#run-cost") });
  if (await tile.count() === 0) return;
  const [head, text] = [await tile.locator("h2").textContent(), await page.textContent("#run-cost")];
  if (!listed) {
    check(head === "Cost, estimate", `${url}: ${head}`);
    return;
  }
  check(head === "Cost" && showsMoney(text, listed.cost_usd), `${url}: ${head} ${text}, the API has ${listed.cost_usd}`);
}

async function costs(page, base, { report, rows }, check) {
  await page.goto(`${base}/costs?by=run`);
  const { items } = await (await fetch(`${base}/v1/runs`)).json();
  for (const [name, , text] of await rows("#shares")) {
    const run = items.find((one) => one.run === name);
    if (run) check(showsMoney(text, run.cost?.cost_usd), `cost of ${name}: ${text}, the API has ${run.cost?.cost_usd}`);
  }
  await page.goto(`${base}/costs`);
  const days = report.ledger ?? [];
  const shown = await rows(".columns .panel:first-child");
  check(shown.length === days.length, `${shown.length} days of ${days.length}`);
  for (const day of days) {
    const row = shown.find(([text]) => text.startsWith(day.day)) ?? [];
    const billed = day.billed_usd ?? Number(day.billed) / 1e6;
    check(showsMoney(row[1] ?? "", billed), `bill of ${day.day}: ${row[1]}`);
    const parts = row.slice(2).map((text) => Number(numbers(text)[0])).reduce((sum, one) => sum + one, 0);
    check(Math.abs(parts - Number(numbers(row[1] ?? "")[0])) < 0.03, `the parts of ${day.day} do not add up to ${row[1]}`);
  }
}
