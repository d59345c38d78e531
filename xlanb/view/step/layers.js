// Layered layout of the children of one box: ranks by longest path, barycentre sweeps, places by isotonic regression; long chains wrap into columns.

/**
 * @typedef {{x: number, y: number, w: number, h: number}} Box
 * @typedef {[string, string, number?]} Link an edge from one box to another, and for how many of the program it stands (1)
 * @typedef {{across: boolean, bands: number, wide: number, tight?: boolean}} Flow `across`: from left to right instead of downwards; `bands`: into how many columns the longest part wraps;
 *   `wide`: a rank that is wider than this wraps too; `tight`: with little between boxes
 * @typedef {{x: number, from: number, to: number}} Lane where an edge passes a rank: beside the flow, and where the rank begins and ends along it
 * @typedef {{boxes: Map<string, Box>, band: Map<string, number>, w: number, h: number, wraps: number, rank: Map<string, number>, lanes: Map<string, Lane>}} Placed
 *   `band`: in which column each key stands; `wraps`: how many lines more than ranks; `lanes` of each key and of each bend ("source\n rank")
 */

const BESIDE = 18; // between two in a rank
const BESIDE_ACROSS = 24; // the same where ranks go from left to right: stubs need the room
const RANK_GAP = 34;
const RANK_GAP_ACROSS = 40;
const TIGHT = [12, 21];
const TIGHT_ACROSS = [19, 26];
const BAND_GAP = 44;
const BEND = 8;
const SWEEPS = 6;
const LONGEST = 7; // edges over more ranks than this shape nothing but the order of ranks
const FEW_EDGES = 48; // the same of more edges than these: bends would take all the room
const LONGEST_OF_MANY = 3;
/** @type {Flow} */
const DOWN = { across: false, bands: 1, wide: Infinity };

/**
 * Place boxes in ranks.
 * @param {Map<string, [number, number]>} sizes width and height by key
 * @param {Link[]} edges those that close a cycle shape nothing
 * @param {Flow} [flow]
 * @param {Map<string, number>} [hints] the order that keys had before
 * @returns {Placed}
 */
export function layered(sizes, edges, flow = DOWN, hints = new Map()) {
  return laidOut(ranked([...sizes.keys()], edges, hints), sizes, flow);
}

/** Ranks and their order, which no size changes. @typedef {{rows: string[][], up: Map<string, string[]>, down: Map<string, string[]>}[]} Ranked */

/** @param {string[]} keys @param {Link[]} edges @param {Map<string, number>} [hints] @returns {Ranked} */
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
  const gaps = flow.tight ? (flow.across ? TIGHT_ACROSS : TIGHT) : flow.across ? [BESIDE_ACROSS, RANK_GAP_ACROSS] : [BESIDE, RANK_GAP];
  let wraps = 0;
  const rank = new Map(all.flatMap(({ rows }) => rows.flatMap((row, r) => row.map((k) => /** @type {[string, number]} */ ([k, r])))));
  const blocks = all.flatMap(({ rows, up, down }) => {
    const lines = rows.flatMap((row) => wrapped(row, turned, flow.wide, gaps[0]));
    if (down.size) wraps += lines.length - rows.length;
    return bandsOf(lines, turned, down, flow.bands, gaps[1]).map((band) => ({ ...places(band, up, down, turned, gaps), loose: !down.size }));
  });
  const placed = { ...packed(blocks, turned, gaps), wraps, rank };
  if (!flow.across) return placed;
  const boxes = new Map([...placed.boxes].map(([k, b]) => [k, { x: b.y, y: b.x, w: b.h, h: b.w }]));
  return { ...placed, boxes, w: placed.h, h: placed.w };
}

/**
 * The connected parts in the order of their first boxes; those of a single box together as one, the last.
 * @param {string[]} keys @param {Link[]} edges
 * @returns {{own: string[], links: Link[]}[]}
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
  /** @type {Map<string, {own: string[], links: Link[]}>} */
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
  const passing = bands > 1 ? passes(lines, down) : [];
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
      if (r <= from || off > (bands === 2 ? 0.7 : 0.5)) continue;
      const cost = off * 6 + passing[r];
      if (cost < least) [best, least] = [r, cost];
    }
    if (best < 0) continue;
    out.push(lines.slice(from, best));
    from = best;
  }
  return [...out, lines.slice(from)];
}

