"""Bisection names the pass, and the rewrite in it, that changed the result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.cpu import pipelines
from xlanb.errors import CompilationError, XlanbError
from xlanb.explorer import bisection
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.tracing import because
from xlanb.transforms import HloPassFix, HloPassPipeline
from xlanb.transforms.base import HloPass
from xlanb.transforms.simplifiers.hlo_cse import HloCse

PROGRAM = """HloModule m

ENTRY main {
  x = f32[16]{0} parameter(0)
  a = f32[16]{0} negate(x)
  b = f32[16]{0} negate(a)
  s = f32[16]{0} sine(b)
  c = f32[16]{0} cosine(s)
  ROOT t = f32[16]{0} tanh(c)
}
"""
X = np.linspace(0.1, 1.5, 16, dtype=np.float32)


class WrongTrigonometry(HloPass):
    """sine(x) => cosine(x), a wrong rewrite, after a right one."""

    name = "test-wrong-trigonometry"

    def apply(self, module: HloModule) -> None:
        entry = module.entry_computation
        with because(rule="negate(negate(x)) => x"):
            b = next((i for i in entry if i.name == "b"), None)
            if b is not None:
                entry.replace(b, b.operands[0].operands[0])
        with because(rule="sine(x) => cosine(x)", where="wrong.py:7"):
            for i in list(entry):
                if i.opcode is HloOpcode.SINE:
                    entry.replace(i, entry.add(HloOpcode.COSINE, i.operands, i.shape))


def traced(*passes: str) -> Trace:
    module = xlanb.hlo.parse(PROGRAM)
    trace = Trace("m", [Stage("hlo", "before_optimizations", None, module.record())])
    for name in passes:
        result = xlanb.transforms.PASSES[name]().run(module)
        trace.stages.append(Stage("hlo_pass", name, result.before, result.after, index=len(trace)))
    return trace


def test_the_pass_and_the_rewrite_are_named() -> None:
    found = traced("dce", "test-wrong-trigonometry", "cse", "fusion").bisect(X)
    assert found.stage is not None
    assert found.stage.name == "test-wrong-trigonometry"
    assert found.rewrite is not None
    assert (found.rewrite.cause.rule, found.rewrite.cause.where) == ("sine(x) => cosine(x)", "wrong.py:7")
    assert "sine(x) => cosine(x) (wrong.py:7)" in str(found)


class WrongAfterTwoSteps(HloPass):
    """A right rewrite in two steps, then a wrong one.

    negate(negate(x)) => x, then tanh(x) => -tanh(-x), which is right once both steps are done.
    """

    name = "test-wrong-after-two-steps"

    def apply(self, module: HloModule) -> None:
        entry = module.entry_computation
        of = {i.name: i for i in entry}
        if "b" not in of:
            return
        with because(rule="negate(negate(x)) => x", where="right.py:1"):
            entry.replace(of["b"], of["x"])
        t = of["t"]
        with because(rule="tanh(x) => -tanh(-x)", where="right.py:3"):
            entry.replace_operand(t, 0, entry.add(HloOpcode.NEGATE, t.operands, t.operands[0].shape))
            entry.replace(t, entry.add(HloOpcode.NEGATE, (t,), t.shape))
        with because(rule="sine(x) => cosine(x)", where="wrong.py:7"):
            entry.replace(of["s"], entry.add(HloOpcode.COSINE, of["s"].operands, of["s"].shape))


def test_the_module_is_looked_at_between_rewrites_not_within_one() -> None:
    found = traced("test-wrong-after-two-steps").bisect(X)
    assert found.rewrite is not None
    assert found.rewrite.cause.rule == "sine(x) => cosine(x)"
    assert found.rewrite.kind == "replace"


class WrongCount(HloPass):
    """sine(x) => a reshape to another number of elements, which HLO text cannot express."""

    name = "test-wrong-count"

    def apply(self, module: HloModule) -> None:
        entry = module.entry_computation
        with because(rule="sine(x) => reshape(one)", where="wrong.py:9"):
            for i in [i for i in entry if i.opcode is HloOpcode.SINE]:
                entry.replace(i, entry.add(HloOpcode.RESHAPE, (entry.constant(np.float32(1)),), i.shape))
        with because(rule="tanh(x) => x", where="wrong.py:12"):
            for i in [i for i in entry if i.opcode is HloOpcode.TANH]:
                entry.replace(i, i.operands[0])


def test_a_rewrite_that_leaves_what_cannot_be_read_is_named() -> None:
    found = traced("dce", "test-wrong-count").bisect(X)
    assert found.rewrite is not None
    assert found.rewrite.cause.rule == "sine(x) => reshape(one)"


@dataclass(frozen=True)
class WrongOnDemand(HloPass):
    """sine(x) => cosine(x), but only with an option."""

    name = "test-wrong-on-demand"
    is_wrong: bool = False

    def apply(self, module: HloModule) -> None:
        if self.is_wrong:
            WrongTrigonometry().apply(module)


def test_a_rewrite_is_found_with_the_options_that_the_pass_had(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = HloPassPipeline("outer", [HloPassFix(HloPassPipeline("inner", [WrongOnDemand(is_wrong=True)]))])
    monkeypatch.setattr(bisection, "pipeline", lambda **_: chosen)
    module = xlanb.hlo.parse(PROGRAM)
    trace = Trace("m", [Stage("hlo", "before_optimizations", None, module.record())])
    for n, result in enumerate(chosen.steps(module), 1):
        stage = Stage("hlo_pass", result.name, result.before, result.after, index=n, pipeline=result.pipeline)
        trace.stages.append(stage)
    found = trace.bisect(X)
    assert found.rewrite is not None
    assert found.rewrite.cause.rule == "sine(x) => cosine(x)"


def test_halving_and_all_of_them_agree() -> None:
    trace = traced("algsimp", "test-wrong-trigonometry", "fusion")
    every = trace.bisect(X, exhaustive=True, within=False)
    assert [c.stage.name for c in every.checked] == ["algsimp", "test-wrong-trigonometry", "fusion"]
    assert every.errors["differs"].tolist() == [False, True, True]
    assert every.stage is trace.bisect(X, within=False).stage


class MergeLayouts(HloPass):
    """Merges equal values whatever their layouts, as cse must not after layout-assignment."""

    name = "test-merge-layouts"

    def apply(self, module: HloModule) -> None:
        HloCse(is_layout_sensitive=False).apply(module)


TWO_LAYOUTS = """HloModule m
ENTRY e {
  p = f32[2,3,4]{0,2,1} parameter(0)
  ROOT r = (f32[2,3,4]{1,0,2}, f32[2,3,4]{0,1,2}) tuple(p, p)
}"""


def test_a_pass_that_merges_copies_of_different_layouts_is_named() -> None:
    pipelines.join(MergeLayouts(), after="cpu-parallel-task-assigner")
    try:
        compilation = xlanb.Compilation(TWO_LAYOUTS)
        with pytest.raises(CompilationError, match="after layout-assignment"):
            compilation.finish()
    finally:
        pipelines.leave("test-merge-layouts")
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    found = compilation.trace.bisect(x, exhaustive=True)
    assert found.stage is not None
    assert found.stage.name == "test-merge-layouts"
    assert found.rewrite is not None
    assert found.rewrite.old is not None
    assert found.rewrite.old.opcode is HloOpcode.COPY
    assert compilation.trace.bisect(x).stage is found.stage
    errors = {s.stage.name: s.err for s in compilation.trace.numerics(x).stages}
    assert errors["layout-assignment"] == 0.0
    assert (errors["test-merge-layouts"] or 0.0) > 0.1


def test_layouts_of_a_text_mean_nothing_before_layout_assignment() -> None:
    assert xlanb.trace(TWO_LAYOUTS).bisect(np.ones((2, 3, 4), np.float32), exhaustive=True).stage is None


def test_our_pipeline_moves_nothing() -> None:
    found = xlanb.trace(PROGRAM).bisect(X, exhaustive=True)
    assert found.stage is None
    assert "no pass changed the numbers" in str(found)


def test_a_tolerance_decides() -> None:
    assert traced("test-wrong-trigonometry").bisect(X, tolerance=10.0).stage is None


def test_what_a_dump_left_out_is_said(tmp_path: Path) -> None:
    values = ", ".join(str(k) for k in range(64))
    program = (
        f"HloModule m\nENTRY e {{\n  c = f32[64]{{0}} constant({{{values}}})\n  ROOT n = f32[64]{{0}} negate(c)\n}}"
    )
    with xlanb.flags(f"--xla_dump_to={tmp_path}"):
        xlanb.compile(program)
    with pytest.raises(XlanbError, match="constant c are not in the dump; dump again with --xla_dump_large_constants"):
        xlanb.read_dump(tmp_path)[0].bisect()


def test_without_inputs_it_takes_those_that_the_program_was_made_for() -> None:
    trace = xlanb.trace(lambda x: tf.tanh(x) * x, X)
    assert trace.inputs[0] is X
    assert trace.bisect().asked == bisection.Asked(trace, (X,), None)
    random = xlanb.trace(PROGRAM).bisect()
    assert random.asked is not None
    assert random.asked.inputs[0].shape == X.shape


def test_code_that_moves_the_numbers_is_told_from_passes() -> None:
    trace = xlanb.trace(PROGRAM)
    assert not trace.bisect(X).changed
    trace.program = xlanb.trace(PROGRAM.replace(" sine(", " cosine(")).program
    found = trace.bisect(X)
    assert (found.stage, found.changed) == (None, True)
    assert found.code is not None
    assert "no pass changed the numbers" in str(found)
    assert "the compiled code did: relative error" in str(found)
    assert ".reproducer()" in str(found)


def test_a_sum_in_another_order_is_no_fault_of_the_code() -> None:
    ones = "HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
    entry = "ENTRY e {\n  x = f32[4096] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add\n}\n"
    x = np.random.default_rng(0).random(4096, np.float32)
    assert not xlanb.trace(ones + entry).bisect(x).changed


def test_zeros_that_became_numbers_have_no_relative_error() -> None:
    assert str(bisection.Checked(traced("dce").stages[0], 1e300)) == "zeros became nonzero"


@pytest.mark.parametrize(
    ("path", "first"),
    [
        (("cpu", "HLO_passes_through_layout_assignment", "simplification", "round 2"), "xlanb.cpu.pipeline()"),
        (("HLO_passes_through_layout_assignment", "simplification", "round 3"), "xlanb.cpu.pipeline(xla='0.10.2')"),
        (("gpu a100_sxm_80", "optimization", "simplification", "round 2"), "xlanb.gpu.pipeline('a100_sxm_80')"),
        (("nowhere",), ""),
    ],
)
def test_a_pass_is_configured_as_in_the_pipeline_that_ran(path: tuple[str, ...], first: str) -> None:
    found = bisection.as_configured(Stage("hlo_pass", "algsimp", None, None, path))
    assert found[0].source == first
    assert bool(found[0].path) == bool(first)


def test_wrong_inputs_are_an_error() -> None:
    with pytest.raises(XlanbError):
        traced("dce").bisect(X[:3])
