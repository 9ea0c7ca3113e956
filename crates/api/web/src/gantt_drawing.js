// Draws the visible bars of a timeline. Bars shorter than a pixel become one, in the worst state.

import { marks } from "./time_axis.js";

const COLOURS = ["ink", "soft", "line", "sheet", "hover", "tide", "queued", "done", "ended", "running", "stalled", "lost", "failed"];
// The expected end of a task that has ended means nothing.
export const UNFINISHED = new Set(["running", "stalled", "lost"]);
const AXIS = 24;
const GAP = 6;
const FONT = "12px system-ui, sans-serif";

// The colours of the styles, which differ in dark mode.
export function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// Where steps and rows are: sizes in pixels of the page.
export class Layout {
  constructor(bars, width) {
    const isNarrow = width < 560;
    this.width = width;
    this.gutter = isNarrow ? 0 : Math.min(180, Math.round(width * 0.18));
    this.head = isNarrow ? 17 : 0;
    this.rowHeight = bars.rows <= 24 ? 17 : bars.rows <= 60 ? 12 : 9;
    this.top = Float64Array.from({ length: bars.rows });
    this.steps = [];
    let y = 0;
    bars.data.lanes.forEach((lanes, step) => {
      const from = y;
      y += this.head;
      for (let lane = 0; lane < lanes; lane += 1) this.top[bars.first[step] + lane] = y + lane * this.rowHeight;
      y += Math.max(lanes * this.rowHeight, isNarrow ? 0 : 17) + GAP;
      this.steps.push({ from, to: y, name: bars.data.steps[step] });
    });
    this.full = y;
    this.height = AXIS + Math.min(y, Math.max(160, Math.min(innerHeight * 0.6, 520)));
    this.most = Math.max(0, y - (this.height - AXIS));
  }

  // The row at a height of the page of all rows; null between rows.
  rowAt(y, bars) {
    let [low, high] = [0, bars.rows];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.top[middle] + this.rowHeight <= y) low = middle + 1;
      else high = middle;
    }
    return low < bars.rows && this.top[low] <= y ? low : null;
  }
}

export function draw(context, scene) {
  const { layout, ratio } = scene;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, layout.width, layout.height);
  context.font = FONT;
  context.textBaseline = "middle";
  drawSteps(context, scene);
  drawMarks(context, scene);
  context.save();
  context.beginPath();
  context.rect(layout.gutter, AXIS, layout.width - layout.gutter, layout.height - AXIS);
  context.clip();
  drawBars(context, scene);
  drawChosen(context, scene);
  context.restore();
  drawNames(context, scene);
}

// The height of the canvas at which something of all rows is drawn.
const yOf = ({ view }, y) => AXIS + y - view.top;

export const heightOfAxis = AXIS;

function xOf({ layout, view }, time) {
  return layout.gutter + ((time - view.from) / (view.to - view.from)) * (layout.width - layout.gutter);
}

function visibleSteps(scene) {
  const { layout, view } = scene;
  const bottom = view.top + layout.height - AXIS;
  return layout.steps.filter(({ from, to }) => to > view.top && from < bottom);
}

function drawSteps(context, scene) {
  const { layout, colour } = scene;
  context.fillStyle = colour.line;
  for (const { to } of visibleSteps(scene)) {
    const y = Math.round(yOf(scene, to - GAP / 2));
    if (y > AXIS && y < layout.height) context.fillRect(0, y, layout.width, 1);
  }
}

function drawNames(context, scene) {
  const { layout, colour } = scene;
  context.save();
  context.beginPath();
  context.rect(0, AXIS, layout.gutter || layout.width, layout.height - AXIS);
  context.clip();
  context.fillStyle = colour.ink;
  for (const { from, to, name } of visibleSteps(scene)) {
    // The name stays in sight while a lane of its step is.
    const y = Math.min(Math.max(yOf(scene, from), AXIS), yOf(scene, to) - 17 - GAP);
    context.fillText(fit(context, name, (layout.gutter || layout.width) - 10), 0, y + 9);
  }
  context.restore();
}

