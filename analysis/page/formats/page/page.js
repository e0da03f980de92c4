"use strict";
// The button that changes between light and dark, what small screens need, and what print needs.
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => { button.textContent = isDark() ? "Light page" : "Dark page"; };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; tell(); });
  system.addEventListener("change", tell);
  tell();

  // Elements wider than their box say so.
  const measure = ({ target }) => { target.classList.toggle("cut", target.scrollWidth > target.clientWidth + 1); };
  const watch = new ResizeObserver((entries) => entries.forEach(measure));
  for (const box of document.querySelectorAll(".scroll")) watch.observe(box);

  // Paper cannot be unfolded.
  let folded = [];
  addEventListener("beforeprint", () => {
    const printed = document.getElementById("printed");
    if (printed) printed.textContent = `, printed on ${new Date().toISOString().slice(0, 10)}`;
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const part of folded) part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of folded) part.open = false;
  });
})();
