// What stands around the panes: the ribbon, the card of an op, the card of a stage.
import { grouped, h, plural, time } from "./dom.js";
import { highlighted } from "./highlight.js";
import { shardingSection } from "./sharding.js";
import { sourceParts } from "./source.js";
import { argumentOf, STATIONS, stationOf } from "./store.js";
import { layoutWords } from "./tpu.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").Stage} Stage */
/** @typedef {import("./store.js").Trace} Trace */

/** The stage that a station leads to: of fusion the one that fused most, of others where they begin. @param {Trace} trace @param {Store} store @returns {Map<string, number>} */
export function stationStages(trace, store) {
  const out = new Map();
  let most = 0;
  trace.stages.forEach((st, k) => {
    const key = stationOf(st);
    if (!out.has(key)) out.set(key, k);
    if (key !== "fusion" || !st.ch) return;
    const { removed, changed } = store.marks(st.b, st.a);
    if (removed.size + changed.size <= most) return;
    most = removed.size + changed.size;
    out.set(key, k);
  });
  return out;
}

/** The stations that were reached or lie ahead, and those that every program has. @param {Trace} trace @param {Map<string, number>} leads the stages that stations lead to @param {boolean} more whether further stages may come @returns {string[][]} */
export function stationsShown(trace, leads, more) {
  const coming = trace.coming && new Set(trace.coming.flatMap(([kind, , , names]) => names.map((name) => stationOf({ kind, name }))));
  return STATIONS.filter(([, key]) => leads.has(key) || ["hlo", "llvm", "run"].includes(key) || (more && (!coming || coming.has(key))));
}

/**
 * The stations of the pipeline; those reached are buttons.
 * @param {Trace} trace
 * @param {Store} store
 * @param {number} current
 * @param {(k: number) => void} go
 * @param {boolean} more whether further stages may come
 */
export function ribbon(trace, store, current, go, more) {
  const here = trace.stages[current] ? stationOf(trace.stages[current]) : "";
  const leads = stationStages(trace, store);
  const parts = [];
  for (const [label, key] of stationsShown(trace, leads, more)) {
    const at = leads.get(key);
    if (parts.length) parts.push(h("span", { class: "sep", "aria-hidden": "true" }, "›"));
    parts.push(h("button", { type: "button", class: `station${key === here ? " here" : ""}`, disabled: at === undefined, title: at === undefined ? null : `to ${trace.stages[at].name}`, "aria-current": key === here ? "step" : null, onclick: () => go(at ?? 0) }, label));
  }
  return parts;
}

/**
 * @param {Stage} stage
 * @param {Store} store
 * @returns {Node[]} a short tally with marks
 */
export function tally(stage, store) {
  if (stage.e) return [h("span", { class: "t-failed" }, "failed")];
  if (!stage.ch) return [];
  const marks = stage.n ? null : store.marks(stage.b, stage.a); // stages of other kinds have no count
  const [added, removed, changed] = stage.n || [marks?.added.size, marks?.removed.size, marks?.changed.size];
  return tallied(added || 0, removed || 0, changed || 0);
}

/** Counts with marks; none for what is zero. @param {number} added @param {number} removed @param {number} changed @returns {Node[]} */
export function tallied(added, removed, changed) {
  const out = [];
  if (added) out.push(h("span", { class: "t-add" }, `+${grouped(added)}`));
  if (removed) out.push(h("span", { class: "t-rem" }, `−${grouped(removed)}`));
  if (changed) out.push(h("span", { class: "t-chg" }, `~${grouped(changed)}`));
  return out;
}

/**
 * Everything known about one op.
 * @param {Store} store
 * @param {Trace} trace
 * @param {number} current
 * @param {string} name
 * @param {{pin(name: string): void, go(k: number): void, line(place: string): void, enter(name: string): void}} act
 * @param {string} line the Python line whose ops are asked for
 */
