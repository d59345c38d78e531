// Where boxes and edges of the graph stand: filling the pane, staying from pass to pass, around one another; and moving over them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { shares } from "./colours.js";
import { matchingOps } from "./find.js";
import { firstSight, freeCorner, wholeSight } from "./fly.js";
import { lifted } from "./edges.js";
import { ghostsOf, goneFrom } from "./ghosts.js";
import { neighbour } from "./focus.js";
import { layered } from "./layers.js";
import { covered, LEGIBLE, newMemory, nodeSize, place, tangle } from "./place.js";
import { guided, route, wayPath } from "./route.js";
import { spoken } from "./shapes.js";
import { stay } from "./stay.js";
import { labelOf, namesOfEnds, placedStubs } from "./stubs.js";
import { linkedTo } from "./trails.js";

const ROOMS = [{ w: 898, h: 500 }, { w: 566, h: 340 }, { w: 898, h: 684 }];
const item = (n, o = "add", more = {}) => ({ n, o, s: "f32[64,64]", f: "element", t: n, h: [o, "", "f32[64,64]"], ...more });
const node = (n, group = "", more = {}) => [n, { item: item(n, "add", more.item), group, fold: "", operands: [], stack: 1, count: 1, marks: { added: 0, removed: 0, changed: 0 }, weight: { seconds: null, flops: 0, bytes: 0 }, port: "", ...more, ...(more.item ? { item: item(n, "add", more.item) } : {}) }];
const group = (label, parent = "") => ({ label, kind: "scope", parent, item: null, count: 4, stack: 1, marks: { added: 0, removed: 0, changed: 0 }, weight: { seconds: null, flops: 0, bytes: 0 } });
const edge = (from, to, bytes = 4096) => ({ from, to, bytes, ops: 1 });
const sceneOfParts = (nodes, edges, groups = []) => ({ nodes: new Map(nodes), groups: new Map(groups), edges, path: [], note: "" });

/** A chain, a chain with shortcuts, a training step (down and up again), a wide fan, parts that nothing connects. */
function scenes() {
  const names = (count, lead = "n") => Array.from({ length: count }, (_, k) => `${lead}${k}`);
  const chain = (list) => list.slice(1).map((n, k) => edge(list[k], n));
  const eight = names(8);
  const twenty = names(20);
  const [down, up] = [names(8, "forward"), names(8, "backward").reverse()];
  const fan = names(12, "leaf");
  return {
    chain: sceneOfParts(eight.map((n) => node(n)), chain(eight)),
    shortcuts: sceneOfParts(twenty.map((n) => node(n)), [...chain(twenty), ...twenty.slice(0, -3).map((n, k) => edge(n, twenty[k + 3]))]),
    training: sceneOfParts([...down, ...up].map((n) => node(n)), [...chain([...down, ...up]), ...down.map((n, k) => edge(n, up[up.length - 1 - k]))]),
    fan: sceneOfParts(["root", ...fan, "sum"].map((n) => node(n)), fan.flatMap((n) => [edge("root", n), edge(n, "sum")])),
    apart: sceneOfParts(names(16).map((n) => node(n)), chain(names(6))),
  };
}

const meet = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
const within = (a, b) => a.x >= b.x && a.y >= b.y && a.x + a.w <= b.x + b.w && a.y + a.h <= b.y + b.h;

test("boxes fill the pane in both directions, legibly, and none lies on another", () => {
  for (const [name, scene] of Object.entries(scenes())) {
    for (const room of ROOMS) {
      const sheet = place(scene, newMemory(), room);
      const pane = { width: room.w, height: room.h };
      const sight = firstSight(sheet, pane, new Set());
      assert.ok(sight.scale >= LEGIBLE, `${name}: ${sight.scale}`);
      for (const [k, a] of sheet.nodes.entries()) for (const b of sheet.nodes.slice(k + 1)) assert.ok(!meet(a, b), `${name}: ${a.key} lies on ${b.key}`);
      const part = (p, s, offset, length) => covered(sheet.nodes.map((n) => [n[p] * sight.scale + offset, (n[p] + n[s]) * sight.scale + offset]), length) / length;
      assert.ok(part("x", "w", sight.x, room.w) >= 0.45, `${name} in ${room.w} x ${room.h}: width ${part("x", "w", sight.x, room.w)}`);
      assert.ok(part("y", "h", sight.y, room.h) >= 0.45, `${name} in ${room.w} x ${room.h}: height ${part("y", "h", sight.y, room.h)}`);
    }
  }
});