/** How many edges pass from the lines before each line to it and those after. @param {string[][]} lines @param {Map<string, string[]>} down @returns {number[]} */
function passes(lines, down) {
  const line = new Map(lines.flatMap((keys, r) => keys.map((k) => /** @type {[string, number]} */ ([k, r]))));
  const begun = new Array(lines.length + 1).fill(0);
  for (const [k, r] of line) {
    for (const d of down.get(k) || []) {
      const to = line.get(d) ?? -1;
      if (to <= r) continue;
      begun[r + 1] += 1;
      begun[to + 1] -= 1;
    }
  }
  let total = 0;
  return begun.map((n) => (total += n));
}

/** Edges without those that close a cycle: of boxes that feed each other those go that lead against the order in which the fewest edges do. @param {string[]} keys @param {Link[]} edges */
function acyclic(keys, edges) {
  /** @type {Map<string, {circle: string[], at: number}>} */
  const place = new Map();
  for (const circle of circles(keys, edges)) for (const [at, k] of fewestAgainst(circle, edges).entries()) place.set(k, { circle, at });
  return edges.filter(([a, b]) => {
    const [from, to] = [place.get(a), place.get(b)];
    return !from || !to || from.circle !== to.circle || from.at < to.at;
  });
}

/** The boxes that feed each other, as sets of at least two (Tarjan's strongly connected components). @param {string[]} keys @param {Link[]} edges @returns {string[][]} */
function circles(keys, edges) {
  /** @type {Map<string, string[]>} */
  const out = new Map(keys.map((k) => [k, []]));
  for (const [a, b] of edges) out.get(a)?.push(b);
  /** @type {Map<string, {index: number, low: number, open: boolean}>} */
  const seen = new Map();
  /** @type {string[]} */
  const open = [];
  /** @type {string[][]} */
  const found = [];
  for (const start of keys) {
    /** @type {{k: string, at: number, state: {index: number, low: number, open: boolean}}[]} */
    const stack = [];
    const enter = (/** @type {string} */ k) => {
      const state = { index: seen.size, low: seen.size, open: true };
      seen.set(k, state);
      open.push(k);
      stack.push({ k, at: 0, state });
    };
    if (!seen.has(start)) enter(start);
    while (stack.length) {
      const top = stack[stack.length - 1];
      const next = out.get(top.k)?.[top.at];
      top.at += 1;
      if (next !== undefined) {
        const state = seen.get(next);
        if (!state) enter(next);
        else if (state.open) top.state.low = Math.min(top.state.low, state.index);
        continue;
      }
      stack.pop();
      if (stack.length) stack[stack.length - 1].state.low = Math.min(stack[stack.length - 1].state.low, top.state.low);
      if (top.state.low < top.state.index) continue;
      const circle = open.splice(open.lastIndexOf(top.k));
      for (const k of circle) /** @type {any} */ (seen.get(k)).open = false;
      if (circle.length > 1) found.push(circle);
    }
  }
  return found;
}

/** Boxes that feed each other in an order against which few edges lead: what gives nothing to the others goes to the end, what takes nothing or gives the most beyond what it takes to the begin (Eades, Lin and Smyth). @param {string[]} circle @param {Link[]} edges @returns {string[]} */
function fewestAgainst(circle, edges) {
  const left = new Set(circle);
  /** @type {Map<string, Map<string, number>>} how many edges each box has to each other one */
  const to = new Map(circle.map((k) => [k, new Map()]));
  const from = new Map(circle.map((k) => [k, new Map()]));
  const given = new Map(circle.map((k) => [k, 0]));
  const taken = new Map(circle.map((k) => [k, 0]));
  const add = (/** @type {Map<string, number> | undefined} */ map, /** @type {string} */ k, /** @type {number} */ n) => map?.set(k, (map.get(k) || 0) + n);
  for (const [a, b, n = 1] of edges) {
    if (!left.has(a) || !left.has(b)) continue;
    add(given, a, n);
    add(taken, b, n);
    add(to.get(a), b, n);
    add(from.get(b), a, n);
  }
  const surplus = (/** @type {string} */ k) => (given.get(k) || 0) - (taken.get(k) || 0);
  const [begin, end] = [/** @type {string[]} */ ([]), /** @type {string[]} */ ([])];
  while (left.size) {
    const all = [...left];
    const sink = all.find((k) => !given.get(k));
    const chosen = sink ?? all.find((k) => !taken.get(k)) ?? all.reduce((best, k) => (surplus(k) > surplus(best) ? k : best));
    if (sink !== undefined) end.unshift(chosen);
    else begin.push(chosen);
    left.delete(chosen);
    for (const [k, n] of to.get(chosen) || []) add(taken, k, -n);
    for (const [k, n] of from.get(chosen) || []) add(given, k, -n);
  }
  return [...begin, ...end];
}