export function opCard(store, trace, current, name, act, line) {
  const stage = trace.stages[current];
  const found = stage && store.find(stage, name);
  const body = h("div", { class: "card-body" });
  const add = (/** @type {(Node | null)[]} */ ...parts) => body.append(.../** @type {Node[]} */ (parts.filter((p) => p)));
  if (!found) {
    body.append(h("h3", {}, name), h("p", { class: "muted" }, "It does not exist at this stage."));
  } else {
    const { item, artifact } = found;
    const users = store.users(artifact).get(name) || [];
    const called = (/** @type {string} */ n) => store.called(artifact, n);
    add(
      h("h3", {}, h("span", { class: `chip fam-${item.f.replace(/^tf-/, "")}` }, item.o), h("span", { class: "opname" }, argumentOf(item) || item.n)),
      rows([
        ["HLO name", item.an ? item.n : ""],
        ["Shape", item.s],
        ["Layout", item.l],
        ["", layoutWords(item.l)],
        ["Value", /^const/i.test(item.o) && item.v !== item.s ? item.v : ""],
        [item.y || item.f.startsWith("tf-") ? "TF node" : "Op name", item.an || !item.m ? "" : breakable(item.m)],
        ["TF op", item.y],
        ["Cluster", item.g],
        ["Why not", item.x],
        ["Device", item.d],
        ["Sharding", item.sh],
      ]),
      shardingSection(store, artifact, item),
      ...sourceParts(store, artifact, item, line, act),
      links("Operands", item.p || [], act.pin, called),
      links("After", item.cp || [], act.pin, called),
      links("Users", users, act.pin, called),
      links("Calls", item.c || [], (c) => act.enter(store.rootOf(artifact, c)), (c) => c),
      h("pre", { class: "plain", tabindex: 0, role: "group", "aria-label": "Text of the op" }, highlighted(item.t.trim(), "hlo", { has: (n) => n !== item.n && store.names(artifact).has(n) })),
    );
  }
  const history = store.history(trace, name);
  if (history.length) {
    body.append(
      h("h4", {}, "What happened to it"),
      h("ol", { class: "history" }, history.slice(0, 60).map((e) => h("li", { class: e.stage === current ? "current" : "" }, h("button", { type: "button", onclick: () => act.go(e.stage) }, trace.stages[e.stage].name), h("span", {}, e.what)))),
    );
  }
  return body;
}

/** @param {[string, string | undefined][]} pairs */
function rows(pairs) {
  return h("dl", {}, pairs.filter(([, v]) => v).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
}

/** A long name that breaks at its joints, not anywhere. @param {string} text @returns {(string | Node)[]} */
function breakable(text) {
  return text.split(/(?<=[_/›])/).flatMap((part, k) => (k ? [h("wbr"), part] : [part]));
}

/** @param {string} title @param {string[]} names @param {((n: string) => void) | null} pin @param {(n: string) => string} called */
function links(title, names, pin, called) {
  if (!names.length) return null;
  const shown = names.slice(0, 24);
  return h(
    "div",
    { class: "links" },
    h("h4", {}, title),
    h("div", {}, shown.map((n) => h("button", { type: "button", class: "link", data: { op: n }, disabled: !pin, onclick: () => pin && pin(n) }, called(n))), names.length > shown.length ? h("span", { class: "muted" }, ` and ${names.length - shown.length} more`) : null),
  );
}

/** What the card says when no op is pinned. @param {Store} store @param {Stage | undefined} stage @param {number[]} [elsewhere] how many of what was added, removed and changed the picture does not hold */
export function stageCard(store, stage, elsewhere = []) {
  if (!stage) return h("p", { class: "muted" }, "Nothing was compiled yet.");
  const after = store.artifact(stage.a);
  const before = store.artifact(stage.b);
  const alone = store.payload.single && !stage.ch && !stage.e; // an object, not a step
  const size = after && after.n !== undefined ? `${before && before !== after && before.n !== undefined && before.k === after.k ? `${grouped(before.n)} → ` : ""}${plural(after.n, after.k === "graph" ? "node" : "instruction")}` : "";
  return h(
    "div",
    { class: "card-body" },
    h("h3", {}, h("span", { class: "opname" }, stage.name)),
    alone ? null : h("p", { class: stage.ch ? "" : "muted" }, stage.d),
    rows([
      ["Pipeline", stage.pl.length ? breakable(stage.pl.join(" › ")) : ""],
      ["Size", size],
      ["Time", alone ? "" : time(stage.s)],
      ["Program", after?.name],
    ]),
    elsewhere.some((n) => n) ? h("p", { class: "muted elsewhere" }, "Not drawn: ", h("span", { class: "tally" }, tallied(elsewhere[0], elsewhere[1], elsewhere[2])), " of parameters, reducers and removed groups.") : null,
    h("p", { class: "muted hint" }, "Hover over an op to highlight it everywhere; click it for details; shift-click a second one for decisions about the pair; double-click to go to the stage where it continues."),
  );
}
