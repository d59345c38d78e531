// Two ops: what the passes decided about them, and how they stand to one another.
import { h } from "./dom.js";
import { decision } from "./why.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").Trace} Trace */

/**
 * What the passes decided and did about both ops.
 * @param {Trace} trace @param {string} a @param {string} b
 * @returns {{stage: number, decisions: any[], rewrites: any[]}[]}
 */
export function dealings(trace, a, b) {
  /** @type {{stage: number, decisions: any[], rewrites: any[]}[]} */
  const out = [];
  trace.stages.forEach((stage, k) => {
    const decisions = (stage.why?.decisions || []).filter((/** @type {any} */ d) => d.subject.includes(a) && d.subject.includes(b));
    const names = (/** @type {any} */ r) => r.edits.flatMap((/** @type {any} */ e) => [e.a, e.b]);
    const rewrites = (stage.why?.rewrites || []).filter((/** @type {any} */ r) => r.rule && names(r).includes(a) && names(r).includes(b));
    if (decisions.length || rewrites.length) out.push({ stage: k, decisions, rewrites });
  });
  return out;
}

/**
 * How two ops stand to one another at a stage, in words.
 * @param {Store} store @param {number} artifact @param {string} a @param {string} b
 * @returns {string[]}
 */
export function relation(store, artifact, a, b) {
  const names = store.names(artifact);
  const [x, y] = [a, b].map((n) => (names.has(n) ? store.payload.items[/** @type {number} */ (names.get(n))] : null));
  const out = [];
  if (!x || !y) return [`${x ? b : a} does not exist at this stage.`];
  if (y.p?.includes(a)) out.push(`${a} feeds ${b}.`);
  if (x.p?.includes(b)) out.push(`${b} feeds ${a}.`);
  if (!out.length) {
    const way = path(store, artifact, a, b) || path(store, artifact, b, a);
    out.push(way ? `A path leads from one to the other: ${way.join(" → ")}.` : "No path leads from one to the other: they are independent.");
  }
  if (x.g && x.g === y.g) out.push(`Both are in ${x.g}.`);
  else if (x.g || y.g) out.push(`${a}: ${x.g || "no cluster"}; ${b}: ${y.g || "no cluster"}.`);
  for (const i of [x, y]) if (i.x) out.push(`${i.n}: ${i.x}`);
  const where = [a, b].map((n) => store.home(artifact, n));
  if (where[0] && where[0] === where[1]) out.push(`Both are in %${where[0]}.`);
  else if (where[0] && where[1]) out.push(`${a} is in %${where[0]}, ${b} in %${where[1]}.`);
  return out;
}

/** A shortest way from one op to another through users. @param {Store} store @param {number} artifact @param {string} from @param {string} to @returns {string[] | null} */
function path(store, artifact, from, to) {
  const users = store.users(artifact);
  const came = new Map([[from, ""]]);
  for (const name of came.keys()) {
    if (name === to) {
      const way = [];
      for (let n = to; n; n = came.get(n) || "") way.unshift(n);
      return way.length > 7 ? [...way.slice(0, 3), "…", ...way.slice(-3)] : way;
    }
    for (const u of users.get(name) || []) if (!came.has(u)) came.set(u, name);
  }
  return null;
}

/**
 * The card of two ops.
 * @param {Store} store @param {Trace} trace @param {number} current @param {string} a @param {string} b @param {{pin(n: string): void, go(k: number): void}} act
 */
export function pairCard(store, trace, current, a, b, act) {
  const stage = trace.stages[current];
  const after = stage && store.artifact(stage.a)?.c ? stage.a : stage?.ctx ?? -1;
  const both = (/** @type {number} */ index) => [a, b].every((n) => store.names(index).has(n));
  const gone = !both(after) && stage && stage.b >= 0 && both(stage.b); // the pass took one away: what they were before it
  const artifact = gone ? stage.b : after;
  const all = dealings(trace, a, b);
  const name = (/** @type {string} */ n) => h("button", { type: "button", class: "link", data: { op: n }, onclick: () => act.pin(n) }, store.called(artifact, n));
  const body = h("div", { class: "card-body pair" }, h("h3", {}, "Decisions about this pair"), h("div", {}, name(a), " ", name(b)), relation(store, artifact, a, b).map((t) => h("p", {}, gone ? `Before this pass: ${t}` : t)));
  for (const { stage: k, decisions, rewrites } of all.slice(0, 20)) {
    const title = h("button", { type: "button", class: "stagelink", onclick: () => act.go(k) }, trace.stages[k].name);
    body.append(h("h4", {}, title), h("ul", { class: "decisions" }, decisions.map((d) => decision(d, (n) => store.called(trace.stages[k].b, n), store.names(trace.stages[k].b)))), ...rewrites.slice(0, 5).map((r) => h("p", { class: "mono where" }, `${r.rule}${r.where ? `  ${r.where}` : ""}`)));
  }
  if (!all.length) body.append(h("p", { class: "muted" }, "No pass so far made a decision about this pair. Only fusion and clustering decide about pairs, and only about neighbours."));
  return body;
}
