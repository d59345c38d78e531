// Two graphs side by side: any two stages, of one compilation or of two, moved together; what lives in both is lit in both.
import { h } from "./dom.js";
import { GraphView } from "./graph.js";

/** @typedef {import("./store.js").Stage} Stage */
/** @typedef {{trace: number, stage: number, side: "a" | "b"}} Choice which artifact: of a stage, after it or before it */

const DRAWN_KINDS = ["module", "graph"];

/** The button that shows a second graph. @param {any} view the step view @returns {HTMLElement} */
export function secondGraphTool(view) {
  view.secondGraphButton = h("button", { type: "button", class: "tool", "aria-pressed": "false", title: "show the graph of a second stage next to this one; both pan and zoom together", onclick: () => {
    toggleSecondGraph(view, !view.secondGraph);
    view.update();
  } }, "side by side");
  return view.secondGraphButton;
}

/** Show or remove the second graph; it is drawn with the next update. @param {any} view @param {boolean} on @param {string} [chosen] which (see `choices`); "" for the first */
export function toggleSecondGraph(view, on, chosen = "") {
  if (on && !view.secondGraph) open(view);
  else if (!on && view.secondGraph) close(view);
  if (view.secondGraph && chosen) view.secondGraph.chosen = chosen;
  view.secondGraphButton.setAttribute("aria-pressed", String(on));
}

/** @param {any} view */
function open(view) {
  const select = /** @type {HTMLSelectElement} */ (h("select", { class: "tool", "aria-label": "Second stage", onchange: () => {
    view.secondGraph.chosen = select.value;
    view.update();
  } }));
  const graph = new GraphView({
    name: () => `${view.current.name || "graph"}-second`,
    label: "Second graph",
    plain: true,
    tools: [select],
    recolour: () => view.update(),
    resized: () => view.picture.resized(),
    pin: (n) => view.pin(n === view.pinned ? "" : n),
    pair: (n) => (view.pinned && n !== view.pinned ? view.pair(n) : view.pin(n)),
    toggle: (key) => view.picture.toggle(key),
    spread: (key) => view.picture.spread(key),
    leave: () => view.root.focus({ preventScroll: true }),
    moved: (sight, touched) => view.graph.follow(sight, touched),
  });
  graph.element.classList.add("second-graph");
  view.graph.stages.append(graph.element);
  view.graph.element.classList.add("two");
  [view.graph.mate, graph.mate] = [graph, view.graph];
  view.secondGraph = { graph, select, chosen: "" };
}

/** @param {any} view */
function close(view) {
  view.secondGraph.graph.dispose();
  view.secondGraph.graph.element.remove();
  view.graph.mate = null;
  view.graph.element.classList.remove("two");
  view.secondGraph = null;
}

/** The stages that the second graph can show, by value: those that changed a program. @param {any} view @returns {{value: string, label: string, index: number, group: string}[]} */
export function choices(view) {
  const out = [];
  const drawn = (/** @type {number} */ index) => DRAWN_KINDS.includes(view.store.artifact(index)?.k);
  if (view.now && drawn(view.now.b)) out.push({ value: "before", label: `before ${view.now.name}`, index: view.now.b, group: "this stage" });
  for (const t of view.payload.order) {
    const trace = view.payload.traces[t];
    let last = -1;
    trace.stages.forEach((/** @type {Stage} */ stage, /** @type {number} */ k) => {
      if (!drawn(stage.a) || stage.a === last) return;
      last = stage.a;
      const whose = view.payload.order.length > 1 ? ` (${trace.name})` : "";
      out.push({ value: `${t}:${k}`, label: `after ${stage.name}${whose}`, index: stage.a, group: trace.name });
    });
  }
  return out;
}

/** Draw the second graph, where there is one. @param {any} view @param {Map<string, number>} seconds */
export function showSecondGraph(view, seconds) {
  const second = view.secondGraph;
  if (!second) return;
  const all = choices(view);
  const chosen = all.find((c) => c.value === second.chosen) || all[0];
  const groups = [...new Set(all.map((c) => c.group))];
  second.select.replaceChildren(...groups.map((g) => h("optgroup", { label: g }, all.filter((c) => c.group === g).map((c) => h("option", { value: c.value, selected: c === chosen }, c.label)))));
  view.graph.stages.dataset.name = view.now ? `${view.side} ${view.now.name}` : "";
  if (!chosen) return second.graph.show(null, SAME_MARKS, "after", seconds);
  const [old, now] = [chosen.index, view.pictureIndex];
  const marks = view.store.artifact(old)?.k === view.store.artifact(now)?.k ? view.store.marks(old, now) : SAME_MARKS;
  [second.graph.colour, second.graph.weigh] = [view.graph.colour, view.graph.weigh];
  second.graph.show(view.picture.sheet(old), marks, "before", seconds);
  if (!view.graph.touched) view.graph.fit(view.graph.marks); // for both, now that both are drawn
  second.graph.follow({ x: view.graph.x, y: view.graph.y, scale: view.graph.scale }, view.graph.touched);
}

const SAME_MARKS = { added: new Set(), removed: new Set(), changed: new Set() };

/** Light what an op is in the other graph, where it has another name there: what came from the same op of the source. @param {any} view @param {string} name */
export function lightCounterparts(view, name) {
  if (!view.secondGraph || !name) return;
  const nodes = (/** @type {any} */ g) => g.sheet?.nodes || [];
  for (const [from, to] of [[view.graph, view.secondGraph.graph], [view.secondGraph.graph, view.graph]]) {
    const here = nodes(from).find((/** @type {any} */ n) => n.item.n === name)?.item;
    if (!here?.m || nodes(to).some((/** @type {any} */ n) => n.item.n === name)) continue;
    for (const n of nodes(to)) if (n.item.m === here.m) to.kept.get(n.key)?.classList.add("lit");
  }
}
