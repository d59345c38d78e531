// Parameters and results on the rim of a scene: few are ports, weights are named in what reads them.
import { grouped } from "./dom.js";
import { noTally, noWeight } from "./part.js";
import { argumentOf } from "./store.js";

/** @typedef {import("./scene.js").Scene} Scene */

const PORTS = 8;
const NAMED = 3; // parameters that a node names; beyond it says how many

/** The last part of an argument's name where that is a word: kernel of variables['params']['Conv_0']['kernel']. @param {string} name @returns {string} */
function lastPart(name) {
  return name.match(/(?:\['|\.)([A-Za-z_]\w*)(?:'\])?$/)?.[1] || name;
}

/** Draw few ports: of many parameters those that are no weights, and the others as one. @param {Scene} scene @param {number} [hidden] how many parameters are not on the page */
export function drawRim(scene, hidden = 0) {
  for (const n of scene.nodes.values()) {
    const count = n.item.p?.length || 0;
    if (n.port === "out" && n.item.o === "tuple") n.item = { ...n.item, an: 1, m: count > 1 ? `${count} results` : "result" };
  }
  const ports = [...scene.nodes].filter(([, n]) => n.port === "in");
  if (ports.length + hidden <= PORTS) return;
  const others = new Map(ports.filter(([, n]) => argumentOf(n.item).includes("[") || argumentOf(n.item).includes(".")));
  const few = ports.length - others.size;
  if (!others.size || few >= PORTS) for (const [key, n] of ports.slice(few >= PORTS ? 0 : PORTS - 1)) others.set(key, n);
  /** @type {Map<string, string[]>} */
  const read = new Map();
  scene.edges = scene.edges.filter((e) => {
    if (!others.has(e.from)) return true;
    read.set(e.to, [...(read.get(e.to) || []), e.from]);
    return false;
  });
  for (const [key, from] of read) {
    const node = scene.nodes.get(key);
    if (!node) continue;
    const named = new Map(from.map((p) => [lastPart(argumentOf(others.get(p)?.item || node.item)) || p, p])); // the same in every repeat that a box stands for
    if (named.size <= NAMED) for (const [text, name] of named) node.operands.push({ text, name });
    else node.operands.push({ text: `${from.length} parameters`, name: from[0] });
  }
  const [first] = others.values();
  for (const key of others.keys()) scene.nodes.delete(key);
  const key = "@parameters";
  const size = grouped(others.size + hidden);
  const item = { n: key, o: "parameters", s: "", f: "input", an: 1, m: `${size} parameters`, t: `  ${[...others.values()].slice(0, 12).map((n) => argumentOf(n.item) || n.item.n).join(", ")}${others.size + hidden > 12 ? ", …" : ""}`, h: [`${size} parameters`, "", ""] };
  const plain = { group: "", operands: [], stack: 1, marks: noTally(), weight: noWeight() };
  scene.nodes.set(key, { ...plain, ...first, item, fold: "", count: others.size + hidden, port: "in" });
  for (const p of others.keys()) scene.where.set(p, key);
}
