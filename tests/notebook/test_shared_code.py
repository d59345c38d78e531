"""One copy of the step view's code in a notebook: which outputs carry it."""

import sys
from types import SimpleNamespace

import pytest

import xlanb
import xlanb.display
from xlanb.hlo import parse
from xlanb.notebook import saved, shared_code
from xlanb.notebook.shared_code import SharedCode, share_code

TEXT = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x)\n}\n"


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setattr(xlanb.display, "_AROUND", [])
    made = SimpleNamespace(execution_count=0, parent_header={})
    share_code(made)
    return made


def shown(shell, cell, obj=None):
    """The HTML that a cell shows in its next run."""
    shell.execution_count += 1
    shell.parent_header = {"metadata": {"cellId": cell} if cell else {}}
    return (obj if obj is not None else parse(TEXT))._repr_mimebundle_()["text/html"]


def carries(html):
    assert 'data-part="payload"' in html
    return 'data-code="program"' in html


def test_the_first_output_carries_the_code_for_all(shell):
    assert [carries(shown(shell, cell)) for cell in "abc"] == [True, False, False]
    assert len(shown(shell, "d")) < 20_000


def test_a_cell_that_runs_again_carries_it(shell):
    """Its own output had none, or the one with the code is gone."""
    assert [carries(shown(shell, cell)) for cell in "abab"] == [True, False, True, True]
    assert not carries(shown(shell, "c"))


def test_several_outputs_of_one_run_are_alike(shell):
    assert carries(shown(shell, "a"))
    assert not carries(shown(shell, "b"))
    shell.execution_count -= 1
    assert not carries(shown(shell, "b"))


@pytest.mark.parametrize("header", [{}, {"metadata": None}, None, lambda: {"metadata": {}}])
def test_where_no_cell_is_known_each_output_carries_it(shell, header):
    for _ in range(2):
        shell.parent_header = header
        assert not SharedCode(shell).is_elsewhere()


def test_on_colab_each_output_is_a_page_of_its_own(shell, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", object())
    assert all(carries(shown(shell, cell)) for cell in "ab")


def test_pages_on_disk_always_carry_it(shell, tmp_path):
    shown(shell, "a")
    shell.execution_count += 1
    shell.parent_header = {"metadata": {"cellId": "b"}}
    trace = xlanb.trace(TEXT)
    trace.to_html(str(tmp_path / "page.html"))
    assert carries((tmp_path / "page.html").read_text())
    assert not carries(trace._repr_mimebundle_()["text/html"])


def test_the_page_beside_a_live_step_view_shares_it_too(shell, monkeypatch):
    """While it is rewritten, the cell keeps its first choice."""
    told = []
    monkeypatch.setattr(saved, "publish_display_data", lambda data, *_, **__: told.append(data["text/html"]))
    widget = xlanb.explore(xlanb.trace(TEXT))
    for cell in "ab":
        shell.execution_count += 1
        shell.parent_header = {"metadata": {"cellId": cell}}
        widget._saved.show()
    shell.parent_header = {}
    widget._saved.touch()
    widget._saved.flush()
    assert [carries(html) for html in told] == [True, False, False]
    assert not carries(shown(shell, "c"))


def test_outputs_share_it_without_the_extension(monkeypatch):
    monkeypatch.setattr(xlanb.display, "_AROUND", [])
    monkeypatch.setattr(shared_code, "_SHARED", [])
    shell = SimpleNamespace(execution_count=0, parent_header={})
    monkeypatch.setattr(shared_code, "get_ipython", lambda: shell)
    assert [carries(shown(shell, cell)) for cell in "abc"] == [True, False, False]


def test_outside_of_a_shell_each_output_carries_it(monkeypatch):
    monkeypatch.setattr(xlanb.display, "_AROUND", [])
    monkeypatch.setattr(shared_code, "_SHARED", [])
    monkeypatch.setattr(shared_code, "get_ipython", lambda: None)
    for _ in range(2):
        assert carries(parse(TEXT)._repr_mimebundle_()["text/html"])
