// Stubs: the ends of edges that are too long to be drawn, with the name of the other end where there is place for it.
import { s } from "./dom.js";
import { shortened, textWidth } from "./measure.js";
import { argumentOf, isGroup } from "./store.js";

/** @typedef {import("./store.js").Item} Item */
/** @typedef {import("./layers.js").Box} Box */
/** @typedef {{key: string, side: string, ends: string[]}} StubEnd */

const TALL = 15;
const LETTERS = 16;
const SMALLER = 10.5 / 11.5; // its font is smaller than that of a node

/** What a box is called: an argument by the user's name for it, a group by its title, an op by its own. @param {{item: Item | null, fold: string, count?: number, label?: string}} n */
export function labelOf(n) {
  if (n.label !== undefined || !n.item) return n.label || "";
  return n.fold || isGroup(n.item) || (n.count || 1) > 1 ? n.item.h[0] : argumentOf(n.item) || n.item.n;
}

/**
 * Where stubs stand and what they say: the name where it lies on nothing, else shorter, else how many there are.
 * @param {StubEnd[]} stubs @param {Map<string, any>} nodes by key @param {Box[]} boxes what they may not lie on
 * @returns {import("./scene.js").Stub[]}
 */
export function placedStubs(stubs, nodes, boxes) {
  /** @type {Box[]} */
  const taken = [...boxes];
  return stubs.map((stub) => {
    const n = nodes.get(stub.key);
    const isOut = stub.side === "out";
    const arrow = isOut ? "→" : "←";
    const name = labelOf(nodes.get(stub.ends[0]));
    const more = stub.ends.length > 1 ? ` +${stub.ends.length - 1}` : "";
    const back = n.stack > 1 ? 7 : 0;
    const pill = (/** @type {string} */ text, /** @type {number} */ off) => {
      const w = textWidth(text, "below") * SMALLER + 12;
      return { text, x: isOut ? n.x + n.w - back - w + 6 : n.x - 6, y: isOut ? n.y + n.h + 1 - off : n.y - TALL - 1 + off, w, h: TALL };
    };
    const long = `${arrow} ${shortened(name, LETTERS * 7, "below")}${more}`;
    const short = `${arrow} ${shortened(name, Math.max(40, n.w / 2 - 18 - 7 * more.length), "below")}${more}`;
    const isFree = (/** @type {Box} */ p) => taken.every((b) => b === n || p.x >= b.x + b.w || b.x >= p.x + p.w || p.y >= b.y + b.h || b.y >= p.y + p.h);
    const free = [pill(long, 0), pill(short, 0)].find((p) => p.x > -12 && isFree(p));
    const least = pill(`${arrow}${stub.ends.length > 1 ? stub.ends.length : ""}`, 9 + (isOut ? back : 0));
    const aside = isOut ? n.x + n.w - back + 2 : n.x - least.w - 2;
    const others = [0.3, 0.5, 0.7].map((part) => ({ ...least, x: n.x + part * (n.w - least.w) }));
    const found = free || [least, { ...least, x: aside, y: isOut ? n.y + n.h - back - TALL : n.y }, ...others].find(isFree) || least;
    taken.push(found);
    return { ...stub, side: isOut ? "out" : "in", ...found };
  });
}

/** @param {import("./scene.js").Stub} stub @param {string[]} names of the other ends */
export function drawStub(stub, names) {
  const said = `${stub.side === "out" ? "goes to" : "comes from"} ${names.join(", ")}`;
  return s(
    "g",
    { class: `stub ${stub.side}`, role: "treeitem", tabindex: 0, "aria-label": said, transform: `translate(${stub.x.toFixed(1)},${stub.y.toFixed(1)})`, data: { at: stub.key, side: stub.side } },
    names.length > 1 ? "" : s("title", {}, said),
    s("rect", { width: stub.w, height: stub.h, rx: stub.h / 2 }),
    s("text", { x: stub.w / 2, y: 11 }, stub.text),
  );
}
