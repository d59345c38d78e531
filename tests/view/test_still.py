"""A saved notebook without scripts: the part of an output that each reader shows."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor

import html5lib
import numpy as np
import pytest
from factory import EVIL, graph_record, make_trace
from unpacking import payload_of

import xlanb
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo import parse
from xlanb.view.page import code_shared_by, saved_html
from xlanb.view.payload import build_payload
from xlanb.view.reprs import mimebundle
from xlanb.view.still import _line, still_svg

# Each reader's preference among the parts of an output. GitHub and nbviewer convert by nbconvert;
# an untrusted JupyterLab shows the first part that it can sanitize, an untrusted VS Code none with
# scripts.
READERS = {
    "github": ["application/vnd.jupyter.widget-view+json", "application/javascript", "text/html", "text/markdown", "image/svg+xml", "text/latex", "image/png", "image/jpeg", "text/plain"],
    "nbconvert --to markdown": ["text/html", "text/markdown", "image/svg+xml", "text/latex", "image/png", "image/jpeg", "text/plain"],
    "nbconvert --to pdf": ["text/latex", "application/pdf", "image/png", "image/jpeg", "image/svg+xml", "text/markdown", "text/plain"],
    "jupyterlab, untrusted": ["text/html", "text/markdown", "text/latex", "image/png", "image/jpeg", "text/plain"],
    "vscode, untrusted": ["text/markdown", "image/png", "image/jpeg", "text/plain"],
}  # fmt: skip
PICTURED = {"github", "nbconvert --to markdown", "jupyterlab, untrusted"}
DROPPED = {"script", "style", "svg", "iframe"}


@pytest.fixture(scope="module")
def trace():
    return make_trace()


def objects(trace):
    module = parse("HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT a = f32[8] negate(x)\n}")
    return {
        "trace": trace,
        "stage": trace["algsimp"],
        "module": module,
        "record": module.record(),
        "computation": module.entry_computation,
        "graph": graph_record(clustered=True),
    }


def sanitized(html):
    """Return HTML as sanitized by GitHub: no script, style, svg, `hidden`, `style`, data
    attributes.
    """
    tree = html5lib.parseFragment(html, namespaceHTMLElements=False)
    for parent in list(tree.iter()):
        for child in list(parent):
            if child.tag in DROPPED:
                parent.remove(child)
        for name in [n for n in parent.attrib if n in {"hidden", "style"} or n.startswith(("data-", "on"))]:
            del parent.attrib[name]
    return tree


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["trace", "stage", "module", "record", "computation", "graph"])
def test_every_reader_shows_a_picture_or_few_lines(trace, reader, name):
    bundle = mimebundle(objects(trace)[name])
    taken = next(kind for kind in READERS[reader] if kind in bundle)
    assert taken == ("text/html" if reader in PICTURED else "text/plain")
    if taken == "text/plain":
        assert 1 <= len(bundle[taken].splitlines()) <= 60
        return
    tree = sanitized(bundle[taken])
    [image] = tree.iter("img")
    assert image.get("src").startswith("data:image/svg+xml;base64,")
    assert image.get("alt")
    [words] = tree.iter("pre")
    assert 2 <= len(words.text.splitlines()) <= 10


def test_the_orders_are_those_of_nbconvert():
    exporters = pytest.importorskip("nbconvert.exporters")
    for reader, kind in {
        "github": exporters.HTMLExporter,
        "nbconvert --to markdown": exporters.MarkdownExporter,
        "nbconvert --to pdf": exporters.LatexExporter,
    }.items():
        order = kind().default_config.NbConvertBase.display_data_priority
        assert [k for k in order if k in READERS[reader]] == READERS[reader]


def test_a_pdf_needs_no_inkscape(trace, monkeypatch, tmp_path):
    """An image/svg+xml in the output would: nbconvert fails where it cannot convert one."""
    exporters = pytest.importorskip("nbconvert.exporters")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PATH", str(tmp_path))
    output = nbformat.v4.new_output("display_data", mimebundle(trace))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("trace", outputs=[output])])
    text, _ = exporters.LatexExporter().from_notebook_node(notebook)
    assert "passes that changed most" in text


def svg_of(html):
    return base64.b64decode(re.search(r'src="data:image/svg\+xml;base64,([^"]*)"', html)[1]).decode()


@pytest.mark.parametrize("name", ["plain", EVIL, "a\x00b\ud800", "x" * 500])
def test_the_picture_is_xml_that_loads_nothing(name):
    nodes = (
        NodeRecord(name, "MatMul"),
        NodeRecord("scope/" + name, name, (name,)),
        NodeRecord("z", "Tanh", ("scope/" + name,)),
    )
    svg = still_svg(GraphRecord(name, nodes))
    tree = ET.fromstring(svg.encode("utf-8", "replace"))  # noqa: S314 - our own
    assert not [e.tag for e in tree.iter() if e.tag.endswith(("script", "image", "a", "foreignObject"))]
    assert not re.search(r"@import|@font-face|url\((?!#)|\bon\w+=\"", re.sub(r"<text.*?</text>", "", svg))
    mimebundle(GraphRecord(name, nodes))


def chain(count):
    lines = ["x0 = f32[64,64] parameter(0)"]
    ops = ("tanh(x{0})", "exponential(x{0})", "dot(x{0}, x{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
    lines += [f"x{k + 1} = f32[64,64] {ops[k * 7 % 3].format(k)}" for k in range(count)]
    return parse("HloModule m\nENTRY e {\n" + "\n".join(lines[:-1]) + f"\nROOT {lines[-1]}\n}}").record()


@pytest.mark.parametrize("count", [1, 12, 25, 300])
def test_it_is_legible_at_800_pixels_and_small(count):
    svg = still_svg(chain(count))
    width, height = (float(re.search(rf' {side}="(\d+)"', svg)[1]) for side in ("width", "height"))
    assert width <= 900
    assert height <= 1100
    assert min(map(int, re.findall(r"font(?:-size)?:(\d+)px", svg))) * min(1, 800 / width) >= 9.7
    assert len(svg) < 15_000
    boxes = [
        tuple(map(float, b))
        for b in re.findall(r'<rect(?: class="[hp]")? x="(-?\d+)" y="(-?\d+)" width="(\d+)" height="(\d+)"', svg)
    ]
    boxes = boxes[1:]  # the first is the ground
    assert len(boxes) > 1
    for k, (x, y, w, h) in enumerate(boxes):
        assert not any(x < a + c and a < x + w and y < b + d and b < y + h for a, b, c, d in boxes[:k])


def test_an_empty_program_has_no_picture():
    assert still_svg(GraphRecord("g", ())) == ""


def attention():
    return """HloModule attention
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b) }
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[128,64] parameter(0)
  q = f32[64,64] parameter(1)
  k = f32[64,64] parameter(2)
  xq = f32[128,64] dot(x, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  xk = f32[128,64] dot(x, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  scores = f32[128,128] dot(xq, xk), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  low = f32[] constant(-inf)
  top = f32[128] reduce(scores, low), dimensions={1}, to_apply=max
  tops = f32[128,128] broadcast(top), dimensions={0}
  less = f32[128,128] subtract(scores, tops)
  e = f32[128,128] exponential(less)
  zero = f32[] constant(0)
  total = f32[128] reduce(e, zero), dimensions={1}, to_apply=sum
  totals = f32[128,128] broadcast(total), dimensions={0}
  soft = f32[128,128] divide(e, totals)
  mixed = f32[128,64] dot(soft, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[128,64], f32[128,128]) tuple(mixed, soft)
}"""


def test_a_small_object_is_small_in_a_notebook():
    """Besides the program and the style, which one output of the notebook has."""
    trace = xlanb.trace(attention())
    trace.program(*(np.ones(shape, np.float32) for shape in ((128, 64), (64, 64), (64, 64))))
    shown = [
        trace,
        trace["algsimp"],
        trace["fusion"],
        trace["hlo"].after,
        trace["llvm_ir"].after,
        trace.why("scores", "e"),
    ]
    with code_shared_by(lambda: True):
        sizes = [sum(map(len, mimebundle(x).values())) for x in shown]
        saved = len(saved_html(build_payload([trace]), [trace], "a"))
    assert max(sizes) < 20_500
    assert saved < 24_000
    table = trace.to_dataframe()
    assert len(table._repr_html_()) + len(repr(table)) < 24_000


def test_what_opens_on_code_keeps_it():
    trace = xlanb.trace(attention())
    payload = build_payload([trace])
    position = next(s.index for s in trace if s.kind == "llvm_ir")
    for start in ({"branch": 0, "stage": 0, "pane": "Code"}, {"branch": 0, "stage": position}):
        codes = [
            a for a in payload_of(saved_html(payload | {"start": start}, [trace], "a"))["artifacts"] if a["k"] == "code"
        ]
        assert all(len(a["lines"]) == a["total"] for a in codes)
    codes = [a for a in payload_of(saved_html(payload | {"start": {}}, [trace], "a"))["artifacts"] if a["k"] == "code"]
    assert all(len(a["lines"]) < a["total"] for a in codes)


def test_the_code_that_is_left_out_is_named():
    trace = xlanb.trace(attention())
    html = mimebundle(trace)["text/html"]
    codes = [a for a in payload_of(html)["artifacts"] if a["k"] == "code"]
    assert codes
    for code in codes:
        assert "trace.to_html(path) contain all" in code["note"]
        assert any("... " in line for line in code["lines"])
        named = [op for _, op in code["ops"] if op]
        assert named


def test_a_line_says_each_corner_once():
    assert _line([(5, 1), (5, 20), (5.2, 40), (30, 40), (30, 90)]) == "M5 1V40H30V90"
    assert _line([(0, 0), (10, 20)]) == "M0 0L10 20"


def test_the_trace_of_the_readme_is_kept_in_20_kb():
    jax = pytest.importorskip("jax")

    def attend(params, x):
        scores = jax.nn.softmax((x @ params["q"]) @ (x @ params["k"]).T)
        return {"mixed": scores @ x, "scores": scores}

    params = {name: np.ones((64, 64), np.float32) for name in ("q", "k")}
    with ThreadPoolExecutor(1) as pool:  # as in a notebook there are few frames below it
        trace = pool.submit(xlanb.trace, attend, params, np.ones((128, 64), np.float32)).result()
    with code_shared_by(lambda: True):
        (html,) = [text for kind, text in mimebundle(trace).items() if kind == "text/html"]
    assert len(html) < 20_500
