"""A live session of the step widget without a notebook: the kernel's answers, and a page that
replays them.

The kernel's part is measured here, in processor time. The page's part is measured in the browser,
where a substitute for the widget's model sends the view the same messages.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xlanb import Compilation
from xlanb.explorer.stage import Stage
from xlanb.notebook.explore import explore
from xlanb.notebook.requests import Requests
from xlanb.view import assets

_PAGE = """<!doctype html><meta charset="utf-8"><body style="margin:0"><div id="view"></div>
<script>{script}</script>
<script>
const data = {data};
const answers = data.answers;
const heard = {{}};
const values = {{ ...data.state, stage: data.stage, branch: 0, pinned: "", selected: "", overlays: {{}}, origin: {{}}, start: {{}}, stale: "", ident: "live" }};
const tell = (event, message) => {{ for (const f of heard[event] || []) f(message); }};
const pause = () => new Promise((done) => setTimeout(done, 0));
globalThis.answered = 0;
const model = {{
  get: (name) => values[name],
  set(name, value) {{ values[name] = value; tell(`change:${{name}}`); }},
  save_changes() {{}},
  on(event, f) {{ (heard[event] ||= []).push(f); }},
  off() {{}},
  async send(message) {{
    if (message.type === "hello") tell("msg:custom", {{ type: "here", revision: values.payload.revision }});
    if (message.type !== "step") return;
    for (const answer of answers.shift()) {{
      await pause();
      tell("msg:custom", answer);
    }}
    globalThis.answered += 1;
  }},
}};
globalThis[Symbol.for("xlanb.step.{version}")].render({{ model, el: document.getElementById("view") }});
</script></body>"""


@dataclass(frozen=True)
class Answer:
    """The kernel's answer to one Next: the stage that it ran, its messages, their processor
    time.
    """

    stage: Stage
    messages: list[dict[str, Any]]
    seconds: float


@dataclass(frozen=True)
class Session:
    """A compilation that is stepped by Next from stage `first` on."""

    state: dict[str, Any]
    first: int
    answers: list[Answer]

    def write(self, path: Path) -> None:
        """A page that shows the widget and answers each Next as the kernel did."""
        data = {"state": self.state, "stage": self.first, "answers": [a.messages for a in self.answers]}
        text = json.dumps(data).replace("</", "<\\/")
        page = _PAGE.format(script=assets.script(), version=assets.version(), data=text)
        path.write_text(page, encoding="utf-8")


def session(text: str, steps: int) -> Session:
    """Open the widget on a compilation of this HLO and press Next so often, or to the end."""
    compilation = Compilation(text)
    compilation.step()
    widget = explore(compilation)
    requests = Requests(widget)
    [trace] = widget.traces
    state = json.loads(json.dumps({"payload": widget.payload, "can": widget.can})) | {"css": assets.css()}
    first = len(trace) - 1
    sent: list[dict[str, Any]] = []
    widget.send = lambda message, *_: sent.append(json.loads(json.dumps(message)))  # type: ignore[method-assign]
    answers: list[Answer] = []
    for _ in range(steps):
        known = len(trace)
        request = {"type": "step", "trace": 0, "stage": known - 1}
        begin = time.process_time()
        requests.handle(widget, request, [])
        seconds = time.process_time() - begin
        if len(trace) == known:
            break
        answers.append(Answer(trace[-1], list(sent), seconds))
        sent.clear()
    return Session(state, first, answers)
