// The head and the foot: what this is, where one stands, what can be pressed.
import { spark, sparkline } from "./charts.js";
import { grouped, h, plural, refill } from "./dom.js";
import { actionsAt } from "./live.js";
import { errorsOf, levels } from "./numerics.js";
import { showCancel, workText } from "./progress.js";
import { staleness } from "./stale.js";
import { tally } from "./side.js";
import { rewriteCount } from "./why.js";

/** @typedef {import("./store.js").Trace} Trace */

/** What ribbon and foot tell of, in short. @param {any} view the step view */
export function standsAt(view) {
  return [view.store.serial, view.payload.revision, view.trace, view.stage, view.picture?.veiled ?? -1];
}

/** @param {any} view the step view @param {Trace} trace */
export function showHead(view, trace) {
  const c = trace.counts || {};
  view.title.replaceChildren(trace.name || view.payload.title || "xlanb");
  view.counts.replaceChildren(
    ...[`${plural(c.stages || 0, "stage")}, ${c.changed || 0} changed`, plural(c.passes || 0, "pass", "passes"), c.kernels === undefined ? "" : plural(c.kernels, "kernel")].filter((t) => t).map((t) => h("span", {}, t)),
  );
  const stale = staleness(view);
  const state = stale && !view.waiting ? "stale" : view.waiting ? "running" : trace.live && view.can.step ? "live" : "static";
  view.badge.className = `badge ${state}`;
  const here = state === "static" && view.can.load; // a kernel answers, and nothing is left to compile
  view.badge.textContent = here ? "complete" : state;
  view.badge.title = stale && !view.waiting ? stale : { running: "the kernel is busy", live: "Next compiles one more stage", static: here ? "compilation finished; it can still be run, edited and forked" : "a saved recording: no kernel is needed" }[state];
  const several = view.payload.order.length > 1;
  view.traceTabs.hidden = !several;
  if (several) {
    view.traceTabs.replaceChildren(
      ...view.payload.order.map((/** @type {number} */ n) => h("button", { type: "button", role: "tab", "aria-selected": String(n === view.trace), onclick: () => view.choose(n) }, view.payload.traces[n].name)),
    );
  }
}

/** @param {any} view the step view @param {Trace} trace */
export function showFoot(view, trace) {
  const stage = view.now;
  const total = stage?.why?.rewrites.length || 0;
  const where = stage ? `${view.stage + 1}/${trace.stages.length}` : "";
  const all = rewriteCount(stage);
  const rewrite = view.rewrite >= 0 && total ? ` · rewrite ${grouped(view.rewrite + 1)}/${grouped(all)}` : "";
  const doing = workText(view);
  const veiled = view.picture.veiled >= 0 && view.stage >= view.picture.veiled;
  view.status.replaceChildren(h("span", { class: "where" }, where), stage ? h("b", {}, stage.name) : "", doing ? h("span", { class: "doing" }, ` ${doing}`) : stage && !veiled ? ` ${stage.d}${rewrite}` : stage ? "" : "Nothing was compiled yet.", stage && !veiled ? h("span", { class: "tally" }, tally(stage, view.store)) : "");
  refill(view.spark, standsAt(view), () => {
    const errors = errorsOf(trace);
    const line = errors.some((e) => e !== null) ? [h("span", { class: "label" }, "error"), spark(levels(errors, 19), view.stage)] : [];
    return [h("span", { class: "label" }, "pass ms"), sparkline(trace, view.stage), ...line];
  });
  view.stepper.hidden = !total;
  view.place.textContent = total ? `rewrite ${view.rewrite >= 0 ? grouped(view.rewrite + 1) : "–"}/${grouped(all)}` : "";
  view.place.title = all > total ? `the first ${grouped(total)} of ${grouped(all)} are on this page` : "";
  view.run.hidden = !view.can.run;
  view.actions.replaceChildren(...actionsAt(view).map((a) => h("button", { type: "button", class: "ctl text", "aria-label": `${a.label} here`, title: a.title, disabled: Boolean(view.waiting), onclick: a.act }, a.label)));
  for (const b of view.shadow.querySelectorAll(".ctl")) {
    const name = b.getAttribute("aria-label");
    const off = (name === "First pass" || name === "Previous pass") && view.stage <= 0 ? true : (name === "Last pass" && view.stage >= trace.stages.length - 1 && !view.canStep) || (name === "Next pass" && view.stage >= trace.stages.length - 1 && !view.canStep);
    b.toggleAttribute("disabled", Boolean(off || (view.waiting && ["Next pass", "Last pass", "Run"].includes(name || "")) || (name === "Previous rewrite" && view.rewrite < 0) || (name === "Next rewrite" && view.rewrite >= total - 1)));
  }
  showCancel(view);
  // A button that has the focus and goes out of use would swallow the next key.
  if (view.shadow.activeElement?.hasAttribute("disabled")) view.root.focus({ preventScroll: true });
}
