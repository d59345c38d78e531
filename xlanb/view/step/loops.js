// Loops of LLVM IR and assembly, told from their text: a branch back to a label above it.

const VECTOR = /%[zyx]mm\d+|<\d+ x (?:float|double|half|i\d+)>/;

/**
 * For each line "" or, where it lies in an innermost loop, "inner"; "hot" in the one with the most vector instructions.
 * @param {string[]} lines
 * @param {string} language "llvm" or "asm"
 * @returns {string[]}
 */
export function loopsOf(lines, language) {
  const spans = backEdges(lines, language);
  const inner = spans.filter(([a, b]) => !spans.some(([c, d]) => (c > a && d <= b) || (c >= a && d < b)));
  const weight = (/** @type {[number, number]} */ [a, b]) => lines.slice(a, b + 1).filter((t) => VECTOR.test(t)).length;
  const out = new Array(lines.length).fill("");
  let best = null;
  for (const span of inner) {
    if (weight(span) > 0 && (!best || weight(span) > weight(best))) best = span;
    out.fill("inner", span[0], span[1] + 1);
  }
  if (best) out.fill("hot", best[0], best[1] + 1);
  return out;
}

/** From the label to the branch, each once; labels count within their function. @param {string[]} lines @param {string} language @returns {[number, number][]} */
function backEdges(lines, language) {
  const label = language === "asm" ? /^(\.L[\w.$]+):/ : /^([\w.$-]+|"[^"]*"):/;
  const target = language === "asm" ? /^\s+j\w+\s+(\.L[\w.$]+)/ : /\blabel %([\w.$-]+|"[^"]*")/g;
  const begins = language === "asm" ? /^[A-Za-z_"][\w.$"]*:/ : /^define\b/;
  let labels = new Map();
  /** @type {Map<number, number>} */
  const spans = new Map();
  lines.forEach((text, k) => {
    if (begins.test(text) && (language === "asm" ? !text.startsWith(".") : true) && !(language === "llvm" && label.test(text))) labels = new Map();
    const own = text.match(label);
    if (own) labels.set(own[1], k);
    const targets = language === "asm" ? [text.match(target)].filter((m) => m) : /^\s+(?:br|switch)\b/.test(text) ? [...text.matchAll(/** @type {RegExp} */ (target))] : [];
    for (const m of targets) {
      const at = labels.get(/** @type {RegExpMatchArray} */ (m)[1]);
      if (at !== undefined) spans.set(at, k);
    }
  });
  return [...spans];
}