test("what is more than the pane holds is cut between boxes", () => {
  const names = Array.from({ length: 20 }, (_, k) => `n${k}`);
  const boxes = names.map((n, k) => ({ key: n, x: k % 2 ? 250 : 40, y: Math.floor(k / 2) * 83 + (k % 2 ? 22 : 0), w: 180, h: 52 }));
  const sheet = { w: 470, h: 10 * 83, nodes: boxes };
  for (const height of [400, 420, 440, 460, 480, 500, 520, 540]) {
    const sight = firstSight(sheet, { width: 500, height }, new Set());
    assert.ok(sight.scale >= LEGIBLE);
    const cut = boxes.filter((b) => b.y * sight.scale + sight.y < height && (b.y + b.h) * sight.scale + sight.y > height);
    assert.deepEqual(cut.map((b) => b.key), [], `in ${height}`);
  }
});

test("what is first seen of a program that does not fit counts, not what lies beyond", () => {
  const room = { w: 566, h: 482 };
  const names = Array.from({ length: 18 }, (_, k) => `n${k}`);
  const aside = Array.from({ length: 4 }, (_, k) => `s${k}`);
  const edges = [...names.slice(1).map((n, k) => edge(names[k], n)), ...names.slice(0, 12).map((n) => edge(n, names[17])), ...aside.map((n, k) => edge(n, names[(k * 5) % 18]))];
  const nodes = [...names, ...aside].map((n, k) => node(n, "", { item: { h: ["x".repeat(6 + ((k * 7) % 14)), "", "f32[64,64]"] } }));
  const sheet = place(sceneOfParts(nodes, edges), newMemory(), room);
  const sight = { w: room.w / LEGIBLE, h: room.h / LEGIBLE };
  assert.ok(sheet.w > sight.w || sheet.h > sight.h);
  const seen = sheet.nodes.filter((n) => n.x < sight.w && n.y < sight.h);
  assert.ok(covered(seen.map((n) => [n.x, n.x + n.w]), sight.w) >= 0.45 * sight.w);
  assert.ok(covered(seen.map((n) => [n.y, n.y + n.h]), sight.h) >= 0.45 * sight.h);
});

test("closed boxes that are too many for the pane stand closer together", () => {
  const names = Array.from({ length: 8 }, (_, k) => `n${k}`);
  const scene = sceneOfParts(names.map((n) => node(n)), names.slice(1).map((n, k) => edge(names[k], n)));
  const room = { w: 190, h: 470 };
  const sheet = place(scene, newMemory(), room);
  assert.ok(wholeSight(sheet, { width: room.w, height: room.h }).scale >= LEGIBLE);
  const gaps = names.slice(1).map((n, k) => sheet.nodes[k + 1].y - sheet.nodes[k].y - sheet.nodes[k].h);
  assert.ok(Math.min(...gaps) >= 18, `${gaps}`);
});

test("an open group lies around what is in it, and the rest keeps its order", () => {
  const closed = sceneOfParts([node("a"), node("g", "", { fold: "g", count: 4 }), node("z")], [edge("a", "g"), edge("g", "z")]);
  const open = sceneOfParts([node("a"), ...["g1", "g2", "g3"].map((n) => node(n, "g")), node("z")], [edge("a", "g1"), edge("g1", "g2"), edge("g2", "g3"), edge("g3", "z")], [["g", group("g")]]);
  const memory = newMemory();
  const first = place(closed, memory);
  const toggled = { w: 880, h: 460, hold: true };
  const grown = place(open, memory, toggled);
  const [frame] = grown.groups;
  for (const n of grown.nodes.filter((x) => x.key.startsWith("g"))) assert.ok(within(n, frame), n.key);
  for (const key of ["a", "z"]) assert.ok(!meet(grown.nodes.find((n) => n.key === key), frame));
  assert.deepEqual(place(closed, memory, toggled).nodes.map((n) => [n.key, n.x, n.y]), first.nodes.map((n) => [n.key, n.x, n.y]), "closed again, all stands where it stood");
});

