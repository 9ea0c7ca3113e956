// Marks of a time axis, and times as text. All times are in UTC, as on the pages.

const STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000,
];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const two = (number) => String(number).padStart(2, "0");

// Such as "4 Mar".
export function day(seconds) {
  const at = new Date(seconds * 1000);
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
}

// Such as "10:05" or "10:05:30".
export function clock(seconds, withSeconds) {
  const at = new Date(seconds * 1000);
  const text = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  return withSeconds ? `${text}:${two(at.getUTCSeconds())}` : text;
}

// A length, such as "2 h 5 min".
export function length(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([unit]) => seconds >= unit);
  if (first < 0) return "less than 1 s";
  let left = Math.round(seconds);
  const words = parts.slice(first, first + 2).map(([unit, word]) => {
    const amount = Math.floor(left / unit);
    left -= amount * unit;
    return amount ? `${amount} ${word}` : "";
  });
  return words.filter(Boolean).join(" ");
}

// The marks between two times in seconds since the epoch, with at most `most` marks.
export function marks(from, to, most) {
  const step = STEPS.find((step) => (to - from) / step <= most) ?? STEPS.at(-1);
  const found = [];
  let before = null;
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const today = day(at);
    const text = step >= 86400 ? today : clock(at, step < 60);
    found.push({ at, text: before !== today && step < 86400 ? `${today} ${text}` : text });
    before = today;
  }
  return found;
}
