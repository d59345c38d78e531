"""Graphviz graphs of dumps: read any content, draw clusters and colors, trust nothing."""

from __future__ import annotations

import base64
import re
import shutil
import stat
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xlanb
from xlanb.dump import dot
from xlanb.dump.dot import DotEdge, DotGraph, label_lines, parse_dot
from xlanb.errors import DumpError
from xlanb.graph.records import GraphRecord
from xlanb.view import dot_picture
from xlanb.view.dot_picture import dot_html, dot_source, dot_svg

XLA = r"""digraph G {
rankdir = TB;
label = <<b>module_0001.f<br/>Computation main</b>>;
// Disable the tooltip.
tooltip = " ";
stylesheet=<
  data:text/css,
  @import url(https://fonts.example/css);
  %23node24:hover ~ %23edge60 text { fill: %231976d2; }
>
140 [label=<<b>Parameter 0</b><br/>f32[8]{0}>, shape=rect, tooltip="x", style="filled", color="#c88719", fillcolor="#ffb74d"];
subgraph cluster_77 {
style="rounded,filled,bold"; fillcolor="#f5f5f5"; color="#c2c2c2;"
label = <Fused expression for <b>fusion</b><br/>loop fusion>;
141 [label=<<b>add.1</b><br/>add<br/>f32[8]{0}<br/>a &lt; b>, shape=rect, fillcolor="#1565c0", fontcolor="white"];
142 [label=<<b>exp</b><br/>f32[8]{0}>];
}  // cluster_77
140 -> 141 [tooltip="Parameter 0 -> add.1"];
141 -> 142;
140 -> cluster_77;
cooltip [label="ROOT"]
142 -> cooltip [style=dashed label="out"];
}
"""


def image(html: str) -> str:
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert found is not None
    return base64.b64decode(found[1]).decode()


def test_a_graph_of_xlas_is_read_with_its_clusters_and_colours() -> None:
    graph = parse_dot(XLA)
    assert graph.title == "module_0001.f Computation main"
    assert [(n.id, n.lines[0], n.cluster) for n in graph.nodes] == [
        ("140", "Parameter 0", ""),
        ("141", "add.1", "cluster_77"),
        ("142", "exp", "cluster_77"),
        ("cooltip", "ROOT", ""),
    ]
    assert graph.nodes[1].lines == ("add.1", "add", "f32[8]{0}", "a < b")
    assert [(c.id, c.lines, c.attributes["fillcolor"]) for c in graph.clusters] == [
        ("cluster_77", ("Fused expression for fusion", "loop fusion"), "#f5f5f5")
    ]
    assert [(e.source, e.target) for e in graph.edges] == [
        ("140", "141"),
        ("141", "142"),
        ("140", "142"),
        ("142", "cooltip"),
    ]
    assert str(graph).splitlines()[0] == "module_0001.f Computation main: 4 nodes, 4 edges, 1 cluster"


def test_its_snapshot_is_named_by_labels_and_not_by_addresses() -> None:
    record = parse_dot(XLA).record()
    other = parse_dot(re.sub(r"\b14(\d)\b", r"99\1", XLA)).record()
    assert record == other
    assert {n.name: (n.op, n.inputs, n.outputs) for n in record.nodes} == {
        "Parameter_0": ("Parameter", (), ("f32[8]{0}",)),
        "fusion/add.1": ("add", ("Parameter_0",), ("f32[8]{0}",)),
        "fusion/exp": ("exp", ("fusion/add.1", "Parameter_0"), ("f32[8]{0}",)),
        "ROOT": ("ROOT", ("fusion/exp",), ()),
    }


