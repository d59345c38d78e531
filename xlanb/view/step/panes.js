// The panes of text: the IR, the diff, and why a pass did what it did.
import { h, plural } from "./dom.js";
import { highlighted, tokens } from "./highlight.js";

/** @typedef {import("./store.js").Artifact} Artifact */
/** @typedef {import("./store.js").Marks} Marks */
/** @typedef {import("./store.js").Payload} Payload */
/** @typedef {import("./store.js").Stage} Stage */

const BLOCK = 80; // lines that are built at once, when they come into view

/**
 * @typedef {{text: string, op: string, mark: string, number: number, heading?: boolean}} Line
 */

/**
 * Lines of an artifact.
 * @param {Artifact} artifact
 * @param {Payload} payload
 * @param {Marks} marks
 * @param {string} side
 * @returns {{lines: Line[], language: string}}
 */
export function linesOf(artifact, payload, marks, side) {
  /** @type {Line[]} */
  const lines = [];
  const add = (/** @type {string} */ text, op = "", mark = "", heading = false) => lines.push({ text, op, mark, number: lines.length + 1, heading });
  if (artifact.k === "code") {
    const runs = [...artifact.ops, [Infinity, ""]];
    let run = 0;
    artifact.lines.forEach((/** @type {string} */ text, /** @type {number} */ k) => {
      while (runs[run + 1] && runs[run + 1][0] <= k + 1) run += 1;
      add(text, runs[run] ? runs[run][1] : "");
    });
    return { lines, language: artifact.lang === "asm" ? "asm" : "llvm" };
  }
  for (const c of artifact.c || []) {
    const chunk = payload.chunks[c];
    add(chunk.h, "", "", true);
    for (const i of chunk.i) {
      const item = payload.items[i];
      const mark = side === "before" ? (marks.removed.has(item.n) ? "−" : marks.changed.has(item.n) ? "~" : "") : marks.added.has(item.n) ? "+" : marks.changed.has(item.n) ? "~" : "";
      add(item.t, item.n, mark);
    }
    if (chunk.z) add(chunk.z);
    if (chunk.z || chunk.i.length) add("");
  }
  if (artifact.k === "text") for (const text of artifact.text.split("\n")) add(text);
  return { lines, language: "hlo" };
}

/**
 * A long text, built block by block as it scrolls into view.
 * @param {{lines: Line[], language: string}} source
 * @param {{has(name: string): boolean}} names
 * @param {string} [note]
 */
export function codeView(source, names, note) {
  const body = h("div", { class: `code lang-${source.language}`, role: "region", "aria-label": "Program text", tabindex: 0 });
  if (note) body.append(h("p", { class: "note inline" }, note));
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const e of entries) {
        if (!e.isIntersecting) continue;
        watcher.unobserve(e.target);
        buildBlock(/** @type {HTMLElement} */ (e.target), source, names);
      }
    },
    { root: body, rootMargin: "600px 0px" },
  );
  for (let at = 0; at < source.lines.length; at += BLOCK) {
    const count = Math.min(BLOCK, source.lines.length - at);
    const block = h("div", { class: "block", data: { at }, style: { "min-height": `${count * 19}px` } });
    if (at < BLOCK * 2) buildBlock(block, source, names);
    else watcher.observe(block);
    body.append(block);
  }
  if (!source.lines.length) body.append(h("p", { class: "empty" }, "There is no text at this stage."));
  return body;
}

/** @param {HTMLElement} block @param {{lines: Line[], language: string}} source @param {{has(name: string): boolean}} names */
function buildBlock(block, source, names) {
  const at = Number(block.getAttribute("data-at"));
  const rows = source.lines.slice(at, at + BLOCK).map((line) => {
    const marked = line.mark === "+" ? " added" : line.mark === "−" ? " removed" : line.mark === "~" ? " changed" : "";
    return h(
      "div",
      { class: `line${marked}${line.heading ? " heading" : ""}`, data: line.op ? { op: line.op } : {} },
      h("span", { class: "no" }, String(line.number)),
      h("span", { class: "mk" }, line.mark),
      h("span", { class: "tx" }, highlighted(line.text, source.language, names)),
    );
  });
  block.style.removeProperty("min-height");
  block.replaceChildren(...rows);
}

