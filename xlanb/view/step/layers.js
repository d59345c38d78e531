// Layered layout of the children of one box: ranks by longest path, barycentre sweeps, places by isotonic regression; long chains wrap into columns.

/**
 * @typedef {{x: number, y: number, w: number, h: number}} Box
 * @typedef {{across: boolean, bands: number, wide: number}} Flow `across`: from left to right instead of downwards; `bands`: into how many columns the longest part wraps;
 *   `wide`: a rank that is wider than this wraps too
 * @typedef {{boxes: Map<string, Box>, band: Map<string, number>, w: number, h: number, wraps: number}} Placed `band`: in which column each key stands; `wraps`: how many lines more than ranks
 */

const BESIDE = 18; // between two in a rank
const BESIDE_ACROSS = 24; // the same where ranks go from left to right: stubs need the room
const RANK_GAP = 34;
const RANK_GAP_ACROSS = 40;
const BAND_GAP = 44;
const BEND = 8;
const SWEEPS = 6;
const LONGEST = 3; // edges over more ranks than this shape nothing but the order of ranks
/** @type {Flow} */
const DOWN = { across: false, bands: 1, wide: Infinity };

/**
 * Place boxes in ranks.
 * @param {Map<string, [number, number]>} sizes width and height by key
 * @param {[string, string][]} edges those that close a cycle shape nothing
 * @param {Flow} [flow]
 * @param {Map<string, number>} [hints] the order that keys had before
 * @returns {Placed}
 */
export function layered(sizes, edges, flow = DOWN, hints = new Map()) {
  return laidOut(ranked([...sizes.keys()], edges, hints), sizes, flow);
}

/** Ranks and their order, which no size changes. @typedef {{rows: string[][], up: Map<string, string[]>, down: Map<string, string[]>}[]} Ranked */

/** @param {string[]} keys @param {[string, string][]} edges @param {Map<string, number>} [hints] @returns {Ranked} */
export function ranked(keys, edges, hints = new Map()) {
  const known = new Set(keys);
  const forward = acyclic(keys, edges.filter(([a, b]) => a !== b && known.has(a) && known.has(b)));
  return parts(keys, forward).map(({ own, links }) => {
    const { rows, up, down } = rowsOf(own, links, ranks(own, links));
    order(rows, up, down, hints);
    return { rows, up, down };
  });
}

/** @param {Ranked} all @param {Map<string, [number, number]>} sizes @param {Flow} flow @returns {Placed} */
export function laidOut(all, sizes, flow) {
  const turned = flow.across ? new Map([...sizes].map(([k, [w, h]]) => /** @type {[string, [number, number]]} */ ([k, [h, w]]))) : sizes;
  const gaps = flow.across ? [BESIDE_ACROSS, RANK_GAP_ACROSS] : [BESIDE, RANK_GAP];
  let wraps = 0;
  const blocks = all.flatMap(({ rows, up, down }) => {
    const lines = rows.flatMap((row) => wrapped(row, turned, flow.wide, gaps[0]));
    if (down.size) wraps += lines.length - rows.length;
    return bandsOf(lines, turned, down, flow.bands, gaps[1]).map((band) => places(band, up, down, turned, gaps));
  });
  const placed = { ...packed(blocks, turned, gaps), wraps };
  if (!flow.across) return placed;
  const boxes = new Map([...placed.boxes].map(([k, b]) => [k, { x: b.y, y: b.x, w: b.h, h: b.w }]));
  return { ...placed, boxes, w: placed.h, h: placed.w };
}

/**
 * The connected parts in the order of their first boxes; those of a single box together as one, the last.
 * @param {string[]} keys @param {[string, string][]} edges
 * @returns {{own: string[], links: [string, string][]}[]}
 */
function parts(keys, edges) {
  const lead = new Map(keys.map((k) => [k, k]));
  const find = (/** @type {string} */ k) => {
    let at = k;
    while (lead.get(at) !== at) at = /** @type {string} */ (lead.get(at));
    lead.set(k, at);
    return at;
  };
  for (const [a, b] of edges) lead.set(find(a), find(b));
  /** @type {Map<string, {own: string[], links: [string, string][]}>} */
  const out = new Map();
  const linked = new Set(edges.flat());
  const part = (/** @type {string} */ k) => (linked.has(k) ? find(k) : "");
  for (const k of keys) {
    if (!out.has(part(k))) out.set(part(k), { own: [], links: [] });
    out.get(part(k))?.own.push(k);
  }
  for (const edge of edges) out.get(part(edge[0]))?.links.push(edge);
  return [...out.values()].sort((a, b) => Number(!a.links.length) - Number(!b.links.length));
}

