// Stubs: the ends of edges that are too long to be drawn, with the name of the other end where there is place for it.
import { s } from "./dom.js";
import { shortened, textWidth } from "./measure.js";
import { argumentOf, isGroup } from "./store.js";

/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./layers.js").Box} Box */
/** @typedef {{key: string, side: string, ends: string[]}} StubEnd */

const TALL = 15;
const LETTERS = 16;
const FEW_LETTERS = 6;
const SMALLER = 11 / 11.5; // its font is smaller than that of a node

/** What a box is called: an argument by the user's name for it, a group by its title, an op by its own. @param {{item: Item | null, fold: string, count?: number, label?: string}} n */
export function labelOf(n) {
  if (n.label !== undefined || !n.item) return n.label || "";
  return n.fold || isGroup(n.item) || (n.count || 1) > 1 ? n.item.h[0] : argumentOf(n.item) || n.item.n;
}

/** The boxes around a box, the innermost first. @param {string} key @param {Map<string, any>} nodes @returns {string[]} */
function boxesAround(key, nodes) {
  const out = [];
  for (let at = nodes.get(key); at; at = nodes.get(out[out.length - 1])) {
    const up = at.group || at.parent;
    if (!up) break;
    out.push(up);
  }
  return out;
}

/**
 * What the other ends of a stub are called: by their names, where several boxes bear one by that of the outermost group around too.
 * @param {{key: string, ends: string[]}} stub @param {Map<string, any>} nodes nodes and open groups by key @returns {string[]}
 */
export function namesOfEnds(stub, nodes) {
  const own = boxesAround(stub.key, nodes);
  return stub.ends.map((key) => {
    const n = nodes.get(key);
    if (!n) return key;
    const name = labelOf(n);
    const isOnly = [...nodes.values()].every((other) => other === n || labelOf(other) !== name);
    const group = isOnly ? undefined : boxesAround(key, nodes).findLast((k) => !own.includes(k) && k !== stub.key);
    return group === undefined ? name : `${labelOf(nodes.get(group))}/${name}`;
  });
}

/**
 * Where stubs stand and what they say: the name where it lies on nothing, else shorter, else how many there are.
 * @param {StubEnd[]} stubs @param {Map<string, any>} nodes by key @param {Box[]} boxes what they may not lie on
 * @returns {import("./scene.js").Stub[]}
 */
export function placedStubs(stubs, nodes, boxes) {
  /** @type {Box[]} */
  const taken = [...boxes];
  const right = Math.max(0, ...[...nodes.values()].map((n) => n.x + n.w)) + 12;
  return stubs.map((stub) => {
    const n = nodes.get(stub.key);
    const isOut = stub.side === "out";
    const arrow = isOut ? "→" : "←";
    const [name] = namesOfEnds(stub, nodes);
    const more = stub.ends.length > 1 ? ` +${stub.ends.length - 1}` : "";
    const back = n.stack > 1 ? 7 : 0;
    const widthOf = (/** @type {string} */ text) => textWidth(text, "below") * SMALLER + 12;
    const [first, last] = [n.x - 6, n.x + n.w - back + 6];
    const beyond = isOut ? n.y + n.h + 1 : n.y - TALL - 1;
    /** @type {(text: string) => Box[]} at the end of the side where edges of its direction meet the box, at its other end, beside the box */
    const places = (text) => {
      const w = widthOf(text);
      const ends = [first, last - w];
      const beside = [n.x - w - 2, n.x + n.w + 2];
      const room = n.h - back - TALL;
      const levels = (isOut ? [1, 0.5, 0] : [0, 0.5, 1]).map((part) => n.y + part * room);
      if (isOut) for (const sides of [ends, beside]) sides.reverse();
      return [...ends.map((x) => ({ x, y: beyond, w, h: TALL })), ...levels.flatMap((y) => beside.map((x) => ({ x, y, w, h: TALL })))];
    };
    const isFree = (/** @type {Box} */ p) => p.x > -12 && p.x + p.w < right && taken.every((b) => b === n || p.x >= b.x + b.w || b.x >= p.x + p.w || p.y >= b.y + b.h || b.y >= p.y + p.h);
    const cut = (/** @type {number} */ room) => `${arrow} ${shortened(name, room, "below")}${more}`;
    const half = Math.max(40, n.w / 2 - 18 - 7 * more.length);
    const count = `${arrow}${stub.ends.length > 1 ? stub.ends.length : ""}`;
    const least = { x: isOut ? last - widthOf(count) : first, y: isOut ? beyond - 9 - back : beyond + 9, w: widthOf(count), h: TALL };
    /** @type {[string, Box][]} */
    const tried = [...[cut(LETTERS * 7), cut(half), cut(FEW_LETTERS * 7)].flatMap((text) => places(text).map((p) => /** @type {[string, Box]} */ ([text, p]))), [count, least], ...[0.3, 0.5, 0.7].map((part) => /** @type {[string, Box]} */ ([count, { ...least, x: n.x + part * (n.w - least.w) }]))];
    const [text, found] = tried.find(([, p]) => isFree(p)) || [count, least];
    taken.push(found);
    return { ...stub, side: isOut ? "out" : "in", text, ...found };
  });
}

/** @param {import("./scene.js").Stub} stub @param {string} own name of the box that it is at @param {string[]} names of the other ends */
export function drawStub(stub, own, names) {
  const said = stub.side === "out" ? `${own}: goes to ${names.join(", ")}` : `${own}: comes from ${names.join(", ")}`;
  return s(
    "g",
    { class: `stub ${stub.side}`, role: "treeitem", tabindex: 0, "aria-label": said, transform: `translate(${stub.x.toFixed(1)},${stub.y.toFixed(1)})`, data: { at: stub.key, side: stub.side } },
    names.length > 1 ? "" : s("title", {}, said),
    s("rect", { width: stub.w, height: stub.h, rx: stub.h / 2 }),
    s("text", { x: stub.w / 2, y: 11.2 }, stub.text),
  );
}
