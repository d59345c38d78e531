// Neighbours as one box, where the pane is too small for the boxes that a program is made of.

/** @typedef {import("./outline.js").Outline} Outline */
/** @typedef {import("./outline.js").OutlineGroup} OutlineGroup */
/** @typedef {Map<string, string>} Bundles the key of the bundle that each outermost box lies in, by the key of the box */

const CUT_SLACK = 0.4; // how far a cut may lie from where it would make parts of one size
const ALONE = /^@(?:forward|backward|initializers)$/; // boxes that say what they are: they stay
const BUNDLE_LETTERS = 22; // letters of a label
const FAMILIAR = 0.5; // of the boxes that must be known for a program to be cut as the one before
/** @type {WeakMap<Outline, WeakMap<Bundles, Outline>>} */
const BUNDLED = new WeakMap();

/** The outermost boxes of an outline in an order in which each comes after what it reads, and which others read each. @param {Outline} outline @returns {{order: string[], users: Map<string, Set<string>>, at: string[]}} `at`: the box that each op lies in, "" for none */
function outermost(outline) {
  const { items, roles, groups } = outline;
  const place = new Map(items.map((i, k) => [i.n, k]));
  const top = groups.map((_, g) => g);
  groups.forEach((x, g) => x.parent >= 0 && (top[g] = top[x.parent]));
  const at = items.map((i, k) => (outline.member[k] >= 0 ? `@${groups[top[outline.member[k]]].key}` : roles[k] === "." ? i.n : ""));
  /** @type {Map<string, Set<string>>} */
  const users = new Map([...at.filter((key, k) => key && roles[k] === "."), ...groups.flatMap((g, k) => (g.hidden ? [`@${groups[top[k]].key}`] : []))].map((key) => [key, new Set()]));
  /** @type {Set<string>[]} the boxes that what is drawn as an edge comes from */
  const through = [];
  const link = (/** @type {string} */ a, /** @type {string} */ b) => a !== b && users.has(b) && users.get(a)?.add(b);
  items.forEach((i, k) => {
    const from = new Set((i.p || []).flatMap((p) => [...(through[place.get(p) ?? -1] || [])]));
    for (const a of from) if (roles[k] === ".") link(a, at[k]);
    through[k] = roles[k] === "." ? new Set([at[k]]) : roles[k] === "q" ? new Set() : from;
  });
  for (const [a, b] of outline.across) link(a < -1 ? at[-2 - a] : `@${groups[top[a]]?.key}`, b < -1 ? at[-2 - b] : `@${groups[top[b]]?.key}`);
  const waiting = new Map([...users.keys()].map((key) => [key, 0]));
  for (const to of users.values()) for (const key of to) waiting.set(key, (waiting.get(key) || 0) + 1);
  /** @type {string[]} */
  const order = [];
  while (waiting.size) {
    const [key] = [...waiting].find(([, count]) => !count) || [...waiting][0]; // in a circle the first of the program
    waiting.delete(key);
    order.push(key);
    for (const user of users.get(key) || []) if (waiting.has(user)) waiting.set(user, (waiting.get(user) || 0) - 1);
  }
  return { order, users, at };
}

/** How many outermost boxes there are. @param {Outline} outline */
export function boxCount(outline) {
  return outermost(outline).order.length;
}

/**
 * Neighbours in so many bundles of about one size, cut where the least flows on.
 * @param {Outline} outline @param {number} count @returns {Bundles}
 */
export function bundlesOf(outline, count) {
  const { order, users } = outermost(outline);
  const place = new Map(order.map((key, k) => [key, k]));
  const last = order.map((key, k) => Math.max(k, ...[...(users.get(key) || [])].map((u) => place.get(u) ?? k)));
  const alive = order.map((_, cut) => last.filter((end, k) => k < cut && end >= cut).length);
  const size = order.length / count;
  const cuts = [0];
  for (let n = 1; n < count; n += 1) {
    const ideal = n * size;
    let best = -1;
    for (let cut = Math.max(cuts[cuts.length - 1] + 1, Math.ceil(ideal - CUT_SLACK * size)); cut <= Math.min(order.length - 1, ideal + CUT_SLACK * size); cut += 1) {
      if (best < 0 || alive[cut] < alive[best] || (alive[cut] === alive[best] && Math.abs(cut - ideal) < Math.abs(best - ideal))) best = cut;
    }
    if (best > 0) cuts.push(best);
  }
  /** @type {Bundles} */
  const out = new Map();
  let first = 0;
  order.forEach((key, k) => {
    if (cuts.includes(k) || ALONE.test(order[k - 1])) first = k;
    if (!ALONE.test(key)) out.set(key, order[first]);
    else first = k + 1;
  });
  return out;
}

