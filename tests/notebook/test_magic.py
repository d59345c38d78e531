"""%%xla_jit in a real IPython shell: the cell behaves as without it, and compilations are
recorded.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import CapturedIO

from tests.notebook.shells import printed, run, texts
from xlanb.errors import ArgumentError, FeedError, FlagError, GraphError, MissingPeerError, XlanbError
from xlanb.hlo.opcode import HloOpcode
from xlanb.notebook.observation import Observation

LAYER = """
import numpy as np
import xlanb.tf as tf
graph = tf.Graph()
with graph.as_default():
    x_in = tf.placeholder(tf.float32, [None, 3], name="x")
    y = tf.nn.relu(tf.matmul(x_in, tf.constant(np.eye(3, 2, dtype=np.float32), name="w")) + 1.0, name="y")
"""


def test_a_tensor_at_the_end_is_fed_from_variables_and_run(shell: InteractiveShell) -> None:
    shell.user_ns["x"] = np.array([[1, -5, 2]], np.float32)
    result, captured = run(shell, f"%%xla_jit -o seen\n{LAYER}\ny")
    assert result.success
    np.testing.assert_array_equal(result.result, [[2, 0]])
    assert "HLO instructions" in texts(captured)
    seen = shell.user_ns["seen"]
    assert isinstance(seen, Observation)
    assert seen.trace["tf2xla"].kind == "tf2xla"


def test_feeds_can_be_given_by_an_expression(shell: InteractiveShell) -> None:
    shell.user_ns["data"] = np.zeros((2, 3), np.float32)
    result, _ = run(shell, f"%%xla_jit --args {{'x':data}}\n{LAYER}\ny")
    np.testing.assert_array_equal(result.result, np.ones((2, 2)))


def test_without_anything_to_feed_the_placeholder_is_named(shell: InteractiveShell) -> None:
    result, captured = run(shell, f"%%xla_jit\n{LAYER}\ny")
    assert isinstance(result.error_in_exec, FeedError)
    assert "placeholder 'x'" in printed(captured)


def test_variables_prints_and_the_last_value_are_as_without_the_magic(shell: InteractiveShell) -> None:
    result, captured = run(shell, "%%xla_jit -q\nprint('hello')\nanswer = 41\nanswer + 1")
    assert result.result == 42
    assert shell.user_ns["answer"] == 41
    assert captured.stdout.startswith("hello\n")


def test_a_semicolon_silences_the_value(shell: InteractiveShell) -> None:
    _, captured = run(shell, "%%xla_jit -q\n41 + 1;")
    assert "42" not in captured.stdout


def test_an_error_of_the_cell_comes_out_as_it_is(shell: InteractiveShell) -> None:
    result, captured = run(shell, "%%xla_jit\nfirst = 1\nraise KeyError('lost')")
    assert isinstance(result.error_in_exec, KeyError)
    assert shell.user_ns["first"] == 1
    assert "raise KeyError('lost')" in printed(captured)


def test_a_syntax_error_points_into_the_cell(shell: InteractiveShell) -> None:
    result, captured = run(shell, "%%xla_jit\nx = = 1")
    assert isinstance(result.error_in_exec, SyntaxError)
    assert "x = = 1" in printed(captured)


def test_an_error_while_the_graph_is_built_leaves_graph_and_shell_usable(shell: InteractiveShell) -> None:
    bad = "with graph.as_default():\n    tf.matmul(x_in, tf.constant(np.ones((4, 2), np.float32)))"
    run(shell, LAYER)
    before = len(shell.user_ns["graph"])
    result, captured = run(shell, f"%%xla_jit\n{bad}")
    assert isinstance(result.error_in_exec, GraphError)
    assert "MatMul" in printed(captured)
    shell.user_ns["x"] = np.array([[1, -5, 2]], np.float32)
    result, _ = run(shell, "%%xla_jit\ny")
    np.testing.assert_array_equal(result.result, [[2, 0]])
    assert len(shell.user_ns["graph"]) <= before + 1


def test_every_compilation_of_a_cell_is_seen(shell: InteractiveShell) -> None:
    cell = (
        f"%%xla_jit -o seen\n{LAYER}\nwith tf.Session(graph) as sess:\n"
        "    for n in (1, 2, 1):\n        sess.run(y, {x_in: np.ones((n, 3), np.float32)})"
    )
    run(shell, cell)
    seen = shell.user_ns["seen"]
    assert len(seen.traces) == 2
    assert sorted(len(t.runs) for t in seen.traces) == [1, 2]


def test_compiled_code_is_used_again_unless_forced(shell: InteractiveShell) -> None:
    run(shell, f"{LAYER}\nsess = tf.Session(graph)\nfeeds = {{x_in: np.ones((1, 3), np.float32)}}")
    for line, count in (("-o seen", 1), ("-o seen", 0), ("-F -o seen", 1)):
        run(shell, f"%%xla_jit {line}\nsess.run(y, feeds)")
        assert sum(any(s.kind == "tf2xla" for s in t) for t in shell.user_ns["seen"].traces) == count


def test_a_pass_can_be_left_out(shell: InteractiveShell) -> None:
    shell.user_ns["x"] = np.ones((1, 3), np.float32)
    run(shell, f"%%xla_jit --disable fusion -o seen\n{LAYER}\ny")
    assert "fusion" not in {s.name for s in shell.user_ns["seen"].trace}


def test_a_function_is_compiled_with_its_arguments(shell: InteractiveShell) -> None:
    cell = "%%xla_jit -f twice --args (np.arange(3.0),)\nimport numpy as np\ndef twice(x):\n    return x + x"
    result, _ = run(shell, "import numpy as np\n")
    result, _ = run(shell, cell)
    np.testing.assert_array_equal(result.result[0], [0, 2, 4])


def test_a_cell_of_hlo_is_compiled_and_run(shell: InteractiveShell) -> None:
    shell.user_ns["v"] = np.arange(3, dtype=np.float32)
    result, _ = run(
        shell,
        "%%xla_jit --lang hlo --args (v,)\nHloModule m\nENTRY e {\n  a = f32[3] parameter(0)\n  ROOT r = f32[3] add(a, a)\n}",
    )
    np.testing.assert_array_equal(result.result, [0, 2, 4])


def test_the_step_view_is_exported(shell: InteractiveShell, tmp_path: Path) -> None:
    shell.user_ns["x"] = np.ones((1, 3), np.float32)
    run(shell, f"%%xla_jit -q --export {tmp_path / 'page.html'}\n{LAYER}\ny")
    assert "<html" in (tmp_path / "page.html").read_text()


def test_step_shows_the_widget(shell: InteractiveShell) -> None:
    shell.user_ns["x"] = np.ones((1, 3), np.float32)
    _, captured = run(shell, f"%%xla_jit --step\n{LAYER}\ny")
    assert any("application/vnd.jupyter.widget-view+json" in o.data for o in captured.outputs)


def test_help_lists_every_option(shell: InteractiveShell) -> None:
    text = shell.find_cell_magic("xla_jit").__doc__
    assert text
    for option in ("--step", "--time", "--output", "--args", "--export"):
        assert option in text


def test_a_bad_option_is_refused(shell: InteractiveShell) -> None:
    result, captured = run(shell, "%%xla_jit --no-such-option\n1")
    assert not result.success
    assert "no-such-option" in printed(captured)


def test_flags_end_with_the_cell(shell: InteractiveShell) -> None:
    from xlanb.debug_options import current

    before = current()
    run(shell, "%%xla_jit\nraise ValueError")
    assert current() == before


def test_a_misspelt_flag_is_an_error() -> None:
    from xlanb.debug_options import flags

    with pytest.raises(FlagError), flags("--tf_xla_min_cluster_sise=2"):
        pass


# -- what the options ask for ----------------------------------------------------------------------

HLO = """HloModule m
ENTRY e {
  a = f32[64,64] parameter(0)
  b = f32[64,64] parameter(1)
  c = f32[64,64] add(a, b)
  t = f32[64,64] tanh(c)
  d = f32[64,64] dot(t, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,64] exponential(d)
}"""


def html(captured: CapturedIO) -> str:
    return "".join(o.data.get("text/html", "") for o in captured.outputs)


def test_nodes_made_in_a_cell_name_the_cell_and_its_line(shell: InteractiveShell) -> None:
    shell.user_ns["x"] = np.array([[1, -5, 2]], np.float32)
    run(shell, LAYER)
    made = {op.name: (op.source_file, op.source_line) for op in shell.user_ns["graph"].get_operations()}
    assert made["y"] == ("In [1]", 6)
    cell = "with graph.as_default():\n    z = tf.negative(y, name='z')\nz"
    run(shell, f"%%xla_jit -q -o seen\n{cell}")
    assert (shell.user_ns["z"].op.source_file, shell.user_ns["z"].op.source_line) == ("In [2]", 3)
    module = shell.user_ns["seen"].trace["tf2xla"].after
    lines = {f"{i.metadata.source_file}:{i.metadata.source_line}" for i in module.entry_computation.instructions}
    assert "In [2]:3" in lines


def test_tracebacks_count_lines_as_the_reader_does(shell: InteractiveShell) -> None:
    _, captured = run(shell, "%%xla_jit\nfirst = 1\n\nraise KeyError('lost')")
    assert re.search(r"-+> 4 raise KeyError|line 4", printed(captured))


def test_annotate_opens_each_line_to_what_it_became(shell: InteractiveShell) -> None:
    run(shell, LAYER)
    shell.user_ns["x"] = np.ones((64, 3), np.float32)
    cell = "with graph.as_default():\n    z = tf.exp(y)\n    w = tf.reduce_sum(z)\nw"
    _, captured = run(shell, f"%%xla_jit -q -a\n{cell}")
    shown = html(captured)
    assert "z = tf.exp(y)" in shown
    assert "exponential" in shown
    assert "LLVM IR (" in shown
    assert "assembly (" in shown
    assert "from other cells" in shown
    (line,) = [t for t in texts(captured).splitlines() if t.endswith("z = tf.exp(y)")]
    assert "%" in line


def test_annotate_of_hlo_tints_its_own_lines(shell: InteractiveShell) -> None:
    _, captured = run(shell, f"%%xla_jit -q -a --lang hlo\n{HLO}")
    shares = {t.split()[-1]: t.split()[0] for t in texts(captured).splitlines() if "%" in t and "=" in t}
    assert sum(float(s.rstrip("%")) for s in shares.values()) == pytest.approx(100, abs=3)
    assert "<script" not in html(captured)


def test_repeat_runs_it_so_often(shell: InteractiveShell) -> None:
    run(shell, f"%%xla_jit -q -r 7 -o seen --lang hlo\n{HLO}")
    assert len(shell.user_ns["seen"].trace.runs) == 7


def test_until_stops_there_and_runs_nothing(shell: InteractiveShell) -> None:
    result, _ = run(shell, f"%%xla_jit -q --until cse -o seen --lang hlo\n{HLO}")
    assert result.success
    assert result.result is None
    assert shell.user_ns["seen"].trace.stages[-1].name == "cse"
    result, captured = run(shell, "%%xla_jit --until cse\n1 + 1")
    assert isinstance(result.error_in_exec, ArgumentError)
    assert "--until and --live need a cell that ends in a tensor" in printed(captured)


def test_a_difference_of_two_stages(shell: InteractiveShell) -> None:
    _, captured = run(shell, f"%%xla_jit -q -d 0:fusion --lang hlo\n{HLO}")
    assert "before_optimizations -> fusion" in texts(captured)
    result, _ = run(shell, f"%%xla_jit -q -d nonsense --lang hlo\n{HLO}")
    assert isinstance(result.error_in_exec, ArgumentError)


def test_check_compares_with_the_interpreter(shell: InteractiveShell) -> None:
    result, captured = run(shell, f"%%xla_jit -q --check --lang hlo\n{HLO}")
    assert result.success
    assert "agrees with the reference interpreter" in texts(captured)
    result, captured = run(shell, f"%%xla_jit -q --check=0 --args (a,a) --lang hlo\n{HLO}")
    assert not result.success


def test_a_difference_is_an_error(shell: InteractiveShell) -> None:
    result, captured = run(shell, f"%%xla_jit -q --check=1e-30 --lang hlo\n{HLO}")
    assert isinstance(result.error_in_exec, XlanbError)
    assert "DIFFERS from the reference interpreter" in printed(captured)
    result, _ = run(shell, f"%%xla_jit -q --check=much --lang hlo\n{HLO}")
    assert isinstance(result.error_in_exec, ArgumentError)


def test_bisect_says_that_nothing_moved(shell: InteractiveShell) -> None:
    _, captured = run(shell, f"%%xla_jit -q --bisect --lang hlo\n{HLO}")
    assert "no pass changed the numbers" in texts(captured)


NEAR = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  c = f32[] constant(1e8)
  b = f32[4] broadcast(c), dimensions={}
  a = f32[4] add(x, b)
  ROOT s = f32[4] subtract(a, b)
}"""