/**
 * Before and after, side by side, by structure.
 * @param {Stage} stage
 * @param {Payload} payload
 */
export function diffView(stage, payload) {
  const body = h("div", { class: "diff", role: "region", "aria-label": "Before and after", tabindex: 0 });
  if (!stage.diff || !stage.diff.length) {
    body.append(h("p", { class: "empty" }, stage.ch ? "Before and after are of different kinds; see Text." : "This pass changed nothing."));
    return body;
  }
  const all = { has: () => false };
  for (const section of stage.diff) {
    const grid = h("div", { class: "rows" });
    for (const row of section.rows) grid.append(...diffRow(row, payload, all));
    const title = section.name ? `%${section.name}` : "graph";
    body.append(h("h4", {}, title), h("div", { class: "heads", "aria-hidden": "true" }, h("span", {}, "before"), h("span", {}, "after")), grid);
    if (section.cut) body.append(h("p", { class: "note inline" }, `${plural(section.cut, "more row")} not shown.`));
  }
  return body;
}

const METADATA = /, metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}/;

/** A line without the metadata that both sides share: the card has it. @param {any} item @param {any} other */
function told(item, other) {
  const text = item.t.trim();
  const mine = text.match(METADATA)?.[0];
  return mine && (!other || other.t.includes(mine)) ? text.replace(METADATA, "") : text;
}

