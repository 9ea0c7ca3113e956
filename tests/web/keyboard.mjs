// Uses the pages with the keyboard alone: opens a run, moves in its timeline, dismisses a finding and
// withdraws the decision.

import { settle } from "./browser.mjs";

const MAX_TABS = 400;

export async function keyboard(page, base, check) {
  await page.goto(`${base}/`);
  await page.keyboard.press("Tab");
  check(await active(page, (element) => element.matches(".skip")), "the first stop is not the link to the content");
  await tabTo(page, check, (element) => element.matches("nav a[href='/runs']"));
  await Promise.all([page.waitForURL(`${base}/runs`), page.keyboard.press("Enter")]);
  await openRun(page, base, check);
  await moveInTimeline(page, check);
  await decide(page, base, check);
}

const active = (page, isWanted) => page.evaluate(`(${isWanted})(document.activeElement)`);

// Presses Tab until an element has the focus, which must be visible.
async function tabTo(page, check, isWanted) {
  for (let n = 0; n < MAX_TABS; n += 1) {
    await page.keyboard.press("Tab");
    if (!await active(page, isWanted)) continue;
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    check(outline !== "none", `no visible focus: ${isWanted}`);
    return;
  }
  throw new Error(`Tab does not reach ${isWanted}`);
}

// Opens the first run of the list that has a timeline.
async function openRun(page, base, check) {
  const links = await page.$$eval("main tbody th a", (all) => all.map((link) => link.getAttribute("href")));
  for (const link of links) {
    const { tasks } = await (await fetch(`${base}${link}/timeline.json`)).json();
    if (tasks < 2) continue;
    await tabTo(page, check, `(element) => element.getAttribute("href") === ${JSON.stringify(link)}`);
    await Promise.all([page.waitForURL(base + link), page.keyboard.press("Enter")]);
    await settle(page);
    return;
  }
  throw new Error("no run has a timeline");
}

async function moveInTimeline(page, check) {
  await tabTo(page, check, (element) => element.matches(".gantt"));
  const hint = () => page.textContent(".gantt .hint");
  const picture = () => page.evaluate(() => document.querySelector(".gantt canvas").toDataURL());
  const drawn = async (...keys) => {
    const before = await picture();
    for (const key of keys) await page.keyboard.press(key);
    await settle(page);
    return await picture() !== before;
  };
  check(await drawn("ArrowRight"), "an arrow key selects no task");
  const first = await hint();
  check(/ UTC \(/.test(first), `the selected task has no description: ${first}`);
  check(await drawn("ArrowRight", "ArrowDown"), "the arrow keys select no other task");
  check(await hint() !== first, "the description stays the same");
  check(await drawn("+", "+"), "plus does not enlarge");
  check(await drawn("Shift+ArrowRight"), "Shift and an arrow key do not move");
  check(await drawn("Home"), "Home does not show all");
  const words = await hint();
  await page.keyboard.press("Enter");
  await page.waitForSelector("#task");
  await settle(page);
  check(new URL(page.url()).searchParams.has("task"), "Enter does not open the task");
  check(await active(page, (element) => element.id === "task"), "the task does not get the focus");
  check(words.startsWith((await page.textContent("#task h2")).split(" ")[1]), `another task is open than ${words}`);
  await page.goBack();
  await page.waitForSelector("#task", { state: "detached" });
}

async function decide(page, base, check) {
  const saving = () => page.textContent("#saving");
  await page.goto(`${base}/`);
  const before = await saving();
  await tabTo(page, check, (element) => element.matches(".findings a"));
  const [finding] = await Promise.all([page.waitForURL(/\/findings\//), page.keyboard.press("Enter")])
    .then(() => [page.url()]);
  await tabTo(page, check, (element) => element.id === "reason");
  await page.keyboard.type("in use until the review");
  // A snooze without a day is refused with words.
  await tabTo(page, check, (element) => element.value === "snooze");
  await page.keyboard.press("Enter");
  check((await page.textContent(".decide .message")).includes("day"), "a snooze without a day has no message");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  await page.waitForSelector("button[value=reopen]");
  check(await active(page, (element) => element.value === "reopen"), "the focus is not on the way back");
  check((await page.textContent("#status")).includes("dismissed"), "the decision is not announced");
  await page.goto(`${base}/`);
  check(await saving() !== before, "a dismissed finding stays in the totals");
  await page.goto(finding);
  await tabTo(page, check, (element) => element.value === "reopen");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#reason");
  await page.goto(`${base}/`);
  check(await saving() === before, "the totals differ after the decision is withdrawn");
}