@pytest.mark.parametrize("asked", ["--check", "--bisect"])
def test_numbers_that_differ_have_a_rule_and_a_file(shell: InteractiveShell, asked: str) -> None:
    result, captured = run(shell, f"%%xla_jit -q {asked} --lang hlo\n{NEAR}")
    assert result.success == (asked == "--bisect")
    assert "rewrite (A + C1) + C2 => A + (C1 + C2)" in texts(captured)
    assert any("Save reproducer" in o.data.get("text/html", "") for o in captured.outputs)


def test_without_a_file_the_rule_is_shown_still(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise XlanbError("too large")

    monkeypatch.setattr("xlanb.explorer.bisection.reproducer_of", refuse)
    _, captured = run(shell, f"%%xla_jit -q --bisect --lang hlo\n{NEAR}")
    assert "rewrite (A + C1) + C2" in texts(captured)
    assert "no reproducer was written: too large" in texts(captured)


def test_why_two_instructions_are_apart(shell: InteractiveShell) -> None:
    _, captured = run(shell, f"%%xla_jit -q --why t,d --lang hlo\n{HLO}")
    assert "FAILS" in texts(captured)
    assert "fuse" in texts(captured)


def test_live_compiles_nothing_yet(shell: InteractiveShell) -> None:
    _, captured = run(shell, f"%%xla_jit -s --live --lang hlo\n{HLO}")
    assert any("application/vnd.jupyter.widget-view+json" in o.data for o in captured.outputs)
    assert "1 stage," in texts(captured)


def test_an_unknown_value_is_refused_in_words(shell: InteractiveShell) -> None:
    result, captured = run(shell, "%%xla_jit --lang cobol\n1")
    assert not result.success
    assert "cobol" in printed(captured)


def test_jax_is_asked_for_where_it_is_not_installed(shell: InteractiveShell) -> None:
    pytest.importorskip("numpy")
    try:
        import jax  # noqa: F401
    except ModuleNotFoundError:
        result, captured = run(shell, "%%xla_jit --lang jax\nsum([1, 2])")
        assert not result.success
        assert "pip install" in printed(captured)
    else:
        result, _ = run(shell, "%%xla_jit --lang jax\nimport jax.numpy as jnp\njnp.tanh(2.0)")
        np.testing.assert_allclose(result.result, np.tanh(2.0), rtol=1e-5)


def test_a_cell_that_compiles_nothing_says_so(shell: InteractiveShell) -> None:
    result, captured = run(shell, "%%xla_jit\n1 + 1")
    assert result.success
    assert "nothing was compiled in this cell" in texts(captured)
    assert "IndexError" not in printed(captured)
    _, captured = run(shell, "%%xla_jit\nraise ValueError('here')")
    assert "IndexError" not in printed(captured)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--disable fusoin", "--disable fusoin: no such pass; did you mean 'fusion'"),
        ("-d fusion", "two stages separated by a colon"),
        ("--check=abc", "the tolerance must be a number"),
    ],
)
def test_what_cannot_be_answered_is_refused_before_the_cell_runs(shell, options, words):
    _, captured = run(shell, f"%%xla_jit {options}\nran = True")
    assert words in printed(captured)
    assert "ran" not in shell.user_ns