test("what survives a pass stands still, and what is new stands beside what it uses", () => {
  const names = Array.from({ length: 10 }, (_, k) => `n${k}`);
  const chain = (list) => list.slice(1).map((n, k) => edge(list[k], n));
  const memory = newMemory();
  const before = new Map(place(sceneOfParts(names.map((n) => node(n)), chain(names)), memory).nodes.map((n) => [n.key, n]));
  const left = names.filter((n) => n !== "n4");
  const sheet = place(sceneOfParts([...left, "new"].map((n) => node(n)), [...chain(left), edge("n3", "new")]), memory);
  for (const n of sheet.nodes) if (before.has(n.key)) assert.deepEqual([n.x, n.y], [before.get(n.key).x, before.get(n.key).y], n.key);
  const fresh = sheet.nodes.find((n) => n.key === "new");
  assert.ok(sheet.nodes.every((n) => n === fresh || !meet(n, fresh)));
});

test("all is placed anew where little survives, or where what stays would lead backwards", () => {
  const box = (x, y) => ({ x, y, w: 80, h: 40 });
  const last = { boxes: new Map([["a", box(0, 0)], ["b", box(0, 80)]]), dense: 0.6 };
  const sizes = (...keys) => new Map(keys.map((k) => [k, [80, 40]]));
  assert.equal(stay(last, sizes("x", "y", "z"), [], false), null);
  assert.equal(stay(last, sizes("a", "b"), [["b", "a"]], false), null);
  assert.deepEqual([...stay(last, sizes("a", "b"), [["a", "b"]], false).keys()], ["a", "b"]);
});

test("an edge leads around the boxes in its way, and has none where all ways are blocked", () => {
  const box = (x, y, w = 80, h = 40) => ({ x, y, w, h });
  const [a, b] = [box(0, 0), box(0, 160)];
  const way = { from: "a", to: "b", a, b, across: false, at: 0, into: 0 };
  const obstacle = (key, place_) => ({ key, box: place_, inside: () => false });
  const own = [{ key: "a", box: a, inside: (k) => k === "a" }, { key: "b", box: b, inside: (k) => k === "b" }];
  assert.deepEqual(route(way, own, new Set()), [40, 40, 40, 158]);
  const points = route(way, [...own, obstacle("c", box(-10, 80, 100))], new Set());
  assert.equal(points.length, 12);
  assert.ok(Math.abs(points[4] - 40) > 50, "beside it");
  assert.match(wayPath(points), /^M40,40L.*Q.*L40,158$/);
  assert.equal(route(way, [...own, obstacle("c", box(-2000, 80, 4000))], new Set()), null);
});

test("edges that would lead too far end in stubs at both ends", () => {
  const names = Array.from({ length: 24 }, (_, k) => `n${k}`);
  const edges = [...names.slice(1).map((n, k) => edge(names[k], n)), ...names.slice(12).flatMap((n, k) => [edge(names[k], n), edge(names[0], n)])];
  const sheet = place(sceneOfParts(names.map((n) => node(n)), edges), newMemory(), ROOMS[0]);
  const drawn = new Set(sheet.edges.map((e) => `${e.from} ${e.to}`));
  for (const e of edges) {
    const isStub = sheet.stubs.some((s) => s.key === e.from && s.side === "out" && s.ends.includes(e.to)) && sheet.stubs.some((s) => s.key === e.to && s.side === "in" && s.ends.includes(e.from));
    assert.ok(drawn.has(`${e.from} ${e.to}`) !== isStub, `${e.from} ${e.to}`);
  }
});

test("edges between two open groups are drawn as one, from group to group", () => {
  const [fs, bs] = [["f1", "f2"], ["b1", "b2"]];
  const nodes = [...fs.map((n) => node(n, "f")), ...bs.map((n) => node(n, "b"))];
  const edges = [edge("f1", "f2"), edge("f1", "b1", 100), edge("f2", "b1", 20), edge("f2", "b2", 3)];
  const sheet = place(sceneOfParts(nodes, edges, [["f", group("forward")], ["b", group("backward")]]), newMemory());
  assert.deepEqual(sheet.edges.map((e) => `${e.from} ${e.to}`).sort(), ["f b", "f1 f2"]);
  const one = sheet.edges.find((e) => e.from === "f");
  assert.deepEqual([one.bytes, one.ops, one.ends], [123, 3, [["f1", "b1"], ["f2", "b1"], ["f2", "b2"]]]);
  assert.deepEqual(linkedTo(sheet, "f2").sort(), ["b1", "b2", "f1"], "what a node is joined to is known");
  const [on] = sheet.across ? ["ArrowRight"] : ["ArrowDown"];
  assert.ok(bs.includes(neighbour(sheet, "f2", on)), "arrows lead from group to group");
  assert.equal(labelOf(sheet.groups[0]), "forward");
});

