// A pane of program text: only the lines in sight are in the page, so that a text of any length scrolls, is searched, folded, wrapped and copied.
import { h, plural } from "./dom.js";
import { highlighted } from "./highlight.js";
import { definitionOf, definitionsOf } from "./text.js";

/** @typedef {import("./text.js").Line} Line */
/** @typedef {import("./text.js").Source} Source */

const BLOCK = 80; // lines that are built together, when they come into view
const LINE_PX = 19;
const NO_SOURCE = { lines: [], language: "hlo" };

/**
 * What a pane of text tells the view: `say` shows words in the status, `built` follows new rows in the page, `pinned` is the op that is pinned.
 * @typedef {{say(text: string): void, built?(): void, pinned?: string}} Act
 */

/** Text with its tools; what is folded stays folded from pass to pass. */
export class TextPane {
  /** @param {Act} act @param {{plain?: boolean, compact?: boolean, label?: string}} [options] plain: no tools; compact: the few that fit above a column */
  constructor(act, options = {}) {
    this.act = act;
    this.plain = Boolean(options.plain);
    /** @type {Set<string>} */
    this.folded = new Set();
    /** @type {Source} */
    this.source = NO_SOURCE;
    /** @type {Line[]} */
    this.shown = [];
    /** @type {{has(name: string): boolean}} */
    this.names = { has: () => false };
    this.note = "";
    this.found = -1;
    this.top = 0;
    this.wrapped = false;
    this.hits = { key: "", lines: /** @type {number[]} */ ([]), shown: /** @type {Line[]} */ ([]) };
    this.body = h("div", { class: "code", role: "region", "aria-label": options.label || "Program text", tabindex: 0 });
    this.box = /** @type {HTMLInputElement} */ (h("input", { class: "find", type: "search", "aria-label": options.label ? `Find in ${options.label}` : "Find in text", placeholder: options.compact ? "find" : "find  (f)", autocomplete: "off", spellcheck: "false" }));
    this.count = h("span", { class: "muted count", "aria-live": "polite" });
    this.extra = h("span", { class: "extra" });
    this.wrapButton = this._tool("Wrap long lines", "wrap", () => this.wrap(!this.wrapped));
    this.wrapButton.setAttribute("aria-pressed", "false");
    this.usersButton = this._tool("Next user of the pinned op", "users", () => this._nextUser());
    this.tools = this._toolRow(options);
    this.element = h("div", { class: "textpane" }, options.plain ? null : this.tools, this.body);
    this._listen();
  }

  /** @param {string} label @param {string} face @param {() => void} onclick */
  _tool(label, face, onclick) {
    return h("button", { type: "button", class: "tool", "aria-label": label, title: label, onclick }, face);
  }

  /** @param {{compact?: boolean}} options */
  _toolRow(options) {
    const moves = [this._tool("Previous match", "↑", () => this.find(-1)), this._tool("Next match", "↓", () => this.find(1))];
    const folds = [this._tool("Fold all computations", "fold", () => this.foldAll(true)), this._tool("Unfold all computations", "unfold", () => this.foldAll(false))];
    const rest = options.compact ? [this.wrapButton] : [...moves, ...folds, this.wrapButton, this.usersButton];
    return h("div", { class: "tools", role: "group", "aria-label": "Text tools" }, this.box, this.count, rest, h("span", { class: "gap" }), this.extra);
  }

  _listen() {
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
    this.element.addEventListener("keydown", (e) => this._shortcut(e));
    this.body.addEventListener("click", (e) => this._click(e));
    this.body.addEventListener("copy", (e) => this._copy(e));
    this.body.addEventListener("pointerdown", () => this.body.classList.remove("all"));
    this.body.addEventListener("scroll", () => {
      this.top = this.body.scrollTop;
    });
  }

  /** The keys that a reader of text expects, in this pane and not in the page around it. @param {KeyboardEvent} e */
  _shortcut(e) {
    if (!(e.ctrlKey || e.metaKey) || e.altKey) return;
    if (e.key === "f" && !this.plain) this.box.select();
    else if (e.key === "a" && e.target === this.body) {
      this.body.classList.add("all");
      getSelection()?.selectAllChildren(this.body);
    } else return;
    e.preventDefault();
    e.stopPropagation();
  }

  /** Show a text. The same text again stays as it is, where the reader has scrolled to. @param {Source} source @param {{has(name: string): boolean}} names @param {string} [note] */
  show(source, names, note = "") {
    if (source === this.source && names === this.names && note === this.note) {
      queueMicrotask(() => {
        this.body.scrollTop = this.top; // it was taken out of the page, and is back
      });
      return;
    }
    Object.assign(this, { source, names, note, found: -1 });
    this._build();
  }

