"use strict";
// Play the steps. All text is in the page already; a step only says which boxes have appeared and which are in question.
(() => {
  const $ = id => document.getElementById(id);
  const svg = document.querySelector("svg.tapegrad"), steps = [...document.querySelectorAll("#steps li")];
  const boxes = [...svg.querySelectorAll(".box")], arrows = [...svg.querySelectorAll(".arrow")];
  const keys = (step, name) => step.dataset[name].split(" ").filter(Boolean);
  const born = new Map(); // the step in which a box appears
  steps.forEach((step, i) => { for (const key of keys(step, "appear")) if (!born.has(key)) born.set(key, i); });
  const phases = [...new Set(steps.map(step => step.dataset.phase))];
  let at = 0;

  const buttons = phases.map(phase => {
    const button = document.createElement("button");
    button.textContent = phase;
    button.addEventListener("click", () => go(steps.findIndex(step => step.dataset.phase === phase)));
    $("phases").append(button);
    return button;
  });

  function paint(at, boxes, arrows) {
    const lit = new Set(keys(steps[at], "lit")), ahead = key => (born.get(key) ?? 0) > at;
    for (const box of boxes) {
      box.classList.toggle("ahead", ahead(box.dataset.key));
      box.classList.toggle("lit", lit.has(box.dataset.key));
    }
    for (const arrow of arrows) arrow.classList.toggle("ahead", ahead(arrow.dataset.tail) || ahead(arrow.dataset.head));
  }

  function go(i) {
    at = Math.max(0, Math.min(steps.length - 1, i));
    const here = steps[at];
    steps.forEach(step => step.classList.toggle("here", step === here));
    paint(at, boxes, arrows);
    buttons.forEach((button, k) => button.setAttribute("aria-current", phases[k] === here.dataset.phase));
    $("said").textContent = `step ${at + 1} of ${steps.length}`;
    const first = boxes.find(box => box.dataset.key === keys(here, "lit")[0]);
    if (first) first.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  for (const box of boxes) box.addEventListener("click", () => { // where it appears, and then where it is in question again
    const key = box.dataset.key, again = steps.findIndex((step, i) => i > at && keys(step, "lit")[0] === key);
    go(again >= 0 ? again : born.get(key) ?? 0);
  });
  $("first").addEventListener("click", () => go(0));
  $("before").addEventListener("click", () => go(at - 1));
  $("next").addEventListener("click", () => go(at + 1));
  $("last").addEventListener("click", () => go(steps.length - 1));
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = { ArrowRight: at + 1, ArrowDown: at + 1, " ": at + 1, PageDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, PageUp: at - 1,
      Home: 0, End: steps.length - 1 };
    if (event.key in moves && !(event.key === " " && event.target.tagName === "BUTTON")) { event.preventDefault(); go(moves[event.key]); }
  });
  addEventListener("beforeprint", () => { // a sheet of paper, or of a PDF, for each step
    $("sheets").replaceChildren(...steps.map((step, i) => {
      const sheet = document.createElement("section"), drawn = svg.cloneNode(true), words = document.createElement("div");
      paint(i, drawn.querySelectorAll(".box"), drawn.querySelectorAll(".arrow"));
      words.append(...[...step.children].map(part => part.cloneNode(true)));
      sheet.append(drawn, words);
      return sheet;
    }));
  });
  document.body.classList.add("playing");
  go(Number(location.hash.slice(1)) - 1 || 0);
})();