test("an edge into the midst of an open group ends there in a stub with a name; its way in is told by the group", () => {
  const nodes = [node("before"), ...["first", "second", "sum"].map((n) => node(n, "block")), node("after")];
  const edges = [edge("before", "first"), edge("first", "second"), edge("second", "sum"), edge("before", "sum"), edge("sum", "after"), edge("first", "after")];
  const sheet = place(sceneOfParts(nodes, edges, [["block", group("block")]]), newMemory(), ROOMS[0]);
  const stubs = Object.fromEntries(sheet.stubs.map((x) => [`${x.key} ${x.side}`, x.ends]));
  assert.deepEqual(stubs, { "sum in": ["before"], "first out": ["after"] });
  const two = place(sceneOfParts([...nodes, node("mask")], [...edges, edge("mask", "second")], [["block", group("block")]]), newMemory(), ROOMS[0]);
  const ends = two.stubs.filter((x) => x.side === "in").map((x) => [x.key, x.ends]);
  assert.deepEqual(ends.sort(), [["first", ["before"]], ["second", ["mask"]], ["sum", ["before"]]], "of two that lead into the group it must be told which goes where");
});

test("edges of groups keep their kind: those within a group stay with its boxes", () => {
  const lifts = [{ box: "g", from: "a", to: "b" }, { box: "", from: "g", to: "z" }, { box: "", from: "g", to: "z" }];
  const found = lifted({ edges: [edge("a", "b"), edge("a", "z", 1), edge("b", "z", 2)], lifts });
  assert.deepEqual(found.map(({ from, to, box, bytes }) => [from, to, box, bytes]), [["a", "b", "g", 4096], ["g", "z", "", 3]]);
});

test("an edge over several ranks has a lane beside the boxes between", () => {
  const sizes = new Map(["a", "b", "c", "d"].map((k) => [k, [80, 40]]));
  const { boxes, lanes, rank } = layered(sizes, [["a", "b"], ["b", "c"], ["c", "d"], ["a", "d"]]);
  assert.deepEqual(["a", "b", "c", "d"].map((k) => rank.get(k)), [0, 1, 2, 3]);
  const bends = ["a\n1", "a\n2"].map((k) => lanes.get(k));
  for (const [bend, k] of [[bends[0], "b"], [bends[1], "c"]]) assert.ok(Math.abs(bend.x - (boxes.get(k).x + 40)) >= 44, "clear of the box in its rank");
  assert.equal(bends[0].x, bends[1].x, "straight");
  const b = boxes.get("b");
  assert.equal(b.x, boxes.get("c").x, "a chain stands straight");
  const way = { from: "a", to: "d", a: boxes.get("a"), b: boxes.get("d"), across: false, at: 0, into: 0 };
  const stops = ["a", "a\n1", "a\n2", "d"].map((k) => lanes.get(k));
  const obstacles = [...boxes].map(([key, box]) => ({ key, box, inside: (k) => k === key }));
  const found = guided(way, stops, obstacles);
  assert.match(found.d, /^M.*C.*C/);
  const [before, last] = found.d.match(/-?[\d.]+,-?[\d.]+/g).slice(-2);
  assert.notEqual(before, last, "a last piece of no length would turn the arrowhead");
  const blocked = { key: "new", box: { x: bends[0].x - 5, y: bends[0].from, w: 10, h: 10 }, inside: () => false };
  assert.equal(guided(way, stops, [...obstacles, blocked]), null, "a box stands in its lane by now");
  assert.equal(guided(way, null, obstacles), null);
});

test("of two groups that feed each other the one that feeds more stands first", () => {
  const { rank } = layered(new Map([["backward", [80, 40]], ["forward", [80, 40]]]), [["backward", "forward"], ["forward", "backward"], ["forward", "backward"]]);
  assert.deepEqual([rank.get("forward"), rank.get("backward")], [0, 1]);
});

test("of three that feed one another in a circle the edge goes that stands for the fewest", () => {
  const sizes = new Map(["backward", "update", "forward"].map((k) => [k, [80, 40]]));
  const { rank } = layered(sizes, [["update", "forward", 2], ["forward", "backward", 300], ["forward", "update", 1], ["backward", "update", 50]]);
  assert.deepEqual([rank.get("forward"), rank.get("backward"), rank.get("update")], [0, 1, 2]);
});

