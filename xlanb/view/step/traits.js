// Where the view stands, as values of the model: seen from Python, linked to other widgets, and followed when they change there.
import { opOf } from "./dom.js";
import { moveTo } from "./pins.js";
import { watchCell } from "./stale.js";
import { light } from "./walk.js";

const HOVER_MS = 60;

/** Go where the model says, and tell it where the reader goes. @param {any} view the step view @returns {() => void} what stops it */
export function followModel(view) {
  const model = view.model;
  if (!model.set || model.get("stage") === undefined) return () => {};
  const places = ["branch", "stage", "pinned"];
  const moved = () => adopt(view, false);
  const lit = () => light(view, model.get("selected") || "");
  for (const p of places) model.on(`change:${p}`, moved);
  model.on("change:selected", lit);
  const laid = () => view.update();
  model.on("change:overlays", laid);
  adopt(view, true);
  const unwatch = watchCell(view);
  /** @type {any} */
  let timer = null;
  const hover = (/** @type {Event} */ e) => {
    const name = e.type === "pointerleave" ? "" : opOf(e);
    clearTimeout(timer);
    timer = setTimeout(() => save(model, { selected: name }), HOVER_MS);
  };
  view.root.addEventListener("pointerover", hover);
  view.root.addEventListener("pointerleave", hover);
  view.root.addEventListener("focusin", hover);
  return () => {
    clearTimeout(timer);
    unwatch();
    for (const p of places) model.off?.(`change:${p}`, moved);
    model.off?.("change:selected", lit);
    model.off?.("change:overlays", laid);
  };
}

/**
 * Take over what the model holds. A stage that is not here yet is gone to as near as can be, and again when there is more.
 * @param {any} view @param {boolean} quietly whether it is drawn later
 */
export function adopt(view, quietly) {
  const [branch, stage, pinned] = ["branch", "stage", "pinned"].map((n) => view.model.get(n));
  const was = [view.trace, view.stage, view.pinned].join("\n");
  if (view.payload.traces[branch]) view.trace = branch;
  const last = view.current.stages.length - 1;
  if (Number.isInteger(stage) && last >= 0) {
    const to = Math.max(0, Math.min(stage, last));
    if (to !== view.stage) view.ordering = null;
    view.pinned = pinned || "";
    moveTo(view, to);
    view.wanted = stage > last ? { stage, instead: to } : null;
  } else view.pinned = pinned || "";
  if (!quietly && was !== [view.trace, view.stage, view.pinned].join("\n")) view.update();
}

/** Tell the model where the view stands. @param {any} view */
export function publish(view) {
  if (view.wanted && view.wanted.instead === view.stage) return; // the reader did not choose to be here
  view.wanted = null;
  if (view.model.set && view.model.get("stage") !== undefined) save(view.model, { branch: view.trace, stage: view.stage, pinned: view.pinned });
}

/** @param {any} model @param {Record<string, any>} values */
function save(model, values) {
  const fresh = Object.entries(values).filter(([name, value]) => model.get(name) !== value);
  for (const [name, value] of fresh) model.set(name, value);
  if (fresh.length) model.save_changes();
}
