"""A film of a trace: its contents, and traces without one."""

from __future__ import annotations

import pytest

import xlanb
from xlanb.errors import XlanbError
from xlanb.explorer.stage import Stage, TextRecord
from xlanb.explorer.trace import Trace

TEXT = """HloModule m

ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] add(x, x)
  ROOT z = f32[8] tanh(y)
}
"""


def test_a_film_says_how_long_the_way_is():
    trace = xlanb.trace(TEXT)
    film = trace.film()
    changed = len(trace.changed)
    assert repr(film) == f"<Film of {trace.name}>"
    assert (
        str(film)
        == f"film of {trace.name}: 3 instructions, {changed} stages of {len(trace)} changed something, 1 kernel"
    )


def test_a_trace_without_hlo_makes_no_film():
    trace = Trace("odd", [Stage("text", "note", None, TextRecord("note", "nothing"))])
    with pytest.raises(XlanbError, match=r"'odd' holds no HLO to animate, only text; continue the compilation"):
        trace.film()
