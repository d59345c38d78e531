// What the kernel is doing, how far it is and for how long, once that takes more than a moment; and how to stop it.
import { h } from "./dom.js";

const NOTICE_MS = 1000;
const TICK_MS = 200;

/** What each request does, in words. @type {Record<string, string>} */
const DOING = { step: "compiling", to: "compiling", run: "running", export: "writing the page", edit: "compiling the edited program", fork: "forking", toggle: "recompiling", passes: "asking", reorder: "compiling in another order", numerics: "measuring", load: "reading", attempt: "trying", worth: "measuring each pass" };
/** Requests that the kernel does in steps, between which it hears "cancel". */
const IN_STEPS = ["to", "run", "edit", "fork", "reorder", "attempt", "worth"];

/** A request begins: from now on its time is told. @param {any} view the step view */
export function startClock(view) {
  stopClock(view);
  view.wasLast = view.stage >= view.current.stages.length - 1; // whether the reader stood at the end when the kernel was asked
  view.since = performance.now();
  view.clock = setInterval(() => showClock(view), TICK_MS);
}

/** @param {any} view */
export function stopClock(view) {
  clearInterval(view.clock);
  view.clock = null;
  view.cancelled = false;
}

/** A clock that stands still, as long as the view is there. @param {any} view @returns {() => void} what stops it for good */
export function keepClock(view) {
  stopClock(view);
  return () => stopClock(view);
}

/** What runs next, of the stages that are left. @param {any} view */
function nextName(view) {
  return view.current.coming?.[0]?.[3]?.[0] || "";
}

/** What the kernel is doing, as one line; "" where it does nothing. @param {any} view */
export function workText(view) {
  const doing = DOING[view.waiting];
  if (!doing) return "";
  const known = view.progress || (view.waiting === "step" && { name: nextName(view), done: view.current.stages.length, total: view.current.stages.length + stagesLeft(view.current.coming) });
  const parts = [`${doing}…`];
  if (known?.name) parts.push(known.name);
  if (known?.total) parts.push(`${known.done}/${known.total}`);
  const elapsed = performance.now() - (view.since || performance.now());
  if (elapsed > NOTICE_MS) parts.push(`${(elapsed / 1000).toFixed(1)} s`);
  return parts.join(" ");
}

/** @param {[string, string[], number, string[]][] | undefined} coming */
function stagesLeft(coming) {
  return (coming || []).reduce((t, g) => t + g[3].length, 0);
}

/** The kernel behind a live view, where its notebook lets one reach it. @param {any} view */
function kernelOf(view) {
  const manager = view.model.widget_manager;
  return manager?.kernel || manager?.context?.sessionContext?.session?.kernel || null;
}

/** The time so far in the status line, and the button that stops the work. @param {any} view */
function showClock(view) {
  if (!view.waiting) return stopClock(view);
  const place = view.status.querySelector(".doing");
  if (place) place.textContent = ` ${workText(view)}`;
  return showCancel(view);
}

/** Offer to stop what takes long: after the stage that is running, and asked again at once, by an interrupt of the kernel. @param {any} view */
export function showCancel(view) {
  const late = view.waiting && performance.now() - view.since > NOTICE_MS;
  const inSteps = IN_STEPS.includes(view.waiting);
  const interrupts = Boolean(kernelOf(view)?.interrupt) && (!inSteps || view.cancelled);
  view.cancel.hidden = !late || !(interrupts || (inSteps && !view.cancelled));
  for (const box of [view.actions, view.spark]) box.hidden = Boolean(late); // the line is short, and what the kernel does comes first
  const label = inSteps && !view.cancelled ? "Cancel" : "Interrupt";
  if (view.cancel.textContent !== label) {
    view.cancel.replaceChildren(label);
    view.cancel.setAttribute("aria-label", label);
    view.cancel.title = label === "Cancel" ? "stop after the stage that is running" : "interrupt the kernel: the stage that is running is lost";
  }
}

/** Stop the work. @param {any} view */
export function cancelWork(view) {
  if (IN_STEPS.includes(view.waiting) && !view.cancelled) {
    view.cancelled = true;
    view.model.send({ type: "cancel" });
  } else kernelOf(view)?.interrupt?.();
  showCancel(view);
}

/** The button. @param {any} view */
export function cancelButton(view) {
  return h("button", { type: "button", class: "ctl text cancel", hidden: true, onclick: () => cancelWork(view) });
}
