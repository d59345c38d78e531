// What the loop of a payload says that each pass did to it, closed and open.
import fs from "node:fs";

import { countRemoved } from "./ghosts.js";
import { noFolds, sceneOf } from "./scene.js";
import { Store } from "./store.js";

const payload = JSON.parse(fs.readFileSync(process.argv[2], "utf-8"));
const store = new Store(payload);
const found = payload.traces[0].stages.filter((s) => s.ch).map((stage) => {
  const marks = store.marks(stage.b, stage.a);
  const sceneWith = (open) => {
    const folds = { ...noFolds(), open };
    const scene = sceneOf(store.artifact(stage.a), payload, folds, { marks: { ...marks, removed: new Set() } });
    countRemoved(scene, sceneOf(store.artifact(stage.b), payload, folds, { marks: { ...marks, added: new Set() }, plain: true }));
    return scene;
  };
  const [closed, open] = [sceneWith(() => false), sceneWith(() => true)];
  return { stage: stage.name, closed: closed.nodes.get("loop")?.marks, open: open.groups.get("loop")?.marks, groups: [...open.groups.keys()] };
});
console.log(JSON.stringify(found));
