// Program text: syntax colours, folding by computation, search, marks and loops. Long texts are built block by block as they scroll into view.
import { h, plural } from "./dom.js";
import { highlighted } from "./highlight.js";
import { loopsOf } from "./loops.js";
import { markOf } from "./shapes.js";

/** @typedef {import("./store.js").Artifact} Artifact */
/** @typedef {import("./store.js").Marks} Marks */
/** @typedef {import("./store.js").Payload} Payload */

const BLOCK = 80; // lines that are built at once, when they come into view
const LINE_PX = 19;

/**
 * @typedef {{text: string, op: string, mark: string, number: number, heading: string, section: string, loop: string}} Line
 * @typedef {{lines: Line[], language: string}} Source
 */

/**
 * Lines of an artifact.
 * @param {Artifact} artifact
 * @param {Payload} payload
 * @param {Marks} marks
 * @param {string} side
 * @returns {Source}
 */
export function linesOf(artifact, payload, marks, side) {
  /** @type {Line[]} */
  const lines = [];
  let section = "";
  const add = (/** @type {string} */ text, op = "", mark = "", heading = "", loop = "") => lines.push({ text, op, mark, number: lines.length + 1, heading, section: heading ? "" : section, loop });
  if (artifact.k === "code") {
    const language = ["asm", "plan", "ptx", "sass"].includes(artifact.lang) ? artifact.lang : "llvm";
    const runs = [...artifact.ops, [Infinity, ""]];
    const loops = loopsOf(artifact.lines, language);
    let run = 0;
    artifact.lines.forEach((/** @type {string} */ text, /** @type {number} */ k) => {
      while (runs[run + 1] && runs[run + 1][0] <= k + 1) run += 1;
      const begins = language === "llvm" && text.startsWith("define ");
      add(text, runs[run] ? runs[run][1] : "", "", begins ? text : "", loops[k] || "");
      if (begins) section = text;
      else if (language === "llvm" && text === "}") section = "";
    });
    return { lines, language };
  }
  for (const c of artifact.c || []) {
    const chunk = payload.chunks[c];
    section = "";
    add(chunk.h, "", "", chunk.i.length ? chunk.h : "");
    if (chunk.i.length) section = chunk.h;
    for (const i of chunk.i) {
      const item = payload.items[i];
      add(item.t, item.n, markOf(item.n, marks, side));
    }
    if (chunk.z) add(chunk.z);
    section = "";
    if (chunk.z || chunk.i.length) add("");
  }
  if (artifact.k === "text") for (const text of artifact.text.split("\n")) add(text);
  return { lines, language: "hlo" };
}

/** What a reader of assembly looks for: no directives but labels that are jumped to. @param {Source} source @returns {Source} */
export function withoutDirectives(source) {
  if (source.language !== "asm") return source;
  const noise = /^\s+\.(?!long|quad|asciz|zero)|^\.L(?:tmp|func|debug|info|line|abbrev)[\w.$]*:|^\s*$|^\s+#/;
  return { language: "asm", lines: source.lines.filter((l) => !noise.test(l.text)) };
}

/** The whole text, as it can be edited. @param {Source} source */
export function textOf(source) {
  return `${source.lines.map((l) => l.text).join("\n").trimEnd()}\n`;
}

