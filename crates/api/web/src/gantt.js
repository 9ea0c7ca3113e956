// The timeline of a run: fetches its bars, and moves with pointer, wheel and keys. The table of tasks
// on the same page has the same data as text.

import { Bars } from "./bars.js";
import { Layout, UNFINISHED, colours, draw, heightOfAxis } from "./gantt_drawing.js";
import { visit } from "./live.js";
import { clock, day, length } from "./time_axis.js";

const HELP = matchMedia("(pointer: coarse)").matches
  ? "Drag to move, or use two fingers to zoom. Touch a task to open it."
  : "Drag to move, hold Ctrl and turn the wheel to zoom. A click opens a task.";

const timelines = new WeakMap();

export const timelineOf = (part) => (part.matches?.(".gantt") ? part : part.querySelector(".gantt"));

export function drawTimelines(part) {
  for (const box of part.querySelectorAll(".gantt[data-timeline]")) {
    if (!timelines.has(box)) timelines.set(box, new Gantt(box));
  }
}

// Uses the selected task of a new page, and loads the bars again after a new report.
export function updateTimeline(box, next, isNewReport) {
  if (next.dataset.task) box.dataset.task = next.dataset.task;
  else delete box.dataset.task;
  if (isNewReport) timelines.get(box)?.loadWhole();
  else timelines.get(box)?.chooseTask();
}

// The end of the time that is drawn: with expected ends, but at most twice as long as the run.
function lastSecond({ seconds, bars }) {
  const expected = bars.expected.reduce((latest, one) => Math.max(latest, one ?? 0), 0);
  return Math.max(seconds, Math.min(expected, seconds * 2));
}

class Gantt {
  constructor(box) {
    this.box = box;
    this.canvas = box.querySelector("canvas");
    this.hint = box.querySelector(".hint");
    this.controls = box.parentElement.querySelector(".controls");
    this.colour = colours();
    this.view = null;
    this.chosen = this.hovered = null;
    this.pointers = new Map();
    this.requests = 0;
    this.listen();
    this.loadWhole();
  }

  // Loads all bars; when there are too many, several tasks are one bar.
  async loadWhole() {
    const data = await this.load("");
    if (!data) return;
    this.whole = new Bars(data);
    this.part = null;
    const length = Math.max(lastSecond(data), 10);
    this.limits = { from: -length * 0.01, to: length * 1.01 };
    this.begin = Date.parse(data.begin) / 1000;
    this.use(this.whole);
    if (this.view) this.move(this.view.from, this.view.to, this.view.top);
    else this.move(this.limits.from, this.limits.to, 0);
    this.chooseTask();
    this.box.dataset.drawn = "yes";
  }

  // Selects the task that the page shows. It has no bar of its own while several tasks are one bar.
  chooseTask() {
    const { task } = this.box.dataset;
    const bar = task === undefined ? null : this.bars?.ofTask(Number(task)) ?? null;
    if (bar !== null && this.bars.data.bars.count[bar] === 1) this.select(bar);
    else this.say();
  }

  // Loads the bars of the visible time, with as much before and after it.
  async loadPart() {
    const { from, to } = this.view;
    const margin = to - from;
    const part = { from: Math.max(0, Math.floor(from - margin)), to: Math.max(0, Math.ceil(to + margin)) };
    const data = await this.load(`?from=${part.from}&to=${part.to}`);
    if (!data || data.lanes.length !== this.whole.data.lanes.length) return;
    this.part = { ...part, isMerged: data.merged, bars: new Bars(data) };
    this.choose();
    this.redraw();
  }

  async load(query) {
    const request = (this.requests += 1);
    try {
      const answer = await fetch(this.box.dataset.timeline + query);
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const data = await answer.json();
      return request === this.requests ? data : null;
    } catch (error) {
      this.hint.textContent = `Failed to load the timeline: ${error.message}. The table of tasks has the same data.`;
      return null;
    }
  }

  // Chooses the more exact bars if they contain the visible time.
  choose() {
    const { part, view } = this;
    const isInside = part && Math.max(view.from, 0) >= part.from && Math.min(view.to, this.whole.data.seconds) <= part.to;
    this.use(isInside ? part.bars : this.whole);
    const isExact = isInside && (!part.isMerged || (part.to - part.from) < (view.to - view.from) * 4);
    clearTimeout(this.timer);
    const isZoomed = view.to - view.from < this.whole.data.seconds * 0.6;
    if (this.whole.data.merged && isZoomed && !isExact) this.timer = setTimeout(() => this.loadPart(), 150);
    this.sayMerged();
  }

  use(bars) {
    if (this.bars === bars) return;
    const task = this.chosen === null ? null : this.bars?.data.bars.task[this.chosen];
    this.bars = bars;
    this.hovered = null;
    this.chosen = task === null || task === undefined ? null : bars.ofTask(task);
    this.resize();
  }

