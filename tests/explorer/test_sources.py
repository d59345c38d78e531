"""The text of Python lines in a trace, as they were when the program was traced."""

from __future__ import annotations

import linecache
from pathlib import Path

import xlanb
from xlanb.view.payload import build_payload
from xlanb.view.payload_builder import PayloadBuilder

HLO = """HloModule m

ENTRY e {{
  p = f32[2] parameter(0)
  ROOT t = f32[2] tanh(p), metadata={{op_name="f" source_file="{file}" source_line=2}}
}}
"""


def test_the_lines_are_those_of_the_time_of_tracing(tmp_path: Path):
    source = tmp_path / "model.py"
    source.write_text("def f(p):\n    return tanh(p)\n", encoding="utf-8")
    trace = xlanb.trace(HLO.format(file=source))
    source.write_text("def f(p):\n    return something_else_entirely(p)\n", encoding="utf-8")
    linecache.checkcache()
    assert trace.sources == {(str(source), 2): "return tanh(p)"}
    assert build_payload([trace])["lines"] == {f"{source}:2": "return tanh(p)"}


def test_a_file_that_is_not_python_is_not_read(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("one\ntwo\n", encoding="utf-8")
    assert xlanb.trace(HLO.format(file=secret)).sources == {}


def test_a_delta_has_the_lines_once(tmp_path: Path):
    source = tmp_path / "model.py"
    source.write_text("def f(p):\n    return tanh(p)\n", encoding="utf-8")
    trace = xlanb.trace(HLO.format(file=source))
    builder = PayloadBuilder()
    assert builder.update([trace])["lines"] == {f"{source}:2": "return tanh(p)"}
    assert builder.update([trace])["lines"] == {}
    assert builder.payload["lines"] == {f"{source}:2": "return tanh(p)"}
