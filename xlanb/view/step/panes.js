// What each pane shows, and which have something to show.
import { verdictLines } from "./attempt.js";
import { branchesView } from "./branches.js";
import { cacheView, memoryView, timingView } from "./charts.js";
import { codePane } from "./code.js";
import { differences, diffView } from "./compare.js";
import { grouped, h } from "./dom.js";
import { filmPane, hasFilm } from "./filmpane.js";
import { GPU_VIEWS } from "./gpu.js";
import { editor, startEdit } from "./live.js";
import { numericsView } from "./numerics.js";
import { orderPane } from "./order.js";
import { tally } from "./side.js";
import { linesOf } from "./text.js";
import { TPU_VIEWS } from "./tpu.js";
import { whyView } from "./why.js";

/** @typedef {import("./store.js").Stage} Stage */
/** @typedef {import("./store.js").Artifact} Artifact */

/** The panes, in order. */
export const TABS = ["Graph", "Diff", "Text", "Code", "Why", "Memory", "Numerics", "Timing", "Film", "Compare"];
/** Those that are not there at all where they have nothing to say. */
export const EXTRA = ["Code", "Numerics", "Film", "Compare"];
/** Nothing changed. */
export const NO_MARKS = { added: new Set(), removed: new Set(), changed: new Set() };
const IN_TEXT = ["module", "graph", "code", "text"];
/** Artifacts with a view of their own: the pane that shows it, and how. @type {Record<string, {tab: string, view(record: Artifact): HTMLElement}>} */
export const OWN_VIEWS = { ...TPU_VIEWS, ...GPU_VIEWS };

/** Which panes have something to show, for the current stage. @param {any} view the step view @returns {Record<string, boolean>} */
export function available(view) {
  const stage = view.now;
  if (!stage) return { Graph: true };
  if (view.payload.film) return { Film: hasFilm(view) };
  const after = view.store.artifact(stage.a);
  const own = OWN_VIEWS[after?.k || ""]?.tab;
  return {
    Graph: Boolean(view.store.artifact(view.pictureIndex)?.g) || Boolean(view.store.artifact(view.pictureIndex)?.c),
    Diff: Boolean(stage.diff) || view.other >= 0,
    Text: own === "Text" || Boolean(after && IN_TEXT.includes(after.k)) || (stage.ctx ?? -1) >= 0,
    Code: !view.payload.single && Boolean(view.store.latest(view.current, view.current.stages.length - 1, "code")),
    Why: Boolean(stage.why || stage.e),
    Memory: own === "Memory" || Boolean(view.store.latest(view.current, view.stage, "buffers")),
    Numerics: !view.payload.single && Boolean(view.can.numerics || view.current.stages.some((/** @type {Stage} */ x) => x.numerics || (x.err ?? null) !== null)),
    Compare: view.payload.order.length > 1 && view.picture.veiled < 0, // the other branches know the answer
    Film: hasFilm(view),
    Timing: own === "Timing" || !view.payload.single || !["module", "graph", "code", "buffers", ...Object.keys(OWN_VIEWS)].includes(after?.k || ""),
  };
}

/** What a pane shows. @param {any} view the step view @param {string} tab @param {Stage} stage @param {import("./store.js").Marks} marks @returns {HTMLElement} */
export function paneContent(view, tab, stage, marks) {
  const store = view.store;
  if (view.ordering) return orderPane(view);
  const shown = store.artifact(stage.a);
  const own = OWN_VIEWS[shown?.k || ""];
  if (shown && own?.tab === tab) return own.view(shown);
  if (tab === "Graph") return view.graph.element;
  if (tab === "Film") return filmPane(view);
  if (tab === "Diff") return differencePane(view, stage);
  if (tab === "Why") return whyView(stage, store, { rewrite: view.rewrite, pinned: view.pinned, choose: (/** @type {number} */ k) => view._chooseRewrite(k) });
  if (tab === "Memory") return memoryView(store.latest(view.current, view.stage, "buffers"), (/** @type {string} */ n) => store.called(stage.ctx ?? stage.a, n));
  if (tab === "Compare") return h("div", { class: "compared" }, verdictLines(view), branchesView(store, view.trace, (/** @type {number} */ n) => view.choose(n)));
  if (tab === "Numerics") return numericsView(view.current, view.stage, { measure: view.can.numerics ? () => view.ask("numerics") : null, waiting: view.waiting === "numerics", go: (/** @type {number} */ k) => view.go(k) });
  if (tab === "Timing") {
    const artifact = store.artifact(stage.a);
    if (artifact?.k === "cache") return cacheView(artifact);
    return timingView(view.current, view.stage, artifact?.k === "execution" ? artifact : store.latest(view.current, view.current.stages.length - 1, "execution"), (/** @type {number} */ k) => view.go(k));
  }
  if (tab === "Code") return codePane(view);
  if (view.editing) return editor(view);
  if (view.moment) {
    view.text.show(linesOf(view.moment.a, view.moment.payload, marks, "after"), view.moment.names, "");
    view.text.extra.replaceChildren();
    return view.text.element;
  }
  let index = view.shownArtifact();
  if (!IN_TEXT.includes(store.artifact(index)?.k || "")) index = stage.ctx ?? -1;
  const artifact = store.artifact(index);
  if (!artifact) return h("p", { class: "empty" }, "This stage has no text.");
  view.text.show(linesOf(artifact, view.payload, marks, view.side), artifact.c ? store.names(index) : store.names(stage.ctx ?? -1), artifact.note);
  view.text.extra.replaceChildren(...(view.can.edit && artifact.k === "module" ? [h("button", { type: "button", class: "tool primary", onclick: () => startEdit(view) }, "Edit")] : []));
  return view.text.element;
}

/** Before and after of view pass, or of view stage and another. @param {any} view @param {Stage} stage */
function differencePane(view, stage) {
  const choose = (/** @type {boolean} */ unified) => {
    view.unified = unified;
    view.update();
  };
  const names = view.pictureIndex >= 0 ? view.store.names(view.pictureIndex) : { has: () => false };
  const state = { unified: view.unified, choose, names };
  const moment = view.other < 0 ? view.moment : null;
  if (moment) {
    const rule = stage.why.rewrites[view.rewrite].rule || "";
    return diffView(differences(moment.payload, moment.b, moment.a), moment.payload, { ...state, names: moment.names, after: moment.a, title: `${stage.name}, rewrite ${grouped(view.rewrite + 1)} of ${grouped(moment.count)}${rule ? `: ${rule}` : ""}`, empty: "This rewrite did not change the text." });
  }
  if (view.other < 0) return diffView(stage.diff || [], view.payload, { ...state, after: view.store.artifact(stage.a), title: `${stage.name}: before and after`, tally: tally(stage, view.store), empty: stage.ch ? "Before and after are of different kinds; see Text." : "This pass changed nothing. Shift-click another pass in the list to compare with it." });
  const [first, last] = [Math.min(view.other, view.stage), Math.max(view.other, view.stage)].map((k) => view.current.stages[k]);
  const [a, b] = [view.store.artifact(first.a), view.store.artifact(last.a)];
  const alike = a && b && a.k === b.k && a.c;
  return diffView(alike ? differences(view.payload, a, b) : [], view.payload, { ...state, after: b, title: `after ${first.name} → after ${last.name}`, empty: alike ? "The program is the same after both." : "These two are of different kinds." });
}
