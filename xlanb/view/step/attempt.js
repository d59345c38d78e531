// A why-not that offers the way: what a refused fusion would cost and save, a button that makes it all the same, and what was measured.
import { h } from "./dom.js";
import { overlayRows } from "./overlay.js";
import { dealings } from "./pair.js";

/** @param {any} view @param {string} a @param {string} b */
const pairKey = (view, a, b) => `${view.trace}\n${[a, b].sort().join("\n")}`;

/** By pair: what a refused fusion would cost. @param {any} view @returns {Map<string, {text: string, possible: boolean}>} */
const offersOf = (view) => (view.offers ||= new Map());

/** By pair: what it brought. @param {any} view @returns {Map<string, any>} */
const verdictsOf = (view) => (view.verdicts ||= new Map());

/** What a fusion pass refused of the two ops that are compared, with the way to have it; null where nothing was refused or no kernel is there. @param {any} view the step view */
function offerOf(view) {
  const [a, b] = [view.pinned, view.second];
  if (!view.can.attempt) return null;
  const refused = dealings(view.current, a, b).flatMap((d) => d.decisions).filter((d) => d.action === "fuse" && !d.taken);
  if (!refused.length) return null;
  const key = pairKey(view, a, b);
  let known = offersOf(view).get(key);
  if (!known) {
    known = { text: "", possible: false };
    offersOf(view).set(key, known);
    view.model.send({ type: "weigh", trace: view.trace, a, b });
  }
  if (!known.text) return h("section", { class: "offer", "aria-label": "Fuse them anyway" }, h("p", { class: "muted" }, "Estimating what fusing them would cost…"));
  const verdict = verdictsOf(view).get(key);
  const act = () => view.ask("attempt", { a, b });
  return h(
    "section",
    { class: "offer", "aria-label": "Fuse them anyway" },
    h("h4", {}, "Fuse anyway?"),
    h("p", {}, `${known.text}.`),
    known.possible ? h("button", { type: "button", class: "tool primary", disabled: Boolean(view.waiting), onclick: act }, verdict ? "Try again" : "Try") : null,
    verdict ? h("p", { class: `verdict-line ${verdict.speedup > 1.03 ? "better" : verdict.speedup < 0.97 ? "worse" : ""}` }, `${verdict.text}.`) : null,
  );
}

/** What stands below an op's card, or that of two: the offer to fuse them, or what the user's overlays say. @param {any} view */
export function furtherCard(view) {
  return (view.second && offerOf(view)) || overlayRows(view, view.pinned);
}

/** The kernel weighed a pair, or measured what its fusion brings. @param {any} view @param {any} message */
export function hearOffer(view, message) {
  const key = pairKey(view, message.a, message.b);
  if (message.type === "weighed") offersOf(view).set(key, { text: message.text.replace(/\.$/, ""), possible: message.possible });
  else {
    verdictsOf(view).set(key, message);
    view.madeAt = message.stage;
    view.tab = "Compare";
  }
}

/** What was tried so far, above the table that sets the branches side by side. @param {any} view @returns {HTMLElement[]} */
export function verdictLines(view) {
  return [...verdictsOf(view).values()].map((v) => h("p", { class: "note inline" }, `${v.text}.`));
}
