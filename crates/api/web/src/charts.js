// Charts of the use of one task over time.

/*! uPlot:
The MIT License (MIT)

Copyright (c) 2022 Leon Sorokin

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in
all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN
THE SOFTWARE.
*/
import uPlot from "uplot";
import { clock, day, length } from "./time_axis.js";

const PREFIXES = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(amount) {
  let [value, n] = [amount, 0];
  while (value >= 1024 && n < PREFIXES.length - 1) [value, n] = [value / 1024, n + 1];
  return `${value < 10 && value % 1 ? value.toFixed(1) : Math.round(value)} ${PREFIXES[n]}`;
}

const number = (value) => (value < 10 ? value.toFixed(2).replace(/\.?0+$/, "") : value.toFixed(1).replace(/\.0$/, ""));
const rate = (value) => `${bytes(value)}/s`;

// A column with at least one known value; null without one.
const known = (label, values, colour) => (values.some((value) => value !== null) ? { label, values, colour } : null);

// The charts of an answer, and the names of what is unknown.
export function chartsOf(usage) {
  const all = [
    { title: "Cores", text: number, limit: usage.requested_cores, lines: [known("used", usage.cores, "work4")] },
    { title: "Memory", text: bytes, limit: usage.requested_memory_bytes, lines: [known("used", usage.memory_bytes, "work4")], isBinary: true },
    {
      title: "Disk and network", text: rate, limit: null, isBinary: true,
      lines: [known("disk", usage.disk_bytes_per_second, "found"), known("network", usage.network_bytes_per_second, "running")],
    },
    { title: "GPUs", text: number, limit: null, lines: [known("busy", usage.gpus, "work4")] },
  ];
  const charts = all.map((chart) => ({ ...chart, lines: chart.lines.filter(Boolean) }));
  return {
    charts: charts.filter(({ lines }) => lines.length),
    unknown: charts.filter(({ lines }) => !lines.length).map(({ title }) => title.toLowerCase().replace("gpu", "GPU")),
  };
}

// A chart as a sentence, for readers who do not see it.
export function sentence({ title, text, limit, lines }, at) {
  const parts = lines.map(({ label, values }) => {
    const all = values.filter((value) => value !== null);
    const gaps = values.length - all.length;
    const mean = all.reduce((sum, value) => sum + value, 0) / all.length;
    return `${label}: at most ${text(Math.max(...all))}, ${text(mean)} on average${gaps ? `, unknown at ${gaps} of ${values.length} times` : ""}`;
  });
  const requested = limit === null ? "" : ` Requested: ${text(limit)}.`;
  return `${title} over ${length(at.at(-1) - at[0])}. ${parts.join("; ")}.${requested}`;
}

export function drawCharts(part) {
  for (const box of part.querySelectorAll(".charts[data-usage]")) {
    if (box.dataset.drawn) continue;
    box.dataset.drawn = "no";
    drawUsage(box).catch((error) => {
      box.textContent = `Failed to load the use of the task: ${error.message}.`;
    }).finally(() => { box.dataset.drawn = "yes"; });
  }
}

async function drawUsage(box) {
  const answer = await fetch(box.dataset.usage);
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const usage = await answer.json();
  if (!usage.at.length) {
    box.textContent = "No two observations of the task are known, so its use over time is unknown.";
    return;
  }
  const { charts, unknown } = chartsOf(usage);
  for (const chart of charts) box.append(figure(chart, usage.at));
  if (unknown.length) {
    const line = document.createElement("p");
    line.className = "soft";
    line.textContent = `Unknown: ${unknown.join(", ")}.`;
    box.append(line);
  }
}

function figure(chart, at) {
  const box = document.createElement("div");
  box.className = "chart";
  const title = document.createElement("h3");
  title.textContent = chart.title;
  const drawing = document.createElement("div");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", sentence(chart, at));
  box.append(title, drawing);
  let plot = null;
  const make = () => {
    const width = drawing.clientWidth;
    if (!width || plot?.width === width) return;
    if (plot) plot.setSize({ width, height: 140 });
    else plot = new uPlot(options(chart, width), columns(chart, at), drawing);
    showLast(plot);
  };
  new ResizeObserver(make).observe(drawing);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot?.redraw());
  return box;
}

// The values of the last time, while the pointer is elsewhere.
function showLast(plot) {
  const { idx } = plot.cursor;
  if (idx === null || idx === undefined) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
}

const columns = ({ lines, limit }, at) => [
  at, ...lines.map(({ values }) => values), ...(limit === null ? [] : [at.map(() => limit)]),
];

const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function options({ lines, limit, text, isBinary }, width) {
  const value = (_, amount) => (amount === null || amount === undefined ? "–" : text(amount));
  const axis = { stroke: colour("soft"), font: "12px system-ui, sans-serif", grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  const series = lines.map((line) => ({
    label: line.label, stroke: colour(line.colour), width: 2, value, spanGaps: false,
    points: { show: line.values.length < 30, size: 5 },
  }));
  if (limit !== null) series.push({ label: "requested", stroke: colour("soft"), width: 1.5, dash: [5, 4], value, points: { show: false } });
  return {
    width, height: 140,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    cursor: { y: false, drag: { x: false, y: false } },
    legend: { live: true },
    hooks: { setCursor: [showLast] },
    scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] } },
    axes: [
      { ...axis, size: 28, space: 70, values: (_, splits) => splits.map((at) => clock(at, splits.length > 1 && splits[1] - splits[0] < 60)) },
      { ...axis, size: 64, space: 20, values: (_, splits) => splits.map(text), ...(isBinary ? { incrs: BINARY } : {}) },
    ],
    series: [{ label: "at", value: (_, at) => (at === null || at === undefined ? "–" : `${day(at)} ${clock(at, true)}`) }, ...series],
  };
}

// Distances between marks that are round numbers of KiB, MiB and GiB.
const BINARY = Array.from({ length: 44 }, (_, n) => 2 ** n);
