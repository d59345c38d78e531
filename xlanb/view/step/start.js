// Where a view opens: the stage, pane, ops, comparison or guess that whoever made it asked for; else where the reader stood before.
import { toggleSecondGraph } from "./secondgraph.js";

/**
 * `branch`, `stage`, `pinned` are those of the model's traits; `second` is the other op of a pair, `other` a stage to show the difference from, `second_graph` that of the second graph (see secondgraph.js).
 * @typedef {{branch?: number, stage?: number, pane?: string, pinned?: string, second?: string, other?: number, second_graph?: string, predict?: number}} Start
 */

/** What was drawn once: a notebook makes views anew that are scrolled out of sight. @type {WeakSet<object>} */
const DRAWN = new WeakSet();

/** Draw the view for the first time. @param {any} view the step view */
export function drawFirst(view) {
  if (DRAWN.has(view.payload)) return void view.update();
  DRAWN.add(view.payload);
  /** @type {Start} */
  const start = view.model.get("start") || view.payload.start || {};
  view.tab = start.pane || view.tab;
  if (!view.model.set) {
    view.trace = start.branch ?? view.trace;
    view.stage = start.stage ?? view.stage;
    view.pinned = start.pinned || view.pinned;
  }
  view.second = start.second || "";
  view.other = start.other ?? -1;
  if (start.second_graph) toggleSecondGraph(view, true, start.second_graph);
  view.update();
  if (start.predict) view.picture.predict();
  if (start.pinned && view.shownTab === "Graph") view.graph.reveal(start.pinned);
  return undefined;
}
