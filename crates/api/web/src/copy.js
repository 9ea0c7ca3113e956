// Buttons that copy a text of the page.

import { announce } from "./status.js";

export function copyOnClick() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button[data-copy]");
    const source = button && document.getElementById(button.dataset.copy);
    if (!source) return;
    try {
      await navigator.clipboard.writeText(source.textContent);
      announce("Copied");
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    } catch {
      // Without the permission, the text is selected for the keys of the browser.
      getSelection().selectAllChildren(source);
      announce("The text is selected. Copy it with the keyboard.");
    }
  });
}
