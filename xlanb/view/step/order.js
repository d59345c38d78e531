// The passes that are left, as one can move them: by drag, by buttons, by Alt with the arrows; then compile again from here.
import { h } from "./dom.js";

/**
 * @typedef {{id: number, name: string, loop: boolean, inside?: Pass[]}} Pass
 * @typedef {{pass: Pass, depth: number, siblings: Pass[], at: number, around: Row | null}} Row
 */

/** Every pass and pipeline with its place. @param {Pass[]} tree @param {Row | null} [around] @param {number} [depth] @returns {Row[]} */
export function placesOf(tree, around = null, depth = 0) {
  return tree.flatMap((pass, at) => {
    const row = { pass, depth, siblings: tree, at, around };
    return [row, ...(pass.inside ? placesOf(pass.inside, row, depth + 1) : [])];
  });
}

/**
 * Move one step: past its neighbour, into a pipeline that is the neighbour, or out of its own at the end.
 * @param {Pass[]} tree changed in place @param {number} id @param {number} direction -1 is up @returns {boolean} whether it moved
 */
export function moveStep(tree, id, direction) {
  const row = placesOf(tree).find((r) => r.pass.id === id);
  if (!row) return false;
  const { siblings, at, around, pass } = row;
  const neighbour = siblings[at + direction];
  if (!neighbour && !around) return false;
  siblings.splice(at, 1);
  if (!neighbour) /** @type {Row} */ (around).siblings.splice(/** @type {Row} */ (around).at + (direction > 0 ? 1 : 0), 0, pass);
  else if (neighbour.inside && !pass.inside) neighbour.inside.splice(direction > 0 ? 0 : neighbour.inside.length, 0, pass);
  else siblings.splice(at + direction, 0, pass);
  return true;
}

/** Put a pass in the place of another one. @param {Pass[]} tree changed in place @param {number} id @param {number} before @returns {boolean} */
export function moveBefore(tree, id, before) {
  const all = placesOf(tree);
  const [from, to] = [all.find((r) => r.pass.id === id), all.find((r) => r.pass.id === before)];
  if (!from || !to || from === to) return false;
  for (let r = /** @type {Row | null} */ (to); r; r = r.around) if (r.pass.id === id) return false; // not into itself
  from.siblings.splice(from.at, 1);
  to.siblings.splice(to.siblings.indexOf(to.pass), 0, from.pass);
  return true;
}

/** What the kernel takes. @param {Pass[]} tree @returns {any[]} */
export function orderOf(tree) {
  return tree.map((p) => (p.inside ? [p.id, orderOf(p.inside)] : [p.id]));
}

/** The pane in which passes are moved. @param {any} view the step view; its `ordering` is {trace, stage, tree, first, focus} */
export function orderPane(view) {
  const state = view.ordering;
  const off = new Set(view.can.off || []);
  const moved = JSON.stringify(orderOf(state.tree)) !== state.first;
  const name = view.payload.traces[state.trace].stages[state.stage].name;
  const again = (/** @type {number} */ id, /** @type {boolean} */ done) => {
    state.focus = id;
    if (done) view.update();
  };
  const stop = () => {
    view.ordering = null;
    view.update();
  };
  const busy = Boolean(view.waiting);
  const tools = h(
    "div",
    { class: "tools", role: "group", "aria-label": "Order of the passes" },
    h("span", { class: "muted" }, `The passes after ${name}: drag them, or Alt with ↑ ↓`),
    h("span", { class: "gap" }),
    h("button", { type: "button", class: "tool", onclick: stop }, "Cancel"),
    h("button", { type: "button", class: "tool primary", disabled: busy || !(moved || off.size), onclick: () => view.ask("reorder", { trace: state.trace, stage: state.stage, order: orderOf(state.tree) }) }, busy ? "Compiling…" : "Compile again from here"),
  );
  const rows = placesOf(state.tree).map((r) => orderRow(view, r, off.has(r.pass.name), again));
  const list = h("ul", { class: "order", "aria-label": "Remaining passes" }, rows.length ? rows : h("li", { class: "empty" }, "No passes remain after this stage."));
  list.addEventListener("keydown", (e) => orderKey(view, /** @type {KeyboardEvent} */ (e), again));
  if (state.focus >= 0) queueMicrotask(() => /** @type {HTMLElement | null} */ (list.querySelector(`[data-id="${state.focus}"]`))?.focus());
  return h("div", { class: "textpane" }, tools, list);
}

/** @param {any} view @param {Row} row @param {boolean} off @param {(id: number, done: boolean) => void} again */
function orderRow(view, row, off, again) {
  const { pass } = row;
  const { tree } = view.ordering;
  const button = (/** @type {string} */ face, /** @type {string} */ title, /** @type {number} */ direction) => h("button", { type: "button", class: "tool", "aria-label": `Move ${pass.name} ${title}`, title: `Move ${title}`, tabindex: -1, onclick: () => again(pass.id, moveStep(tree, pass.id, direction)) }, face);
  const element = h(
    "li",
    { class: `orderrow${pass.inside ? " pipeline" : ""}${off ? " off" : ""}`, tabindex: 0, draggable: "true", data: { id: pass.id }, style: { "--depth": row.depth } },
    h("span", { class: "grip", "aria-hidden": "true" }, "⠿"),
    h("span", { class: "name" }, pass.name, pass.loop ? h("small", {}, " until nothing changes") : null, off ? h("small", {}, " off") : null),
    button("↑", "up", -1),
    button("↓", "down", 1),
  );
  element.addEventListener("dragstart", (e) => /** @type {DragEvent} */ (e).dataTransfer?.setData("text/plain", String(pass.id)));
  element.addEventListener("dragover", (e) => {
    e.preventDefault();
    element.classList.add("drop");
  });
  element.addEventListener("dragleave", () => element.classList.remove("drop"));
  element.addEventListener("drop", (e) => {
    e.preventDefault();
    e.stopPropagation();
    const id = Number(/** @type {DragEvent} */ (e).dataTransfer?.getData("text/plain"));
    again(id, moveBefore(tree, id, pass.id));
  });
  return element;
}

/** @param {any} view @param {KeyboardEvent} e @param {(id: number, done: boolean) => void} again */
function orderKey(view, e, again) {
  const row = /** @type {HTMLElement | null} */ (/** @type {Element} */ (e.target).closest(".orderrow"));
  if (!row || !["ArrowUp", "ArrowDown"].includes(e.key)) return;
  const direction = e.key === "ArrowUp" ? -1 : 1;
  e.preventDefault();
  e.stopPropagation();
  const id = Number(row.dataset.id);
  if (e.altKey) again(id, moveStep(view.ordering.tree, id, direction));
  else /** @type {HTMLElement | null} */ (direction < 0 ? row.previousElementSibling : row.nextElementSibling)?.focus();
}
