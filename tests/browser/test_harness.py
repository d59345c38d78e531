"""The harness itself: if these fail, no other test in this folder means anything."""

from __future__ import annotations

import pytest


def text_outputs(screen) -> list[str]:
    return [out["text"] for out in screen.outputs() if out["output_type"] == "stream"]


@pytest.mark.parametrize("by_menu", [False, True], ids=["by-command", "by-menu"])
def test_lab_runs_all_cells(lab, by_menu):
    lab.open(lab.write("harness.ipynb", "x = 6", "print(x * 7)"))
    lab.run_all(by_menu=by_menu)
    assert text_outputs(lab) == ["42\n"]


def test_notebook_runs_all_cells(notebook7):
    notebook7.open(notebook7.write("harness.ipynb", "x = 6", "print(x * 7)"))
    notebook7.run_all()
    assert text_outputs(notebook7) == ["42\n"]


def test_an_error_in_a_cell_is_a_failure(lab):
    lab.open(lab.write("error.ipynb", "1 / 0"))
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        lab.run_all()


def test_the_console_is_heard(lab):
    source = "from IPython.display import Javascript; Javascript('console.error(\"heard\")')"
    lab.open(lab.write("console.ipynb", source))
    lab.run_all()
    assert [error for error in lab.errors if "heard" in error]
    lab.errors.clear()