  resize() {
    const width = this.box.clientWidth;
    if (!width || !this.bars) return;
    this.layout = new Layout(this.bars, width);
    this.ratio = Math.min(devicePixelRatio || 1, 2);
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(this.layout.height * this.ratio);
    this.canvas.style.height = `${this.layout.height}px`;
    if (this.view) this.view.top = Math.min(this.view.top, this.layout.most);
    this.redraw();
  }

  redraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.view) draw(this.canvas.getContext("2d"), this);
    });
  }

  // Shows this time, within the limits.
  move(from, to, top) {
    const whole = this.limits.to - this.limits.from;
    const span = Math.min(Math.max(to - from, Math.min(5, whole)), whole);
    const start = Math.min(Math.max(from, this.limits.from), this.limits.to - span);
    this.view = { from: start, to: start + span, top: Math.min(Math.max(top, 0), this.layout.most) };
    this.choose();
    this.redraw();
  }

  pan(pixels, down = 0) {
    const { from, to, top } = this.view;
    const time = (pixels / (this.layout.width - this.layout.gutter)) * (to - from);
    this.move(from + time, to + time, top + down);
  }

  // Zooms around a time, which stays where it is.
  zoom(factor, around = this.middle()) {
    const { from, to, top } = this.view;
    this.move(around - (around - from) * factor, around + (to - around) * factor, top);
  }

  middle() {
    const { from, to } = this.view;
    const chosen = this.chosen === null ? null : this.bars.begin(this.chosen);
    return chosen !== null && chosen >= from && chosen <= to ? chosen : (from + to) / 2;
  }

  showAll() {
    this.move(this.limits.from, this.limits.to, 0);
  }

  // Moves so that the chosen bar is visible.
  reveal(bar) {
    const { from, to, top } = this.view;
    const [begin, end] = [this.bars.begin(bar), this.bars.end(bar)];
    const span = to - from;
    let start = from;
    if (begin < from || end > to) start = Math.max(Math.min(from, begin - span * 0.1), Math.min(end - span * 0.9, begin - span * 0.1));
    const y = this.layout.top[this.bars.rowOf(bar)];
    const height = this.layout.height - heightOfAxis;
    this.move(start, start + span, Math.min(Math.max(top, y + this.layout.rowHeight * 2 - height), Math.max(0, y - this.layout.rowHeight)));
  }

  timeAt(x) {
    const { from, to } = this.view;
    return from + ((x - this.layout.gutter) / (this.layout.width - this.layout.gutter)) * (to - from);
  }

  barAt(event) {
    const place = this.canvas.getBoundingClientRect();
    const row = this.layout.rowAt(event.clientY - place.top - heightOfAxis + this.view.top, this.bars);
    const x = event.clientX - place.left;
    if (row === null || event.clientY - place.top < heightOfAxis || x < this.layout.gutter) return null;
    return this.bars.at(row, this.timeAt(x), this.timeAt(x + 3) - this.timeAt(x));
  }

  // Opens the task of a bar; a bar of several tasks is enlarged first.
  open(bar) {
    const { count, task } = this.bars.data.bars;
    const [begin, end] = [this.bars.begin(bar), this.bars.end(bar)];
    if (count[bar] > 1 && this.view.to - this.view.from > 6) {
      const margin = Math.max((end - begin) * 0.2, 1);
      this.move(begin - margin, end + margin, this.view.top);
      return;
    }
    visit(`${this.box.dataset.run}?task=${task[bar]}#task`);
  }

  select(bar) {
    this.chosen = bar;
    this.reveal(bar);
    this.say();
  }

  say() {
    const bar = this.hovered ?? this.chosen;
    this.hint.textContent = bar === null ? HELP : this.words(bar);
  }

  sayMerged() {
    const { merged, tasks } = this.bars.data;
    this.controls.querySelector(".merged").textContent = merged
      ? `${tasks.toLocaleString("en")} tasks are here; a bar may stand for several. Zoom in to see each.`
      : "";
  }

  // One bar as a sentence.
  words(bar) {
    const { steps, nodes, states, bars } = this.bars.data;
    const from = this.begin + bars.start[bar];
    const to = this.begin + bars.end[bar];
    const time = (at) => (day(at) === day(from) ? clock(at, true) : `${day(at)} ${clock(at, true)}`);
    const times = `${day(from)} ${clock(from, true)} to ${time(to)} UTC (${length(to - from)})`;
    const state = states[bars.state[bar]];
    if (bars.count[bar] > 1) {
      return `${bars.count[bar].toLocaleString("en")} tasks of ${steps[bars.step[bar]]}, ${times}; at least one is ${state}`;
    }
    const queued = bars.queued[bar] === null ? "" : `, queued for ${length(bars.start[bar] - bars.queued[bar])}`;
    const hasEnd = bars.expected[bar] === null || !UNFINISHED.has(state);
    const expected = hasEnd ? "" : `, expected to end at ${time(this.begin + bars.expected[bar])}`;
    return `${steps[bars.step[bar]]} on ${nodes[bars.node[bar]]}: ${state}, ${times}${queued}${expected}`;
  }

  listen() {
    const { canvas, box } = this;
    new ResizeObserver(() => this.resize()).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.colour = colours();
      this.redraw();
    });
    box.addEventListener("keydown", (event) => this.onKey(event));
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", (event) => this.onUp(event));
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => this.hover(null));
    this.controls.addEventListener("click", (event) => {
      const action = event.target.closest("[data-gantt]")?.dataset.gantt;
      if (!action || !this.view) return;
      if (action === "all") this.showAll();
      else this.zoom(action === "in" ? 0.5 : 2);
    });
  }

  onKey(event) {
    if (!this.view || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = event.shiftKey ? "Shift+" : "";
    const action = KEYS[step + event.key] ?? KEYS[event.key];
    if (!action) return;
    event.preventDefault();
    action(this);
  }

  // The arrow keys choose a bar; the first press chooses the first visible one.
  step(next) {
    if (this.chosen !== null) {
      this.select(next(this.chosen));
      return;
    }
    const { from, to, top } = this.view;
    for (let row = 0; row < this.bars.rows; row += 1) {
      if (this.layout.top[row] + this.layout.rowHeight <= top) continue;
      const [low, high] = this.bars.between(row, from, to);
      if (low < high) {
        this.select(this.bars.lists[row][low]);
        return;
      }
    }
  }

  // The wheel moves the page, unless a key is held or the timeline has the focus.
  onWheel(event) {
    if (!this.view) return;
    const { top } = this.view;
    if (event.ctrlKey || event.metaKey) {
      const x = event.clientX - this.canvas.getBoundingClientRect().left;
      this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 150), this.timeAt(Math.max(x, this.layout.gutter)));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.pan(event.deltaX || event.deltaY);
    } else {
      const isFocused = this.box.contains(document.activeElement);
      const canMove = event.deltaY > 0 ? top < this.layout.most : top > 0;
      if (!isFocused || !canMove) return;
      this.pan(0, event.deltaY);
    }
    event.preventDefault();
  }

  onDown(event) {
    if (event.button || !this.view) return;
    this.pointers.set(event.pointerId, event);
    this.canvas.setPointerCapture(event.pointerId);
    this.travelled = 0;
  }

  onMove(event) {
    if (!this.view) return;
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.hover(this.barAt(event));
      return;
    }
    const [x, y] = [event.clientX - before.clientX, event.clientY - before.clientY];
    this.travelled += Math.abs(x) + Math.abs(y);
    if (this.pointers.size === 2) this.pinch(event);
    else if (this.travelled > 4) {
      this.canvas.classList.add("moving");
      this.pan(-x, -y);
    }
    this.pointers.set(event.pointerId, event);
  }

  // Two fingers zoom around the point between them.
  pinch(event) {
    const others = [...this.pointers.values()];
    const other = others.find(({ pointerId }) => pointerId !== event.pointerId);
    const before = Math.abs(this.pointers.get(event.pointerId).clientX - other.clientX);
    const now = Math.abs(event.clientX - other.clientX);
    const middle = (event.clientX + other.clientX) / 2 - this.canvas.getBoundingClientRect().left;
    if (before > 10 && now > 10) this.zoom(before / now, this.timeAt(middle));
  }

  onUp(event) {
    const isClick = this.pointers.has(event.pointerId) && this.travelled <= 4;
    this.pointers.delete(event.pointerId);
    this.canvas.classList.remove("moving");
    const bar = isClick ? this.barAt(event) : null;
    if (bar === null) return;
    this.chosen = bar;
    this.open(bar);
  }

  hover(bar) {
    if (bar === this.hovered) return;
    this.hovered = bar;
    this.canvas.style.cursor = bar === null ? "" : "pointer";
    this.say();
    this.redraw();
  }
}

