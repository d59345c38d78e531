"""Failure tests: each holds for a module with its fault, and for none without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.errors import PassError, UnknownPassError
from xlanb.evaluator import evaluate
from xlanb.explorer import failing
from xlanb.hlo import HloModule, HloOpcode, parse
from xlanb.transforms import HloPass

TEXT = """HloModule m

ENTRY e {
  x = f32[4,8] parameter(0)
  y = f32[4,8] parameter(1)
  a = f32[4,8] add(x, y)
  t = f32[4,8] tanh(a)
  b = f32[4,8] multiply(t, y)
  ROOT r = f32[4,8] negate(b)
}
"""


def without_tanh(module: HloModule, arrays: Sequence[Any]) -> Any:
    """A compiler that replaces tanh by its operand."""
    copy = module.clone()
    for i in list(copy.instructions()):
        if i.opcode is HloOpcode.TANH:
            i.parent.replace(i, i.operands[0])
    return evaluate(copy, *arrays)


def test_what_is_right_does_not_differ() -> None:
    test = failing.differs(failing.compiled, failing.interpreted)
    assert not test(parse(TEXT))
    assert not failing.differs(failing.compiled, failing.without("fusion"))(parse(TEXT))


def test_a_wrong_result_is_reduced_to_what_makes_it() -> None:
    test = failing.differs(without_tanh, failing.interpreted)
    assert test(parse(TEXT))
    left = xlanb.reduce(TEXT, test)
    assert [i.opcode for i in left.entry_computation.post_order()] == [HloOpcode.PARAMETER, HloOpcode.TANH]


def test_a_tolerance_is_a_relative_error() -> None:
    arrays = [np.full((4, 8), 1e-2, np.float32)] * 2
    assert failing.differs(without_tanh, failing.interpreted)(parse(TEXT), *arrays)
    assert not failing.differs(without_tanh, failing.interpreted, 1e-2)(parse(TEXT), *arrays)


def test_only_passes_that_there_are_can_be_left_out() -> None:
    with pytest.raises(UnknownPassError, match="fusion"):
        failing.without("fusoin")


@dataclass(frozen=True)
class _Refuses(HloPass):
    """Rejects every tanh."""

    def apply(self, module: HloModule) -> None:
        if any(i.opcode is HloOpcode.TANH for i in module.instructions()):
            raise PassError("no tanh, please")


def test_a_pass_that_raises() -> None:
    assert failing.raises(_Refuses())(parse(TEXT))
    assert failing.raises(_Refuses(), "please")(parse(TEXT))
    assert not failing.raises(_Refuses(), "thank you")(parse(TEXT))
    assert xlanb.reduce(TEXT, failing.raises(_Refuses())).instruction_count == 2


def test_a_process_that_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not failing.dies(real=False)(parse(TEXT))
    text = "import os, signal, sys\nif 'tanh(' in open(sys.argv[1]).read():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
    monkeypatch.setattr(failing, "_RUN_OURS", text)
    assert failing.dies(real=False)(parse(TEXT))
    assert not failing.dies(real=False)(parse(TEXT.replace("tanh(", "abs(")))


def test_a_process_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failing, "_RUN_OURS", "while True: pass")
    assert failing.dies(real=False, seconds=0.2)(parse(TEXT))
