// The line that screen readers read aloud.

export function announce(text) {
  const status = document.getElementById("status");
  if (status) status.textContent = text;
}
