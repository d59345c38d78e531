// Before and after by structure: of one pass as the payload tells it, of any two stages by name; side by side or in one column.
import { h, plural } from "./dom.js";
import { highlighted, tokens } from "./highlight.js";
import { tallied } from "./side.js";

/** @typedef {import("./store.js").Payload} Payload */
/** @typedef {import("./store.js").Artifact} Artifact */
/** @typedef {{name: string, rows: any[], cut?: number, plain?: number}} Section */

const CONTEXT = 3;

/**
 * The difference of two artifacts, matched by name: sections of rows as the payload has them, [before, after], an index for an equal one, -n for n left out.
 * @param {Payload} payload @param {Artifact} before @param {Artifact} after
 * @returns {Section[]}
 */
export function differences(payload, before, after) {
  const [old, now] = [chunksOf(payload, before), chunksOf(payload, after)];
  const out = [];
  for (const [name, right] of now) {
    const left = old.get(name) || [];
    if (left.length === right.length && left.every((x, k) => x === right[k])) continue;
    out.push({ name, rows: compact(matched(payload, left, right)) });
  }
  for (const [name, left] of old) if (!now.has(name)) out.push({ name, rows: left.map((i) => [i, -1]) });
  return out;
}

/** Items of each computation, by its name. @param {Payload} payload @param {Artifact} artifact @returns {Map<string, number[]>} */
function chunksOf(payload, artifact) {
  const out = new Map();
  for (const c of artifact.c || []) {
    const chunk = payload.chunks[c];
    const head = chunk.h.match(/^(?:ENTRY )?(graph |function )?%?(\S+)/);
    if (chunk.i.length) out.set(artifact.k === "graph" && head?.[1] === "graph " ? "" : head ? head[2] : chunk.h, chunk.i);
  }
  return out;
}

/** Rows in the order of the right side; what is gone stands where it was. @param {Payload} payload @param {number[]} left @param {number[]} right @returns {number[][]} */
function matched(payload, left, right) {
  const at = new Map(left.map((i, k) => [payload.items[i].n, k]));
  const stays = new Set(right.map((i) => payload.items[i].n));
  const gone = left.map((i, k) => (stays.has(payload.items[i].n) ? -1 : k)).filter((k) => k >= 0);
  const rows = [];
  let next = 0;
  for (const i of right) {
    const partner = at.get(payload.items[i].n);
    if (partner !== undefined) while (next < gone.length && gone[next] < partner) rows.push([left[gone[next++]], -1]);
    rows.push([partner === undefined ? -1 : left[partner], i]);
  }
  while (next < gone.length) rows.push([left[gone[next++]], -1]);
  return rows;
}

/** @param {number[][]} rows */
function compact(rows) {
  const near = rows.map((_, k) => rows.slice(Math.max(0, k - CONTEXT), k + CONTEXT + 1).some(([a, b]) => a !== b));
  /** @type {any[]} */
  const out = [];
  rows.forEach(([a, b], k) => {
    if (near[k]) out.push(a === b ? a : [a, b]);
    else if (typeof out.at(-1) === "number" && out.at(-1) < 0) out[out.length - 1] -= 1;
    else out.push(-1);
  });
  return out;
}

/**
 * @param {Section[]} sections
 * @param {Payload} payload
 * @param {{after: Artifact | null, unified: boolean, empty: string, title: string, names: {has(name: string): boolean}, choose(unified: boolean): void}} state
 */
export function diffView(sections, payload, state) {
  const body = h("div", { class: "diff", role: "region", "aria-label": "Before and after", tabindex: 0 });
  const choice = (/** @type {string} */ label, /** @type {boolean} */ unified) => h("button", { type: "button", "aria-pressed": String(state.unified === unified), onclick: () => state.choose(unified) }, label);
  const tools = h("div", { class: "tools", role: "group", "aria-label": "Diff tools" }, h("span", { class: "muted" }, state.title), state.tally?.length ? h("span", { class: "tally" }, state.tally) : null, h("span", { class: "gap" }), h("div", { class: "sides" }, choice("side by side", false), choice("unified", true)));
  if (!sections.length) body.append(h("p", { class: "empty" }, state.empty));
  const whole = state.after ? chunksOf(payload, state.after) : new Map();
  for (const section of sections) {
    const grid = h("div", { class: state.unified ? "rows unified" : "rows" });
    let last = -1; // the item after which left out rows follow
    for (const row of section.rows) {
      if (typeof row === "number" && row < 0) grid.append(skipped(-row, last, whole.get(section.name) || [], payload, state));
      else grid.append(...diffRow(row, payload, state));
      const shown = typeof row === "number" ? row : row[1];
      if (shown >= 0) last = shown;
    }
    const open = h("details", { class: "section", open: true }, h("summary", {}, h("b", {}, section.plain ? section.name : section.name ? `%${section.name}` : "graph"), " ", count(section.rows)), state.unified ? null : h("div", { class: "heads", "aria-hidden": "true" }, h("span", {}, "before"), h("span", {}, "after")), grid);
    body.append(open);
    if (section.cut) body.append(h("p", { class: "note inline" }, `${plural(section.cut, "more row")} not shown.`));
  }
  return h("div", { class: "textpane" }, tools, body);
}

