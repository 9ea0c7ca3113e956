// Replaces what changed on the page without a reload, so that focus and scroll positions stay.

import { announce } from "./status.js";
import { timelineOf, updateTimeline } from "./gantt.js";

const MAX_POLL_SECONDS = 600;

let main;
let enhance;
// The text that the server sent for each child of the main part, before scripts changed it.
let sent = [];
let address = location.href;

export function follow(element, enhanceParts) {
  main = element;
  enhance = enhanceParts;
  sent = [...main.children].map((child) => [child, child.outerHTML]);
  enhance(main);
  addEventListener("popstate", () => { if (location.pathname + location.search !== pathOf(address)) visit(location.href, false); });
  const { version, pollSeconds } = document.documentElement.dataset;
  if (version) setTimeout(poll, pollSeconds * 1000, Number(pollSeconds));
}

function pathOf(url) {
  const { pathname, search } = new URL(url, location.href);
  return pathname + search;
}

// Asks whether there is a new report. After a failure the interval grows.
async function poll(seconds) {
  let next = Number(document.documentElement.dataset.pollSeconds);
  if (!document.hidden) {
    try {
      const answer = await fetch("/live", { cache: "no-store" });
      if (answer.status === 403) {
        announce("The page is no longer updated, because the cookie has expired.");
        return;
      }
      if (!answer.ok) throw new Error(answer.statusText);
      const { version } = await answer.json();
      if (version !== document.documentElement.dataset.version && !isBusy() && await refresh()) {
        announce("The page shows a new report.");
      }
    } catch {
      next = Math.min(seconds * 2, MAX_POLL_SECONDS);
    }
  }
  setTimeout(poll, next * 1000, next);
}

// Whether somebody fills in a form, which a new page would empty.
function isBusy() {
  const fields = [...main.querySelectorAll("input, select")];
  return fields.some((field) => field === document.activeElement
    || (field.matches("input") && field.value !== field.defaultValue));
}

// Loads the page again and replaces what changed; false if it failed.
export async function refresh() {
  return load(address).catch(() => false);
}

// Shows another address of the same page. Its timeline keeps its position.
export async function visit(url, isNew = true) {
  const isShown = await load(url).catch(() => false);
  if (!isShown) {
    location.assign(url);
    return;
  }
  if (isNew) history.pushState(null, "", url);
  const target = document.getElementById(new URL(url, location.href).hash.slice(1));
  if (!target) return;
  target.tabIndex = -1;
  target.focus({ preventScroll: true });
  target.scrollIntoView({ block: "nearest" });
}

// Links from a run to its tasks.
export function visitOnClick(element) {
  element.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const isHere = link.origin === location.origin && link.pathname === location.pathname;
    if (!isHere || link.download || !element.querySelector(".gantt")) return;
    event.preventDefault();
    visit(link.href);
  });
}

async function load(url) {
  const answer = await fetch(url, { cache: "no-cache", headers: { accept: "text/html" } });
  if (!answer.ok) return false;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("main");
  if (!fresh) return false;
  const isNewReport = page.documentElement.dataset.version !== document.documentElement.dataset.version;
  const focus = focused();
  const scrolls = scrollPositions();
  replace(fresh, isNewReport);
  document.title = page.title;
  document.querySelector("footer").replaceWith(page.querySelector("footer"));
  Object.assign(document.documentElement.dataset, { version: "", ...page.documentElement.dataset });
  address = url;
  enhance(document);
  restoreScroll(scrolls);
  if (focus) restoreFocus(focus);
  return true;
}

// Replaces the children of the main part that the server now sends differently.
function replace(fresh, isNewReport) {
  const next = [];
  let from = 0;
  for (const child of [...fresh.children]) {
    const html = child.outerHTML;
    const at = sent.findIndex(([old, text], n) => n >= from && (text === html || isSameTimeline(old, child)));
    if (at < 0) {
      next.push([document.importNode(child, true), html]);
      continue;
    }
    from = at + 1;
    const [old] = sent[at];
    if (timelineOf(old)) updateTimeline(timelineOf(old), timelineOf(child), isNewReport);
    next.push([old, html]);
  }
  const stay = new Set(next.map(([child]) => child));
  for (const [old] of sent) {
    if (!stay.has(old)) old.remove();
  }
  next.forEach(([child], n) => {
    if (main.children[n] !== child) main.insertBefore(child, main.children[n] ?? null);
  });
  sent = next;
}

function isSameTimeline(old, child) {
  const address = timelineOf(old)?.dataset.timeline;
  return address !== undefined && timelineOf(child)?.dataset.timeline === address;
}

// How to find the focused element in the new page: by its id, or by its address or text.
function focused() {
  const element = document.activeElement;
  if (!element || element === main || !main.contains(element)) return null;
  const key = keyOf(element);
  const same = [...main.querySelectorAll(element.localName)].filter((other) => keyOf(other) === key);
  return { element, key, tag: element.localName, number: same.indexOf(element) };
}

const keyOf = (element) => element.id || element.rel || element.getAttribute("href") || element.textContent;

function restoreFocus({ element, key, tag, number }) {
  if (element.isConnected) return;
  const same = [...main.querySelectorAll(tag)].filter((other) => keyOf(other) === key);
  (same[number] ?? same[0] ?? main).focus({ preventScroll: true });
}

const BOXES = ".wide, .log, pre";

function scrollPositions() {
  const boxes = [...main.querySelectorAll(BOXES)].map((box) => [box.scrollLeft, box.scrollTop]);
  const closed = [...main.querySelectorAll("details")].map((details) => details.open);
  return { boxes, closed, top: scrollY };
}

function restoreScroll({ boxes, closed, top }) {
  const details = [...main.querySelectorAll("details")];
  if (details.length === closed.length) details.forEach((one, n) => { one.open = closed[n]; });
  const all = [...main.querySelectorAll(BOXES)];
  if (all.length === boxes.length) all.forEach((box, n) => { [box.scrollLeft, box.scrollTop] = boxes[n]; });
  scrollTo({ top, behavior: "instant" });
}