def test_a_cell_that_fails_says_nothing_of_compiling(shell):
    _, captured = run(shell, "%%xla_jit\n1/0")
    assert "ZeroDivisionError" in printed(captured)
    assert "nothing was compiled" not in texts(captured)


def test_hlo_that_breaks_its_own_shapes_is_refused(shell):
    """Compiled, it would read beyond its array."""
    _, captured = run(
        shell,
        "%%xla_jit --lang hlo\nHloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[500] add(x, x)\n}",
    )
    assert "expected the shape f32[4], not f32[500]" in printed(captured)


ARRAYS = "import numpy as np\nimport xlanb.tf as tf\na, w = np.ones((4, 8), np.float32), np.ones((8, 3), np.float32)\n"
PRODUCT = ARRAYS + "tf.nn.relu(tf.matmul(a, w))"
RUN = ARRAYS + "with tf.Session() as session:\n    session.run(tf.nn.relu(tf.matmul(a, w)))"


def test_a_cell_over_arrays_is_compiled_as_if_they_were_fed(shell: InteractiveShell) -> None:
    result, captured = run(shell, f"%%xla_jit -o seen -a --check --bisect\n{PRODUCT}")
    assert result.success
    np.testing.assert_array_equal(result.result, np.full((4, 3), 8, np.float32))
    entry = shell.user_ns["seen"].trace["tf2xla"].after.entry_computation
    parameters = [str(i.shape) for i in entry.instructions if i.opcode is HloOpcode.PARAMETER]
    assert parameters == ["f32[4,8]{1,0}", "f32[8,3]{1,0}"]
    assert "agrees with the reference interpreter" in texts(captured)
    assert "no pass changed the numbers" in texts(captured)


