// The graph pane within the step view: what it asks of the view, finding ops in it, and what pointer and keys do there.
import { bytes, grouped, h, opOf, plural, time } from "./dom.js";
import { FindOp } from "./find.js";
import { secondGraphTool, showSecondGraph } from "./secondgraph.js";
import { shardingName } from "./sharding.js";
import { isGroup } from "./store.js";

/** What the graph pane asks of the view. @param {any} view the step view @returns {import("./graph.js").Around} */
export function graphActions(view) {
  const find = new FindOp({ items: () => shownItems(view), choose: (name) => goToOp(view, name), leave: () => view.root.focus({ preventScroll: true }) });
  view.findOp = find;
  return {
    name: () => `${view.current.name || "graph"}-${view.now?.name || ""}`,
    lead: [find.element],
    tools: [...view.picture.tools.filter((/** @type {Node} */ x) => x !== view.picture.crumbs), secondGraphTool(view)],
    foot: view.picture.crumbs,
    where: (name) => view.picture.scene(view.pictureIndex)?.where.get(name),
    moved: (sight, touched) => view.secondGraph?.graph.follow(sight, touched),
    over: find.list,
    recolour: () => view.update(),
    laid: (text) => shardingName(view.store, view.pictureIndex, text),
    resized: () => view.picture.resized(),
    pin: (n) => view.pin(n === view.pinned ? "" : n),
    pair: (n) => (view.pinned && n !== view.pinned ? view.pair(n) : view.pin(n)),
    toggle: (key) => view.picture.toggle(key),
    spread: (key) => view.picture.spread(key),
    leave: () => view.root.focus({ preventScroll: true }),
  };
}

/** Draw what the stage shows, and the second graph. @param {any} view @param {import("./store.js").Marks} marks */
export function showGraph(view, marks) {
  if (!view.graph.isMeasured()) return;
  const seconds = view.store.seconds(view.current);
  const sheet = view.moment ? view.picture.momentSheet(view.moment) : view.picture.sheet(view.pictureIndex);
  view.graph.show(sheet, marks, view.moment ? "after" : view.side, seconds);
  showSecondGraph(view, seconds);
}

/** All ops of the program that the pane shows. @param {any} view */
function shownItems(view) {
  return [...view.store.names(view.pictureIndex).values()].map((i) => view.payload.items[i]);
}

/** Show an op in the graph: open what hides it, go there, pin it. @param {any} view @param {string} name */
export function goToOp(view, name) {
  const drawn = () => view.graph.sheet?.nodes.some((/** @type {any} */ n) => n.item.n === name);
  const key = drawn() ? name : view.picture.open(name) || view.picture.scene(view.pictureIndex)?.where.get(name);
  view.pin(name);
  if (!drawn() && !key) return view.say(`${name} is not drawn here: its part of the program is not on this page.`);
  view.graph.focus.go(view.graph.keyOf(key || name));
  const within = drawn() ? null : view.graph.sheet?.nodes.find((/** @type {any} */ n) => n.key === key && !isGroup(n.item))?.item;
  return within ? view.say(`${name} is drawn as part of ${within.o} ${within.n}.`) : undefined;
}

/** Open the search for ops, in the graph pane. @param {any} view */
export function findOp(view) {
  view.show("Graph");
  view.findOp.open();
}

/** Ctrl+F within the graph pane: search its ops, not the page. @param {any} view @param {KeyboardEvent} e */
export function findsByKey(view, e) {
  if (!(e.ctrlKey || e.metaKey) || e.key !== "f" || view.shownTab !== "Graph") return false;
  e.preventDefault();
  findOp(view);
  return true;
}

/** A closed group opens; an op leads to where it lives on. @param {any} view @param {MouseEvent} e */
export function doubleClicked(view, e) {
  const group = /** @type {Element} */ (e.target).closest(".node[data-fold]");
  if (group) view.graph.toggle(group.getAttribute("data-fold") || "");
  else view._follow(opOf(e));
}

/** The card of a pinned group that is not drawn: another that is closed holds it, or the program has none of that name. @param {any} view @returns {HTMLElement} */
function hiddenGroupCard(view) {
  const key = view.pinned;
  const around = view.picture.groupsAround(key);
  const name = key.slice(1).split("/").at(-1);
  const words = around.length ? `It is in ${around.map((/** @type {{label: string}} */ g) => g.label).join(" / ")}, which is closed here.` : "This program has no such group.";
  const act = around.length ? h("button", { type: "button", class: "tool", onclick: () => view.picture.openAll(around.map((/** @type {{key: string}} */ g) => g.key)) }, "Show it") : null;
  return h("div", { class: "card-body" }, h("h3", {}, name), h("p", { class: "muted" }, words), act);
}

/** The card of a group that is pinned, null where an op is. @param {any} view @returns {HTMLElement | null} */
export function groupCard(view) {
  const sheet = view.graph.sheet;
  const n = [...(sheet?.nodes || []), ...(sheet?.groups || [])].find((x) => ((x.count || 1) > 1 || x.fold || x.item?.fold !== undefined) && (x.key === view.pinned || x.item?.n === view.pinned));
  if (view.store.find(view.now, view.pinned)) return null;
  if (!n) return view.pinned.startsWith("@") ? hiddenGroupCard(view) : null;
  const { added, removed, changed } = n.marks;
  const { seconds, flops, bytes: moved } = n.weight;
  const rows = [
    ["Ops", plural(n.count, "op")],
    ["Repeats", n.stack > 1 ? `${n.stack} alike, one is drawn` : ""],
    ["This pass", added + removed + changed ? `${added} added, ${removed} removed, ${changed} changed` : ""],
    ["Time", seconds === null ? "" : time(seconds)],
    ["Work", flops ? `${grouped(Number(flops.toPrecision(3)))} flops` : ""],
    ["Memory", moved ? `${bytes(moved)} read and written` : ""],
  ].filter(([, text]) => text);
  const open = view.graph.sheet.groups.some((/** @type {any} */ g) => g.key === n.key);
  const act = n.fold ? h("button", { type: "button", class: "tool", onclick: () => view.graph.toggle(n.key) }, open ? "Close" : "Open") : null;
  return h("div", { class: "card-body" }, h("h3", {}, n.label || n.item.h[0]), h("dl", {}, rows.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])), act);
}
