"""Every edit that a pass makes in the tutorials names its rule and a place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.test_notebooks import NOTEBOOKS, TARGETS, TOOL, needs, tutorials

pytestmark = pytest.mark.slow
WATCH = """
import collections as _collections
from xlanb.tracing import Edit as _Edit, observing_everywhere as _observing_everywhere

class _Edits:
    count, unexplained = 0, _collections.Counter()

    def on_event(self, event):
        if isinstance(event, _Edit) and event.cause.pass_name:  # others make a module, or are made by hand
            self.count += 1
            if not (event.cause.rule and event.cause.where):
                self.unexplained[f"{event.cause.pass_name}: {event.kind}"] += 1

_edits = _Edits()
_watching = _observing_everywhere(_edits)
_ = _watching.__enter__()
"""
TELL = """
import json as _json
print(_json.dumps({"edits": _edits.count, "unexplained": _edits.unexplained}))
"""


@pytest.mark.parametrize("path", tutorials())
def test_every_edit_of_a_tutorial_names_its_rule(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if package := needs(path):
        pytest.importorskip(package)
    monkeypatch.setenv("XLANB_DEMO_HTML", str(tmp_path / "demo.html"))
    folder = tmp_path / "watched"
    shutil.copytree(NOTEBOOKS, folder, ignore=shutil.ignore_patterns(".*", "*.html", "*.ipynb"))
    notebook = TOOL.with_solutions(nbformat.read(path, as_version=4))
    cell = nbformat.v4.new_code_cell
    notebook.cells = [cell(WATCH), *notebook.cells, cell(TELL)]
    nbformat.write(notebook, folder / path.name)
    told = json.loads(TOOL.execute(folder / path.name).cells[-1].outputs[0].text)
    assert told["unexplained"] == {}
    assert told["edits"] > 0 or package in TARGETS  # there the real XLA alone compiles
