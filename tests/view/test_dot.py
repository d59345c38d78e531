"""Graphs for Graphviz."""

from __future__ import annotations

import re

import xlanb
from xlanb.view.dot import digraph

PROGRAM = """HloModule m

ENTRY e {
  x = f32[8]{0} parameter(0), sharding={devices=[2]0,1}
  y = f32[8]{0} negate(x), sharding={devices=[2]0,1}
  z = f32[8]{0} tanh(y), sharding={replicated}
  ROOT r = f32[8]{0} abs(z)
}
"""


def fills(source: str) -> dict[str, str]:
    """The colour of each node."""
    return {name: fill for fill, name in re.findall(r'fillcolor="(#\w+)"[^\n]*tooltip=(\w+)', source)}


def test_a_module_is_a_graph_with_its_edges() -> None:
    source = digraph(xlanb.hlo.parse(PROGRAM).record()).source
    assert source.count("->") == 3
    assert set(fills(source)) == {"x", "y", "z", "r"}


def test_the_flag_colours_by_sharding() -> None:
    with xlanb.flags("--xla_hlo_graph_sharding_color"):
        found = fills(digraph(xlanb.hlo.parse(PROGRAM).record()).source)
    assert found["x"] == found["y"]
    assert found["x"] != found["z"]
    assert found["r"] == "#ffffff"
