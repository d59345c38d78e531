// Walking through the stages: to the next change, the next kind, one rewrite on, by itself; and lighting an op up everywhere.
import { markLines } from "./cell.js";
import { icon, selector } from "./dom.js";
import { refreshFilm } from "./filmpane.js";
import { leaveFullScreen } from "./fullscreen.js";
import { layOver } from "./overlay.js";
import { stripeAxes } from "./sharding.js";
import { replayable } from "./replay.js";
import { lightCounterparts } from "./secondgraph.js";
import { opsOfLine } from "./source.js";
import { stationOf } from "./store.js";

/** @typedef {import("./store.js").Stage} Stage */

const PLAY_MS = 900;
const PLAY_SAME_MS = 120;

/** The next stage of a kind, in one direction. @param {any} view the step view @param {number} direction @param {(s: Stage) => boolean} wanted */
export function seek(view, direction, wanted) {
  for (let k = view.stage + direction; k >= 0 && k < view.current.stages.length; k += direction) {
    if (wanted(view.current.stages[k])) return view.go(k);
  }
  return view.say(direction > 0 ? "No later one." : "No earlier one.");
}

/** The last stage: of what was compiled, or, live, of all that there is. @param {any} view */
export function goLast(view) {
  if (view.canStep) view.ask("to");
  else view.go(view.current.stages.length - 1);
}

/** The next kind of stage. @param {any} view @param {number} direction */
export function seekKind(view, direction) {
  const here = view.now ? stationOf(view.now) : "";
  let k = view.stage;
  const stages = view.current.stages;
  while (stages[k] && stationOf(stages[k]) === here) k += direction;
  if (!stages[k]) return view.say(direction > 0 ? "This is the last kind of stage." : "This is the first kind of stage.");
  const there = stationOf(stages[k]);
  if (direction < 0) while (k > 0 && stationOf(stages[k - 1]) === there) k -= 1;
  return view.go(k);
}

/** Single rewrites within a pass. @param {any} view @param {number} direction */
export function stepRewrite(view, direction) {
  const count = view.now?.why?.rewrites.length || 0;
  if (!count) return view.say("This pass recorded no individual rewrites.");
  view.rewrite = Math.max(-1, Math.min(count - 1, view.rewrite + direction)); // -1: the pass as a whole
  if (!["Graph", "Diff", "Text", "Why"].includes(view.shownTab)) view.tab = replayable(view.store, view.now) ? "Graph" : "Why";
  view.update();
  const names = view.rewrite < 0 ? [] : view.now?.why.rewrites[view.rewrite].edits.flatMap((/** @type {any} */ e) => [e.b, e.a]);
  const first = names.find((/** @type {string} */ n) => view.graph.sheet?.nodes.some((/** @type {any} */ x) => x.item.n === n));
  return first && view.shownTab === "Graph" ? view.graph.reveal(first) : undefined;
}

/** Set off what the current rewrite touched, in the graph, above the user's own colours. @param {any} view */
export function showTouched(view) {
  stripeAxes(view);
  layOver(view);
  for (const x of view.graph.element.querySelectorAll(".touched")) x.classList.remove("touched");
  const current = view.rewrite >= 0 ? view.now?.why?.rewrites[view.rewrite] : null;
  if (!current) return;
  const names = new Set(current.edits.flatMap((/** @type {any} */ e) => [e.a, e.b]));
  for (const x of view.graph.nodes.querySelectorAll(".node")) if (names.has(x.getAttribute("data-op"))) x.classList.add("touched");
}

/** Let go of what was last taken up: the help, the second op, the other pass, the rewrite, the op. @param {any} view */
export function letGo(view) {
  if (!view.help.hidden) view.toggleHelp();
  else if (view.root.classList.contains("whole")) leaveFullScreen(view);
  else if (view.second) view.pin(view.pinned);
  else if (view.other >= 0 || view.rewrite >= 0) {
    if (view.other < 0) view.rewrite = -1;
    view.other = -1;
    view.update();
  } else view.pin("");
}

