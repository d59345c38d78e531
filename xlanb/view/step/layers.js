// Layered layout in the browser, for what the reader folds, unfolds or focuses on: ranks by longest path, barycentre sweeps, and places by isotonic regression.

/**
 * @typedef {{x: number, y: number, w: number, h: number}} Box
 * @typedef {{boxes: Map<string, Box>, bends: Map<string, number[][]>, w: number, h: number}} Placed
 */

const GAP_X = 18;
const GAP_Y = 34;
const SWEEPS = 6;

/**
 * Place nodes in layers; `hints` gives the x that a node had before, so that it stays where it was as far as may be.
 * @param {Map<string, [number, number]>} sizes width and height by key
 * @param {[string, string][]} edges those that close a cycle are drawn, but shape nothing
 * @param {Map<string, number>} [hints]
 * @returns {Placed} `bends` by source: the points that all its long edges share, the topmost first
 */
export function layered(sizes, edges, hints = new Map()) {
  const keys = [...sizes.keys()];
  const forward = acyclic(keys, edges.filter(([a, b]) => a !== b && sizes.has(a) && sizes.has(b)));
  const rank = ranks(keys, forward);
  const { rows, up, down } = rowsOf(keys, forward, rank);
  order(rows, up, down, hints);
  return places(rows, up, down, sizes);
}

/** Edges without those that close a cycle, by a depth-first walk. @param {string[]} keys @param {[string, string][]} edges */
function acyclic(keys, edges) {
  /** @type {Map<string, string[]>} */
  const out = new Map(keys.map((k) => [k, []]));
  for (const [a, b] of edges) /** @type {string[]} */ (out.get(a)).push(b);
  const state = new Map();
  /** @type {[string, string][]} */
  const kept = [];
  for (const start of keys) {
    if (state.has(start)) continue;
    /** @type {[string, number][]} */
    const stack = [[start, 0]];
    state.set(start, 1);
    while (stack.length) {
      const top = stack[stack.length - 1];
      const next = /** @type {string[]} */ (out.get(top[0]))[top[1]];
      top[1] += 1;
      if (next === undefined) {
        state.set(top[0], 2);
        stack.pop();
      } else if (state.get(next) !== 1) {
        kept.push([top[0], next]);
        if (!state.has(next)) {
          state.set(next, 1);
          stack.push([next, 0]);
        }
      }
    }
  }
  return kept;
}

/** Longest paths; what only feeds others stands right above the first that needs it. @param {string[]} keys @param {[string, string][]} edges @returns {Map<string, number>} */
function ranks(keys, edges) {
  const waiting = new Map(keys.map((k) => [k, 0]));
  /** @type {Map<string, string[]>} */
  const out = new Map(keys.map((k) => [k, []]));
  for (const [a, b] of edges) {
    /** @type {string[]} */ (out.get(a)).push(b);
    waiting.set(b, (waiting.get(b) || 0) + 1);
  }
  const fed = new Set(edges.map((e) => e[1]));
  const rank = new Map(keys.map((k) => [k, 0]));
  const ready = keys.filter((k) => !waiting.get(k));
  for (let at = 0; at < ready.length; at += 1) {
    const a = ready[at];
    for (const b of /** @type {string[]} */ (out.get(a))) {
      rank.set(b, Math.max(/** @type {number} */ (rank.get(b)), /** @type {number} */ (rank.get(a)) + 1));
      const left = /** @type {number} */ (waiting.get(b)) - 1;
      waiting.set(b, left);
      if (!left) ready.push(b);
    }
  }
  for (const k of keys) {
    const users = /** @type {string[]} */ (out.get(k));
    if (!fed.has(k) && users.length) rank.set(k, Math.min(...users.map((u) => /** @type {number} */ (rank.get(u)))) - 1);
  }
  const least = Math.min(...rank.values(), 0);
  return least < 0 ? new Map([...rank].map(([k, r]) => [k, r - least])) : rank;
}

/**
 * Rows of keys, long edges cut by bends that all edges of one source share ("source\n rank").
 * @param {string[]} keys @param {[string, string][]} edges @param {Map<string, number>} rank
 */
function rowsOf(keys, edges, rank) {
  /** @type {string[][]} */
  const rows = Array.from({ length: Math.max(...rank.values(), -1) + 1 }, () => []);
  for (const k of keys) rows[/** @type {number} */ (rank.get(k))].push(k);
  /** @type {Map<string, string[]>} */
  const up = new Map();
  /** @type {Map<string, string[]>} */
  const down = new Map();
  const link = (/** @type {string} */ a, /** @type {string} */ b) => {
    if (!down.has(a)) down.set(a, []);
    if (!up.has(b)) up.set(b, []);
    /** @type {string[]} */ (down.get(a)).push(b);
    /** @type {string[]} */ (up.get(b)).push(a);
  };
  const bends = new Set();
  for (const [a, b] of edges) {
    let last = a;
    for (let r = /** @type {number} */ (rank.get(a)) + 1; r < /** @type {number} */ (rank.get(b)); r += 1) {
      const bend = `${a}\n${r}`;
      if (!bends.has(bend)) {
        bends.add(bend);
        rows[r].push(bend);
        link(last, bend);
      }
      last = bend;
    }
    link(last, b);
  }
  return { rows, up, down };
}