  _build() {
    this.watcher?.disconnect();
    this.shown = this.folded.size ? this.source.lines.filter((l) => !this.folded.has(l.section)) : this.source.lines;
    this.body.className = `code lang-${this.source.language}${this.wrapped ? " wrapped" : ""}`;
    const parts = [];
    if (this.note) parts.push(h("p", { class: "note inline" }, this.note));
    this.watcher = new IntersectionObserver((entries) => entries.forEach((e) => this._cameOrWent(e)), { root: this.body, rootMargin: "900px 0px" });
    const longest = this.shown.reduce((most, l) => Math.max(most, l.text.length), 0);
    const list = h("div", { class: "blocks", style: { "--longest": `${Math.min(longest, 4000)}ch` } });
    for (let at = 0; at < this.shown.length; at += BLOCK) {
      const block = h("div", { class: "block", data: { at }, style: { "min-height": `${Math.min(BLOCK, this.shown.length - at) * LINE_PX}px` } });
      if (at < BLOCK) this._buildBlock(block);
      this.watcher.observe(block);
      list.append(block);
    }
    parts.push(this.shown.length ? list : h("p", { class: "empty" }, "This stage has no text."));
    this.body.replaceChildren(...parts);
    this._tell();
    this.tellUsers();
  }

  /** Rows come with the block that comes into view, and go with one that is far away and not selected. @param {IntersectionObserverEntry} entry */
  _cameOrWent(entry) {
    const block = /** @type {HTMLElement} */ (entry.target);
    if (entry.isIntersecting) {
      this._buildBlock(block);
      this.act.built?.();
    } else if (block.childElementCount && entry.boundingClientRect.height && !getSelection()?.containsNode(block, true)) {
      block.style.setProperty("min-height", `${entry.boundingClientRect.height}px`);
      block.replaceChildren();
    }
  }

