// Dismisses, snoozes and reopens a finding over the API.

import { refresh } from "./live.js";
import { announce } from "./status.js";

const DONE = {
  dismiss: "The finding is dismissed.",
  snooze: "The finding is snoozed.",
  reopen: "The decision is withdrawn.",
};

export function decideOnSubmit() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form.decide")) return;
    event.preventDefault();
    decide(form, event.submitter?.value ?? form.querySelector("button").value);
  });
}

// The body of the request, or the reason why there is none.
function body(form, verb) {
  if (verb === "reopen") return {};
  const reason = form.elements.reason.value.trim();
  const until = form.elements.until.value;
  if (!reason) throw new Error("Enter a reason.");
  if (verb === "snooze" && !until) throw new Error("Enter the day until which the finding is snoozed.");
  return until ? { reason, until } : { reason };
}

// Sends the decision.
async function send(form, verb) {
  const content = JSON.stringify(body(form, verb));
  const answer = await fetch(`${form.dataset.action}/${verb}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: content,
  }).catch(() => {
    throw new Error("The server did not answer. Reload the page to see whether the decision is stored.");
  });
  if (answer.ok) return;
  const problem = await answer.json().catch(() => ({}));
  throw new Error(problem.detail || problem.title || `The server refused the decision (status ${answer.status}).`);
}

async function decide(form, verb) {
  const message = form.querySelector(".message");
  const buttons = form.querySelectorAll("button");
  message.textContent = "";
  buttons.forEach((button) => { button.disabled = true; });
  try {
    await send(form, verb);
  } catch (error) {
    message.textContent = error.message;
    return;
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
  form.reset();
  if (!await refresh()) {
    message.textContent = `${DONE[verb]} Reload the page to see it.`;
    return;
  }
  announce(DONE[verb]);
  // The button of the form is gone: the next one undoes the decision, or makes a new one.
  document.querySelector("form.decide :is(input, button)")?.focus({ preventScroll: true });
}
