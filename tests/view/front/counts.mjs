// Walks all groups of all stages of a payload, and prints where a closed group says another count than the same one open, or a pass another than its boxes.
import fs from "node:fs";

import { countRemoved } from "./ghosts.js";
import { noFolds, sceneOf } from "./scene.js";
import { Store } from "./store.js";
import { labelOf } from "./stubs.js";

const payload = JSON.parse(fs.readFileSync(process.argv[2], "utf-8"));
const store = new Store(payload);
const faults = [];
let checked = 0;

/** What a box says: its ops, and what was added, removed and changed of them. */
const said = (box) => [box.count, box.marks.added, box.marks.removed, box.marks.changed, Number(box.weight.flops.toPrecision(2))].join(" ");

for (const stage of payload.traces[0].stages) {
  const [before, after] = [store.artifact(stage.b), store.artifact(stage.a)];
  if (!after?.c || !stage.ch || before?.k !== after.k) continue;
  const marks = store.marks(stage.b, stage.a);
  const sceneWith = (open) => {
    const folds = { ...noFolds(), open };
    const scene = sceneOf(after, payload, folds, { marks: { ...marks, removed: new Set() } });
    countRemoved(scene, sceneOf(before, payload, folds, { marks: { ...marks, added: new Set() }, plain: true }));
    return scene;
  };
  const open = new Set();
  for (let depth = 0; depth < 4; depth += 1) {
    const now = sceneWith((key) => open.has(key));
    const closed = [...now.nodes.values()].filter((n) => n.fold);
    for (const n of closed) {
      const frame = sceneWith((key) => open.has(key) || key === n.fold).groups.get(n.fold);
      checked += 1;
      if (!frame || said(frame) !== said(n)) faults.push(`${stage.name} ${n.fold}: closed ${said(n)}, open ${frame ? said(frame) : "nothing"}`);
    }
    for (const n of now.nodes.values()) if (labelOf(n).startsWith("@")) faults.push(`${stage.name}: a box is called ${labelOf(n)}`);
    for (const n of closed) open.add(n.fold);
  }
  const boxes = [...sceneWith(() => false).nodes.values()].filter((n) => !n.port);
  const total = ["added", "removed", "changed"].map((m) => boxes.reduce((t, n) => t + n.marks[m], 0));
  if (total.join() !== stage.n.join()) faults.push(`${stage.name}: ${stage.n}, its boxes ${total}`);
}
console.log(JSON.stringify({ checked, faults }));
