// Why: rewrites one by one, decisions with what each condition was; and what is known about two ops.
import { grouped, h, plural } from "./dom.js";
import { highlighted, references } from "./highlight.js";

const NONE = { has: () => false };

/** @typedef {import("./store.js").Stage} Stage */
/** @typedef {import("./store.js").Store} Store */

/**
 * Why: rewrites one by one, and decisions with what each condition was.
 * @param {Stage} stage
 * @param {Store} store
 * @param {{rewrite: number, pinned: string, choose(k: number): void}} state
 */
export function whyView(stage, store, state) {
  const body = h("div", { class: "why", role: "region", "aria-label": "Why", tabindex: 0 });
  const why = stage.why;
  if (stage.e) body.append(h("pre", { class: "error" }, stage.e));
  if (!why) {
    body.append(h("p", { class: "empty" }, stage.ch ? "This stage recorded no individual rewrites or decisions." : "Nothing was rewritten or decided here."));
    return body;
  }
  const about = (/** @type {string[]} */ names) => !state.pinned || names.includes(state.pinned);
  if (why.decisions.length) {
    const rows = why.decisions.filter((/** @type {any} */ d) => about(d.subject));
    const all = why.decisions.length + (why.more_decisions || 0);
    const yes = why.taken ?? why.decisions.filter((/** @type {any} */ d) => d.taken).length;
    body.append(heading("Decisions", `${yes} taken, ${all - yes} not${only(rows, why.decisions, state.pinned)}`));
    if (why.failing) body.append(refusals(why.failing));
    body.append(h("ul", { class: "decisions" }, alike(rows.length ? rows : why.decisions).map(([d, times]) => decision(d, (n) => store.called(stage.b, n), store.names(stage.b), times))));
    if (why.more_decisions) body.append(h("p", { class: "note inline" }, `${plural(why.more_decisions, "more decision")} not shown.`));
  }
  if (why.rewrites.length) {
    body.append(heading("Rewrites", `${why.rewrites.length + (why.more_rewrites || 0)}, step through them with ← →`));
    why.rewrites.forEach((/** @type {any} */ r, /** @type {number} */ k) => body.append(rewrite(r, k, state, stage, store)));
    if (why.more_rewrites) body.append(h("p", { class: "note inline" }, `${plural(why.more_rewrites, "more rewrite")} not shown.`));
    if (why.unused) body.append(h("p", { class: "note inline" }, `Also removed: ${plural(why.unused[0], "computation")} that nothing calls any more, with ${plural(why.unused[1], "instruction")}.`));
  }
  return body;
}

/** How often each condition refused something. @param {[string, number][]} failing */
function refusals(failing) {
  const rows = failing.map(([name, count]) => [h("dt", {}, grouped(count)), h("dd", {}, name)]);
  return h("dl", { class: "refusals", "aria-label": "Conditions that failed, by how often" }, ...rows.flat());
}

/** How many rewrites a stage has, with those that are not on the page. @param {Stage | undefined} stage */
export function rewriteCount(stage) {
  return stage?.why ? stage.why.rewrites.length + (stage.why.more_rewrites || 0) : 0;
}

/** How many rewrites and decisions a stage has, with those that are not shown; null without reasons. @param {any} why */
export function reasonCount(why) {
  if (!why) return null;
  return why.rewrites.length + (why.more_rewrites || 0) + why.decisions.length + (why.more_decisions || 0);
}

/** Decisions that were taken again with the same outcome, in a later round, as one: how often each. @param {any[]} decisions @returns {[any, number][]} */
function alike(decisions) {
  /** @type {Map<string, [any, number]>} */
  const found = new Map();
  for (const d of decisions) {
    const key = JSON.stringify(d);
    const known = found.get(key);
    if (known) known[1] += 1;
    else found.set(key, [d, 1]);
  }
  return [...found.values()];
}

/** @param {any[]} rows @param {any[]} all @param {string} pinned */
function only(rows, all, pinned) {
  return pinned && rows.length && rows.length < all.length ? `; shown: those about ${pinned}` : "";
}

/** @param {string} title @param {string} rest */
function heading(title, rest) {
  return h("h4", {}, title, h("small", {}, rest));
}

