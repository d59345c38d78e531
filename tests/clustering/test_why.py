"""Clustering.why: an answer with its conditions, as lines and as a table."""

from __future__ import annotations

import pandas as pd

import xlanb
from xlanb import tf
from xlanb.clustering.clustering import Clustering
from xlanb.debug_options import parse_flags


def clustering() -> Clustering:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [4], name="x")
        hidden = tf.square(x, name="hidden")
        seen = tf.py_func(abs, [hidden], tf.float32, name="seen")
        seen.set_shape([4])
        tf.exp(tf.negative(seen, name="back"), name="out")
    found = xlanb.cluster(graph, options=parse_flags("--tf_xla_min_cluster_size=1"))
    assert isinstance(found, Clustering)
    return found


def test_conditions_are_lines_and_rows() -> None:
    found = clustering().why("out")
    lines = str(found).splitlines()
    assert lines[0] == "out (Exp): in cluster_1"
    assert len(lines) == 1 + len(found.conditions)
    assert all(line.startswith("  holds  ") for line in lines[1:])
    assert all(p.holds for p in found.conditions)
    assert (found.subject, found.outcome) == (("out",), "in cluster_1")
    assert list(pd.DataFrame(found.conditions).columns) == ["name", "holds", "value", "remedy"]


def test_a_node_outside_shows_what_fails() -> None:
    found = clustering().why("seen")
    assert str(found).startswith("seen (PyFunc): in no cluster\n")
    failing = [line for line in str(found).splitlines() if line.startswith("  FAILS  ")]
    assert len(failing) == len(found.failing) > 0
    assert any("PyFunc" in line for line in failing)
    assert repr(found).startswith("<Why seen (PyFunc): in no cluster; ")


def test_two_nodes_say_where_each_is() -> None:
    found = clustering()
    assert str(found.why("out", "back")).splitlines()[0] == "out (Exp) and back (Neg): both in cluster_1"
    assert str(found.why("out", "seen")).splitlines()[0] == (
        "out (Exp) and seen (PyFunc): in cluster_1 and in no cluster"
    )


def test_a_notebook_shows_a_table() -> None:
    bundle = clustering().why("seen")._repr_mimebundle_()
    assert bundle["text/plain"] == str(clustering().why("seen"))
    assert "<table" in bundle["text/html"]
    assert "FAILS" in bundle["text/html"]