def test_shapes_and_axes_stay_constants_in_a_cell_over_arrays(shell: InteractiveShell) -> None:
    result, captured = run(shell, f"%%xla_jit\n{ARRAYS}tf.reduce_sum(tf.reshape(tf.constant(a), [8, 4]), [0]) * 2.0")
    np.testing.assert_array_equal(result.result, np.full(4, 16, np.float32))
    assert "HLO instructions" in texts(captured)


@pytest.mark.parametrize("option", ["-a", "--check", "--bisect"])
def test_what_was_folded_away_says_so(shell: InteractiveShell, option: str) -> None:
    result, captured = run(shell, f"%%xla_jit {option}\n{RUN}")
    assert "not compiled: its values depend only on constants" in texts(captured)
    assert isinstance(result.error_in_exec, XlanbError)
    assert "feed the arrays through tf.placeholder" in str(result.error_in_exec)


def test_a_cell_that_is_not_compiled_says_which_condition_kept_it_out(shell: InteractiveShell) -> None:
    _, captured = run(shell, f"%%xla_jit --min-cluster-size 50\n{PRODUCT}")
    assert "fewer than tf_xla_min_cluster_size=50" in texts(captured)
    assert "--min-cluster-size changes the minimum size" in texts(captured)
    _, captured = run(shell, f"%%xla_jit\n{ARRAYS}tf.constant(a)")
    assert "not compiled: the graph has nothing to compute" in texts(captured)


