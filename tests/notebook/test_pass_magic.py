"""%%xla_pass, %xla_flags and completion in a real IPython shell."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import xlanb
from tests.notebook.shells import printed, run, texts
from xlanb.cpu.pipelines import joined, leave
from xlanb.debug_options import current, set_for_session
from xlanb.errors import FlagError, PassError
from xlanb.transforms import PASSES, base

NEGATIONS = """HloModule negations
ENTRY e {
  x = f32[8] parameter(0)
  n = f32[8] negate(x)
  m = f32[8] negate(n)
  ROOT r = f32[8] exponential(m)
}"""
PASS = """
def no_double_negation(module):
    for c in module.post_order():
        for i in c.post_order():
            if i.opcode is HloOpcode.NEGATE and i.operands[0].opcode is HloOpcode.NEGATE:
                c.replace(i, i.operands[0].operands[0])
"""


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Undo a test's registrations and settings."""
    _ = len(PASSES)  # all of them are there from here on
    before = dict(base._REGISTRY)
    yield
    base._REGISTRY.clear()
    base._REGISTRY.update(before)
    for hlo_pass, _ in joined():
        leave(hlo_pass.name)
    set_for_session(None)


def test_a_pass_of_a_cell_joins_the_pipeline_where_it_is_told(shell: InteractiveShell) -> None:
    result, captured = run(shell, f"%%xla_pass --after call-inliner\n{PASS}")
    assert result.success, printed(captured)
    assert "no-double-negation" in texts(captured)
    trace = xlanb.trace(NEGATIONS)
    names = [s.name for s in trace]
    assert names[names.index("call-inliner") + 1] == "no-double-negation"
    stage = trace["no-double-negation"]
    assert stage.changed
    assert all(e.cause.pass_name == "no-double-negation" for e in stage.edits)
    run(shell, "%xla_unpass no-double-negation")
    assert "no-double-negation" not in {s.name for s in xlanb.trace(NEGATIONS)}


def test_without_a_place_it_runs_last_and_defined_anew_it_takes_the_old_ones_place(shell: InteractiveShell) -> None:
    for _ in range(2):
        run(shell, f"%%xla_pass -n mine\n{PASS}")
    names = [s.name for s in xlanb.trace(NEGATIONS) if s.kind == "hlo_pass"]
    assert names[-1] == "mine"
    assert names.count("mine") == 1


def test_code_compiled_without_the_pass_is_not_used_again(shell: InteractiveShell) -> None:
    run(
        shell,
        "import numpy as np\nimport xlanb.tf as tf\ng = tf.Graph()\nwith g.as_default():\n    y = tf.exp(tf.placeholder(tf.float32, [4], name='p'))\nsess = tf.Session(g)",
    )
    cell = "%%xla_jit -q -o seen\nsess.run(y, {'p:0': np.ones(4, np.float32)})"
    run(shell, cell)
    run(shell, f"%%xla_pass -q\n{PASS}")
    run(shell, cell)
    assert "no-double-negation" in {s.name for s in shell.user_ns["seen"].trace}


def test_trying_shows_what_it_does_and_that_it_keeps_the_result(shell: InteractiveShell) -> None:
    shell.user_ns["text"] = NEGATIONS
    result, captured = run(shell, f"%%xla_pass --try text -o trial\n{PASS}")
    assert result.success
    assert "keeps the result" in texts(captured)
    assert shell.user_ns["trial"].trace.stages[-1].changed
    assert [p.name for p, _ in joined()] == ["no-double-negation"]


