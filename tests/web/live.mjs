// A decision of another person appears on an open page, which keeps its focus.

import { settle } from "./browser.mjs";

export async function live(page, base, check) {
  await page.clock.install();
  await page.goto(`${base}/findings`);
  await settle(page);
  const { items } = await (await fetch(`${base}/v1/findings`)).json();
  const [gone, stays] = [items[0], items[1]].map(({ id }) => id);
  const link = (id) => `.findings a[href="/findings/${[...id].map(escape).join("")}"]`;
  await page.focus(link(stays));
  const send = async (verb, body) => {
    const answer = await fetch(`${base}/v1/findings/${encodeURIComponent(gone)}/${verb}`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
    });
    check(answer.ok, `${verb}: status ${answer.status}`);
  };
  await send("dismiss", { reason: "test of the live update" });
  await page.clock.runFor(31_000);
  await page.waitForSelector(link(gone), { state: "detached", timeout: 5_000 }).catch(() => {});
  check(await page.locator(link(gone)).count() === 0, "an open page does not show a new decision");
  const focus = await page.evaluate(() => document.activeElement.getAttribute("href"));
  check(focus !== null && decodeURIComponent(focus) === `/findings/${stays}`, `the focus moved to ${focus}`);
  await send("reopen", {});
  await page.clock.runFor(31_000);
  await page.waitForSelector(link(gone), { timeout: 5_000 }).catch(() => {});
  check(await page.locator(link(gone)).count() === 1, "an open page does not show that a decision is withdrawn");
}

// A character as the pages write it in an address.
const escape = (one) => (/[A-Za-z0-9]/.test(one) ? one : encodeURIComponent(one) === one
  ? `%${one.charCodeAt(0).toString(16).toUpperCase()}` : encodeURIComponent(one));
