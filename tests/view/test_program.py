"""The whole program, and the difference of two clusterings, as pictures."""

from __future__ import annotations

import base64
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.clustering.graphs import Build
from xlanb.clustering.clustering import Clustering, cluster
from xlanb.graph.dtypes import as_dtype
from xlanb.view.program import diff_svg, picture_html, program_svg


def two_clusters(outside: int = 1) -> Clustering:
    """Two chains that meet again after nodes that cannot be compiled."""
    build = Build()
    build.arg("x")
    build.chain("a", "x", 5)
    last = next(op.name for op in reversed(build.graph.get_operations()) if op.type == "Tanh")
    for k in range(outside):
        build.host(f"host<{k}>".replace("<", "_").replace(">", ""), last)
        build.chain(f"b{k}_", f"host_{k}", 5)
    return cluster(build.graph)


def parsed(svg: str) -> Any:
    return ET.fromstring(svg)  # noqa: S314 - our own


def images(html: str) -> list[str]:
    """The SVG of the images in a piece of HTML."""
    found = re.findall(r'<img [^>]*src="data:image/svg\+xml;base64,([^"]*)"', html)
    return [base64.b64decode(data).decode() for data in found]


def texts(svg: str) -> list[str]:
    return [e.text or "" for e in parsed(svg).iter() if e.tag.endswith("text")]


def test_clusters_are_boxes_and_tensors_edges_with_shapes() -> None:
    found = two_clusters()
    svg = program_svg(found.dataflow, {c.name: len(c) for c in found.clusters})
    shown = texts(svg)
    assert {"cluster_0", "cluster_1", "host_0", "5 nodes"} <= set(shown)
    assert [t for t in shown if t.startswith("f32[")]
    titles = [e.text or "" for e in parsed(svg).iter() if e.tag.endswith("title")]
    assert any("output 0 to parameter 0" in t for t in titles)
    assert parsed(svg).get("role") == "img"


def test_words_at_edges_lie_apart_and_within_the_picture() -> None:
    root = parsed(program_svg(two_clusters().dataflow))
    width = float(root.get("width", "0"))
    words = [e for e in root.iter() if e.tag.endswith("text") and e.get("font-size") == "10"]
    boxes = [(float(e.get("x", "0")), float(e.get("y", "0")), len(e.text or "") * 6.0) for e in words]
    assert all(x + w <= width for x, _, w in boxes)
    for k, (x, y, w) in enumerate(boxes):
        assert not [1 for u, v, _ in boxes[:k] if abs(y - v) < 9 and x <= u < x + w]


def test_many_nodes_outside_share_boxes() -> None:
    found = two_clusters(outside=30)
    shown = texts(program_svg(found.dataflow))
    assert len([t for t in shown if t.startswith("cluster_")]) == len(found.clusters)
    assert len(shown) < 400


def test_each_cluster_has_its_hlo_and_the_picture_is_an_image() -> None:
    found = two_clusters()
    html = found._repr_mimebundle_()["text/html"]
    assert len(re.findall(r"<summary>cluster_\d+: \d+ nodes, its HLO", html)) == len(found.clusters)
    svg = images(html)[0]
    assert "cluster_0" in "".join(texts(svg))
    assert "currentColor" not in svg or "color:#" in svg, "an image has no page around it to take a colour from"
    assert "<svg" not in html, "GitHub takes it out"
    assert "HloModule" in html
    assert "Nodes in no cluster, and why" in html


def test_a_difference_shows_who_went_where() -> None:
    found = two_clusters()
    diff = found.what_if(tf_xla_min_cluster_size=7)
    shown = texts(diff_svg(diff))
    assert any(t.startswith("~ 5") for t in shown)
    assert any(t.startswith("outside (") for t in shown)
    same = texts(diff_svg(found.what_if()))
    assert not [t for t in same if t.startswith("~")]
    (svg,) = images(diff._repr_mimebundle_()["text/html"])
    assert texts(svg) == shown


@pytest.mark.parametrize("thing", [3, "text", as_dtype("float32")])
def test_of_anything_else_there_is_no_picture(thing: object) -> None:
    assert picture_html(thing) == ""
