"""Answers and TensorFlow's objects as small HTML, with all names of programs escaped."""

import copy
import pickle
import re
from html import escape

import html5lib
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import xlanb
from xlanb import tf
from xlanb.cpu.records import Code, CodeRecord
from xlanb.explorer.comparison import compare
from xlanb.explorer.diff import diff_modules, diff_traces
from xlanb.explorer.lineage import Lineage, Link
from xlanb.explorer.numerics import Numerics, ResultNumbers, StageNumbers
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.explorer.why import Why
from xlanb.hlo import parse
from xlanb.tracing import Cause, Decision, Predicate

TEXT = """HloModule m
ENTRY e {
  rows = f32[4,8] parameter(0)
  weights = f32[8,4] parameter(1)
  product = f32[4,4] dot(rows, weights), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT bent = f32[4,4] tanh(product)
}
"""
EVIL = "<script>alert('x')</script><img src=x onerror=y>"


@pytest.fixture(scope="module")
def trace():
    return xlanb.trace(TEXT)


@pytest.fixture(scope="module")
def graph():
    made = tf.Graph()
    with made.as_default():
        x = tf.placeholder(tf.float32, [4, 4], name="observed")
        scale = tf.get_variable("scale", initializer=3.0)
        tf.tanh(x * scale, name="bent")
    return made


def _bundle(obj):
    bundle = obj._repr_mimebundle_()
    html5lib.HTMLParser(strict=True).parse(f"<!doctype html><title>x</title><body>{bundle['text/html']}")
    return bundle["text/html"], bundle["text/plain"]


def test_why_shows_each_decision_with_its_conditions(trace):
    html, text = _bundle(trace.why("product", "bent"))
    assert text == str(trace.why("product", "bent"))
    assert html.count("<details") == len(trace.why("product", "bent").distinct)
    assert "FAILS" in html
    assert "in the end" in html
    assert len(html) < 20_000


def test_of_many_decisions_the_first_are_shown_and_where_the_others_are():
    decisions = [Decision(Cause("p"), f"a{k}", ("x",), False, (Predicate("c", False, "v"),)) for k in range(80)]
    why = Why(("x",), decisions, range(80))
    assert "20 more decisions: .to_dataframe() has them all" in _bundle(why)[0]
    table = why.to_dataframe()
    assert len(table) == 80
    assert list(table.columns) == [
        "stage",
        "pass",
        "action",
        "subject",
        "taken",
        "condition",
        "holds",
        "value",
        "remedy",
        "basis",
    ]


def test_a_rule_that_fired_says_what_it_keeps():
    of = [Decision(Cause("p", "r", keeps="real numbers only"), "r", ("x",), taken) for taken in (True, False)]
    html = _bundle(Why(("x",), of, [1, 2]))[0]
    assert html.count("keeps: real numbers only") == 1


def test_why_without_decisions_says_so(trace):
    html, text = _bundle(trace.why("rows"))
    assert "no pass made a decision about it" in html
    assert text == "rows: in the final module\n  no pass made a decision about it"
    untold = Why(("x",), (), recorded=False)
    assert "a dump shows what the passes did but not why" in _bundle(untold)[0]


def test_lineage_shows_the_way_through_the_passes(trace):
    lineage = trace.lineage("bent")
    html, text = _bundle(lineage)
    assert text == str(lineage)
    assert html.count("&rarr;") == len(lineage.links)
    assert all(name in html for name in lineage.results)
    assert list(lineage.to_dataframe()["after"]) == [k.new for k in lineage.links]


def test_a_long_lineage_is_cut_and_says_so():
    links = tuple(Link(k, Cause("p"), f"a{k}", f"a{k + 1}") for k in range(150))
    lineage = Lineage("a150", tuple(f"s{k}" for k in range(20)), (), (), (), links)
    html, _ = _bundle(lineage)
    assert "50 more links" in html
    assert "8 more" in html
    assert len(lineage.to_dataframe()) == 150


def test_conditions_show_the_failing_ones_first(graph):
    html, text = _bundle(xlanb.cluster(graph).why("bent"))
    assert html.index("FAILS") < html.index("holds</td>")
    assert text.startswith("bent (Tanh): ")


@pytest.mark.parametrize(
    "obj",
    [
        Why((EVIL,), [Decision(Cause(EVIL, EVIL, EVIL), EVIL, (EVIL,), True, (Predicate(EVIL, True, EVIL),))], [1]),
        Lineage(EVIL, (EVIL,), (EVIL,), (EVIL,), (EVIL,), (Link(1, Cause(EVIL, EVIL, EVIL), EVIL, EVIL),)),
        Code.of(CodeRecord("llvm", f"; {EVIL}\n")),
    ],
    ids=["why", "lineage", "code"],
)
def test_nothing_of_a_name_is_markup(obj):
    html, _ = _bundle(obj)
    assert "<script>alert" not in html
    assert "<img" not in html


# -- code ------------------------------------------------------------------------------------------


def test_code_is_a_string_that_shows_itself(trace):
    exe = trace.program
    for code in (exe.llvm_ir, exe.optimized_llvm_ir, exe.assembly):
        assert isinstance(code, str)
        assert "product" in code
        assert type(code[:10]) is str
        html, text = _bundle(code)
        assert 'class="xlanb-static"' in html
        assert len(text.splitlines()) <= 41
    assert text.endswith("more lines: print() shows them all")
    assert exe.llvm_ir == exe.llvm_record.text
    assert exe.llvm_ir.record() is exe.llvm_record


