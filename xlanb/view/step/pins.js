// The pinned op from stage to stage: where a pass gave it another name, or put another op in its place, that one is pinned there.
import { h } from "./dom.js";
import { filmOf, itemAt } from "./filmlineage.js";

/** @typedef {import("./filmlineage.js").Film} Film */
/** @typedef {import("./filmlineage.js").Mark} Mark */

/** What the reader pinned, and what is pinned for it now. @type {WeakMap<object, {name: string, stage: number, now: string}>} */
const PINS = new WeakMap();
/** @type {WeakMap<object, {key: string, film: Film}>} */
const FILMS = new WeakMap();

/** Who is who in the trace that is shown. @param {any} view the step view @returns {Film} */
function filmFor(view) {
  const key = [view.trace, view.payload.revision, view.whole.stages.length].join();
  let known = FILMS.get(view.store);
  if (known?.key !== key) FILMS.set(view.store, (known = { key, film: filmOf(view.store, view.whole) }));
  return known.film;
}

/** What an op of one stage is called at another; of one that is replaced, what took its place, and before it was made, what it was made from. "" where that is not known. @param {Film} film @param {string} name @param {number} from @param {number} to @param {boolean} [itself] under another name only */
export function nameAt(film, name, from, to, itself = false) {
  const frameAt = (/** @type {number} */ stage) => film.frames.reduce((found, f, k) => (f.stage <= stage ? k : found), 0);
  const [here, there] = [frameAt(from), frameAt(to)];
  /** @type {Mark | null | undefined} */
  let mark = film.frames[here]?.names.get(name) || film.frames[here - 1]?.names.get(name); // a stage shows what it removed too
  while (mark && !itself && mark.died <= there) mark = mark.into;
  while (mark && !itself && mark.born > there) mark = mark.from;
  return mark && mark.born <= there && mark.died > there ? itemAt(mark, there).n : "";
}

/** Go to a stage; the pin goes along. @param {any} view @param {number} to */
export function moveTo(view, to) {
  const from = view.stage;
  if (to === from) return;
  Object.assign(view, { stage: to, rewrite: -1, other: -1, side: "after" });
  const name = view.pinned;
  const stage = view.current.stages[to];
  const isHere = (/** @type {string} */ n) => [stage.a, stage.ctx ?? -1].some((k) => k >= 0 && view.store.names(k).has(n));
  if (!name || name.startsWith("@") || !stage || isHere(name)) return;
  const found = nameAt(filmFor(view), name, from, to, Boolean(view.store.find(stage, name))); // what this stage removed is shown as removed
  if (!found || !isHere(found)) return;
  const pin = PINS.get(view);
  PINS.set(view, pin?.now === name ? { ...pin, now: found } : { name, stage: from, now: found });
  view.pinned = found;
}

/** What the reader pinned, where that has another name here. @param {any} view @returns {HTMLElement | string} */
export function pinnedAs(view) {
  const pin = PINS.get(view);
  if (!view.pinned || pin?.now !== view.pinned || pin.name === view.pinned) return "";
  const there = view.whole.stages[pin.stage];
  return h("p", { class: "muted pinned-as" }, `Pinned as ${pin.name} at `, h("button", { type: "button", class: "link", onclick: () => view.go(pin.stage) }, there?.name || "an earlier stage"), ".");
}
