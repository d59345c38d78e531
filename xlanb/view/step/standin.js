// Beside a live view of the same name (a notebook keeps both) a saved one waits, and shows itself only where that one does not come.
// Without a name there is no live view to wait for.

/** @param {{box: any, start: () => void}} view */
export function standIn({ box, start }) {
  const { ident } = box.dataset;
  const output = box.closest(".jp-OutputArea-child");
  const before = output?.previousElementSibling;
  const failed = () => before?.matches(".jp-OutputArea-child") && /^\s*(\[\d*\]:)?\s*Error displaying widget/.test(before.textContent);
  const isLive = () => Boolean(document.querySelector(`.xlanb-step[data-ident="${ident}"]`));
  let started = false;
  const show = (/** @type {boolean} */ on) => {
    box.hidden = !on;
    if (output) output.style.display = on ? "" : "none";
    if (!on || started) return;
    started = true;
    if (failed()) before.style.display = "none"; // the notebook's word that no kernel is there: this stands in for it
    start();
  };
  box.showSaved = show;
  // A page made of a notebook has the live view's place as data only: if it comes to life at all, then later.
  const isPage = Boolean(document.querySelector('script[type="application/vnd.jupyter.widget-view+json"]'));
  if (!ident || (isPage && !isLive())) return show(true);
  show(false);
  let patience = 40;
  const look = () => {
    if (isLive() || !box.isConnected) return;
    patience -= 1;
    if (failed() || patience < 0) show(true);
    else setTimeout(look, 150);
  };
  look();
}
