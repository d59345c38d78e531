"""The cost of Next in a live view: unchanged parts are neither rebuilt nor touched in the page."""

from __future__ import annotations

from benchmarks._live import session
from benchmarks.dumps import program

STEPS = 6
NEXT = """async () => {
  const root = document.querySelector(".xlanb-step").shadowRoot.querySelector(".root");
  const graph = root.querySelector(".canvas .view");
  const rows = [...root.querySelectorAll(".list > *")];
  const touched = [];
  const seen = new MutationObserver((list) => touched.push(...list.map((m) => `${m.type} ${m.attributeName || ""} ${m.target.className?.baseVal}`)));
  seen.observe(graph, { subtree: true, childList: true, attributes: true });
  const before = answered;
  const stage = Number(root.dataset.step);
  root.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true, composed: true }));
  while (answered === before) await new Promise((done) => setTimeout(done, 5));
  await new Promise((done) => setTimeout(done, 30));
  seen.disconnect();
  const now = [...root.querySelectorAll(".list > *")];
  const kept = rows.filter((r) => now.includes(r)).length;
  const current = now.filter((r) => r.classList.contains("current"));
  const coming = now.filter((r) => r.classList.contains("coming") && r.id).map((r) => r.id);
  return { moved: Number(root.dataset.step) - stage, rows: rows.length, kept, current: current.map((r) => r.id), coming, touched };
}"""


def test_a_pass_that_changes_nothing_touches_neither_the_graph_nor_the_other_rows(context, tmp_path):
    live = session(program(200), STEPS)
    path = tmp_path / "live.html"
    live.write(path)
    page = context.new_page()
    page.goto(path.as_uri())
    page.locator(".node").first.wait_for()
    page.wait_for_timeout(600)  # the first picture has settled
    seen = 0
    for number, answer in enumerate(live.answers, live.first + 1):
        found = page.evaluate(NEXT)
        assert found["moved"] == 1
        assert found["current"] == [f"pass-{number}"]
        assert found["coming"] == [f"coming-{k}" for k in range(len(found["coming"]))]
        if not answer.stage.changed and number > live.first + 1:
            seen += 1
            assert found["kept"] >= found["rows"] - 3
            assert found["touched"] == []
    assert seen