/** Order each row by the mean of its neighbours. @param {string[][]} rows @param {Map<string, string[]>} up @param {Map<string, string[]>} down @param {Map<string, number>} hints */
function order(rows, up, down, hints) {
  const at = new Map();
  const number = (/** @type {string[]} */ row) => row.forEach((k, i) => at.set(k, i));
  const hintOf = (/** @type {string} */ k) => hints.get(k) ?? hints.get(k.split("\n")[0]);
  for (const row of rows) {
    if (hints.size && row.every((k) => hintOf(k) !== undefined)) row.sort((a, b) => /** @type {number} */ (hintOf(a)) - /** @type {number} */ (hintOf(b)));
    number(row);
  }
  const sweep = (/** @type {string[]} */ row, /** @type {Map<string, string[]>} */ near) => {
    const wish = new Map(row.map((k, i) => [k, mean((near.get(k) || []).map((n) => at.get(n)), i)]));
    row.sort((a, b) => /** @type {number} */ (wish.get(a)) - /** @type {number} */ (wish.get(b)));
    number(row);
  };
  for (let n = 0; n < SWEEPS; n += 1) {
    for (let r = 1; r < rows.length; r += 1) sweep(rows[r], up);
    for (let r = rows.length - 2; r >= 0; r -= 1) sweep(rows[r], down);
  }
}

/** @param {number[]} values @param {number} otherwise */
function mean(values, otherwise) {
  return values.length ? values.reduce((t, v) => t + v, 0) / values.length : otherwise;
}

/** @param {string[][]} rows @param {Map<string, string[]>} up @param {Map<string, string[]>} down @param {Map<string, [number, number]>} sizes @returns {Placed} */
function places(rows, up, down, sizes) {
  const width = (/** @type {string} */ k) => sizes.get(k)?.[0] ?? 8;
  /** @type {Map<string, number>} */
  const centre = new Map();
  for (const row of rows) {
    let x = 0;
    for (const k of row) {
      centre.set(k, x + width(k) / 2);
      x += width(k) + GAP_X;
    }
  }
  const settle = (/** @type {string[]} */ row, /** @type {Map<string, string[]>[]} */ nears) => {
    const wish = row.map((k) => mean(nears.flatMap((near) => near.get(k) || []).map((n) => /** @type {number} */ (centre.get(n))), /** @type {number} */ (centre.get(k))));
    const weight = row.map((k) => (sizes.has(k) ? 1 : 4)); // long edges are worth being straight
    spread(wish, weight, row.map(width)).forEach((x, i) => centre.set(row[i], x));
  };
  for (let n = 0; n < 4; n += 1) {
    for (let r = 1; r < rows.length; r += 1) settle(rows[r], [up]);
    for (let r = rows.length - 2; r >= 0; r -= 1) settle(rows[r], n < 3 ? [down] : [up, down]);
  }
  return boxesOf(rows, centre, sizes);
}

/**
 * Positions next to the wishes that keep order and distance: the nearest in the sense of least squares (pool adjacent violators).
 * @param {number[]} wish @param {number[]} weight @param {number[]} widths
 * @returns {number[]}
 */
export function spread(wish, weight, widths) {
  const offset = [0];
  for (let i = 1; i < wish.length; i += 1) offset.push(offset[i - 1] + (widths[i - 1] + widths[i]) / 2 + GAP_X);
  /** @type {{sum: number, weight: number, count: number}[]} */
  const blocks = [];
  for (let i = 0; i < wish.length; i += 1) {
    let block = { sum: (wish[i] - offset[i]) * weight[i], weight: weight[i], count: 1 };
    while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].weight > block.sum / block.weight) {
      const last = /** @type {{sum: number, weight: number, count: number}} */ (blocks.pop());
      block = { sum: last.sum + block.sum, weight: last.weight + block.weight, count: last.count + block.count };
    }
    blocks.push(block);
  }
  const out = [];
  for (const b of blocks) for (let n = 0; n < b.count; n += 1) out.push(b.sum / b.weight + offset[out.length]);
  return out;
}

/** @param {string[][]} rows @param {Map<string, number>} centre @param {Map<string, [number, number]>} sizes @returns {Placed} */
function boxesOf(rows, centre, sizes) {
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  /** @type {Map<string, number[][]>} */
  const bends = new Map();
  let left = Infinity;
  let right = 0;
  for (const [k, x] of centre) {
    left = Math.min(left, x - (sizes.get(k)?.[0] ?? 8) / 2);
    right = Math.max(right, x + (sizes.get(k)?.[0] ?? 8) / 2);
  }
  let y = 0;
  for (const row of rows) {
    const tall = Math.max(...row.map((k) => sizes.get(k)?.[1] ?? 0), 0);
    for (const k of row) {
      const x = /** @type {number} */ (centre.get(k)) - left;
      const size = sizes.get(k);
      if (size) boxes.set(k, { x: x - size[0] / 2, y: y + (tall - size[1]) / 2, w: size[0], h: size[1] });
      else {
        const source = k.split("\n")[0];
        if (!bends.has(source)) bends.set(source, []);
        /** @type {number[][]} */ (bends.get(source)).push([x, y + tall / 2]);
      }
    }
    y += tall + GAP_Y;
  }
  return { boxes, bends, w: rows.length ? right - left : 0, h: Math.max(0, y - GAP_Y) };
}