test("a stub that has no room for its name lies on no title", () => {
  const [a, b, g] = [{ key: "a", x: 40, y: 40, w: 120, h: 40 }, { key: "b", x: 400, y: 400, w: 120, h: 40 }, { key: "g", x: 20, y: 10, w: 200, h: 100, label: "group" }];
  const nodes = new Map([a, b, g].map((n) => [n.key, { ...n, item: item(n.key), fold: "" }]));
  const heading = { x: 20, y: 12, w: 200, h: 24 };
  const [stub] = placedStubs([{ key: "a", side: "in", ends: ["b"] }], nodes, [nodes.get("a"), nodes.get("b"), heading]);
  assert.equal(stub.text, "← b", "it stands beside the box");
  assert.ok(!meet(stub, heading));
  const walls = [{ x: 0, y: 0, w: 38, h: 200 }, { x: 162, y: 0, w: 90, h: 200 }, { x: 38, y: 12, w: 130, h: 24 }];
  assert.equal(placedStubs([{ key: "a", side: "in", ends: ["b", "g"] }], nodes, [nodes.get("a"), ...walls])[0].text, "←2", "no side is free");
});

test("a stub names the group around its other end where several boxes bear a name", () => {
  const box = (key, group, label) => [key, { key, x: 0, y: 0, w: 120, h: 40, group, label, fold: "", item: item(key) }];
  const nodes = new Map([box("forward", "", "forward"), box("backward", "", "backward"), box("f", "forward", "attn"), box("b", "backward", "attn"), box("only", "backward", "embed")]);
  assert.deepEqual(namesOfEnds({ key: "f", ends: ["b", "only", "forward"] }, nodes), ["backward/attn", "embed", "forward"]);
});

test("a stack of fusions is as wide as its title and its picture", () => {
  const [stack, plain] = ["fusion", "layer"].map((o) => node("f", "", { stack: 37, fold: "f", count: 37, item: { o, f: "tf-scope", h: ["a_stack_of_them", "", "37 ops"] } })[1]);
  assert.equal(nodeSize(stack)[0] - nodeSize(plain)[0], 20);
});

test("a small program stands in one flow, with no edge that leads back", () => {
  const names = ["x", "w", "b", "dot", "reshape", "broadcast", "reshape2", "broadcast2", "add", "tanh"];
  const edges = [edge("x", "dot"), edge("w", "dot"), edge("b", "reshape"), edge("reshape", "broadcast"), edge("broadcast", "reshape2"), edge("reshape2", "broadcast2"), edge("dot", "add"), edge("broadcast2", "add"), edge("add", "tanh")];
  const sheet = place(sceneOfParts(names.map((n) => node(n)), edges), newMemory(), { w: 865, h: 660 });
  const at = new Map(sheet.nodes.map((n) => [n.key, n]));
  for (const e of edges) {
    const [a, b] = [at.get(e.from), at.get(e.to)];
    assert.ok(sheet.across ? a.x + a.w < b.x : a.y + a.h < b.y, `${e.from} before ${e.to}`);
  }
  assert.deepEqual(sheet.stubs, []);
});

test("the map keeps out of the boxes' way", () => {
  const sheet = { w: 400, h: 300, nodes: [{ key: "a", x: 260, y: 200, w: 140, h: 90 }] };
  const pane = { width: 400, height: 300 };
  const sight = { x: 0, y: 0, scale: 1 };
  assert.deepEqual(freeCorner(sheet, pane, sight, 150, 100), ["left", "bottom"]);
  assert.equal(freeCorner({ ...sheet, nodes: [{ key: "a", x: 0, y: 0, w: 400, h: 300 }] }, pane, sight, 150, 100), null);
});

test("arrows follow edges, and lead to the nearest box where there is none", () => {
  const sheet = place(sceneOfParts(["a", "b", "c"].map((n) => node(n)), [edge("a", "b"), edge("b", "c")]), newMemory());
  const [on, back] = sheet.across ? ["ArrowRight", "ArrowLeft"] : ["ArrowDown", "ArrowUp"];
  assert.deepEqual([neighbour(sheet, "a", on), neighbour(sheet, "b", on), neighbour(sheet, "c", back)], ["b", "c", "b"]);
  assert.equal(neighbour(sheet, "gone", on), "a");
});

