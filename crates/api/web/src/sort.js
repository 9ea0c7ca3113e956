// Sorts a table by a column. A list of several pages is sorted by the server only, because its first
// page would otherwise seem to hold the greatest values of all.

const SCALE = {
  ms: 0.001, s: 1, min: 60, h: 3600, d: 86400,
  B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
};
const PART = /([\d,]*\.?\d+)\s*(ms|s|min|h|d|B|KiB|MiB|GiB|TiB)?(?![\w])/g;

// The number in a text such as "$1,200.50", "2 h 5 min", "3.5 of 8" or "at most $2.00"; null without a number.
export function amount(text) {
  const first = text.replace(/^at most /, "").split(/ of | to |\//)[0].trim();
  const signless = first.replace(/^[-−]/, "");
  const parts = [...signless.matchAll(PART)];
  if (!/^[<$~]?\s*[\d.]/.test(signless) || !parts.length) return null;
  const number = ([, digits, unit]) => Number(digits.replaceAll(",", "")) * (SCALE[unit] ?? 1);
  const all = parts[0][2] ? parts.filter((part) => part[2]) : parts.slice(0, 1);
  const sum = all.reduce((sum, part) => sum + number(part), 0);
  return signless === first ? sum : -sum;
}

// The value of a cell: of its time, its number or its text.
function value(cell, isAmount) {
  const time = cell?.querySelector("time[datetime]");
  if (time) return Date.parse(time.dateTime);
  const text = cell?.textContent.trim() ?? "";
  return isAmount ? amount(text) : text.toLowerCase();
}

// Rows in the new order. Unknown values are last in both directions.
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (typeof a === "string" && typeof b === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
}

function sort(table, column, isAmount) {
  const heads = [...table.tHead.rows[0].cells];
  const before = heads[column].getAttribute("aria-sort");
  const isDown = before ? before === "ascending" : isAmount;
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows].map((row) => [value(row.cells[column], isAmount), row]);
  rows.sort(([a], [b]) => compare(a, b, isDown ? -1 : 1));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

// Whether the table shows all rows of its list.
function isWhole(table) {
  const box = table.closest(".wide");
  const isPager = (element) => element?.matches(".pager");
  return !isPager(box?.nextElementSibling) && !isPager(table.closest(".panel")?.nextElementSibling);
}

export function sortTables(part) {
  for (const table of part.querySelectorAll(".wide > table")) {
    if (table.tBodies[0]?.rows.length < 2 || !isWhole(table)) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (head.querySelector("button")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = head.textContent;
      const isAmount = head.classList.contains("amount");
      button.addEventListener("click", () => sort(table, column, isAmount));
      head.replaceChildren(button);
    });
  }
}
