// Starts the step view on a page without a kernel: unpacks program, style and payload, and stands in for the widget's model.
// Beside a live view of the same name (a notebook keeps both) it waits, and shows itself only where that one does not come.
((script) => {
  const box = script.closest(".xlanb-static");
  const { ident } = box.dataset;
  const unpack = async (text) => {
    const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  };
  const { version } = script.dataset;
  const own = (name) => box.querySelector(`script[data-part="${name}"]`)?.textContent.trim();
  // A notebook keeps program and style in one output of each session; others find them here, even when that output is gone.
  const shared = Symbol.for(`xlanb.parts.${version}`);
  const arrived = `xlanb-code-${version}`;
  if (own("program") && !globalThis[shared]) {
    globalThis[shared] = { program: own("program"), style: own("style") };
    document.dispatchEvent(new Event(arrived));
  }
  const code = () => new Promise((resolve) => {
    if (globalThis[shared]) return void resolve(globalThis[shared]);
    const note = document.createElement("p");
    note.textContent = "This view waits for the code that it shares with another output of xlanb in this notebook. Scroll to the first one; or, where that is gone, run this cell again.";
    const patience = setTimeout(() => box.prepend(note), 2000);
    document.addEventListener(arrived, () => {
      clearTimeout(patience);
      note.remove();
      resolve(globalThis[shared]);
    }, { once: true });
  });
  const start = async () => {
    const packed = await code();
    const part = (name) => unpack(packed[name] ?? own(name));
    const key = Symbol.for(`xlanb.step.${version}`);
    if (!globalThis[key]) {
      const program = document.createElement("script");
      program.textContent = await part("program");
      document.head.append(program);
      program.remove();
    }
    const [css, payload] = [await part("style"), JSON.parse(await part("payload"))];
    const escaped = (t) => t.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
    const page = () => `<!doctype html><html lang="en"><meta charset="utf-8"><title>${escaped(payload.title || "xlanb")}</title><body style="margin:0">${whole(packed)}</body></html>`;
    const values = { css, payload, page, can: { step: false, run: false } };
    const model = { get: (name) => values[name], on() {} };
    const mount = document.createElement("div");
    box.append(mount);
    if (document.title && box.parentElement === document.body && document.body.children.length <= 1) mount.style.setProperty("--xlanb-height", "calc(100vh - 2px)");
    globalThis[key].render({ model, el: mount });
    box.querySelector(".xlanb-fallback").hidden = true;
  };
  const source = box.outerHTML.replace(/ data-ident="[^"]*"/, "");
  /** This view with its code, for a page of its own. */
  const whole = (packed) => {
    if (own("program")) return source;
    const scripts = Object.entries(packed).map(([name, data]) => `<script type="application/octet-stream" data-part="${name}">${data}</` + "script>");
    return source.replace(/<script type="application\/octet-stream"/, (first) => `${scripts.join("\n")}\n${first}`);
  };
  if (!ident) return void start();

  const output = box.closest(".jp-OutputArea-child");
  const failed = () => output?.previousElementSibling?.matches(".jp-OutputArea-child") && /^\s*(\[\d*\]:)?\s*Error displaying widget/.test(output.previousElementSibling.textContent);
  const isLive = () => Boolean(document.querySelector(`.xlanb-step[data-ident="${ident}"]`));
  let started = false;
  const show = (on) => {
    box.hidden = !on;
    if (output) output.style.display = on ? "" : "none";
    if (!on || started) return;
    started = true;
    if (failed()) output.previousElementSibling.style.display = "none"; // the notebook's word that no kernel is there: this stands in for it
    start();
  };
  box.showSaved = show;
  // A page made of a notebook has the live view's place as data only: if it comes to life at all, then later.
  const isPage = Boolean(document.querySelector('script[type="application/vnd.jupyter.widget-view+json"]'));
  if (isPage && !isLive()) return void show(true);
  show(false);
  let patience = 40;
  const look = () => {
    if (isLive() || !box.isConnected) return;
    patience -= 1;
    if (failed() || patience < 0) show(true);
    else setTimeout(look, 150);
  };
  look();
})(document.currentScript);