test("a node says its opcode, name and shape, a group how many ops it holds", () => {
  const [, op] = node("dot.7", "", { item: { o: "dot" } });
  assert.equal(spoken(op, "+"), "dot dot.7 f32[64,64], added");
  const [, closed] = node("g", "", { fold: "g", count: 31, stack: 6, item: { h: ["block", "", ""] }, marks: { added: 3, removed: 1, changed: 0 } });
  assert.equal(spoken(closed, ""), "block times 6, group of 31 ops, 3 added, 1 removed, 0 changed");
});

test("ops are found by name, opcode, shape and op_name, the best first", () => {
  const items = [item("my_dot", "add"), item("dot.1", "dot"), item("x", "dot", { m: "jit(f)/block_3/mul" }), item("p", "parameter", { m: "params['w']", an: 1 })];
  assert.deepEqual(matchingOps(items, "dot").map((i) => i.n), ["dot.1", "x", "my_dot"]);
  assert.deepEqual(matchingOps(items, "block_3").map((i) => i.n), ["x"]);
  assert.deepEqual(matchingOps(items, "params['w']").map((i) => i.n), ["p"]);
  assert.deepEqual(matchingOps(items, "dot f32[64").length, 3);
  assert.deepEqual(matchingOps(items, " "), []);
});

test("shares of the weight: measured time before work", () => {
  const nodes = [node("a", "", { weight: { seconds: null, flops: 3e9, bytes: 0 } })[1], node("b", "", { weight: { seconds: null, flops: 1e9, bytes: 0 } })[1]];
  shares(nodes, "cost", new Map());
  assert.deepEqual(nodes.map((n) => n.share), [0.75, 0.25]);
  shares(nodes, "cost", new Map([["b", 1e-3]]));
  assert.deepEqual(nodes.map((n) => n.share), [0, 1]);
  shares(nodes, "ops", new Map());
  assert.deepEqual(nodes.map((n) => n.share), [0.5, 0.5]);
});

test("what a pass removed stands where it stood, if its surroundings do and the place is free", () => {
  const names = Array.from({ length: 8 }, (_, k) => `n${k}`);
  const chain = (list) => list.slice(1).map((n, k) => edge(list[k], n));
  const memory = newMemory();
  const old = sceneOfParts([...names.map((n) => node(n)), node("side")], [...chain(names), edge("n2", "side"), edge("side", "n4")]);
  const gone = goneFrom(old, new Set(["side", "elsewhere"]));
  assert.deepEqual(gone, ["side"]);
  const before = place(old, memory);
  const after = place(sceneOfParts(names.map((n) => node(n)), chain(names)), memory);
  const ghosts = ghostsOf(after, before, gone);
  const was = before.nodes.find((n) => n.key === "side");
  assert.deepEqual(ghosts.map((g) => [g.key, g.x, g.y]), was.x + was.w <= after.w ? [["side", was.x, was.y]] : []);
  for (const g of ghosts) for (const n of after.nodes) assert.ok(!meet(g, n), n.key);
  const moved = { ...after, nodes: after.nodes.map((n) => ({ ...n, x: n.x + 200 })) };
  assert.deepEqual(ghostsOf(moved, before, gone), [], "all stands elsewhere");
  assert.deepEqual(ghostsOf({ ...after, nodes: [...after.nodes, { ...was, key: "new" }] }, before, gone), [], "something stands there");
});

test("a box by itself stands below a shorter column where there is room", () => {
  const sizes = new Map([["a", [100, 40]], ["b", [100, 40]], ["c", [100, 200]], ["alone", [80, 40]]]);
  const { boxes, w } = layered(sizes, [["a", "b"], ["b", "c"]], { across: false, bands: 2, wide: 600 });
  const [a, c, alone] = ["a", "c", "alone"].map((k) => boxes.get(k));
  assert.ok(c.x >= a.x + a.w, "two columns");
  assert.ok(alone.x < c.x && alone.y >= boxes.get("b").y + 40, "below the first");
  assert.equal(w, c.x + c.w);
});

test("edges that lead from column to column count beyond those of the flow", () => {
  const chain = ["a", "b", "c", "d", "e", "f"];
  const flow = chain.slice(1).map((k, n) => [chain[n], k]);
  const placed = layered(new Map(chain.map((k) => [k, [100, 40]])), flow, { across: false, bands: 2, wide: 600 });
  assert.equal(tangle(placed, flow), 0);
  assert.equal(tangle(placed, [...flow, ["a", "e"], ["a", "e"], ["b", "f"], ["a", "c"]]), 2);
});
