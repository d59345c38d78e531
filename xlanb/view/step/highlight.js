// Tokens of HLO, TensorFlow nodes, LLVM IR, plans of kernels, assembly, PTX and SASS, for colour and for links between ops.
import { h } from "./dom.js";

const HLO = /("(?:[^"\\]|\\.)*")|(\/\*.*?\*\/)|(%[\w.$-]+)|\b((?:pred|token|opaque|bf16|[sufc]\d+\w*)\[[^\]]*\](?:\{[^{}]*\})?)|(\b-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)|(\b[A-Za-z_][\w-]*(?=\())|([A-Za-z_]\w*(?==))|([A-Za-z_][\w.$/-]*)/g;
const HLO_KINDS = ["str", "com", "name", "type", "num", "op", "key", "word"];
const LLVM = /(;.*$)|("(?:[^"\\]|\\.)*")|(@[\w.$"-]+|%[\w.$"-]+)|(![\w.]*)|(<\d+ x [\w ]+>|\b(?:i\d+|float|double|half|ptr|void|label)\b\*?)|(-?\b\d[\w.+]*\b)|(\b(?:define|declare|ret|br|phi|load|store|fadd|fmul|fsub|fdiv|add|sub|mul|call|getelementptr|icmp|fcmp|select|switch|alloca|shl|[al]shr|and|or|xor|bitcast|insertelement|extractelement|shufflevector|tail|inbounds|fast|nsw|nuw|align|to|eq|ne|ult|slt|uge|sge)\b)/g;
const LLVM_KINDS = ["com", "str", "name", "meta", "type", "num", "op"];
const ASM = /([#;].*$)|("(?:[^"\\]|\\.)*")|(^\s*\.[\w.]+)|(^[\w.$"]+:)|(%[\w()]+)|([$#-]?\b(?:0x[\da-f]+|\d+)\b)|(^\s+[a-z][\w.]*)/g;
const ASM_KINDS = ["com", "str", "meta", "name", "reg", "num", "op"];

const PLAN = /(^\S.*:$)|(^\s+[a-z_]+(?=:)|\bfor\b)|(\b\d[\d.e+]*(?: (?:ns|us|ms|s|bytes|cycles)\b)?)|(^\s+not\b)/g;
const PLAN_KINDS = ["name", "op", "num", "com"];

const PTX = /(\/\/.*$)|("(?:[^"\\]|\\.)*")|(^\s*\.[\w.]+|\.(?:visible|entry|param|ptr|align|[usfb]\d+|pred)\b)|(^[\w.$"]+:|\$\w+)|(%[\w.]+)|(-?\b(?:0[fdx][\dA-Fa-f]+|\d+)\b)|(^\s*(?:@!?%\w+\s+)?[a-z][\w.:]*)/g;
const SASS = /(\/\/.*$)|("(?:[^"\\]|\\.)*")|(^\s*\.[\w.]+(?!:))|(^\S+:$|`\([^)]*\))|(\b(?:U?R\d+|U?P\d+|RZ|URZ|PT|UPT|SR_[\w.]+|c\[0x[\da-f]+\]\[[^\]]*\])(?:\.\w+)*)|(-?\b0x[\da-f]+\b|^\s*[\da-f]{4,}(?=\s))|(\b[A-Z][A-Z\d]+(?:\.\w+)*)/g;

const LANGUAGES = /** @type {Record<string, [RegExp, string[]]>} */ ({ hlo: [HLO, HLO_KINDS], llvm: [LLVM, LLVM_KINDS], asm: [ASM, ASM_KINDS], plan: [PLAN, PLAN_KINDS], ptx: [PTX, ASM_KINDS], sass: [SASS, ASM_KINDS] });

/**
 * The pieces of one line: [text, kind], kind "" for what has no colour.
 * @param {string} line
 * @param {string} language
 * @returns {[string, string][]}
 */
export function tokens(line, language) {
  const [pattern, kinds] = LANGUAGES[language] || LANGUAGES.hlo;
  /** @type {[string, string][]} */
  const out = [];
  let at = 0;
  if (line.length > 4000) return [[line, ""]];
  const quiet = language === "hlo" ? line.indexOf(", metadata={") : -1; // the card tells it; here it only stands in the way
  for (const match of line.matchAll(pattern)) {
    const index = match.index ?? 0;
    if (quiet >= 0 && index > quiet) break;
    if (index > at) out.push([line.slice(at, index), ""]);
    const kind = kinds[match.slice(1).findIndex((g) => g !== undefined)] || "";
    out.push([match[0], kind === "word" ? "" : kind]);
    at = index + match[0].length;
  }
  if (quiet >= 0) {
    const from = Math.max(at, quiet); // a string may hold the word too
    out.push([line.slice(at, from), ""], [line.slice(from), "quiet"]);
  } else if (at < line.length) {
    out.push([line.slice(at), ""]);
  }
  return out.filter(([text]) => text);
}

const NOTHING_DEFINED = { has: () => false };

/**
 * One line as spans; words that are names of ops carry data-op, so that they light up and can be pinned; words that the text defines elsewhere lead there.
 * @param {string} line
 * @param {string} language
 * @param {{has(name: string): boolean}} names
 * @param {{has(name: string): boolean}} [defined]
 * @returns {(Node | string)[]}
 */
export function highlighted(line, language, names, defined = NOTHING_DEFINED) {
  /** @type {(Node | string)[]} */
  const out = [];
  const isHlo = language === "hlo";
  for (const [text, kind] of tokens(line, language)) {
    const bare = text.replace(/^[%^]/, "");
    if (kind === "name" && defined.has(text) && !(isHlo && names.has(bare))) {
      out.push(h("span", { class: "tk-name tk-jump" }, text));
      continue;
    }
    if (kind === "" && !isHlo && /[A-Za-z]/.test(text)) {
      out.push(...jumps(text, defined));
      continue;
    }
    if (language === "hlo" && (kind === "name" || kind === "" || kind === "op") && names.has(bare)) out.push(h("span", { class: "tk-ref", data: { op: bare } }, text));
    else if (language === "hlo" && kind === "" && /[,\s()]/.test(text)) out.push(...references(text, names));
    else if (kind) out.push(h("span", { class: `tk-${kind}` }, text));
    else out.push(text);
  }
  return out;
}

/** A text in which the names of ops can be pointed at and pinned. @param {string} text @param {{has(name: string): boolean}} names @returns {(Node | string)[]} */
export function references(text, names) {
  return text
    .split(/([^\s,():]+)/)
    .filter((p) => p)
    .map((p) => (names.has(p.replace(/^\^/, "")) ? h("span", { class: "tk-ref", data: { op: p.replace(/^\^/, "") } }, p) : p));
}

/** Names in operands that the text defines, as of functions that assembly calls. @param {string} text @param {{has(name: string): boolean}} defined @returns {(Node | string)[]} */
function jumps(text, defined) {
  return text
    .split(/([A-Za-z_.$][\w.$]*)/)
    .filter((p) => p)
    .map((p) => (defined.has(p.replace(/^\$/, "")) || defined.has(p) ? h("span", { class: "tk-jump" }, p) : p));
}
