"""Graphs for Graphviz."""

from __future__ import annotations

import re

import xlanb
from xlanb import tf
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


def graph_of_a_layer() -> tf.Graph:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        w = tf.get_variable("w", [3, 2])
        with tf.control_dependencies([tf.no_op(name="first")]):
            tf.matmul(x, w, name="y")
    return graph


def test_edges_of_a_tensorflow_graph_say_what_flows() -> None:
    source = digraph(graph_of_a_layer().record()).source
    ids = {name: key for key, name in re.findall(r'(n\d+) \[[^\n]*tooltip="?([\w/]+)"?', source)}
    assert re.search(rf'{ids["x"]} -> {ids["y"]} \[label="f32\[\?,3\]"', source)
    assert re.search(rf"{ids['first']} -> {ids['y']} \[[^\n]*style=dashed", source)
    shapes = {name: re.search(rf"{key} \[[^\n]*shape=(\w+)", source) for name, key in ids.items()}
    found = {n: m[1] for n, m in shapes.items() if m}
    assert (found["x"], found["w"]) == ("ellipse", "cylinder")


def test_folded_scopes_are_joined_by_counted_edges() -> None:
    with tf.Graph().as_default() as graph:
        for unit in ("a", "b"):
            with tf.name_scope(unit):
                tf.add_n([tf.constant(1.0), tf.constant(2.0)])
        with tf.name_scope("c"):
            tf.add_n([graph.get_tensor_by_name("a/Const:0"), graph.get_tensor_by_name("a/Const_1:0")])
    source = digraph(graph.record(), 3).source
    assert source.count("shape=folder") == 3
    assert 'label="2 tensors"' in source
