// Predict, then reveal: the reader marks what the next pass will take away or change, and sees what it did.

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./store.js").Trace} Trace */

/** What is said to a reader who guesses and asks for what comes next. */
export const HIDDEN_WORDS = "Reveal first: during a guess, the effects of passes are hidden. Press Predict again to end it.";

/** The next pass that changes the picture of the same kind, -1 for none. @param {Store} store @param {Trace} trace @param {number} stage */
export function nextChange(store, trace, stage) {
  for (let k = stage + 1; k < trace.stages.length; k += 1) {
    const { b, a } = trace.stages[k];
    if (store.artifact(b)?.k !== store.artifact(a)?.k) continue;
    const marks = store.marks(b, a);
    if (marks.removed.size || marks.changed.size) return k;
  }
  return -1;
}

/**
 * How good a guess was.
 * @param {Set<string>} guesses @param {import("./store.js").Marks} marks @param {Set<string>} there the ops that could be guessed
 * @returns {{right: string[], wrong: string[], missed: string[], words: string}}
 */
export function score(guesses, marks, there) {
  const truth = new Set([...marks.removed, ...marks.changed].filter((n) => there.has(n)));
  const right = [...guesses].filter((n) => truth.has(n));
  const wrong = [...guesses].filter((n) => !truth.has(n));
  const missed = [...truth].filter((n) => !guesses.has(n));
  const words = `${right.length} of ${truth.size} found, ${wrong.length} wrong${missed.length ? `, ${missed.length} missed` : ""}${!wrong.length && !missed.length ? ": all of them!" : ""}`;
  return { right, wrong, missed, words };
}

/** @type {WeakMap<Trace, {upto: number, count: number, part: Trace}>} */
const TOLD_PARTS = new WeakMap();

/** A trace as far as a reader who guesses may know it: without the stages from `upto` on, and without what only they say. @param {Trace} trace @param {number} upto -1 for all @returns {Trace} */
export function toldPart(trace, upto) {
  if (upto < 0) return trace;
  const known = TOLD_PARTS.get(trace);
  if (known?.upto === upto && known.count === trace.stages.length) return known.part;
  const stages = trace.stages.slice(0, upto);
  const counts = { stages: trace.stages.length, passes: trace.counts.passes, changed: stages.filter((s) => s.ch).length };
  const part = { ...trace, live: false, coming: undefined, runs: [], counts, stages };
  TOLD_PARTS.set(trace, { upto, count: trace.stages.length, part });
  return part;
}