  /** @param {HTMLElement} block */
  _buildBlock(block) {
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
      h("span", { class: "tx" }, highlighted(line.text, this.source.language, this.names, this._elsewhere(line)), folded ? h("i", { class: "muted" }, `  ⋯ ${plural(inside, "line")}`) : null),
    );
  }

  /** Names that another line defines. @param {Line} line */
  _elsewhere(line) {
    const map = definitionsOf(this.source);
    return { has: (/** @type {string} */ name) => map.has(name) && this.source.lines[map.get(name) ?? -1] !== line };
  }

  /** @param {MouseEvent} e */
  _click(e) {
    const target = /** @type {Element} */ (e.target);
    const row = target.closest(".line");
    const index = Number(row?.getAttribute("data-line") ?? -1);
    const line = this.shown[index];
    if (!line) return;
    const word = target.closest(".tk-jump, .tk-name")?.textContent || "";
    if (word && !target.closest(".tk-ref") && this.follow(index, word)) e.stopPropagation();
    else if (target.closest(".twist") || (line.heading && !target.closest("[data-op], .no"))) {
      this._fold(line.heading);
      e.stopPropagation();
    } else if (target.closest(".no")) {
      this.goTo(index);
      this.act.say(`line ${line.number}${line.op ? `, ${line.op}` : ""}`);
      navigator.clipboard?.writeText(`${line.number}: ${line.text.trim()}`).catch(() => this.act.say(`line ${line.number} (the browser keeps the clipboard closed)`));
    }
  }

  /** @param {string} heading */
  _fold(heading) {
    if (!this.folded.delete(heading)) this.folded.add(heading);
    const from = this.body.scrollTop;
    this._build();
    this.body.scrollTop = from;
  }

  /** Go to where a word of a line is defined. @param {number} index @param {string} word @returns {boolean} whether it is defined elsewhere in this text */
  follow(index, word) {
    const at = definitionOf(this.source, this.source.lines.indexOf(this.shown[index]), word);
    const line = this.source.lines[at];
    if (!line || line === this.shown[index]) return false;
    if (this.folded.delete(line.section)) this._build();
    this.goTo(this.shown.indexOf(line));
    this.act.say(`${word}: line ${line.number}`);
    return true;
  }

  /** All of the text where all is selected, whole lines where rows between the ends are not in the page; anything else is the browser's. @param {ClipboardEvent} e */
  _copy(e) {
    const isAll = this.body.classList.contains("all");
    const ends = isAll ? [0, this.shown.length - 1] : this._selectedRows();
    if (!ends || !e.clipboardData) return;
    const blocks = [...this.body.querySelectorAll(".block")].slice(Math.floor(ends[0] / BLOCK), Math.floor(ends[1] / BLOCK) + 1);
    if (!isAll && blocks.every((b) => b.childElementCount)) return;
    e.clipboardData.setData("text/plain", this.shown.slice(ends[0], ends[1] + 1).map((l) => l.text).join("\n"));
    e.preventDefault();
  }

  /** The first and the last line that is selected. @returns {number[] | null} */
  _selectedRows() {
    const selection = /** @type {any} */ (this.body.getRootNode()).getSelection?.() || getSelection();
    const rowOf = (/** @type {Node | null | undefined} */ node) => Number((node instanceof Element ? node : node?.parentElement)?.closest?.(".line")?.getAttribute("data-line") ?? -1);
    const ends = [rowOf(selection?.anchorNode), rowOf(selection?.focusNode)].sort((a, b) => a - b);
    return ends[0] < 0 ? null : ends;
  }

  /** @param {boolean} fold */
  foldAll(fold) {
    this.folded = new Set(fold ? this.source.lines.map((l) => l.heading).filter((t) => t) : []);
    this._build();
  }

  /** @param {boolean} on */
  wrap(on) {
    this.wrapped = on;
    this.wrapButton.setAttribute("aria-pressed", String(on));
    const at = this.body.querySelector(".block:not(:empty) .line");
    this._build();
    if (at) this.goTo(Math.max(this.found, Number(at.getAttribute("data-line"))));
  }

  /** The next line that holds what is looked for, and how many do. @param {number} direction */
  find(direction) {
    const hits = this._hits();
    if (!hits.length) return this._tell();
    const later = direction > 0 ? hits.find((k) => k > this.found) : hits.findLast((k) => k < this.found);
    this.goTo(later ?? (direction > 0 ? hits[0] : hits[hits.length - 1]), this.box.value.trim());
    return this._tell();
  }

  _hits() {
    const wanted = this.box.value.trim().toLowerCase();
    if (!wanted) return [];
    if (this.hits.key !== wanted || this.hits.shown !== this.shown) this.hits = { key: wanted, shown: this.shown, lines: this.shown.flatMap((l, k) => (l.text.toLowerCase().includes(wanted) ? [k] : [])) };
    return this.hits.lines;
  }

  _tell() {
    const hits = this._hits();
    const at = hits.indexOf(this.found);
    this.count.textContent = !this.box.value.trim() ? "" : hits.length ? `${at >= 0 ? `${at + 1} of ` : ""}${hits.length}` : "not found";
  }

  /** The lines that use an op, without its own. @param {string} name @returns {number[]} */
  usersOf(name) {
    if (!name || this.source.language !== "hlo") return [];
    const use = new RegExp(`(?:^|[\\s(,{^%])${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\w.$/-])`);
    return this.shown.flatMap((l, k) => (l.op && l.op !== name && l.text.includes(name) && use.test(l.text.replace(/, metadata=\{.*/, "")) ? [k] : []));
  }

  /** Say how many lines use the op that is pinned. */
  tellUsers() {
    if (this.plain) return;
    const users = this.usersOf(this.act.pinned || "");
    this.usersButton.hidden = !users.length;
    this.usersButton.textContent = plural(users.length, "user");
  }

  _nextUser() {
    const users = this.usersOf(this.act.pinned || "");
    const next = users.find((k) => k > this.found) ?? users[0];
    if (next !== undefined) this.goTo(next, this.act.pinned);
  }

  /** Mark a line that is shown and bring it into sight, with the words on it that were looked for. @param {number} index @param {string} [words] */
  goTo(index, words = "") {
    this.found = index;
    for (const x of this.body.querySelectorAll(".found")) x.classList.remove("found");
    const row = this._rowAt(index);
    if (!row) return;
    row.classList.add("found");
    sight(this.body, row);
    if (words) this._besideWords(row, this.shown[index].text.toLowerCase().indexOf(words.toLowerCase()), words.length);
    this.act.built?.();
  }

  /** Scroll sideways to words that are out of sight. @param {HTMLElement} row @param {number} at @param {number} length */
  _besideWords(row, at, length) {
    const text = /** @type {HTMLElement} */ (row.querySelector(".tx"));
    const ch = (text.offsetWidth - 20) / Math.max(1, text.textContent?.length || 1);
    const [left, right] = [text.offsetLeft + at * ch, text.offsetLeft + (at + length) * ch];
    if (this.wrapped || at < 0 || (left >= this.body.scrollLeft && right <= this.body.scrollLeft + this.body.clientWidth)) return;
    this.body.scrollLeft = Math.max(0, right - this.body.clientWidth * 0.8);
  }

  /** @param {number} index @returns {HTMLElement | null} */
  _rowAt(index) {
    const block = /** @type {HTMLElement | null} */ (this.body.querySelector(`.block[data-at="${Math.floor(index / BLOCK) * BLOCK}"]`));
    if (!block || index < 0) return null;
    this._buildBlock(block);
    return /** @type {HTMLElement | null} */ (block.children[index % BLOCK] || null);
  }

  /** Bring the first line about an op into sight. @param {string[]} names the op, then what stands in for it where it has no lines here @returns {boolean} whether there is one */
  reveal(...names) {
    for (const name of names) {
      if (this.source.lines.some((l) => l.op === name && this.folded.delete(l.section))) this._build();
      const row = this._rowAt(this.shown.findIndex((l) => l.op === name));
      if (!row) continue;
      sight(this.body, row);
      this.act.built?.();
      return true;
    }
    return false;
  }
}

/** Scroll a list until a row is in sight: not at all where it is, to a third of the height where it is far. @param {HTMLElement} list @param {HTMLElement} row */
function sight(list, row) {
  const [frame, box] = [list.getBoundingClientRect(), row.getBoundingClientRect()];
  if (box.top >= frame.top && box.bottom <= frame.bottom) return;
  list.scrollTop += box.top - frame.top - list.clientHeight / 3;
}
