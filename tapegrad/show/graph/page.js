"use strict";
// Hover, search, ancestors and descendants. All text comes from the picture's <title> elements and is only ever set as text.
(() => {
  const $ = id => document.getElementById(id);
  const svg = document.querySelector("svg.tapegrad"), card = $("card"), said = $("said"), query = $("query"), view = $("view");
  const boxes = [...svg.querySelectorAll(".box")], arrows = [...svg.querySelectorAll(".arrow")];
  const byKey = new Map(boxes.map(box => [box.dataset.key, box]));
  const tails = new Map(boxes.map(box => [box.dataset.key, []])), heads = new Map(boxes.map(box => [box.dataset.key, []]));
  for (const arrow of arrows) {
    tails.get(arrow.dataset.head).push(arrow.dataset.tail);
    heads.get(arrow.dataset.tail).push(arrow.dataset.head);
  }

  const facts = new Map(), words = new Map();
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", svg.querySelector("title").textContent);
  svg.querySelector("title").remove();
  boxes.forEach((box, i) => {
    const title = box.querySelector("title"), shown = [...box.querySelectorAll("text")].map(t => t.textContent).join(" — ");
    facts.set(box, title.textContent);
    words.set(box, (shown + "\n" + title.textContent).toLowerCase());
    title.remove(); // its place is taken by the card
    box.setAttribute("role", "button");
    box.setAttribute("tabindex", i ? -1 : 0);
    box.setAttribute("aria-label", shown);
    box.setAttribute("aria-pressed", "false");
  });

  let chosen = null, current = boxes[0], zoom = 1;

  function show(box) {
    card.textContent = facts.get(box);
    card.hidden = false;
    const at = box.getBoundingClientRect(), own = card.getBoundingClientRect();
    const below = at.bottom + 8 + own.height < innerHeight;
    card.style.left = Math.max(6, Math.min(at.left, innerWidth - own.width - 6)) + "px";
    card.style.top = Math.max(6, below ? at.bottom + 8 : at.top - own.height - 8) + "px";
  }

  function reach(start, next) {
    const seen = new Set([start]), open = [start];
    while (open.length) for (const key of next.get(open.pop())) if (!seen.has(key)) { seen.add(key); open.push(key); }
    return seen;
  }

  function paint(keep, up, down) {
    for (const box of boxes) box.classList.toggle("faded", keep !== null && !keep.has(box.dataset.key));
    for (const arrow of arrows) {
      const { tail, head } = arrow.dataset, lit = up !== undefined && (up.has(head) && up.has(tail) || down.has(tail) && down.has(head));
      arrow.classList.toggle("lit", lit);
      arrow.classList.toggle("faded", keep !== null && !lit);
    }
  }

  function choose(box) {
    if (chosen) { chosen.classList.remove("chosen"); chosen.setAttribute("aria-pressed", "false"); }
    chosen = box === chosen ? null : box;
    if (!chosen) { said.textContent = ""; paint(null); return; }
    query.value = "";
    chosen.classList.add("chosen");
    chosen.setAttribute("aria-pressed", "true");
    const key = chosen.dataset.key, up = reach(key, tails), down = reach(key, heads);
    paint(new Set([...up, ...down]), up, down);
    said.textContent = `depends on ${up.size - 1}, ${down.size - 1} depend on it`;
  }

  function go(box) {
    if (!box) return;
    current.setAttribute("tabindex", -1);
    current = box;
    box.setAttribute("tabindex", 0);
    box.focus();
    box.scrollIntoView({ block: "nearest", inline: "nearest" });
    show(box);
  }

  let matches = [];
  function search() {
    const wanted = query.value.trim().toLowerCase();
    if (chosen) choose(chosen);
    matches = wanted ? boxes.filter(box => words.get(box).includes(wanted)) : [];
    paint(wanted ? new Set(matches.map(box => box.dataset.key)) : null);
    said.textContent = wanted ? `${matches.length} of ${boxes.length}` : "";
    if (matches.length) matches[0].scrollIntoView({ block: "center", inline: "center" });
  }

  function whole() {
    return Math.min(1, (view.clientWidth - 4) / svg.viewBox.baseVal.width, (view.clientHeight - 4) / svg.viewBox.baseVal.height);
  }

  function scale(by) {
    const base = svg.viewBox.baseVal;
    zoom = by === 0 ? whole() : Math.min(4, Math.max(.05, zoom * by));
    svg.setAttribute("width", base.width * zoom);
    svg.setAttribute("height", base.height * zoom);
  }

  for (const box of boxes) {
    box.addEventListener("pointerenter", () => show(box));
    box.addEventListener("pointerleave", () => { card.hidden = true; });
    box.addEventListener("focus", () => { if (box.matches(":focus-visible")) show(box); });
    box.addEventListener("blur", () => { card.hidden = true; });
    box.addEventListener("click", event => { event.stopPropagation(); choose(box); });
  }
  view.addEventListener("click", () => { if (chosen) choose(chosen); });
  view.addEventListener("scroll", () => { card.hidden = true; });
  view.addEventListener("wheel", event => { if (event.ctrlKey) { event.preventDefault(); scale(event.deltaY < 0 ? 1.15 : 1 / 1.15); } }, { passive: false });
  query.addEventListener("input", search);
  query.addEventListener("keydown", event => { if (event.key === "Enter") go(matches[(matches.indexOf(current) + 1) % matches.length]); });
  $("in").addEventListener("click", () => scale(1.25));
  $("out").addEventListener("click", () => scale(.8));
  $("fit").addEventListener("click", () => scale(zoom === 1 ? 0 : 1 / zoom));
  if (whole() < 1) scale(Math.max(whole(), .2)); // a large picture opens fitted, but for one in which no box would be seen
  document.addEventListener("keydown", event => {
    if (event.key === "Escape") { query.value = ""; card.hidden = true; if (chosen) choose(chosen); else search(); return; }
    if (event.target === query || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); query.focus(); return; }
    const box = event.target.closest?.(".box");
    if (!box) return;
    const i = boxes.indexOf(box), key = box.dataset.key;
    const moves = { ArrowRight: boxes[i + 1], ArrowLeft: boxes[i - 1], ArrowUp: byKey.get(tails.get(key)[0]), ArrowDown: byKey.get(heads.get(key)[0]),
      Home: boxes[0], End: boxes[boxes.length - 1] };
    if (event.key in moves) { event.preventDefault(); go(moves[event.key]); }
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(box); }
  });
})();