def test_against_alone_is_a_check(shell: InteractiveShell) -> None:
    _, captured = run(shell, f"%%xla_jit -q --against evaluator\n{PRODUCT}")
    assert "agrees with the reference interpreter" in texts(captured)


def test_against_the_real_xla_alone_is_a_check_or_says_that_it_is_missing(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MissingPeerError("JAX is not installed")

    monkeypatch.setattr("xlanb.peers.xla.check_installed", missing)
    result, captured = run(shell, f"%%xla_jit --against xla\nprint('ran')\n{PRODUCT}")
    assert isinstance(result.error_in_exec, MissingPeerError)
    assert "ran" not in captured.stdout.split("Traceback")[0].splitlines()


def test_against_the_real_xla_compares_with_it(shell: InteractiveShell) -> None:
    pytest.importorskip("jax")
    _, captured = run(shell, f"%%xla_jit -q --against xla\n{PRODUCT}")
    assert "agrees with the real XLA" in texts(captured)


@pytest.mark.parametrize(
    ("character", "words"), [("\ud800", "half of a surrogate pair|half '.ud800' of"), ("\0", "a null")]
)
@pytest.mark.parametrize("options", ["", "--check"])
def test_a_cell_that_is_no_source_is_refused_with_its_line(
    shell: InteractiveShell, character: str, words: str, options: str
) -> None:
    with pytest.raises(ArgumentError, match=rf"line 3 of the cell has (the )?({words})"):
        shell.run_cell_magic("xla_jit", options, f"import numpy as np\nx = '{character}'\nnp.sum(np.ones(3))")