/** Longest paths; what only feeds others stands right above the first that needs it. @param {string[]} keys @param {Link[]} edges @returns {Map<string, number>} */
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
 * @param {string[]} keys @param {Link[]} edges @param {Map<string, number>} rank
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
  const longest = edges.length > FEW_EDGES ? LONGEST_OF_MANY : LONGEST;
  for (const [a, b] of edges) {
    const [from, to] = [/** @type {number} */ (rank.get(a)), /** @type {number} */ (rank.get(b))];
    if (to - from > longest) continue;
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
 * @returns {Block}
 */
function places(rows, up, down, sizes, gaps) {
  const keys = rows.flat();
  const at = new Map(keys.map((k, i) => [k, i]));
  const width = keys.map((k) => sizes.get(k)?.[0] ?? BEND);
  const weight = keys.map((k) => (sizes.has(k) ? 1 : 3)); // long edges are worth being straight
  const links = (/** @type {Map<string, string[]>} */ m) => keys.map((k) => /** @type {number[]} */ ((m.get(k) || []).map((n) => at.get(n)).filter((n) => n !== undefined)));
  const [above, below] = [links(up), links(down)];
  const x = new Float64Array(keys.length);
  let next = 0;
  const lines = rows.map((row) => {
    let left = 0;
    return row.map(() => {
      x[next] = left + width[next] / 2;
      left += width[next] + gaps[0];
      return next++;
    });
  });
  const settle = (/** @type {number[]} */ line, /** @type {number[][][]} */ nears) => {
    const wish = line.map((i) => {
      let [sum, count] = [0, 0];
      for (const near of nears) {
        for (const n of near[i]) sum += x[n];
        count += near[i].length;
      }
      return count ? sum / count : x[i];
    });
    spread(wish, line.map((i) => weight[i]), line.map((i) => width[i]), gaps[0]).forEach((p, k) => {
      x[line[k]] = p;
    });
  };
  for (let n = 0; n < 4; n += 1) {
    for (let r = 1; r < lines.length; r += 1) settle(lines[r], [above]);
    for (let r = lines.length - 2; r >= 0; r -= 1) settle(lines[r], n < 3 ? [below] : [above, below]);
  }
  const centre = new Map(keys.map((k, i) => [k, x[i]]));
  straighten(rows, up, down, centre, (k) => sizes.get(k)?.[0] ?? BEND, gaps[0]);
  return boxesOf(rows, centre, sizes, gaps[1]);
}

/**
 * Let the bends of an edge, and the boxes of a chain, stand below one another as far as what is beside them leaves room.
 * @param {string[][]} rows @param {Map<string, string[]>} up @param {Map<string, string[]>} down @param {Map<string, number>} centre @param {(key: string) => number} width @param {number} gap
 */
function straighten(rows, up, down, centre, width, gap) {
  const at = (/** @type {string} */ k) => /** @type {number} */ (centre.get(k));
  const isBend = (/** @type {string} */ k) => k.includes("\n") && width(k) === BEND;
  const apart = (/** @type {string} */ a, /** @type {string} */ b) => (width(a) + width(b)) / 2 + (isBend(a) || isBend(b) ? BEND : gap);
  /** @type {Map<string, {key: string, low: number, high: number}[]>} */
  const runs = new Map();
  for (const row of rows) {
    row.forEach((k, i) => {
      const [above] = up.get(k) || [];
      const follows = above !== undefined && isBend(k) === isBend(above) && up.get(k)?.length === 1 && (isBend(k) || down.get(above)?.length === 1);
      const here = { key: k, low: i ? at(row[i - 1]) + apart(row[i - 1], k) : -Infinity, high: i + 1 < row.length ? at(row[i + 1]) - apart(k, row[i + 1]) : Infinity };
      const run = (follows && runs.get(above)) || [];
      const [low, high] = [Math.max(here.low, ...run.map((b) => b.low)), Math.min(here.high, ...run.map((b) => b.high))];
      if (low > high) return void runs.set(k, [here]);
      run.push(here);
      runs.set(k, run);
      const x = Math.max(low, Math.min(high, mean(run.map((b) => at(b.key)), 0)));
      for (const b of run) centre.set(b.key, x);
      return undefined;
    });
  }
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

/** Boxes and lanes of some rows. @typedef {{boxes: Map<string, Box>, lanes: Map<string, Lane>}} Block */

/** @param {string[][]} rows @param {Map<string, number>} centre @param {Map<string, [number, number]>} sizes @param {number} gap @returns {Block} */
function boxesOf(rows, centre, sizes, gap) {
  const wide = (/** @type {string} */ k) => sizes.get(k)?.[0] ?? BEND;
  const left = Math.min(...rows.flat().map((k) => /** @type {number} */ (centre.get(k)) - wide(k) / 2));
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  /** @type {Map<string, Lane>} */
  const lanes = new Map();
  let y = 0;
  for (const row of rows) {
    const tall = Math.max(0, ...row.map((k) => sizes.get(k)?.[1] ?? 0));
    for (const k of row) {
      const x = /** @type {number} */ (centre.get(k)) - left;
      lanes.set(k, { x, from: y, to: y + tall });
      const size = sizes.get(k);
      if (size) boxes.set(k, { x: Math.round(x - size[0] / 2), y: Math.round(y + (tall - size[1]) / 2), w: size[0], h: size[1] });
    }
    if (tall) y += tall + gap;
  }
  return { boxes, lanes };
}

/**
 * Blocks in columns, from left to right: one below another while the column is no taller than the tallest block.
 * @param {Block[]} blocks @param {Map<string, [number, number]>} sizes @param {number[]} gaps
 */
function packed(blocks, sizes, gaps) {
  const extent = (/** @type {Block} */ b) => [Math.max(0, ...[...b.lanes].map(([k, at]) => at.x + (sizes.get(k)?.[0] ?? BEND) / 2)), Math.max(0, ...[...b.lanes.values()].map((at) => at.to))];
  const ends = blocks.map(extent);
  const tallest = Math.max(0, ...ends.map((e) => e[1]));
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  /** @type {Map<string, Lane>} */
  const lanes = new Map();
  const band = new Map();
  /** @type {{x: number, w: number, y: number}[]} */
  const columns = [{ x: 0, w: 0, y: 0 }];
  blocks.forEach((block, n) => {
    const [wide, tall] = ends[n];
    const hasRoom = (/** @type {{w: number, y: number}} */ c) => c.y + tall <= tallest + 1;
    const last = columns[columns.length - 1];
    let column = !last.y || hasRoom(last) ? last : undefined;
    if (block.loose && (!column || wide > column.w)) column = columns.find((c) => hasRoom(c) && wide <= c.w) || column; // below what is shorter
    if (!column) columns.push((column = { x: last.x + last.w + BAND_GAP, w: 0, y: 0 }));
    const { x, y } = column;
    for (const [k, b] of block.boxes) boxes.set(k, { ...b, x: b.x + x, y: b.y + y });
    for (const [k, at] of block.lanes) {
      lanes.set(k, { x: at.x + x, from: at.from + y, to: at.to + y });
      band.set(k, columns.indexOf(column));
    }
    [column.y, column.w] = [y + tall + gaps[1], Math.max(column.w, wide)];
  });
  const [end] = columns.slice(-1);
  // In the order of the keys, so that what is drawn has the same order in every arrangement.
  const ordered = new Map([...sizes.keys()].filter((k) => boxes.has(k)).map((k) => [k, /** @type {Box} */ (boxes.get(k))]));
  return { boxes: ordered, lanes, band, w: Math.ceil(Math.max(0, end.x + end.w)), h: Math.max(0, ...[...boxes.values()].map((b) => b.y + b.h)) };
}