/** @param {any[]} rows */
function count(rows) {
  const pairs = rows.filter((r) => typeof r !== "number");
  const n = (/** @type {(p: number[]) => boolean} */ f) => pairs.filter(f).length;
  const [added, removed, changed] = [n(([a]) => a < 0), n(([, b]) => b < 0), n(([a, b]) => a >= 0 && b >= 0)];
  return h("span", { class: "tally" }, tallied(added, removed, changed));
}

/** Rows that are the same and left out; a click brings them. @param {number} count_ @param {number} last @param {number[]} items @param {Payload} payload @param {any} state */
function skipped(count_, last, items, payload, state) {
  const from = items.indexOf(last) + 1;
  const rows = items.slice(from, from + count_);
  const text = `⋯ ${plural(count_, "line")} the same`;
  if (rows.length !== count_) return h("div", { class: "skip" }, text);
  const row = h("button", { type: "button", class: "skip", onclick: () => row.replaceWith(...rows.flatMap((i) => diffRow(i, payload, state))) }, text);
  return row;
}

const METADATA = /, metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}/;

/** A line without the metadata that both sides share: the card has it. @param {any} item @param {any} other */
function told(item, other) {
  const text = item.t.trim();
  const mine = text.match(METADATA)?.[0];
  return mine && (!other || other.t.includes(mine)) ? text.replace(METADATA, "") : text;
}

/** @param {number | number[]} row @param {Payload} payload @param {any} state @returns {HTMLElement[]} */
function diffRow(row, payload, state) {
  const [a, b] = typeof row === "number" ? [row, row] : row;
  const [left, right] = [a >= 0 ? payload.items[a] : null, b >= 0 ? payload.items[b] : null];
  const mark = a === b ? "=" : !left ? "+" : !right ? "−" : "~";
  const kind = { "=": "same", "+": "added", "−": "removed", "~": "changed" }[mark];
  const cell = (/** @type {any} */ item, /** @type {string} */ side, /** @type {any} */ other, /** @type {string} */ sign, cls = kind) =>
    h(
      "div",
      { class: `cell ${side} ${item ? cls : "void"}`, data: item ? { op: item.n } : {} },
      h("span", { class: "mk" }, item ? sign : ""),
      h("span", { class: "tx" }, item ? (mark === "~" ? worded(told(item, other), told(other, item)) : highlighted(told(item, other), "hlo", state.names)) : ""),
    );
  const sign = mark === "=" ? "" : mark;
  if (!state.unified) return [cell(left, "old", right, sign), cell(right, "new", left, sign)];
  if (mark === "~") return [cell(left, "one", right, "−", "removed"), cell(right, "one", left, "+", "added")];
  return [cell(right || left, "one", null, sign)];
}

/** Words that the other side has not, set off. @param {string} text @param {string} other @returns {(Node | string)[]} */
function worded(text, other) {
  const known = new Map();
  const words = (/** @type {string} */ t) => tokens(t, "hlo").flatMap(([w, kind]) => (kind ? [[w, kind]] : w.split(/([\s,(){}=]+)/).map((p) => [p, ""])));
  for (const [w] of words(other)) known.set(w, (known.get(w) || 0) + 1);
  return words(text).map(([w, kind]) => {
    const left = known.get(w) || 0;
    if (left) known.set(w, left - 1);
    if (!left && w.trim()) return h("b", { class: `tk-${kind || "plain"} differs` }, w);
    return kind ? h("span", { class: `tk-${kind}` }, w) : w;
  });
}