@pytest.mark.parametrize(
    ("text", "nodes", "edges"),
    [
        ("graph { a -- b -- c }", "abc", ["ab", "bc"]),
        ("strict digraph x { a -> { b c } -> d; }", "abcd", ["ab", "ac", "bd", "cd"]),
        ('digraph { "a" -> b:p:n; node [color=red]; /* c */ subgraph s { b; c }\n# d\n}', "abc", ["ab"]),
        ("# preprocessed\ndigraph { a [x=1, y=2; z] [w=-.5]; a = b; a -> a }", "a", ["aa"]),
        ("digraph {}", "", []),
        ('digraph { a [label="x" + "y"] }', "a", []),
    ],
)
def test_the_grammar_of_dot(text: str, nodes: str, edges: list[str]) -> None:
    graph = parse_dot(text)
    assert "".join(n.id for n in graph.nodes) == nodes
    assert [e.source + e.target for e in graph.edges] == edges


def test_defaults_hold_for_what_follows_in_their_scope() -> None:
    graph = parse_dot(
        "digraph { a; node [color=red]; b; subgraph cluster_1 { node [color=blue]; c; subgraph cluster_2 { d } } e;"
        " edge [style=dashed]; a -> b; }"
    )
    assert {n.id: n.attributes.get("color") for n in graph.nodes} == {
        "a": None,
        "b": "red",
        "c": "blue",
        "d": "blue",
        "e": "red",
    }
    assert {n.id: n.cluster for n in graph.nodes} == {"a": "", "b": "", "c": "cluster_1", "d": "cluster_2", "e": ""}
    assert [(c.id, c.parent) for c in graph.clusters] == [("cluster_1", ""), ("cluster_2", "cluster_1")]
    assert graph.edges == (DotEdge("a", "b", {"style": "dashed"}),)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (r"one\ntwo\lthree", ("one", "two", "three")),
        ("<<table><tr><td>a</td></tr><tr><td>&lt;b&gt;</td></tr></table>>", ("a", "<b>")),
        ("{<f0> left|right}", ("left", "right")),
        ("a\x00\x1bb", ("a  b",)),
    ],
)
def test_labels_become_plain_lines(text: str, lines: tuple[str, ...]) -> None:
    assert label_lines(text) == lines


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("HloModule m\n", "x:1:1: expected digraph or graph: this is not DOT"),
        ("digraph {\n a -> ;\n}", "x:2:7: expected a name, got ';'"),
        ("digraph { a [label=<<b>x", "x:1:20: unterminated label in < >"),
        ("digraph { a", "expected '}', got 'the end'"),
        ("digraph { a [k=", "expected a name, got 'the end'"),
        ("digraph { a ? b }", "unexpected character '\\?' in DOT"),
        ("digraph {" + "{" * 300, "subgraphs are nested more than 200 deep"),
        ('digraph { "a', "unexpected character"),
    ],
)
def test_what_is_no_dot_says_where(text: str, why: str) -> None:
    with pytest.raises(DumpError, match=why):
        parse_dot(text, "x")


def test_a_graph_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dot, "MAX_ITEMS", 100)
    many = " ".join(f"n{k}" for k in range(60))
    with pytest.raises(DumpError, match="more than 100 nodes and edges"):
        parse_dot(f"digraph {{ {{ {many} }} -> {{ {many} }} }}")