def test_at_a_prompt_code_and_conditions_are_short(trace, graph):
    """IPython has its own printer for str and tuple."""
    plain = InteractiveShell.instance().display_formatter.format
    code = trace.program.assembly
    assert plain(code)[0]["text/plain"] == code.beginning
    assert "xlanb-static" in plain(code)[0]["text/html"]
    conditions = xlanb.cluster(graph).why("bent")
    assert plain(conditions)[0]["text/plain"] == str(conditions)


def test_results_have_a_headline_and_do_not_say_their_tables_twice(trace):
    numbers = trace.numerics()
    assert re.match(r"\d+ stages evaluated, largest relative error \d", numbers.headline)
    failed = Numerics((StageNumbers(trace["hlo"], failure="too large"),))
    assert failed.headline == "1 stage evaluated, 1 without a result (too large)"
    broken = StageNumbers(trace["fusion"], (ResultNumbers("r", 0.0, 1.0, 1, 0, None),))
    assert "NaN or infinite on one side only after fusion" in Numerics((broken,)).headline
    compared = compare(trace, runs=1)
    assert compared.headline.startswith("1 branch, the fastest: m (")
    for obj in (numbers, compared):
        html, _ = _bundle(obj)
        assert html.startswith("<pre")
        assert escape(obj.headline) in html.partition("</pre>")[0]
        assert "\n" not in html.partition("</pre>")[0]


def test_code_is_copied_and_pickled_as_a_string():
    code = Code.of(CodeRecord("asm", "ret\n"))
    assert pickle.loads(pickle.dumps(code)) == "ret\n"  # noqa: S301 - its own
    assert type(copy.deepcopy(code)) is str
    assert _bundle(code)[1] == "ret"


# -- records ---------------------------------------------------------------------------------------


def test_what_stands_after_a_stage_shows_itself(trace):
    for kind in ("hlo", "schedule", "buffer_assignment", "assembly"):
        html, text = _bundle(trace[kind].after)
        assert 'class="xlanb-static"' in html
        assert text
    instruction = trace["hlo"].after.entry_computation.by_name["product"]
    assert "dot(" in _bundle(instruction)[1]


# -- TensorFlow ------------------------------------------------------------------------------------


def test_an_operation_and_a_tensor_say_what_they_are(graph):
    op = graph.get_operation_by_name("bent")
    html, text = _bundle(op)
    assert "Tanh" in html
    assert "f32[4,4]" in html
    assert "test_cards.py" in html
    assert text == repr(op)
    html, text = _bundle(op.inputs[0])
    assert "bent (Tanh)" in html
    assert text == repr(op.inputs[0])
    assert len(html) < 20_000


def test_a_session_lists_its_variables_and_what_it_compiled(graph):
    with tf.Session(graph=graph) as session:
        session.run("scale/Assign")
        session.run("bent:0", {"observed:0": np.zeros((4, 4), np.float32)})
        html, text = _bundle(session)
        assert text == "<Session of graph 'graph': 7 operations, 1 variable, 3 compiled>"
        assert ">scale<" in html
        assert ">3.0<" in html
        assert "Tanh(f32[4,4]" in html
        session.load_variables({"scale": np.float32(2.0)})
        assert session.variables_table()["value"][0] == "2.0"
    assert "closed" in repr(session)


def test_step_stats_are_a_table_and_a_timeline(graph):
    metadata = tf.RunMetadata()
    with tf.Session(graph=graph) as session:
        session.load_variables({"scale": np.float32(2.0)})
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run("bent:0", {"observed:0": np.zeros((4, 4), np.float32)}, options, metadata)
    stats = metadata.step_stats
    assert re.match(r"<StepStats: \d+ on CPU:0", repr(stats))
    assert repr(metadata).startswith("<RunMetadata: ")
    html, _ = _bundle(stats)
    assert ">bent<" in html
    assert len(stats.to_dataframe()) == sum(len(d.node_stats) for d in stats.dev_stats)
    assert stats.plot().data
    assert repr(tf.RunMetadata().step_stats) == "<StepStats: not traced>"


def test_a_graph_def_shows_its_graph(graph):
    message = graph.as_graph_def()
    html, text = _bundle(message)
    assert 'class="xlanb-static"' in html
    assert text.startswith("<GraphDef: 7 operations, 0 functions>")
    assert str(message).startswith("node {")
    message.node.add(name="b", op="NoSuchOp", input=["nowhere"])
    html, text = _bundle(message)
    assert "nowhere" in text
    assert "node {" in text


# -- equal things ----------------------------------------------------------------------------------


def test_equal_modules_and_traces_are_said_to_be_in_one_line(trace):
    record = parse(TEXT).record()
    same = diff_modules(record, parse(TEXT).record(), ("a", "b"))
    assert str(same) == "a and b are equal: 4 instructions"
    assert _bundle(same)[0].count("\n") == 0
    both = diff_traces(trace, xlanb.trace(TEXT))
    assert both.is_equal
    assert re.fullmatch(r"m and m are equal: \d+ passes made the same changes", str(both))
    assert _bundle(both)[0].count("\n") == 0


def test_what_differs_is_not_said_to_be_equal(trace):
    other = xlanb.trace(TEXT.replace("tanh(", "sine("))
    assert not diff_traces(trace, other).is_equal
    assert "are equal" not in str(diff_traces(trace, other))
    shorter = Trace("t", [Stage("hlo", "hlo", None, trace["hlo"].after)])
    assert not diff_traces(trace, shorter).is_equal