// Keys by name. The position of the letters does not matter for any of them.
const KEYS = {
  ArrowLeft: (gantt) => gantt.step((bar) => gantt.bars.beside(bar, -1)),
  ArrowRight: (gantt) => gantt.step((bar) => gantt.bars.beside(bar, 1)),
  ArrowUp: (gantt) => gantt.step((bar) => gantt.bars.above(bar, -1)),
  ArrowDown: (gantt) => gantt.step((bar) => gantt.bars.above(bar, 1)),
  "Shift+ArrowLeft": (gantt) => gantt.pan(-120),
  "Shift+ArrowRight": (gantt) => gantt.pan(120),
  "Shift+ArrowUp": (gantt) => gantt.pan(0, -80),
  "Shift+ArrowDown": (gantt) => gantt.pan(0, 80),
  PageUp: (gantt) => gantt.pan(0, -300),
  PageDown: (gantt) => gantt.pan(0, 300),
  "+": (gantt) => gantt.zoom(0.5),
  "=": (gantt) => gantt.zoom(0.5),
  "-": (gantt) => gantt.zoom(2),
  Home: (gantt) => gantt.showAll(),
  Enter: (gantt) => { if (gantt.chosen !== null) gantt.open(gantt.chosen); },
  Escape: (gantt) => {
    gantt.chosen = null;
    gantt.say();
    gantt.redraw();
  },
};