def test_a_notebook_shows_the_verdict_below_the_view(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlanb.notebook.pass_magic.in_notebook", lambda: True)
    shell.user_ns["text"] = NEGATIONS
    _, captured = run(shell, f"%%xla_pass --try text --no-join\n{PASS}")
    verdict, defined = captured.outputs[-1].data["text/plain"].splitlines()
    assert "keeps the result" in verdict
    assert defined == "pass no-double-negation: defined"


def test_one_that_changes_the_result_does_not_join(shell: InteractiveShell) -> None:
    shell.user_ns["text"] = NEGATIONS
    wrong = PASS.replace("i.operands[0].operands[0]", "i.operands[0]")
    result, captured = run(shell, f"%%xla_pass --try text\n{wrong}")
    assert isinstance(result.error_in_exec, PassError)
    assert "CHANGES THE RESULT" in printed(captured)
    assert joined() == ()


def test_what_it_raises_points_into_the_cell(shell: InteractiveShell) -> None:
    shell.user_ns["text"] = NEGATIONS
    result, captured = run(
        shell,
        "%%xla_pass --try text\ndef bad(module):\n    entry = module.entry_computation\n    return entry.no_such_thing",
    )
    assert isinstance(result.error_in_exec, AttributeError)
    assert re.search(r"-+> 4     return entry.no_such_thing", printed(captured))
    assert joined() == ()


def test_one_that_breaks_the_module_is_named(shell: InteractiveShell) -> None:
    breaks = "def breaks(module):\n    i = module.entry_computation.root\n    i.parent.update(i, shape=module.entry_computation.find('x').shape.with_dimensions([9]))"
    run(shell, f"%%xla_pass\n{breaks}")
    with pytest.raises(PassError, match="breaks left an invalid module"):
        xlanb.compile(NEGATIONS.replace("HloModule negations", "HloModule other").replace("exponential", "cosine"))


def test_a_class_is_a_pass_too(shell: InteractiveShell) -> None:
    cell = "class Nothing(HloPass):\n    name = 'does-nothing'\n    def apply(self, module):\n        pass"
    result, captured = run(shell, f"%%xla_pass\n{cell}")
    assert result.success, printed(captured)
    assert "does-nothing" in {s.name for s in xlanb.trace(NEGATIONS)}


@pytest.mark.parametrize(
    ("line", "cell", "words"),
    [
        ("", "x = 1", "write a function of a module, or a subclass of HloPass"),
        ("-n fusion", PASS, "already has a pass 'fusion'"),
        ("--after no-such-pass", PASS, "no pass 'no-such-pass'"),
        ("-n 'a b'", PASS, "not a valid pass name"),
    ],
)
def test_what_cannot_be_is_refused_in_words(shell: InteractiveShell, line: str, cell: str, words: str) -> None:
    result, captured = run(shell, f"%%xla_pass {line}\n{cell}")
    assert not result.success
    assert words in printed(captured)
    assert joined() == ()


# -- flags -----------------------------------------------------------------------------------------


def test_flags_hold_for_the_session_and_can_be_reset(shell: InteractiveShell) -> None:
    run(shell, "%xla_flags --xla_disable_hlo_passes=fusion,cse")
    assert current().xla_disable_hlo_passes == ("fusion", "cse")
    assert "fusion" not in {s.name for s in xlanb.trace(NEGATIONS)}
    result, _ = run(shell, "%xla_flags")
    assert str(result.result) == "--xla_disable_hlo_passes=fusion,cse"
    result, _ = run(shell, "%xla_flags reset")
    assert current().xla_disable_hlo_passes == ()
    assert len(result.result.table) > 20


def test_flags_hold_in_cells_too(shell: InteractiveShell) -> None:
    run(shell, "%xla_flags --xla_disable_hlo_passes=fusion")
    run(shell, f"%%xla_jit -q -o seen --lang hlo\n{NEGATIONS}")
    assert "fusion" not in {s.name for s in shell.user_ns["seen"].trace}


def test_a_misspelt_flag_is_an_error_with_the_nearest(shell: InteractiveShell) -> None:
    result, captured = run(shell, "%xla_flags --xla_disable_hlo_pases=fusion")
    assert isinstance(result.error_in_exec, FlagError)
    assert "did you mean --xla_disable_hlo_passes" in printed(captured)


# -- completion and help ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("%%xla_jit --ann", "--annotate"),
        ("%%xla_jit -s --disable fus", "fusion"),
        ("%%xla_jit --until algs", "algsimp"),
        ("%%xla_jit --lang ja", "jax"),
        ("%%xla_pass --after layout-a", "layout-assignment"),
        ("%xla_open --mod", "--module"),
        ("%xla_flags --xla_disable_hlo", "--xla_disable_hlo_passes="),
    ],
)
def test_tab_completes(shell: InteractiveShell, line: str, wanted: str) -> None:
    with provisionalcompleter():
        matches = [c.text for c in shell.Completer.completions(line, len(line))]
    assert any(m.endswith(wanted) for m in matches), matches[:20]


def test_help_tells_of_each_magic(shell: InteractiveShell) -> None:
    for name, kind in (("xla_jit", "cell"), ("xla_pass", "cell"), ("xla_flags", "line")):
        function = shell.find_magic(name, kind)
        assert function.__doc__
        assert f"%{name}" in function.__doc__


def test_results_with_a_pass_of_ones_own_are_right(shell: InteractiveShell) -> None:
    run(shell, f"%%xla_pass --after call-inliner\n{PASS}")
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    np.testing.assert_allclose(xlanb.compile(NEGATIONS)(x), np.exp(x), rtol=1e-6)
