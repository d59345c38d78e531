// Separators between parts of the view: dragged, or moved by arrow keys; a double click or Enter brings the first size back.
import { h } from "./dom.js";

const STEP_PX = 24;

/**
 * A vertical separator.
 * @param {{label: string, value(): number, limits(): [number, number], set(px: number): void, reset(): void}} act `value` is the width of what stands before it, in pixels
 * @returns {HTMLElement}
 */
export function splitter(act) {
  const element = h("div", { class: "splitter", role: "separator", "aria-orientation": "vertical", "aria-label": act.label, "aria-valuenow": 0, "aria-valuemin": 0, "aria-valuemax": 0, tabindex: 0, title: `${act.label}: drag, or arrow keys; double-click to reset the width` });
  const tell = () => {
    const [low, high] = act.limits();
    element.setAttribute("aria-valuenow", String(Math.round(act.value())));
    element.setAttribute("aria-valuemin", String(Math.round(low)));
    element.setAttribute("aria-valuemax", String(Math.round(high)));
  };
  const set = (/** @type {number} */ px) => {
    const [low, high] = act.limits();
    act.set(Math.max(low, Math.min(high, px)));
    tell();
  };
  const reset = () => {
    act.reset();
    tell();
  };
  element.addEventListener("keydown", (e) => {
    const [low, high] = act.limits();
    const to = /** @type {Record<string, () => void>} */ ({ ArrowLeft: () => set(act.value() - STEP_PX), ArrowRight: () => set(act.value() + STEP_PX), Home: () => set(low), End: () => set(high), Enter: reset });
    if (!Object.hasOwn(to, e.key)) return;
    to[e.key]();
    e.preventDefault();
    e.stopPropagation();
  });
  element.addEventListener("pointerdown", (e) => {
    const [x, from] = [e.clientX, act.value()];
    element.setPointerCapture(e.pointerId);
    const move = (/** @type {PointerEvent} */ m) => set(from + m.clientX - x);
    element.addEventListener("pointermove", move);
    element.addEventListener("lostpointercapture", () => element.removeEventListener("pointermove", move), { once: true });
    e.preventDefault();
    element.focus();
  });
  element.addEventListener("dblclick", reset);
  element.addEventListener("focus", tell);
  return element;
}

/** A separator between two columns of a row: what one gains, the other loses. @param {HTMLElement} row @param {Record<string, number>} weights by column, kept where the reader changed them @returns {HTMLElement} */
export function columnSplitter(row, weights) {
  const sides = () => /** @type {HTMLElement[]} */ ([element.previousElementSibling, element.nextElementSibling]);
  const widths = () => /** @type {[number, number]} */ (sides().map((x) => x.offsetWidth));
  const element = splitter({
    label: "Width of the columns",
    value: () => widths()[0],
    limits: () => [120, Math.max(120, widths()[0] + widths()[1] - 120)],
    set: (px) => {
      // Weights in pixels, for all: a column that nobody moved stays as wide as it is.
      const columns = /** @type {HTMLElement[]} */ ([...row.querySelectorAll(":scope > .column")]);
      const now = columns.map((c) => c.offsetWidth);
      const [left, right] = sides();
      const both = left.offsetWidth + right.offsetWidth;
      columns.forEach((c, k) => {
        const weight = c === left ? px : c === right ? both - px : now[k];
        c.style.setProperty("flex-grow", String(weight));
        weights[c.getAttribute("data-column") || ""] = weight;
      });
    },
    reset: () => {
      for (const c of /** @type {NodeListOf<HTMLElement>} */ (row.querySelectorAll(":scope > .column"))) {
        c.style.setProperty("flex-grow", "1");
        delete weights[c.getAttribute("data-column") || ""];
      }
    },
  });
  return element;
}

/**
 * A separator beside a part of the frame whose width is a variable of the style.
 * @param {any} view the step view @param {"list" | "card"} part @param {string} label
 * @returns {HTMLElement}
 */
export function frameSplitter(view, part, label) {
  const sign = part === "list" ? 1 : -1; // the card stands after its separator
  const width = () => /** @type {HTMLElement} */ (view[part]).offsetWidth;
  const room = () => view.root.clientWidth;
  return splitter({
    label,
    value: () => (sign > 0 ? width() : room() - width()),
    limits: () => (sign > 0 ? [110, room() * 0.5] : [room() * 0.45, room() - 150]),
    set: (px) => {
      view.layout[part] = sign > 0 ? px : room() - px;
      applyLayout(view);
      view.remember();
    },
    reset: () => {
      view.layout[part] = 0;
      applyLayout(view);
      view.remember();
    },
  });
}

/** Take the widths that the reader chose. @param {any} view the step view */
export function applyLayout(view) {
  for (const part of ["list", "card"]) {
    if (view.layout[part]) view.root.style.setProperty(`--${part}-width`, `${Math.round(view.layout[part])}px`);
    else view.root.style.removeProperty(`--${part}-width`);
  }
}

/** Where the card lies over the pane, as the view is narrow, let it begin below the tabs and tools. @param {any} view the step view */
export function freeTools(view) {
  if (!view.root.classList.contains("has-pin") || getComputedStyle(view.card).position !== "absolute") return;
  const lowest = view.pane.querySelector(".tools") || view.tabs;
  view.root.style.setProperty("--card-top", `${Math.ceil(lowest.getBoundingClientRect().bottom - view.card.parentElement.getBoundingClientRect().top)}px`);
}
