// The button of a finding in Slack: the request of its action, signed as Slack signs it, dismisses the
// finding on an open page. Without the right signature, nothing changes.

import { createHash, createHmac } from "node:crypto";

import { settle } from "./browser.mjs";

const SECRET = process.env.EBB_SLACK_SIGNING_SECRET;

export async function slack(page, base, check) {
  const { items } = await (await fetch(`${base}/v1/findings`)).json();
  const finding = items[0].id;
  // The ids that crates/model/src/slack_action.rs gives the block and its button.
  const block = `ebb-${createHash("sha256").update(finding).digest("hex")}`;
  const payload = {
    type: "block_actions", user: { id: "U0TEST", username: "ana" },
    actions: [{ action_id: "ebb_dismiss", block_id: block }],
  };
  const body = new URLSearchParams({ payload: JSON.stringify(payload) }).toString();
  const send = async (secret, at) => {
    const signature = createHmac("sha256", secret).update(`v0:${at}:${body}`).digest("hex");
    return fetch(`${base}/v1/slack/actions`, {
      method: "POST", body,
      headers: {
        "content-type": "application/x-www-form-urlencoded",
        "x-slack-request-timestamp": String(at), "x-slack-signature": `v0=${signature}`,
      },
    });
  };
  const isListed = async () => {
    await page.goto(`${base}/findings`);
    await settle(page);
    const links = await page.$$eval(".findings a[href^='/findings/']", (all) => all.map((link) => link.getAttribute("href")));
    return links.some((link) => decodeURIComponent(link) === `/findings/${finding}`);
  };
  const now = Math.floor(Date.now() / 1000);
  check(await isListed(), `${finding} is not on the page before a button is pressed`);
  const refused = [["another secret", await send(`${SECRET}x`, now)], ["an old time", await send(SECRET, now - 400)]];
  for (const [what, answer] of refused) check(answer.status === 401, `a button signed with ${what}: status ${answer.status}`);
  check(await isListed(), "a button without a valid signature dismissed a finding");
  const answer = await send(SECRET, now);
  const reply = await answer.json();
  check(answer.status === 200 && reply.text.startsWith("Dismissed."), `a signed button: status ${answer.status}, ${reply.text}`);
  check(!await isListed(), "a signed button did not dismiss the finding");
  const again = await send(SECRET, now);
  check(again.status === 409, `the same request of a button twice: status ${again.status}`);
  const path = `${base}/v1/findings/${encodeURIComponent(finding)}`;
  const withdrawn = await fetch(`${path}/reopen`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
  check(withdrawn.ok && (await withdrawn.json()).by !== null && await isListed(), "the decision of a button cannot be withdrawn");
}