/** @param {number | number[]} row @param {Payload} payload @param {{has(name: string): boolean}} names @returns {HTMLElement[]} */
function diffRow(row, payload, names) {
  if (typeof row === "number" && row < 0) return [h("div", { class: "skip" }, `⋯ ${plural(-row, "line")} the same`)];
  const [a, b] = typeof row === "number" ? [row, row] : row;
  const [left, right] = [a >= 0 ? payload.items[a] : null, b >= 0 ? payload.items[b] : null];
  const mark = a === b ? "=" : !left ? "+" : !right ? "−" : "~";
  const kind = { "=": "same", "+": "added", "−": "removed", "~": "changed" }[mark];
  const cell = (/** @type {any} */ item, /** @type {string} */ side, /** @type {any} */ other) =>
    h(
      "div",
      { class: `cell ${side} ${item ? kind : "void"}`, data: item ? { op: item.n } : {} },
      h("span", { class: "mk" }, item ? (mark === "=" ? "" : mark) : ""),
      h("span", { class: "tx" }, item ? (mark === "~" ? worded(told(item, other), told(other, item)) : highlighted(told(item, other), "hlo", names)) : ""),
    );
  return [cell(left, "old", right), cell(right, "new", left)];
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

/**
 * Why: rewrites one by one, and decisions with what each condition was.
 * @param {Stage} stage
 * @param {{rewrite: number, pinned: string, choose(k: number): void}} state
 */
export function whyView(stage, state) {
  const body = h("div", { class: "why", role: "region", "aria-label": "Why", tabindex: 0 });
  const why = stage.why;
  if (stage.e) body.append(h("pre", { class: "error" }, stage.e));
  if (!why) {
    body.append(h("p", { class: "empty" }, stage.ch ? "This stage recorded no single rewrites or decisions." : "Nothing was rewritten or decided here."));
    return body;
  }
  const about = (/** @type {string[]} */ names) => !state.pinned || names.includes(state.pinned);
  if (why.decisions.length) {
    const rows = why.decisions.filter((/** @type {any} */ d) => about(d.subject));
    const yes = why.decisions.filter((/** @type {any} */ d) => d.taken).length;
    body.append(heading("Decisions", `${yes} taken, ${why.decisions.length - yes} not${only(rows, why.decisions, state.pinned)}`));
    body.append(h("ul", { class: "decisions" }, (rows.length ? rows : why.decisions).map(decision)));
    if (why.more_decisions) body.append(h("p", { class: "note inline" }, `${plural(why.more_decisions, "more decision")} not shown.`));
  }
  if (why.rewrites.length) {
    body.append(heading("Rewrites", `${why.rewrites.length + (why.more_rewrites || 0)}, step through them with ← →`));
    why.rewrites.forEach((/** @type {any} */ r, /** @type {number} */ k) => body.append(rewrite(r, k, state)));
    if (why.more_rewrites) body.append(h("p", { class: "note inline" }, `${plural(why.more_rewrites, "more rewrite")} not shown.`));
  }
  return body;
}

/** @param {any[]} rows @param {any[]} all @param {string} pinned */
function only(rows, all, pinned) {
  return pinned && rows.length && rows.length < all.length ? `; shown: those about ${pinned}` : "";
}

/** @param {string} title @param {string} rest */
function heading(title, rest) {
  return h("h4", {}, title, h("small", {}, rest));
}

/** @param {any} d */
function decision(d) {
  const names = d.subject.flatMap((/** @type {string} */ n, /** @type {number} */ k) => [k ? h("span", { class: "to" }, " → ") : "", h("span", { class: "tk-ref", data: { op: n } }, n)]);
  return h(
    "li",
    { class: d.taken ? "yes" : "no" },
    h("div", { class: "verdict" }, h("b", { class: "tick" }, d.taken ? "✓" : "✗"), h("span", { class: "action" }, d.action), " ", names),
    predicates(d.predicates),
    d.where ? h("div", { class: "where" }, d.rule ? `${d.rule} · ` : "", d.where) : null,
  );
}

/** What failed stands first; what held is folded where it is much. @param {[string, number, string][]} all */
function predicates(all) {
  const chip = (/** @type {[string, number, string]} */ [name, holds, value]) => h("span", { class: `predicate ${holds ? "holds" : "fails"}` }, `${holds ? "✓" : "✗"} ${name}`, value ? h("i", {}, value) : null);
  const failed = all.filter((p) => !p[1]);
  const held = all.filter((p) => p[1]);
  if (all.length <= 3) return h("div", { class: "predicates" }, all.map(chip));
  return h("div", { class: "predicates" }, failed.map(chip), held.length ? h("details", {}, h("summary", {}, `✓ ${plural(held.length, "condition")} ${held.length === 1 ? "holds" : "hold"}`), h("div", { class: "held" }, held.map(chip))) : null);
}

/** @param {any} r @param {number} k @param {{rewrite: number, choose(k: number): void}} state */
function rewrite(r, k, state) {
  const line = (/** @type {string} */ mark, /** @type {string} */ kind, /** @type {string} */ text, /** @type {string} */ op) =>
    h("div", { class: `line ${kind}`, data: op ? { op } : {} }, h("span", { class: "mk" }, mark), h("span", { class: "tx" }, highlighted(text, "hlo", { has: () => false })));
  const lines = r.edits.flatMap((/** @type {any} */ e) => {
    if (e.kind === "add") return [line("+", "added", e.new, e.b)];
    if (e.kind === "remove") return [line("−", "removed", e.old, e.a)];
    if (e.kind === "replace") return [h("div", { class: "line uses" }, h("span", { class: "mk" }, "⇒"), h("span", { class: "tx" }, "uses of ", ref(e.a), " are now ", ref(e.b)))];
    return [e.old ? line("~", "removed", e.old, e.a) : null, e.new ? line("~", "changed", e.new, e.b) : null].filter((x) => x);
  });
  return h(
    "section",
    { class: `rewrite${state.rewrite === k ? " current" : ""}`, data: { rewrite: k }, onclick: () => state.choose(k) },
    h("header", { role: "presentation" }, h("span", { class: "n" }, String(k + 1)), h("b", {}, r.rule || r.pass || "edit"), r.where ? h("span", { class: "where" }, r.where) : null),
    h("div", { class: "code", tabindex: 0, role: "group", "aria-label": `Rewrite ${k + 1}` }, lines),
    r.more ? h("p", { class: "note inline" }, `${plural(r.more, "more edit")}.`) : null,
  );
}

/** @param {string} name */
function ref(name) {
  return h("span", { class: "tk-ref", data: { op: name } }, name || "?");
}