/** A pane of text with its tools; what is folded stays folded from pass to pass. */
export class TextPane {
  /** @param {{say(text: string): void}} act @param {{plain?: boolean}} [options] plain: no tools */
  constructor(act, options = {}) {
    this.act = act;
    this.plain = Boolean(options.plain);
    /** @type {Set<string>} */
    this.folded = new Set();
    /** @type {Source} */
    this.source = { lines: [], language: "hlo" };
    /** @type {Line[]} */
    this.shown = [];
    /** @type {{has(name: string): boolean}} */
    this.names = { has: () => false };
    this.found = -1;
    this.body = h("div", { class: "code", role: "region", "aria-label": "Program text", tabindex: 0 });
    this.box = /** @type {HTMLInputElement} */ (h("input", { class: "find", type: "search", "aria-label": "Find in text", placeholder: "find  (f)", autocomplete: "off", spellcheck: "false" }));
    this.count = h("span", { class: "muted count" });
    this.extra = h("span", { class: "extra" });
    const tool = (/** @type {string} */ label, /** @type {string} */ face, /** @type {() => void} */ onclick) => h("button", { type: "button", class: "tool", "aria-label": label, title: label, onclick }, face);
    this.tools = h("div", { class: "tools", role: "group", "aria-label": "Text tools" }, this.box, this.count, tool("Previous match", "↑", () => this.find(-1)), tool("Next match", "↓", () => this.find(1)), tool("Fold all computations", "fold", () => this.foldAll(true)), tool("Unfold all computations", "unfold", () => this.foldAll(false)), h("span", { class: "gap" }), this.extra);
    this.element = h("div", { class: "textpane" }, options.plain ? null : this.tools, this.body);
    this.box.addEventListener("input", () => {
      this.found = -1;
      this.find(1);
    });
    this.box.addEventListener("keydown", (e) => {
      e.stopPropagation();
      if (e.key === "Enter") this.find(e.shiftKey ? -1 : 1);
      if (e.key === "Escape") this.body.focus({ preventScroll: true });
      if (e.key === "Enter" || e.key === "Escape") e.preventDefault();
    });
    this.body.addEventListener("click", (e) => this._click(e));
  }

  /** @param {Source} source @param {{has(name: string): boolean}} names @param {string} [note] */
  show(source, names, note = "") {
    this.source = source;
    this.names = names;
    this.note = note;
    this._build();
  }

  _build() {
    this.watcher?.disconnect();
    this.shown = this.source.lines.filter((l) => !this.folded.has(l.section));
    this.body.className = `code lang-${this.source.language}`;
    const parts = [];
    if (this.note) parts.push(h("p", { class: "note inline" }, this.note));
    this.watcher = new IntersectionObserver((entries) => entries.forEach((e) => e.isIntersecting && this._buildBlock(/** @type {HTMLElement} */ (e.target))), { root: this.body, rootMargin: "600px 0px" });
    for (let at = 0; at < this.shown.length; at += BLOCK) {
      const count = Math.min(BLOCK, this.shown.length - at);
      const block = h("div", { class: "block", data: { at }, style: { "min-height": `${count * LINE_PX}px` } });
      if (at < (this.plain ? BLOCK : 2 * BLOCK)) this._buildBlock(block);
      else this.watcher.observe(block);
      parts.push(block);
    }
    if (!this.shown.length) parts.push(h("p", { class: "empty" }, "There is no text at this stage."));
    this.body.replaceChildren(...parts);
    if (this.box.value) this._tell();
    else this.count.textContent = "";
  }

  /** @param {HTMLElement} block */
  _buildBlock(block) {
    this.watcher?.unobserve(block);
    if (block.childElementCount) return;
    const at = Number(block.getAttribute("data-at"));
    block.style.removeProperty("min-height");
    block.replaceChildren(...this.shown.slice(at, at + BLOCK).map((line, k) => this._row(line, at + k)));
  }

  /** @param {Line} line @param {number} index */
  _row(line, index) {
    const marked = { "+": " added", "−": " removed", "~": " changed" }[line.mark] || "";
    const folded = line.heading && this.folded.has(line.heading);
    const inside = folded ? this.source.lines.filter((l) => l.section === line.heading).length - 1 : 0;
    const fold = line.heading ? h("span", { class: "twist", "aria-hidden": "true" }, folded ? "▸" : "▾") : null;
    const loop = line.loop ? { title: line.loop === "hot" ? "the hottest innermost loop, by its vector instructions" : "an innermost loop" } : {};
    return h(
      "div",
      { class: `line${marked}${line.heading ? " heading" : ""}${line.loop ? ` loop ${line.loop}` : ""}${index === this.found ? " found" : ""}`, data: { ...(line.op ? { op: line.op } : {}), line: index }, ...loop },
      h("span", { class: "no" }, String(line.number)),
      h("span", { class: "mk" }, line.mark || fold || (line.loop === "hot" ? "▌" : line.loop ? "│" : "")),
      h("span", { class: "tx" }, highlighted(line.text, this.source.language, this.names), folded ? h("i", { class: "muted" }, `  ⋯ ${plural(inside, "line")}`) : null),
    );
  }

