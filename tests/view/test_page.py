from __future__ import annotations

import re
from dataclasses import replace

import html5lib
import pandas as pd
import pytest
from factory import EVIL, graph_record, make_trace
from unpacking import code_of, payload_of

from xlanb.errors import XlanbError
from xlanb.explorer.stage import Stage, TextRecord
from xlanb.explorer.trace import Trace
from xlanb.hlo import parse
from xlanb.view import assets
from xlanb.view.dot import digraph, write_graph
from xlanb.view.page import fragment_html, page_html, write_page
from xlanb.view.reprs import mimebundle
from xlanb.view.tables import table_html
from xlanb.view.text import trace_text, traces_text


@pytest.fixture(scope="module")
def trace():
    return make_trace()


def test_a_page_is_whole_small_and_needs_no_network(trace):
    html = page_html([trace])
    html5lib.HTMLParser(strict=True).parse(html)
    assert len(html) < 212_000
    assert not re.search(r"(?:src|href)=(?!\"data:image/svg)|https?://(?!www\.w3\.org/)", html)
    program = code_of(html, "program")
    assert not re.search(r"https?://(?!www\.w3\.org/)|\bfetch\(|import\((?!\"\./)", program + code_of(html, "style"))
    assert payload_of(html)["traces"][0]["name"] == "linear regression"


def test_untrusted_names_are_never_markup():
    html = page_html([make_trace(EVIL, evil=True)], title=EVIL)
    tree = html5lib.parse(html, namespaceHTMLElements=False)
    assert all(i.get("src").startswith("data:image/svg+xml;base64,") and len(i.attrib) == 3 for i in tree.iter("img"))
    assert EVIL in tree.find(".//pre").text
    assert tree.find(".//title").text == EVIL


def test_the_program_puts_no_data_into_markup():
    for name in (
        "innerHTML",
        "outerHTML =",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
    ):
        assert name not in assets.program(), name


def test_a_fragment_shows_its_text_where_no_script_runs(trace):
    tree = html5lib.parseFragment(fragment_html([trace]), namespaceHTMLElements=False)
    lines = tree.find(".//pre").text.splitlines()
    assert len(lines) <= 10
    assert "algsimp (+2 -4 ~3)" in lines[1]
    assert tree.find(".//img").get("alt") == "The graph of cluster_0"
    assert not list(tree.iter("style")), "the style is the shadow root's"