/** One decision: what was asked, what came out, and why. @param {any} d @param {(name: string) => string} called what the user calls an op @param {{has(name: string): boolean}} names of the ops that there are @param {number} [times] how often it was taken */
export function decision(d, called = (n) => n, names = NONE, times = 1) {
  const subject = d.subject.flatMap((/** @type {string} */ n, /** @type {number} */ k) => [k ? h("span", { class: "to" }, " → ") : "", h("span", { class: "tk-ref", data: { op: n } }, called(n))]);
  return h(
    "li",
    { class: d.taken ? "yes" : "no" },
    h("div", { class: "verdict" }, h("b", { class: "tick" }, d.taken ? "✓" : "✗"), h("span", { class: "action" }, d.action), " ", subject, times > 1 ? h("span", { class: "basis", title: `decided ${times} times` }, `×${times}`) : null, d.basis ? h("span", { class: "basis", title: "A dump contains no reasons: xlanb's own conditions were evaluated on the dump's module" }, "replay") : null),
    predicates(d.predicates, names),
    d.where ? h("div", { class: "where" }, d.rule ? `${d.rule} · ` : "", d.where) : null,
  );
}

/** Words in which names stand in backquotes, these as links. @param {string} text */
function linked(text) {
  return text.split("`").map((part, k) => (k % 2 ? h("span", { class: "tk-ref", data: { op: part } }, part) : part));
}

/** Every condition with the value it had, and what would have to change; what failed stands first, what held is folded where it is much. @param {[string, number, string, string?][]} all @param {{has(name: string): boolean}} names */
function predicates(all, names) {
  if (!all.length) return null;
  const known = { has: (/** @type {string} */ n) => /[\d._]/.test(n) && names.has(n) }; // "dot" is an opcode here
  const row = (/** @type {[string, number, string, string?]} */ [name, holds, value, remedy]) => [h("tr", { class: holds ? "holds" : "fails" }, h("td", { class: "sign" }, holds ? "✓" : "✗"), h("td", {}, references(name, known)), h("td", { class: "mono" }, references(value, known))), remedy ? h("tr", { class: "remedy" }, h("td", { class: "sign" }, "↪"), h("td", { colspan: 2 }, linked(remedy))) : null];
  const table = (/** @type {any[]} */ rows) => h("table", { class: "predicates" }, h("tbody", {}, rows.flatMap(row)));
  const failed = all.filter((p) => !p[1]);
  const held = all.filter((p) => p[1]);
  if (all.length <= 4) return table([...failed, ...held]);
  return h("div", {}, failed.length ? table(failed) : null, h("details", {}, h("summary", {}, `✓ ${plural(held.length, "condition")} ${held.length === 1 ? "holds" : "hold"}`), table(held)));
}

/** The text of an edit's instruction: its own, or that of an item. @param {Store} store @param {any} e @param {"old" | "new"} side */
function textAt(store, e, side) {
  const index = side === "old" ? e.i : e.j;
  return index === undefined ? e[side] || "" : store.payload.items[index].t.trim().replace(/^ROOT /, "");
}