/** Go on by itself, or stop. @param {any} view */
export function togglePlay(view) {
  if (view.timer) {
    clearTimeout(view.timer);
    view.timer = null;
  } else {
    if (view.stage >= view.current.stages.length - 1 && !view.canStep) view.go(0);
    playOn(view);
  }
  view.play.replaceChildren(icon(view.timer ? "pause" : "play"));
  view.play.setAttribute("aria-pressed", String(Boolean(view.timer)));
}

/** Go on after a while, a short one where the stage changed nothing. @param {any} view */
function playOn(view) {
  view.timer = setTimeout(() => {
    if (!view.waiting && view.stage >= view.current.stages.length - 1 && !view.canStep) return togglePlay(view);
    if (!view.waiting) view.next();
    return playOn(view);
  }, view.now?.ch || view.now?.e ? PLAY_MS : PLAY_SAME_MS);
}

/** Show all ops of a Python line, or no longer. @param {any} view @param {string} place */
export function askLine(view, place) {
  view.line = place;
  view._showCard();
  light(view, "");
  const again = [.../** @type {NodeListOf<HTMLElement>} */ (view.card.querySelectorAll(".line-of"))].find((b) => b.title.startsWith(`${place}: `));
  (again || view.root).focus({ preventScroll: true });
}

/** Bring an op into view: the line that defines it in text, its lines in all columns of code, in other panes the first place, where none is seen. @param {any} view @param {string} name */
export function bringToSight(view, name) {
  const tab = view.shownTab;
  if (tab === "Code") {
    view.code.reveal(name, (view.now && view.store.find(view.now, name)?.item) || null);
    return light(view, "");
  }
  if (tab === "Text" && view.text.reveal(name)) return undefined;
  const frame = view.pane.getBoundingClientRect();
  const all = [...view.pane.querySelectorAll(`${selector(name)}`)];
  const seen = all.some((x) => {
    const box = x.getBoundingClientRect();
    return box.height > 0 && box.top >= frame.top && box.top <= frame.bottom - 10;
  });
  if (!seen) all[0]?.scrollIntoView({ block: "nearest" });
  return undefined;
}

/** Light the ops of the line of a cell, and the closed groups that hold some of them. @param {any} view */
function lightCellOps(view) {
  for (const x of view.root.querySelectorAll("[data-op]")) x.classList.toggle("of-this-line", view.cellOps.has(x.getAttribute("data-op")));
  const keys = view.picture.keysOf(view.cellOps);
  for (const x of view.graph.nodes.querySelectorAll(".node")) if (keys.has(x.getAttribute("data-key"))) x.classList.add("of-this-line");
}

/** Light an op up wherever it shows. @param {any} view @param {string} name */
export function light(view, name) {
  const wanted = name || view.pinned;
  refreshFilm(view);
  for (const x of view.root.querySelectorAll(".lit, .near")) x.classList.remove("lit", "near");
  for (const x of view.root.querySelectorAll(".pinned")) x.classList.remove("pinned");
  for (const x of view.root.querySelectorAll(".of-this-line")) x.classList.remove("of-this-line");
  const found = view.line && view.pinned ? view.store.find(view.now, view.pinned) : null;
  for (const i of found ? opsOfLine(view.store, found.artifact, view.line) : []) for (const x of view.root.querySelectorAll(selector(i.n))) x.classList.add("of-this-line");
  for (const n of [view.pinned, view.second]) if (n) for (const x of view.root.querySelectorAll(selector(n))) x.classList.add("pinned");
  if (view.cellOps?.size) lightCellOps(view);
  markLines(view, wanted);
  for (const graph of [view.graph, view.secondGraph?.graph]) graph?.trace(wanted || "");
  if (!wanted) return;
  for (const x of view.root.querySelectorAll(selector(wanted))) x.classList.add("lit");
  if (wanted === view.pinned) for (const n of view.code.carriers.slice(1)) for (const x of view.root.querySelectorAll(`.columns .line${selector(n)}`)) x.classList.add("lit");
  lightCounterparts(view, wanted);
  const quoted = CSS.escape(wanted);
  for (const x of view.root.querySelectorAll(`.edge[data-from="${quoted}"], .edge[data-to="${quoted}"]`)) x.classList.add("near");
}
