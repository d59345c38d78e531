// The lines of a program's text: which op each comes from, what changed, where sections begin, and where a name is defined.
import { loopsOf } from "./loops.js";
import { markOf } from "./shapes.js";

/** @typedef {import("./store.js").Artifact} Artifact */
/** @typedef {import("./store.js").Marks} Marks */
/** @typedef {import("./store.js").Payload} Payload */

/**
 * @typedef {{text: string, op: string, mark: string, number: number, heading: string, section: string, loop: string}} Line
 * @typedef {{lines: Line[], language: string}} Source
 */

/** Lines that depend on nothing but the artifact, made once. @type {WeakMap<Artifact, Source>} */
const SOURCES = new WeakMap();

/**
 * Lines of an artifact.
 * @param {Artifact} artifact
 * @param {Payload} payload
 * @param {Marks} marks
 * @param {string} side
 * @returns {Source}
 */
export function linesOf(artifact, payload, marks, side) {
  const isPlain = !marks.added.size && !marks.removed.size && !marks.changed.size;
  if (!isPlain && artifact.k !== "code") return readLines(artifact, payload, marks, side);
  const known = SOURCES.get(artifact) || readLines(artifact, payload, marks, side);
  SOURCES.set(artifact, known);
  return known;
}

/** @param {Artifact} artifact @param {Payload} payload @param {Marks} marks @param {string} side @returns {Source} */
function readLines(artifact, payload, marks, side) {
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

/** @type {WeakMap<Source, Source>} */
const QUIET_SOURCES = new WeakMap();

/** What a reader of assembly looks for: no directives but labels that are jumped to. @param {Source} source @returns {Source} */
export function withoutDirectives(source) {
  if (source.language !== "asm") return source;
  const known = QUIET_SOURCES.get(source);
  if (known) return known;
  const noise = /^\s+\.(?!long|quad|asciz|zero)|^\.L(?:tmp|func|debug|info|line|abbrev)[\w.$]*:|^\s*$|^\s+#/;
  const quiet = { language: "asm", lines: source.lines.filter((l) => !noise.test(l.text)) };
  QUIET_SOURCES.set(source, quiet);
  return quiet;
}

/** The whole text, as it can be edited. @param {Source} source */
export function textOf(source) {
  return `${source.lines.map((l) => l.text).join("\n").trimEnd()}\n`;
}

/** @type {WeakMap<Source, Map<string, number>>} */
const DEFINITIONS = new WeakMap();
const DEFINES = /** @type {Record<string, RegExp>} */ ({
  llvm: /^define\b[^@]*(@(?:"[^"]*"|[\w.$-]+))|^(@(?:"[^"]*"|[\w.$-]+)) =/,
  asm: /^("[^"]*"|[A-Za-z_.$][\w.$]*):/,
  ptx: /^\s*(?:\.\w+\s+)*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)|^(\$\w+):/,
  sass: /^\s*(\.[\w.$]+):/,
  plan: /^(\S.*):$/,
  hlo: /^(?:ENTRY )?(%[\w.-]+)(?= \()/,
});

/** By name, the index of the line that defines it: functions, labels, computations. @param {Source} source @returns {Map<string, number>} */
export function definitionsOf(source) {
  let found = DEFINITIONS.get(source);
  if (found) return found;
  const pattern = DEFINES[source.language];
  /** @type {Map<string, number>} */
  const map = new Map();
  source.lines.forEach((l, k) => {
    const m = pattern && (l.text[0] !== " " || source.language !== "hlo") ? l.text.match(pattern) : null;
    const name = m && (m[1] || m[2]);
    if (name && !map.has(name)) map.set(name, k);
  });
  DEFINITIONS.set(source, map);
  return map;
}

/**
 * The line that defines what a word on another line names, -1 for none. Registers and labels of LLVM IR count within their function.
 * @param {Source} source @param {number} from the index of the line with the word @param {string} word
 */
export function definitionOf(source, from, word) {
  const map = definitionsOf(source);
  const at = map.get(word) ?? map.get(word.replace(/^\$/, "")) ?? map.get(`%${word}`);
  if (at !== undefined) return at;
  if (source.language !== "llvm" || !word.startsWith("%")) return -1;
  const section = source.lines[from]?.section;
  const [assigned, label] = [`  ${word} =`, `${word.slice(1)}:`];
  for (let k = from; k >= 0 && source.lines[k].section === section; k -= 1) if (source.lines[k].text.startsWith(assigned) || source.lines[k].text.startsWith(label)) return k;
  for (let k = from; k < source.lines.length && source.lines[k].section === section; k += 1) if (source.lines[k].text.startsWith(label)) return k;
  return -1;
}
