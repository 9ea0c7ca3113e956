// Boxes that scroll must be reachable with the keyboard. A box with links is, because a link in it
// can have the focus.

const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const isScrolling = target.scrollWidth > target.clientWidth;
    if (isScrolling && !target.querySelector("a, button")) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});

export function focusBoxes(part) {
  for (const box of part.querySelectorAll(".wide")) watcher.observe(box);
}