def test_write_page_writes_the_file(trace, tmp_path):
    write_page([trace], tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_trace_text_is_a_table_of_stages(trace):
    lines = trace_text(trace).splitlines()
    assert lines[0] == "linear regression: 18 stages, 14 changed something"
    assert any(re.fullmatch(r" +9  .*dce: no change", line) for line in lines)
    assert any(re.fullmatch(r" +8 \* +900 us  algsimp: .*", line) for line in lines)


def test_an_unknown_time_is_never_zero(trace):
    untimed = Trace("untimed", [replace(s, seconds=None) for s in trace])
    assert "   0 *  graph" in trace_text(untimed)  # no column where no time is known
    some = Trace("some", [trace[0], *untimed.stages[1:]])
    assert re.search(r" unknown  \w", trace_text(some))
    assert untimed.to_dataframe()["ms"].isna().all()
    with pytest.raises(XlanbError, match="no stage of 'untimed' was timed"):
        untimed.plot()


def test_a_trace_as_a_table(trace):
    table = trace.to_dataframe()
    assert list(table.loc[[8, 9], "changed"]) == [True, False]
    assert table.loc[8, "removed"] == 4
    assert table.loc[8, "ms"] == pytest.approx(0.9)


def test_kernels_table_and_figures(trace):
    run = trace["run"].after
    table = run.to_dataframe()
    assert list(table["kernel"]) == ["fusion", "reduce"]
    assert table["GB/s"][0] == pytest.approx(1600 / 4.1e-6 / 1e9)
    assert list(run.plot().data[0].y) == ["fusion", "reduce"]
    drawn = [label for bars in trace.plot().data for label in bars.y]
    assert "8 algsimp" in drawn
    assert "17 second run" not in drawn


@pytest.mark.parametrize(
    "pick",
    [
        "trace",
        "stage",
        "module",
        "record",
        "graph",
        "buffers",
        "code",
        "run",
        "cache",
        "computation",
        "instruction",
    ],
)
def test_everything_shows_itself_in_html_and_text(trace, pick):
    module = parse(
        "HloModule tiny\n\nENTRY %main (x: f32[2]) -> f32[2] {\n  %x = f32[2]{0} parameter(0)\n  ROOT %n = f32[2]{0} negate(%x)\n}\n"
    )
    shown = {
        "trace": trace,
        "stage": trace["algsimp"],
        "module": module,
        "record": module.record(),
        "graph": graph_record(clustered=True),
        "buffers": trace["buffer_assignment"].after,
        "code": trace["assembly"].after,
        "run": trace["run"].after,
        "cache": trace["second run"].after,
        "computation": module.record().entry_computation,
        "instruction": module.entry_computation.root.record(),
    }[pick]
    bundle = mimebundle(shown)
    html5lib.HTMLParser(strict=True).parseFragment(bundle["text/html"])
    assert bundle["text/plain"].strip()
    expected = {
        "trace": "algsimp",
        "stage": "4 removed",
        "module": "negate",
        "record": "negate",
        "graph": "[cluster_0]",
        "buffers": "allocation 2",
        "code": "vmulps",
    }
    assert expected.get(pick, "") in bundle["text/plain"]
    assert payload_of(bundle["text/html"])["traces"][0]["stages"]


def test_what_is_unknown_shows_its_text():
    class Odd:
        def __str__(self):
            return "<b>odd</b>"

    assert mimebundle(Odd()) == {
        "text/html": '<pre style="white-space:pre-wrap;font-size:12px">&lt;b&gt;odd&lt;/b&gt;</pre>',
        "text/plain": "<b>odd</b>",
    }


def test_dot_has_nodes_edges_and_clusters(trace, tmp_path):
    module = trace["copy-insertion"].after
    source = digraph(module).source
    assert "subgraph cluster_0" in source
    assert source.count(" -> ") > 20
    assert "fusion  kLoop" in source
    write_graph(module, tmp_path / "g.dot")
    assert (tmp_path / "g.dot").read_text() == source
    with pytest.raises(XlanbError, match="bmp"):
        write_graph(module, tmp_path / "g.bmp")


def test_dot_escapes_names(trace):
    source = digraph(make_trace(evil=True)["graph"].after).source
    assert "<img" not in source.replace("&lt;img", "").replace('tooltip="<img', "")


def test_without_dot_the_error_says_so(trace, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(XlanbError, match="needs Graphviz' dot"):
        write_graph(trace["graph"].after, tmp_path / "g.svg")


def test_stages_that_changed_nothing_are_one_line_of_text():
    module = parse("HloModule m\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}").record()
    idle = [Stage("hlo_pass", f"pass-{k}", module, module, ("cpu",), seconds=1e-6, index=k) for k in range(9)]
    busy = Stage("llvm_ir", "llvm_ir", None, TextRecord("ir", "define"), seconds=1e-3, index=9)
    lines = trace_text(Trace("m", [*idle, busy, idle[0]])).splitlines()
    assert len(lines) == 4
    assert lines[1].endswith("9 stages changed nothing: pass-0, pass-1, pass-2, pass-3, ...")
    assert "9 us" in lines[1]
    assert lines[3].endswith("pass-0: no change")


def test_of_several_traces_the_first_is_told_in_full(trace):
    text = traces_text([trace, Trace("second", trace.stages[:3])])
    assert text.startswith(trace_text(trace))
    assert text.splitlines()[-1] == "second: 3 stages, 2 changed something"
    assert traces_text([]) == "nothing was compiled"


def test_tables_stand_as_one_reads_them():
    frame = pd.DataFrame({"n": [1, None], "x": [0.123456, float("nan")], "word": ["<b>", None]}).astype({"n": "Int64"})
    html = table_html(frame)
    assert html.count("text-align:right") == 6
    assert html.count("text-align:left") == 4
    assert "0.1235" in html
    assert "&lt;b&gt;" in html
    assert not re.search("NA|nan|None", html)