/** A rank in lines no wider than may be. @param {string[]} row @param {Map<string, [number, number]>} sizes @param {number} wide @param {number} gap @returns {string[][]} */
function wrapped(row, sizes, wide, gap) {
  const width = (/** @type {string} */ k) => (sizes.get(k)?.[0] ?? BEND) + gap;
  const total = row.reduce((t, k) => t + width(k), -gap);
  const count = Math.ceil(total / wide);
  if (!(count > 1)) return [row];
  /** @type {string[][]} */
  const lines = [[]];
  let used = 0;
  for (const k of row) {
    const line = lines[lines.length - 1];
    if (line.length && used + width(k) - gap > Math.min(wide, (total / count) * 1.15)) {
      lines.push([k]);
      used = width(k);
    } else {
      line.push(k);
      used += width(k);
    }
  }
  return lines;
}

/**
 * Lines in so many bands of about one height, cut where the fewest edges pass.
 * @param {string[][]} lines @param {Map<string, [number, number]>} sizes @param {Map<string, string[]>} down @param {number} bands @param {number} gap
 */
function bandsOf(lines, sizes, down, bands, gap) {
  const tall = lines.map((line) => Math.max(0, ...line.map((k) => sizes.get(k)?.[1] ?? 0)) + gap);
  const total = tall.reduce((t, h) => t + h, 0);
  const after = new Map(lines.flatMap((line, r) => line.map((k) => /** @type {[string, number]} */ ([k, r]))));
  const passing = (/** @type {number} */ r) => lines.slice(0, r).flat().reduce((t, k) => t + (down.get(k) || []).filter((d) => (after.get(d) ?? -1) >= r).length, 0);
  const out = [];
  let from = 0;
  for (let n = 1; n < Math.min(bands, lines.length); n += 1) {
    const ideal = (total * n) / bands;
    let best = -1;
    let least = Infinity;
    let height = 0;
    for (let r = 1; r < lines.length; r += 1) {
      height += tall[r - 1];
      const off = Math.abs(height - ideal) / (total / bands);
      if (r <= from || off > 0.5) continue;
      const cost = off * 6 + passing(r);
      if (cost < least) [best, least] = [r, cost];
    }
    if (best < 0) continue;
    out.push(lines.slice(from, best));
    from = best;
  }
  return [...out, lines.slice(from)];
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
 * Rows of keys, edges over some ranks cut by bends that all edges of one source share ("source\n rank").
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
    const [from, to] = [/** @type {number} */ (rank.get(a)), /** @type {number} */ (rank.get(b))];
    if (to - from > LONGEST) continue;
    let last = a;
    for (let r = from + 1; r < to; r += 1) {
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

/** Order each row by the mean of its neighbours; what stood there before keeps its order. @param {string[][]} rows @param {Map<string, string[]>} up @param {Map<string, string[]>} down @param {Map<string, number>} hints */
function order(rows, up, down, hints) {
  const at = new Map();
  const number = (/** @type {string[]} */ row) => row.forEach((k, i) => at.set(k, i));
  rows.forEach(number);
  const sweep = (/** @type {string[]} */ row, /** @type {Map<string, string[]>} */ near) => {
    const wish = new Map(row.map((k, i) => [k, mean((near.get(k) || []).map((n) => at.get(n)), i)]));
    row.sort((a, b) => /** @type {number} */ (wish.get(a)) - /** @type {number} */ (wish.get(b)));
    number(row);
  };
  for (let n = 0; n < SWEEPS; n += 1) {
    for (let r = 1; r < rows.length; r += 1) sweep(rows[r], up);
    for (let r = rows.length - 2; r >= 0; r -= 1) sweep(rows[r], down);
  }
  if (!hints.size) return;
  for (const row of rows) {
    // Those that were there take the places that they hold together, in the order that they had.
    const known = row.filter((k) => hints.has(k)).sort((a, b) => /** @type {number} */ (hints.get(a)) - /** @type {number} */ (hints.get(b)));
    let next = 0;
    row.forEach((k, i) => {
      if (hints.has(k)) row[i] = known[next++];
    });
  }
}

/** @param {number[]} values @param {number} otherwise */
function mean(values, otherwise) {
  return values.length ? values.reduce((t, v) => t + v, 0) / values.length : otherwise;
}

/**
 * Where the boxes of some rows stand.
 * @param {string[][]} rows @param {Map<string, string[]>} up @param {Map<string, string[]>} down @param {Map<string, [number, number]>} sizes @param {number[]} gaps
 * @returns {Map<string, Box>}
 */
function places(rows, up, down, sizes, gaps) {
  const width = (/** @type {string} */ k) => sizes.get(k)?.[0] ?? BEND;
  /** @type {Map<string, number>} */
  const centre = new Map();
  for (const row of rows) {
    let x = 0;
    for (const k of row) {
      centre.set(k, x + width(k) / 2);
      x += width(k) + gaps[0];
    }
  }
  const settle = (/** @type {string[]} */ row, /** @type {Map<string, string[]>[]} */ nears) => {
    const near = (/** @type {string} */ k) => nears.flatMap((m) => m.get(k) || []).filter((n) => centre.has(n));
    const wish = row.map((k) => mean(near(k).map((n) => /** @type {number} */ (centre.get(n))), /** @type {number} */ (centre.get(k))));
    const weight = row.map((k) => (sizes.has(k) ? 1 : 3)); // long edges are worth being straight
    spread(wish, weight, row.map(width), gaps[0]).forEach((x, i) => centre.set(row[i], x));
  };
  for (let n = 0; n < 4; n += 1) {
    for (let r = 1; r < rows.length; r += 1) settle(rows[r], [up]);
    for (let r = rows.length - 2; r >= 0; r -= 1) settle(rows[r], n < 3 ? [down] : [up, down]);
  }
  return boxesOf(rows, centre, sizes, gaps[1]);
}

/**
 * Positions next to the wishes that keep order and distance: the nearest in the sense of least squares (pool adjacent violators).
 * @param {number[]} wish @param {number[]} weight @param {number[]} widths @param {number} [gap] between two
 * @returns {number[]}
 */
export function spread(wish, weight, widths, gap = BESIDE) {
  const offset = [0];
  for (let i = 1; i < wish.length; i += 1) offset.push(offset[i - 1] + (widths[i - 1] + widths[i]) / 2 + gap);
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

/** @param {string[][]} rows @param {Map<string, number>} centre @param {Map<string, [number, number]>} sizes @param {number} gap @returns {Map<string, Box>} */
function boxesOf(rows, centre, sizes, gap) {
  const real = rows.map((row) => row.filter((k) => sizes.has(k)));
  const left = Math.min(...real.flat().map((k) => /** @type {number} */ (centre.get(k)) - /** @type {number[]} */ (sizes.get(k))[0] / 2));
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  let y = 0;
  for (const row of real) {
    const tall = Math.max(0, ...row.map((k) => /** @type {number[]} */ (sizes.get(k))[1]));
    for (const k of row) {
      const [w, h] = /** @type {[number, number]} */ (sizes.get(k));
      boxes.set(k, { x: Math.round(/** @type {number} */ (centre.get(k)) - w / 2 - left), y: Math.round(y + (tall - h) / 2), w, h });
    }
    if (tall) y += tall + gap;
  }
  return boxes;
}

/**
 * Blocks in columns, from left to right: one below another while the column is no taller than the tallest block.
 * @param {Map<string, Box>[]} blocks @param {Map<string, [number, number]>} sizes @param {number[]} gaps
 */
function packed(blocks, sizes, gaps) {
  const extent = (/** @type {Map<string, Box>} */ b) => [Math.max(0, ...[...b.values()].map((o) => o.x + o.w)), Math.max(0, ...[...b.values()].map((o) => o.y + o.h))];
  const ends = blocks.map(extent);
  const tallest = Math.max(0, ...ends.map((e) => e[1]));
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  const band = new Map();
  let [x, y, w, column] = [0, 0, 0, 0];
  blocks.forEach((block, n) => {
    if (y && y + ends[n][1] > tallest + 1) [x, y, w, column] = [x + w + BAND_GAP, 0, 0, column + 1];
    for (const k of sizes.keys()) {
      const b = block.get(k);
      if (!b) continue;
      boxes.set(k, { ...b, x: b.x + x, y: b.y + y });
      band.set(k, column);
    }
    [y, w] = [y + ends[n][1] + gaps[1], Math.max(w, ends[n][0])];
  });
  const all = [...boxes.values()];
  return { boxes, band, w: Math.max(0, ...all.map((b) => b.x + b.w)), h: Math.max(0, ...all.map((b) => b.y + b.h)) };
}