/** The bundles of the stage before for this one: what is new lies with what comes before it; null where most is new. @param {Outline} outline @param {Bundles} known @returns {Bundles | null} */
export function bundlesAgain(outline, known) {
  const { order } = outermost(outline);
  const free = order.filter((key) => !ALONE.test(key));
  const same = free.filter((key) => known.has(key)).length;
  if (same < FAMILIAR * free.length) return null;
  if (same === free.length) return known;
  let last = known.get(free.find((key) => known.has(key)) || "") || "";
  return new Map(free.map((key) => [key, (last = known.get(key) || last)]));
}

/** An outline with its outermost boxes in bundles. @param {Outline} outline @param {Bundles} bundles @returns {Outline} */
export function bundled(outline, bundles) {
  let made = BUNDLED.get(outline)?.get(bundles);
  if (made) return made;
  const { order, at } = outermost(outline);
  /** @type {Map<string, string[]>} */
  const inside = new Map();
  for (const key of order) {
    const bundle = bundles.get(key);
    if (bundle !== undefined) inside.set(bundle, [...(inside.get(bundle) || []), key]);
  }
  const groups = outline.groups.map((g) => ({ ...g }));
  const member = [...outline.member];
  for (const [bundle, keys] of inside) {
    if (keys.length < 2) continue;
    const own = new Set(keys);
    const number = groups.length;
    const children = outline.groups.flatMap((g, k) => (g.parent < 0 && own.has(`@${g.key}`) ? [k] : []));
    const ops = member.flatMap((g, k) => (g < 0 && own.has(at[k]) ? [k] : []));
    groups.push({ key: `~${bundle}`, label: bundleLabel(outline, keys, children, ops), kind: "flow", parent: -1, children, ops, hidden: null, stack: 1 });
    for (const g of children) groups[g].parent = number;
    for (const k of ops) member[k] = number;
  }
  made = { ...outline, groups, member };
  if (!BUNDLED.has(outline)) BUNDLED.set(outline, new WeakMap());
  BUNDLED.get(outline)?.set(bundles, made);
  return made;
}

/** What a bundle is called: scopes from the first to the last, else what it does, what does most of the work first. @param {Outline} outline @param {string[]} keys @param {number[]} children @param {number[]} ops */
function bundleLabel(outline, keys, children, ops) {
  const names = new Map(children.filter((g) => outline.groups[g].kind !== "flow").map((g) => [`@${outline.groups[g].key}`, outline.groups[g].label]));
  const scopes = keys.flatMap((key) => names.get(key) || []);
  if (scopes.length > 1 && scopes.length >= keys.length / 2) return `${scopes[0]} … ${scopes[scopes.length - 1]}`;
  /** @type {Map<string, number>} */
  const count = new Map(scopes.map((name) => [name, 1]));
  const inside = [...ops];
  const todo = children.filter((g) => outline.groups[g].kind === "flow");
  for (const g of todo) {
    inside.push(...outline.groups[g].ops);
    todo.push(...outline.groups[g].children);
  }
  const isHeavy = (/** @type {number} */ k) => /matrix|fusion/.test(outline.items[k].f);
  for (const k of [...inside.filter(isHeavy), ...inside.filter((k) => !isHeavy(k))]) if (outline.roles[k] === ".") count.set(outline.items[k].o, (count.get(outline.items[k].o) || 0) + 1);
  let text = "";
  for (const [word, n] of count) {
    const more = `${text}${text ? ", " : ""}${n > 1 ? `${n} ` : ""}${word}`;
    if (text && more.length > BUNDLE_LETTERS) break;
    text = more;
  }
  return text;
}