@given(st.text(alphabet='digraph{}[]<>"=;->ab_\\\n /*#:,+', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"digraph {{{text}}}"):
        try:
            graph = parse_dot(whole)
        except DumpError:
            continue
        ET.fromstring(dot_svg(graph))  # noqa: S314 - what we wrote ourselves
        assert parse_dot(dot_source(graph)).record().nodes is not None


def test_the_picture_keeps_clusters_and_colours_and_drops_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    hostile = XLA.replace(
        "cooltip [label",
        'evil [label="</text><script>alert(1)</script>" URL="javascript:alert(1)" image="/etc/passwd" '
        'fillcolor="url(http://x)" color="red\\" onload=\\"x"];\ncooltip [label',
    )
    html = dot_html(parse_dot(hostile))
    svg = image(html)
    texts = [
        e.text
        for e in ET.fromstring(svg).iter(  # noqa: S314 - what we wrote ourselves
            "{http://www.w3.org/2000/svg}text"
        )
    ]
    assert {"fusion", "add.1", "a < b", "ROOT", "out", "</text><script>alert(1)</script>"} <= set(texts)
    assert all(colour in svg for colour in ("#ffb74d", "#1565c0", "#f5f5f5", "#c2c2c2", "stroke-dasharray"))
    for bad in ("javascript", "passwd", "http://x", "onload", "fonts.example", "<script"):
        assert bad not in svg.replace("&lt;script", "")
        assert bad not in html
        assert bad not in dot_source(parse_dot(hostile)).replace("</text><script", "")


def test_graphviz_draws_where_it_is_and_ours_where_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "dot"
    for body, drawn in (("cat > seen; echo '<svg>theirs</svg>'", "theirs"), ("exit 1", "add.1"), ("sleep 9", "add.1")):
        tool.write_text(f"#!/bin/sh\ncd {tmp_path}\n{body}\n")
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setattr(dot_picture, "_TIMEOUT_S", 0.5)
        assert drawn in image(dot_html(parse_dot(XLA)))
    handed = parse_dot((tmp_path / "seen").read_text())
    assert [n.lines for n in handed.nodes] == [n.lines for n in sorted(parse_dot(XLA).nodes, key=lambda n: n.cluster)]
    assert [c.attributes["fillcolor"] for c in handed.clusters] == ["#f5f5f5"]


def test_a_large_graph_is_folded_then_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dot_picture, "MAX_NODES", 3)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    html = dot_html(parse_dot(XLA))
    assert "4 nodes, 4 edges, 1 cluster; clusters are folded<" in html
    assert "2 nodes" in image(html)
    many = dot_html(parse_dot("digraph { a -> b -> c -> d -> e }"))
    assert "the last 2 nodes are not drawn" in many


def test_dumps_of_dot_alone_are_stepped_and_drawn(tmp_path: Path) -> None:
    later = XLA.replace("141 -> 142;", "141 -> 142; 143 [label=<<b>copy</b><br/>f32[8]{0}>]; 141 -> 143;")
    files = {
        "module_0001.before_optimizations.dot": XLA,
        "module_0001.0000.IPU.after_allocation-finder.before_forward-allocation.dot": later,
        "hlo_graph_3.Ab12Cd.dot": XLA,
        "module_0002.before_optimizations.dot": "digraph { broken",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    dump = xlanb.read_dump(tmp_path)
    assert [(m.files.number, m.name) for m in dump.ranked] == [(1, "module_0001"), (2, "module_0002")]
    trace = dump["module_0001"]
    assert [(s.name, s.describe()) for s in trace] == [
        ("before_optimizations", "before_optimizations: the program as passed to XLA"),
        ("allocation-finder", "allocation-finder: 1 added"),
    ]
    assert isinstance(trace[0].after, GraphRecord)
    assert "expected '}'" in dump["module_0002"][0].after.note  # type: ignore[union-attr]
    assert dump.others == [("hlo_graph_3.Ab12Cd.dot", "a Graphviz graph: .dot_graph(name) draws it")]
    assert (
        dump.dot_graph("hlo_graph_3.Ab12Cd.dot").record()
        == xlanb.read_dot(tmp_path / "hlo_graph_3.Ab12Cd.dot").record()
    )
    shown = dump.dot_graph("module_0001.before_optimizations.dot")._repr_mimebundle_()
    assert "<img" in shown["text/html"]
    with pytest.raises(DumpError, match="did you mean"):
        dump.dot_graph("hlo_graph_4.Ab12Cd.dot")
    assert isinstance(xlanb.read_dot(tmp_path / "hlo_graph_3.Ab12Cd.dot"), DotGraph)
    with pytest.raises(DumpError, match=r"nowhere\.dot"):
        xlanb.read_dot(tmp_path / "nowhere.dot")