  /** @param {Event} e */
  _click(e) {
    const target = /** @type {Element} */ (e.target);
    const row = target.closest(".line");
    const line = row && this.shown[Number(row.getAttribute("data-line"))];
    if (!line) return;
    if (target.closest(".twist") || (line.heading && !target.closest("[data-op], .no"))) {
      if (!this.folded.delete(line.heading)) this.folded.add(line.heading);
      const from = this.body.scrollTop;
      this._build();
      this.body.scrollTop = from;
      e.stopPropagation();
    } else if (target.closest(".no")) {
      this.goTo(Number(row?.getAttribute("data-line")));
      this.act.say(`line ${line.number}${line.op ? `, ${line.op}` : ""}`);
      navigator.clipboard?.writeText(`${line.number}: ${line.text.trim()}`).catch(() => this.act.say(`line ${line.number} (the browser keeps the clipboard closed)`));
    }
  }

  /** @param {boolean} fold */
  foldAll(fold) {
    this.folded = new Set(fold ? this.source.lines.map((l) => l.heading).filter((t) => t) : []);
    this._build();
  }

  /** The next line that holds what is looked for, and how many do. @param {number} direction */
  find(direction) {
    const hits = this._hits();
    if (!hits.length) return this._tell();
    const later = direction > 0 ? hits.find((k) => k > this.found) : hits.findLast((k) => k < this.found);
    this.goTo(later ?? (direction > 0 ? hits[0] : hits[hits.length - 1]));
    return this._tell();
  }

  _hits() {
    const wanted = this.box.value.trim().toLowerCase();
    if (!wanted) return [];
    return this.shown.flatMap((l, k) => (l.text.toLowerCase().includes(wanted) ? [k] : []));
  }

  _tell() {
    const hits = this._hits();
    const at = hits.indexOf(this.found);
    this.count.textContent = !this.box.value.trim() ? "" : hits.length ? `${at >= 0 ? `${at + 1} of ` : ""}${hits.length}` : "not found";
  }

  /** Mark a line that is shown and bring it into sight. @param {number} index */
  goTo(index) {
    this.found = index;
    for (const x of this.body.querySelectorAll(".found")) x.classList.remove("found");
    const block = /** @type {HTMLElement | null} */ (this.body.querySelector(`.block[data-at="${Math.floor(index / BLOCK) * BLOCK}"]`));
    if (!block) return;
    this._buildBlock(block);
    const row = block.children[index % BLOCK];
    row?.classList.add("found");
    row?.scrollIntoView({ block: "nearest" });
  }

  /** Bring the first line about an op into sight. @param {string} name */
  reveal(name) {
    const index = this.shown.findIndex((l) => l.op === name);
    const block = index < 0 ? null : /** @type {HTMLElement | null} */ (this.body.querySelector(`.block[data-at="${Math.floor(index / BLOCK) * BLOCK}"]`));
    if (!block) return;
    this._buildBlock(block);
    block.children[index % BLOCK]?.scrollIntoView({ block: "nearest" });
  }
}

/** HLO, LLVM IR and assembly beside one another: the same op is lit in all. */
export class CodePanes {
  /** @param {{say(text: string): void}} act */
  constructor(act) {
    this.act = act;
    /** @type {TextPane[]} */
    this.panes = [];
    this.element = h("div", { class: "columns" });
  }

  /** @param {{title: string, source: Source, names: {has(name: string): boolean}, note?: string}[]} columns */
  show(columns) {
    while (this.panes.length < columns.length) this.panes.push(new TextPane(this.act, { plain: true }));
    this.element.replaceChildren(
      ...columns.map((c, k) => {
        this.panes[k].show(c.source, c.names, c.note);
        this.panes[k].body.setAttribute("aria-label", c.title);
        return h("section", { class: "column" }, h("h4", {}, c.title), this.panes[k].element);
      }),
    );
  }

  /** @param {string} name */
  reveal(name) {
    for (const p of this.panes) p.reveal(name);
  }
}
