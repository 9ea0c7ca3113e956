// Times as ages. The exact time stays in the title of the element.

const UNITS = [["d", 86400], ["h", 3600], ["min", 60]];

// The time between two moments in milliseconds, such as "3 h ago".
export function age(at, now) {
  const seconds = Math.abs(now - at) / 1000;
  const [unit, length] = UNITS.find(([, length]) => seconds >= length) ?? [];
  if (!unit) return "now";
  const amount = `${Math.floor(seconds / length)} ${unit}`;
  return at <= now ? `${amount} ago` : `in ${amount}`;
}

export function showAges(part) {
  // Times of a simulated account are compared with its report, which may have a fixed time.
  const { clock } = document.documentElement.dataset;
  const now = clock ? Date.parse(clock) : Date.now();
  for (const time of part.querySelectorAll("time[datetime]")) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    time.dataset.text ??= time.textContent;
    const text = age(at, now);
    if (time.closest(".age, td")) {
      time.textContent = text;
      time.title = time.dataset.text;
    } else {
      time.title = text;
    }
  }
}

setInterval(() => showAges(document), 60_000);
