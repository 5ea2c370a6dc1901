"use strict";
(() => {
  const tip = document.getElementById("tip");
  const line = (name, value) => {
    const entry = document.createElement("div");
    const label = document.createElement("span");
    label.textContent = name;
    entry.append(label, value);
    tip.append(entry);
  };
  // What the point's row in its table says, column by column.
  const read = (point) => {
    tip.replaceChildren();
    if (point.dataset.t) line("", point.dataset.t);
    const row = document.getElementById("p" + point.dataset.p);
    if (row) {
      const heads = row.closest("table").tHead.rows[0].cells;
      const cells = [...row.cells].filter((cell) => cell.textContent);
      const name = (cell) => heads[cell.cellIndex].textContent;
      const told = (cell) => {
        const interval = cell.querySelector("small");
        return interval ? `${cell.firstChild.textContent} (${interval.textContent})` : cell.textContent;
      };
      const numbers = cells.filter((cell) => cell.tagName === "TD");
      const grade = numbers.pop();
      // The primary metric stands first, what was predicted last.
      const shown = numbers.length > 9 ? [...numbers.slice(0, 8), numbers.at(-1)] : numbers;
      for (const cell of shown) line(name(cell), told(cell));
      const others = cells.filter((cell) => cell.tagName === "TH");
      if (grade) line(name(grade), told(grade));
      line("at", others.map((cell) => `${name(cell)} ${told(cell)}`).join(", "));
    }
    return tip.childElementCount > 0;
  };
  const show = (event) => {
    const point = event.target.closest && event.target.closest("[data-p]");
    if (!point || !read(point)) return hide();
    tip.hidden = false;
    const at = point.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(4, at.left + at.width / 2 - own.width / 2), innerWidth - own.width - 4);
    const above = at.top - own.height - 8;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = (above > 4 ? above : at.bottom + 8) + "px";
  };
  const hide = () => { tip.hidden = true; };
  // A path that shows several points becomes one of each.
  for (const path of document.querySelectorAll('svg [data-p*=" "]')) {
    const rows = path.dataset.p.split(" ");
    const texts = (path.dataset.t || "").split("|");
    const shapes = path.getAttribute("d").split("M").slice(1);
    path.replaceWith(...shapes.map((shape, at) => {
      const point = path.cloneNode();
      point.setAttribute("d", "M" + shape);
      point.dataset.p = rows[at];
      point.dataset.t = texts[at] || "";
      return point;
    }));
  }
  for (const point of document.querySelectorAll("svg [data-p]")) {
    read(point);
    const lines = [...tip.children].map((line) => [...line.childNodes].map((part) => part.textContent).join(" "));
    point.setAttribute("role", "img");
    point.setAttribute("aria-label", lines.join(", "));
    point.tabIndex = 0;
  }
  document.addEventListener("mouseover", show);
  document.addEventListener("focusin", show);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  // A link to a row unfolds the table that it is in.
  const unfold = () => {
    let part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const target = part;
    for (; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    if (target) target.scrollIntoView({ block: "center" });
  };
  // On paper nothing can be unfolded.
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details:not(.r)")) part.open = true;
  });
  addEventListener("hashchange", unfold);
  if (location.hash) unfold();
})();
