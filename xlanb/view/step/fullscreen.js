// The whole screen for the view: the browser's own full screen where it gives it, else all of the page.

/** @param {any} view the step view */
export async function toggleFullScreen(view) {
  if (view.root.classList.contains("whole")) return leaveFullScreen(view);
  fillScreen(view, true);
  view.root.focus({ preventScroll: true });
  if (!document.fullscreenEnabled) return undefined;
  const follow = () => {
    if (document.fullscreenElement === view.host) return;
    document.removeEventListener("fullscreenchange", follow);
    fillScreen(view, false);
  };
  try {
    await view.host.requestFullscreen();
    document.addEventListener("fullscreenchange", follow);
  } catch (refused) {
    if (!(refused instanceof TypeError)) throw refused; // not allowed in this page: all of the page has to do
  }
  return undefined;
}

/** @param {any} view the step view */
export function leaveFullScreen(view) {
  fillScreen(view, false);
  if (document.fullscreenElement === view.host) document.exitFullscreen();
}

/** @param {any} view @param {boolean} on */
function fillScreen(view, on) {
  view.root.classList.toggle("whole", on);
  view.full.setAttribute("aria-pressed", String(on));
}
