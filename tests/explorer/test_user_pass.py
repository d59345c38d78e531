"""User passes: made from functions and classes, tried, and rejected if invalid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import xlanb
from tests.explorer.test_live import TEXT
from xlanb.errors import PassError, XlanbError
from xlanb.explorer.user_pass import as_module, make_pass, try_pass
from xlanb.hlo import HloModule, HloOpcode
from xlanb.transforms import PASSES, HloPass, base


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Remove what a test registers: other tests visit all passes."""
    _ = len(PASSES)  # all of them are there from here on
    before = dict(base._REGISTRY)
    yield
    base._REGISTRY.clear()
    base._REGISTRY.update(before)


def swap_operands(module: HloModule) -> None:
    """Swap the operands of multiplications."""
    for c in module.post_order():
        for i in c.post_order():
            if i.opcode is HloOpcode.MULTIPLY:
                c.set_operands(i, i.operands[::-1])


def drop_tanh(module: HloModule) -> None:
    for i in module.entry_computation.post_order():
        if i.opcode is HloOpcode.TANH:
            i.parent.replace(i, i.operands[0])


def test_a_function_becomes_a_pass_with_a_name_and_words() -> None:
    made = make_pass(swap_operands)
    assert made.name == "swap-operands"
    assert PASSES["swap-operands"] is type(made)
    assert type(made).__doc__ == "Swap the operands of multiplications."


def test_a_trial_leaves_the_module_alone_and_tells_right_from_wrong() -> None:
    module = xlanb.hlo.parse(TEXT)
    before = str(module)
    right, wrong = try_pass(make_pass(swap_operands), module), try_pass(make_pass(drop_tanh), module)
    assert right.keeps_the_result
    assert not wrong.keeps_the_result
    assert right.trace.stages[-1].changed
    assert str(module) == before


def test_what_cannot_be_evaluated_is_not_called_right() -> None:
    text = "HloModule m\nENTRY e { t = token[] after-all() ROOT i = (f32[2], token[]) infeed(t) }"
    trial = try_pass(make_pass(swap_operands), xlanb.hlo.parse(text))
    assert trial.numerics is None
    assert "not compared" in str(trial)


def test_a_class_with_options_is_taken_as_an_object() -> None:
    @dataclass(frozen=True)
    class Often(HloPass):
        name = "often"
        times: int = 2

        def apply(self, module: HloModule) -> None:
            for _ in range(self.times):
                swap_operands(module)

    assert not try_pass(make_pass(Often()), xlanb.hlo.parse(TEXT)).trace.stages[-1].changed
    assert try_pass(make_pass(Often(3), "thrice"), xlanb.hlo.parse(TEXT)).trace.stages[-1].changed


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [(3, "", "is not a pass"), (swap_operands, "a b", "not a valid pass name"), (swap_operands, "cse", "already")],
)
def test_what_is_refused(source: object, name: str, words: str) -> None:
    with pytest.raises(PassError, match=words):
        make_pass(source, name)


def test_modules_are_found_in_whatever_holds_them() -> None:
    trace = xlanb.trace(TEXT)
    text = str(xlanb.hlo.parse(TEXT))
    for held in (TEXT, xlanb.hlo.parse(TEXT), trace, trace[0].after, xlanb.compile(TEXT)):
        assert str(as_module(held)) == text
    with pytest.raises(XlanbError, match="int contains no HLO"):
        as_module(3)