/** What a rule looked for, and which instructions it found in the places; what else it asked for. @param {Stage} stage @param {any} r @param {Store} store */
function foundParts(stage, r, store) {
  const lines = new Map(r.edits.flatMap((/** @type {any} */ e) => [[e.b, textAt(store, e, "new")], [e.a, textAt(store, e, "old")]]));
  const at = (/** @type {string} */ n) => lines.get(n) || store.payload.items[store.names(stage.b).get(n) ?? -1]?.t.trim().replace(/^ROOT /, "") || "";
  const parts = (r.parts || []).map((/** @type {string[]} */ [name, op]) => [h("dt", {}, h("code", {}, name)), h("dd", { class: "mono", title: at(op) }, ref(op), h("small", {}, at(op).replace(/^[^=]*= |, metadata=\{.*/g, "")))]);
  const asked = (stage.why.decisions || []).find((/** @type {any} */ d) => d.taken && d.action === r.rule && (r.parts || []).some((/** @type {string[]} */ p) => d.subject.includes(p[1])));
  return [r.pattern ? h("p", { class: "pattern mono" }, r.pattern) : null, parts.length ? h("dl", { class: "parts" }, parts.flat()) : null, asked ? predicates(asked.predicates, store.names(stage.b)) : null];
}

/** The edits in short: what came, went, changed. @param {any} r */
function editList(r) {
  const signs = /** @type {Record<string, string>} */ ({ add: "+", remove: "−", replace: "⇒" });
  const row = (/** @type {any} */ e) => h("li", {}, h("span", { class: "mk" }, `${signs[e.kind] || "~"} `), e.kind === "replace" ? [ref(e.a), " ⇒ ", ref(e.b)] : ref(e.b || e.a));
  return h("ul", { class: "edits mono" }, r.edits.slice(0, 20).map(row), r.edits.length > 20 ? h("li", { class: "muted" }, `and ${r.edits.length - 20} more`) : null);
}

/** The card of one rewrite: the rule, what it looked for, what it found, what it needed, where it stands. @param {Store} store @param {Stage} stage @param {number} k */
export function rewriteCard(store, stage, k) {
  const r = stage.why.rewrites[k];
  return h(
    "div",
    { class: "card-body" },
    h("h3", {}, h("span", { class: "opname" }, r.rule || r.pass || stage.name)),
    h("p", { class: "muted" }, `rewrite ${k + 1} of ${rewriteCount(stage)} in ${stage.name}`),
    r.pattern || r.parts ? [h("h4", {}, r.pattern ? "Looked for" : "About"), foundParts(stage, r, store)].flat() : [h("h4", {}, "What it did"), editList(r)],
    r.keeps ? [h("h4", {}, "Keeps"), h("p", { class: "keeps" }, r.keeps)] : null,
    r.where ? [h("h4", {}, "Source"), h("p", { class: "mono where" }, r.where)] : null,
  );
}

/** @param {any} r @param {number} k @param {{rewrite: number, choose(k: number): void}} state @param {Stage} stage @param {Store} store */
function rewrite(r, k, state, stage, store) {
  const [before, after] = [store.names(stage.b), store.names(stage.a)];
  const line = (/** @type {string} */ mark, /** @type {string} */ kind, /** @type {string} */ text, /** @type {string} */ op) =>
    h("div", { class: `line ${kind}`, data: op ? { op } : {} }, h("span", { class: "mk" }, mark), h("span", { class: "tx" }, highlighted(text, "hlo", { has: (n) => n !== op && (before.has(n) || after.has(n)) })));
  const lines = r.edits.flatMap((/** @type {any} */ e) => {
    if (e.kind === "add") return [line("+", "added", textAt(store, e, "new"), e.b)];
    if (e.kind === "remove") return [line("−", "removed", textAt(store, e, "old"), e.a)];
    if (e.kind === "replace") return [h("div", { class: "line uses" }, h("span", { class: "mk" }, "⇒"), h("span", { class: "tx" }, "uses of ", ref(e.a), " are now ", ref(e.b)))];
    const [old, fresh] = [textAt(store, e, "old"), textAt(store, e, "new")];
    return [old ? line("~", "removed", old, e.a) : null, fresh ? line("~", "changed", fresh, e.b) : null].filter((x) => x);
  });
  return h(
    "section",
    { class: `rewrite${state.rewrite === k ? " current" : ""}`, data: { rewrite: k }, onclick: () => state.choose(k) },
    h("header", { role: "presentation" }, h("span", { class: "n" }, String(k + 1)), h("b", {}, r.rule || r.pass || "edit"), r.keeps ? h("span", { class: "keeps", title: "what the rule keeps of the values" }, r.keeps) : null, r.where ? h("span", { class: "where" }, r.where) : null),
    r.parts ? h("div", { class: "bindings" }, foundParts(stage, r, store)) : null,
    h("div", { class: "code", tabindex: 0, role: "group", "aria-label": `Rewrite ${k + 1}` }, lines),
    r.more ? h("p", { class: "note inline" }, `${plural(r.more, "more edit")}.`) : null,
  );
}

/** @param {string} name */
function ref(name) {
  return h("span", { class: "tk-ref", data: { op: name } }, name || "?");
}
