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
      [...row.cells].slice(0, 14).forEach((cell, at) => {
        const parts = [...cell.childNodes].map((part) => part.textContent);
        if (parts.length) line(heads[at].textContent, parts.join("  ±  ").replace("±", "in"));
      });
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
  for (const point of document.querySelectorAll("svg [data-p]")) point.tabIndex = 0;
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
  addEventListener("hashchange", unfold);
  if (location.hash) unfold();
})();