function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}

function drawMarks(context, scene) {
  const { layout, view, colour, begin } = scene;
  const most = Math.max(2, Math.floor((layout.width - layout.gutter) / 110));
  for (const { at, text } of marks(begin + view.from, begin + view.to, most)) {
    const x = Math.round(xOf(scene, at - begin));
    context.fillStyle = colour.line;
    context.fillRect(x, AXIS - 6, 1, layout.height);
    context.fillStyle = colour.soft;
    const width = context.measureText(text).width;
    context.fillText(text, Math.min(Math.max(x - width / 2, layout.gutter), layout.width - width), AXIS / 2 - 3);
  }
  context.fillStyle = colour.line;
  context.fillRect(layout.gutter, AXIS - 1, layout.width, 1);
}

function drawBars(context, scene) {
  const { bars, layout, view, colour } = scene;
  const { states } = bars.data;
  const shapes = { queued: [], expected: [], states: states.map(() => []) };
  const bottom = view.top + layout.height - AXIS;
  for (let row = 0; row < bars.rows; row += 1) {
    const top = layout.top[row];
    if (top + layout.rowHeight >= view.top && top <= bottom) collect(scene, row, shapes);
  }
  const height = layout.rowHeight - (layout.rowHeight > 10 ? 3 : 2);
  context.fillStyle = colour.queued;
  for (const [x, y, width] of shapes.queued) context.fillRect(x, y + height / 4, width, height / 2);
  states.forEach((state, n) => {
    context.fillStyle = colour[state] ?? colour.ended;
    for (const [x, y, width] of shapes.states[n]) context.fillRect(x, y, width, height);
  });
  context.fillStyle = colour.soft;
  for (const [x, y] of shapes.expected) {
    for (let at = 0; at < height; at += 4) context.fillRect(x, y + at, 2, 2);
  }
}

// The shapes of one row.
function collect(scene, row, shapes) {
  const { bars, layout, view } = scene;
  const { start, end, queued, expected, state } = bars.data.bars;
  const list = bars.lists[row];
  const [low, high] = bars.between(row, view.from, view.to);
  const y = yOf(scene, layout.top[row]) + 1;
  const [left, right] = [layout.gutter - 4, layout.width + 4];
  let [column, worst] = [-Infinity, 0];
  for (let n = low; n < high; n += 1) {
    const bar = list[n];
    const [x, to] = [Math.max(xOf(scene, start[bar]), left), Math.min(xOf(scene, end[bar]), right)];
    if (queued[bar] !== null) {
      const from = Math.max(xOf(scene, queued[bar]), left);
      if (x - from >= 1) shapes.queued.push([from, y, Math.min(x, right) - from]);
    }
    if (to < left || x > right) continue;
    if (to - x < 1) {
      const here = Math.floor(x);
      if (here === column && state[bar] <= worst) continue;
      worst = here === column ? Math.max(worst, state[bar]) : state[bar];
      column = here;
      shapes.states[worst].push([here, y, 1]);
      continue;
    }
    // A gap of half a pixel keeps bars that touch apart.
    shapes.states[state[bar]].push([x, y, to - x > 3 ? to - x - 0.5 : to - x]);
    if (expected[bar] !== null && UNFINISHED.has(bars.data.states[state[bar]])) {
      const tick = xOf(scene, expected[bar]);
      if (tick >= left && tick <= right) shapes.expected.push([tick, y]);
    }
  }
}

function drawChosen(context, scene) {
  const { bars, layout, colour } = scene;
  for (const [bar, width] of [[scene.hovered, 1], [scene.chosen, 2]]) {
    if (bar === null) continue;
    const x = xOf(scene, bars.begin(bar));
    const length = Math.max(xOf(scene, bars.end(bar)) - x, 2);
    const y = yOf(scene, layout.top[bars.rowOf(bar)]);
    context.strokeStyle = colour.ink;
    context.lineWidth = width;
    context.strokeRect(x - 1, y, length + 2, layout.rowHeight - 0.5);
  }
}
