"""Sibling fusion: loops of equal shape become one, without cycles; semantics are preserved."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.transforms import PASSES

BODIES = """double {
  p = f32[200] parameter(0)
  q = f32[200] parameter(1)
  s = f32[200] add(p, q)
  ROOT r = f32[200] multiply(s, s)
}
half {
  p = f32[200] parameter(0)
  q = f32[200] parameter(1)
  s = f32[200] add(p, q)
  ROOT r = f32[200] subtract(s, q)
}
turned {
  p = f32[200] parameter(0)
  r = f32[200] reverse(p), dimensions={0}
  ROOT n = f32[200] negate(r)
}
short {
  p = f32[100] parameter(0)
  ROOT n = f32[100] negate(p)
}
"""


def merged(body: str) -> tuple[HloModule, HloModule]:
    """(the module, the same after the pass)."""
    text = f"HloModule m\n{BODIES}ENTRY e {{\n{body}}}\n"
    before, after = parse(text), parse(text)
    PASSES["sibling-fusion"]().run(after)
    after.verify()
    return before, after


def assert_same(before: HloModule, after: HloModule, *arrays: np.ndarray) -> None:
    for want, got in zip(evaluate(before, *arrays), evaluate(after, *arrays), strict=True):
        np.testing.assert_array_equal(want, got)


def fusions(module: HloModule) -> int:
    return sum(i.opcode is Op.FUSION for i in module.entry_computation)


def test_loops_that_read_the_same_array_are_one_and_share_what_they_compute() -> None:
    before, after = merged(
        "  x = f32[200] parameter(0)\n  y = f32[200] parameter(1)\n"
        "  a = f32[200] fusion(x, y), kind=kLoop, calls=double\n  b = f32[200] fusion(x, y), kind=kLoop, calls=half\n"
        "  ROOT t = (f32[200], f32[200]) tuple(a, b)\n"
    )
    (fusion,) = [i for i in after.entry_computation if i.opcode is Op.FUSION]
    assert sum(i.opcode is Op.ADD for i in fusion.fused_computation) == 1
    x, y = np.random.default_rng(0).standard_normal((2, 200)).astype(np.float32)
    assert_same(before, after, x, y)


def test_one_that_needs_the_other_stays_apart() -> None:
    _, after = merged(
        "  x = f32[200] parameter(0)\n  a = f32[200] fusion(x, x), kind=kLoop, calls=double\n"
        "  n = f32[200] sine(a)\n  b = f32[200] fusion(x, n), kind=kLoop, calls=half\n  ROOT t = (f32[200], f32[200]) tuple(a, b)\n"
    )
    assert fusions(after) == 2


def test_merged_loops_do_not_wait_for_each_other() -> None:
    # a and d, b and c could be merged; c needs a, and d needs b: merging both pairs would be a
    # cycle.
    _, after = merged(
        "  x = f32[200] parameter(0)\n  y = f32[200] parameter(1)\n"
        "  a = f32[200] fusion(x, x), kind=kLoop, calls=double\n  b = f32[200] fusion(y, y), kind=kLoop, calls=double\n"
        "  sa = f32[200] sine(a)\n  sb = f32[200] sine(b)\n"
        "  c = f32[200] fusion(y, sa), kind=kLoop, calls=half\n  d = f32[200] fusion(x, sb), kind=kLoop, calls=half\n"
        "  ROOT t = (f32[200], f32[200]) tuple(c, d)\n"
    )
    assert fusions(after) == 3


def test_other_sizes_other_arrays_and_other_orders_stay_apart() -> None:
    for body in (
        "  a = f32[200] fusion(x, x), kind=kLoop, calls=double\n  b = f32[200] fusion(y, y), kind=kLoop, calls=half\n"
        "  ROOT t = (f32[200], f32[200]) tuple(a, b)\n",
        "  a = f32[200] fusion(x, x), kind=kLoop, calls=double\n  b = f32[200] fusion(x), kind=kLoop, calls=turned\n"
        "  ROOT t = (f32[200], f32[200]) tuple(a, b)\n",
        "  s = f32[100] slice(x), slice={[0:100]}\n  a = f32[200] fusion(x, x), kind=kLoop, calls=double\n"
        "  b = f32[100] fusion(s), kind=kLoop, calls=short\n  ROOT t = (f32[200], f32[100]) tuple(a, b)\n",
    ):
        _, after = merged("  x = f32[200] parameter(0)\n  y = f32[200] parameter(1)\n" + body)
        assert fusions(after) == 2


def test_a_loop_that_reads_another_s_result_is_merged_with_it() -> None:
    """As an optimizer's step reads its moments."""
    before, after = merged(
        "  x = f32[200] parameter(0)\n  y = f32[200] parameter(1)\n"
        "  a = f32[200] fusion(x, y), kind=kLoop, calls=double\n  b = f32[200] fusion(y, a), kind=kLoop, calls=half\n"
        "  c = f32[200] fusion(b, a), kind=kLoop, calls=half\n"
        "  ROOT t = (f32[200], f32[200], f32[200]) tuple(a, b, c)\n"
    )
    (fusion,) = [i for i in after.entry_computation if i.opcode is Op.FUSION]
    assert len(fusion.operands) == 2
    x, y = np.random.default_rng(0).standard_normal((2, 200)).astype(np.float32)
    assert_same(before, after, x, y)


def test_a_loop_that_also_reads_the_result_through_another_stays_apart() -> None:
    before, after = merged(
        "  x = f32[200] parameter(0)\n  a = f32[200] fusion(x, x), kind=kLoop, calls=double\n"
        "  n = f32[200] reverse(a), dimensions={0}\n  b = f32[200] fusion(a, n), kind=kLoop, calls=half\n"
        "  ROOT t = (f32[200], f32[200]) tuple(a, b)\n"
    )
    assert fusions(after) == 2
    assert_same(before, after, np.random.default_rng(0).standard_normal(200).astype(np.float32))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30))
def test_any_merges_leave_an_order_and_the_values(seed: int) -> None:
    r = random.Random(seed)
    values, bodies, lines = ["x", "y"], "", "  x = f32[200] parameter(0)\n  y = f32[200] parameter(1)\n"
    for n in range(r.randint(3, 12)):
        a, b = r.choice(values[-5:]), r.choice(values[-5:])
        if r.random() < 0.3:
            lines += f"  v{n} = f32[200] reverse({a}), dimensions={{0}}\n"
        else:
            lines += f"  v{n} = f32[200] fusion({a}, {b}), kind=kLoop, calls=body{n}\n"
            bodies += (
                f"body{n} {{\n  p = f32[200] parameter(0)\n  q = f32[200] parameter(1)\n"
                f"  s = f32[200] add(p, q)\n  ROOT r = f32[200] {r.choice(('multiply', 'subtract'))}(s, q)\n}}\n"
            )
        values.append(f"v{n}")
    results = ", ".join(values[2:])
    shapes = ", ".join(["f32[200]"] * (len(values) - 2))
    text = f"HloModule m\n{bodies}ENTRY e {{\n{lines}  ROOT t = ({shapes}) tuple({results})\n}}\n"
    before, after = parse(text), parse(text)
    PASSES["sibling-fusion"]().run(after)
    after.verify()
    x, y = np.random.default_rng(seed).uniform(-1, 1, (2, 200)).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        assert_same(before, after, x, y)
