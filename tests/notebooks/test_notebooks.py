"""Every tutorial runs from top to bottom without output to stderr.

Each folded solution, run after its exercise, is judged right.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SPEC = importlib.util.spec_from_file_location("execute_notebooks", NOTEBOOKS / "execute.py")
assert SPEC is not None
assert SPEC.loader is not None
TOOL = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TOOL)

# `make test` runs these, `make notebooks` all of them.
QUICK = {"01", "02", "03"}
# What compiles for hardware that is not here: `make targets` runs their tutorials.
TARGETS = {"jax_cuda12_plugin", "libtpu"}


def needs(path: Path) -> str | None:
    """The package that a tutorial ends without."""
    found = re.search(r'teach\.needs\(\\"(\w+)\\"', path.read_text(encoding="utf-8"))
    return found and found[1]


def tutorials() -> list[object]:
    out = []
    for path in TOOL.tutorials():
        marks = [pytest.mark.slow] if path.stem[:2] not in QUICK else []
        marks += [pytest.mark.target if needs(path) in TARGETS else pytest.mark.peer] if needs(path) else []
        out.append(pytest.param(path, id=path.stem, marks=marks))
    return out


@pytest.fixture
def demo_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLANB_DEMO_HTML", str(tmp_path / "demo.html"))


@pytest.mark.usefixtures("demo_elsewhere")
@pytest.mark.parametrize("path", tutorials())
def test_tutorial_runs(path: Path):
    package = needs(path)
    if package:
        pytest.importorskip(package)
    notebook = TOOL.execute(path, solutions=True)
    assert TOOL.complaints(notebook) == []
    assert TOOL.unsolved(notebook) == []


@pytest.mark.parametrize("path", TOOL.tutorials(), ids=lambda p: p.stem)
def test_exercises_are_open_and_have_solutions(path: Path):
    notebook = nbformat.read(path, as_version=4)
    exercises = [c for c in notebook.cells if "exercise" in c.metadata.get("tags", ())]
    assert all("..." in c.source for c in exercises)
    assert len(exercises) == len(TOOL.with_solutions(notebook).cells) - len(notebook.cells)
    assert 2 <= len(exercises) <= 4


@pytest.mark.parametrize("path", TOOL.tutorials(), ids=lambda p: p.stem)
def test_saved_outputs_show_something_without_a_kernel(path: Path):
    outputs = [o for c in nbformat.read(path, as_version=4).cells for o in c.get("outputs", [])]
    assert outputs, f"run: python notebooks/execute.py --save {path.stem[:2]}"
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]
    for output in (o for o in outputs if "data" in o):
        assert output.data.keys() & {"text/plain", "text/html", "image/png", "image/svg+xml"}


def test_a_wrong_solution_is_noticed(tmp_path: Path):
    cell, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    posed = "from xlanb import teach\nteach.exercise('two', lambda n: n == 2)"
    folded = "<details><summary>Solution</summary>\n\n```python\nteach.check('two', {})\n```\n\n</details>"
    path = tmp_path / "00-wrong.ipynb"
    for answer, missed in ((3, 1), (2, 0)):
        nbformat.write(nbformat.v4.new_notebook(cells=[cell(posed), text(folded.format(answer))]), path)
        assert len(TOOL.unsolved(TOOL.execute(path, solutions=True))) == missed


def test_a_dead_widget_gives_way_to_its_text():
    bare = nbformat.v4.new_output("display_data", {TOOL.WIDGET: {"model_id": "a"}})
    captioned = nbformat.v4.new_output("display_data", {TOOL.WIDGET: {"model_id": "b"}, "text/plain": "stages"})
    kept = TOOL.without_widgets([bare, captioned])
    assert [set(o.data) for o in kept] == [{TOOL.WIDGET}, {"text/plain"}]


def test_a_dead_step_widget_gives_way_to_its_page():
    empty = nbformat.v4.new_output("display_data", {"text/html": "", "text/plain": ""})
    widget = nbformat.v4.new_output("display_data", {TOOL.WIDGET: {"model_id": "b"}, "text/plain": "7 stages"})
    page = nbformat.v4.new_output("display_data", {"text/html": '<div class="xlanb-static" data-ident="f0">view</div>'})
    printed = nbformat.v4.new_output("stream", text="done")
    kept = TOOL.without_widgets([empty, widget, page, printed])
    assert [o.output_type for o in kept] == ["display_data", "stream"]
    assert kept[0].data == {"text/html": '<div class="xlanb-static">view</div>', "text/plain": "7 stages"}


@pytest.mark.parametrize("path", TOOL.tutorials(), ids=lambda p: p.stem)
def test_saved_views_wait_for_no_widget(path: Path):
    outputs = [o for c in nbformat.read(path, as_version=4).cells for o in c.get("outputs", [])]
    assert not [o for o in outputs if TOOL.LIVE_TWIN.search(o.get("data", {}).get("text/html", ""))]
