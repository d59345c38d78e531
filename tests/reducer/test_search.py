"""Reduced modules still fail, are valid, and are as small as possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.errors import ArgumentError, XlanbError
from xlanb.evaluator import evaluate
from xlanb.hlo import HloModule, HloOpcode, parse
from xlanb.hlo.instruction import HloInstruction
from xlanb.reducer import reduction


def chain(length: int, at: int, op: str = "tanh") -> str:
    """A program of `length` instructions, one of which differs from its neighbours."""
    lines = ["  v0 = f32[64,32] parameter(0)", "  w = f32[64,32] parameter(1)"]
    for n in range(1, length):
        what = f"{op}(v{n - 1})" if n == at else f"add(v{n - 1}, w)" if n % 2 else f"negate(v{n - 1})"
        lines.append(f'  v{n} = f32[64,32] {what}, metadata={{op_name="layer/{n}"}}')
    lines.append(f"  ROOT t = (f32[64,32], f32[64,32]) tuple(v{length - 1}, v{length // 2})")
    return "HloModule m\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n"


LOOP = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

body {
  p = (s32[], f32[16], f32[16]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[16] get-tuple-element(p), index=1
  y = f32[16] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  c = f32[16] cosine(x)
  d = f32[16] sine(y)
  m = f32[16] multiply(c, d)
  ROOT t = (s32[], f32[16], f32[16]) tuple(next, m, y)
}

condition {
  p = (s32[], f32[16], f32[16]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT
}

ENTRY e {
  a = f32[16] parameter(0)
  b = f32[16] parameter(1)
  z = s32[] constant(0)
  f = f32[] constant(0)
  init = (s32[], f32[16], f32[16]) tuple(z, a, b)
  w = (s32[], f32[16], f32[16]) while(init), condition=condition, body=body
  r = f32[16] get-tuple-element(w), index=1
  ROOT sum = f32[] reduce(r, f), dimensions={0}, to_apply=add
}
"""


def has(module: HloModule, opcode: HloOpcode) -> bool:
    return any(i.opcode is opcode for i in module.instructions())


def called(opcode: HloOpcode, by: HloOpcode) -> Any:
    """Whether an opcode occurs in a computation that an instruction of another opcode calls."""

    def test(module: HloModule) -> bool:
        callers = [i for i in module.instructions() if i.opcode is by]
        return any(j.opcode is opcode for i in callers for c in i.called_computations for j in c.instructions)

    return test


@pytest.mark.parametrize("at", [1, 150, 299])
def test_one_instruction_of_many_is_left(at: int) -> None:
    seen: list[HloModule] = []

    def test(module: HloModule) -> bool:
        module.verify()
        seen.append(module)
        return has(module, HloOpcode.TANH)

    left = xlanb.reduce(chain(300, at), test)
    assert [i.opcode for i in left.entry_computation.post_order()] == [HloOpcode.PARAMETER, HloOpcode.TANH]
    assert left.entry_computation.root.array_shape.dimensions == (1, 1)
    assert "op_name" not in str(left)
    assert len(seen) < 60
    assert str(parse(str(left))) == str(left)


def test_values_go_with_what_is_cut_off() -> None:
    """The exponential overflows only for the values that the program computes.

    Made-up arguments would not show the fault.
    """
    text = chain(40, 20, "exponential")
    arrays = [np.full((64, 32), 9.0, np.float32), np.full((64, 32), 5.0, np.float32)]

    def overflows(module: HloModule, *given: Any) -> bool:
        leaves = evaluate(module, *given)
        return any(np.isinf(x).any() for x in (leaves if isinstance(leaves, tuple) else (leaves,)))

    text = text.replace("negate(", "abs(").replace("v17 = f32[64,32] add(v16, w)", "v17 = f32[64,32] multiply(v16, w)")
    found = reduction(text, overflows, *arrays)
    assert found.arrays is not None
    assert overflows(found.module, *found.arrays)
    assert found.module.instruction_count == 2
    assert found.arrays[0].shape == (1, 1)
    assert found.is_finished


def test_loops_are_opened_where_the_fault_is_in_their_body() -> None:
    left = xlanb.reduce(LOOP, lambda m: has(m, HloOpcode.SINE))
    assert [i.opcode for i in left.entry_computation.post_order()] == [HloOpcode.PARAMETER, HloOpcode.SINE]
    assert len(left.computations) == 1


def test_loops_stay_where_the_fault_needs_them() -> None:
    left = xlanb.reduce(LOOP, called(HloOpcode.SINE, HloOpcode.WHILE))
    assert called(HloOpcode.SINE, HloOpcode.WHILE)(left)
    assert not has(left, HloOpcode.COSINE)
    assert not has(left, HloOpcode.REDUCE)


def test_sizes_shrink_no_further_than_the_fault_needs() -> None:
    def test(module: HloModule) -> bool:
        return any(i.opcode is HloOpcode.TANH and i.array_shape.dimensions[0] >= 4 for i in module.instructions())

    root = xlanb.reduce(chain(9, 5), test).entry_computation.root
    assert root.array_shape.dimensions == (4, 1)


def test_a_reshape_keeps_its_elements() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[8,16] parameter(0)
      r = f32[128] reshape(x)
      ROOT s = f32[64] slice(r), slice={[32:96]}
    }"""

    def test(module: HloModule) -> bool:
        return has(module, HloOpcode.RESHAPE) and has(module, HloOpcode.SLICE)

    left = xlanb.reduce(text, test)
    assert left.instruction_count == 3
    assert sum(i.array_shape.element_count for i in left.instructions()) < 8 + 128


def test_the_test_must_hold_at_first() -> None:
    with pytest.raises(ArgumentError, match="does not hold"):
        xlanb.reduce(chain(5, 2), lambda m: has(m, HloOpcode.DOT))


def test_an_interrupt_gives_the_best_so_far() -> None:
    calls = 0

    def test(module: HloModule) -> bool:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise KeyboardInterrupt
        return has(module, HloOpcode.TANH)

    found = reduction(chain(300, 150), test)
    assert not found.is_finished
    assert 1 < found.module.instruction_count < 150
    assert "stopped before the end" in str(found)


def test_no_time_gives_the_module_itself() -> None:
    found = reduction(chain(30, 15), lambda m: has(m, HloOpcode.TANH), seconds=0)
    assert (found.module.instruction_count, found.tests, found.is_finished) == (32, 1, False)


def test_errors_of_the_compiler_say_no_and_others_are_told() -> None:
    def refuses(module: HloModule) -> bool:
        if not has(module, HloOpcode.TANH):
            raise XlanbError("no tanh")
        return True

    assert xlanb.reduce(chain(30, 15), refuses).instruction_count == 2

    def broken(module: HloModule) -> bool:
        if not has(module, HloOpcode.TANH):
            raise ZeroDivisionError
        return True

    with pytest.raises(ZeroDivisionError):
        xlanb.reduce(chain(30, 15), broken)


def test_a_test_may_change_what_it_gets() -> None:
    def test(module: HloModule) -> bool:
        held = has(module, HloOpcode.TANH)
        root: HloInstruction = module.entry_computation.root
        module.entry_computation.set_root(module.entry_computation.add(HloOpcode.TUPLE, (root,)))
        return held

    assert xlanb.reduce(chain(30, 15), test).instruction_count == 2


def test_progress_is_told() -> None:
    told: list[str] = []
    reduction(chain(30, 15), lambda m: has(m, HloOpcode.TANH), progress=told.append)
    assert told[-1].startswith("32 instructions -> 2, ")
