"""Dots in canonical form, with the order of operands kept or as in XLA."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import xlanb
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.dots.dot_decomposer import DotDecomposer, is_canonical

LEFT, RIGHT = {"b": 2, "m": 3, "n": 4, "k": 5, "l": 6}, {"b": 2, "k": 5, "l": 6, "p": 7}


def _text(left: str, right: str) -> str:
    shapes = (f"f32[{','.join(str(s[d]) for d in order)}]" for s, order in ((LEFT, left), (RIGHT, right)))
    dims = ", ".join(
        f"{side}_{kind}_dims={{{','.join(str(order.index(d)) for d in which)}}}"
        for side, order in (("lhs", left), ("rhs", right))
        for kind, which in (("batch", "b"), ("contracting", "kl"))
    )
    free = [str(LEFT[d]) for d in left if d in "mn"] + [str(RIGHT[d]) for d in right if d == "p"]
    x, y = shapes
    return f"""HloModule m
ENTRY e {{
  x = {x} parameter(0)
  y = {y} parameter(1)
  ROOT r = f32[2,{",".join(free)}] dot(x, y), {dims}
}}"""


@pytest.mark.parametrize("keeps_order", [False, True])
def test_any_order_computes_the_same(keeps_order):
    rng = np.random.default_rng(0)
    lefts = ["".join(p) for p in permutations("bmnkl")]
    rights = ["".join(p) for p in permutations("bklp")]
    for n, left in enumerate(lefts):
        text = _text(left, rights[n % len(rights)])
        module, before = xlanb.hlo.parse(text), xlanb.hlo.parse(text)
        DotDecomposer(keeps_order=keeps_order).run(module)
        module.verify()
        assert all(is_canonical(i) for i in module.entry_computation if i.opcode is O.DOT)
        given = [
            rng.integers(-3, 4, p.array_shape.dimensions).astype(np.float32)
            for p in before.entry_computation.parameters
        ]
        np.testing.assert_array_equal(xlanb.evaluate(module, *given), xlanb.evaluate(before, *given))


def _moved(left: str, right: str, *, keeps_order: bool) -> tuple[bool, bool]:
    """Whether each operand is transposed."""
    module = xlanb.hlo.parse(_text(left, right))
    DotDecomposer(keeps_order=keeps_order).run(module)
    dot = next(i for i in module.entry_computation if i.opcode is O.DOT)
    moves = [o.operands[0].dimensions for o in dot.operands]
    return moves[0] != (0, 1, 2, 3, 4), moves[1] != (0, 1, 2, 3)


def test_contracting_dimensions_stay_before_or_behind_the_free_ones():
    assert _moved("bmnkl", "bklp", keeps_order=False) == (False, False)
    assert _moved("bklmn", "bpkl", keeps_order=False) == (True, True)
    assert _moved("bklmn", "bpkl", keeps_order=True) == (False, False)
    assert _moved("bmnkl", "bklp", keeps_order=True) == (False, False)
    assert _moved("mbnkl", "kblp", keeps_order=True) == (True, True)
    assert _moved("bmkln", "bkpl", keeps_order=True) == (True, True)


def test_the_gradient_of_a_layer_s_weights_by_a_batch_of_sequences_copies_nothing():
    text = """HloModule m
ENTRY e {
  x = f32[8,64,128] parameter(0)
  g = f32[8,64,256] parameter(1)
  ROOT w = f32[128,256] dot(x, g), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}
}"""
    opcodes = {i.opcode for i in xlanb.compile(text).hlo_module.instructions()}
    assert opcodes == {O.PARAMETER, O.BITCAST, O.DOT}


@pytest.mark.parametrize("keeps_order", [False, True])
@pytest.mark.parametrize(("left", "right"), [("b", "b"), ("bm", "b"), ("b", "pb"), ("mb", "bp")])
def test_nothing_may_be_contracted(left, right, keeps_order):
    sizes = {"b": 2, "m": 3, "p": 7}
    x, y = ([sizes[d] for d in order] for order in (left, right))
    free = [sizes[d] for d in left + right if d != "b"]
    a, b, c = (f"f32[{','.join(map(str, s))}]" for s in (x, y, [2, *free]))
    text = f"""HloModule m
ENTRY e {{
  x = {a} parameter(0)
  y = {b} parameter(1)
  ROOT r = {c} dot(x, y), lhs_batch_dims={{{left.index("b")}}}, rhs_batch_dims={{{right.index("b")}}}
}}"""
    module = xlanb.hlo.parse(text)
    given = [np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in (x, y)]
    want = xlanb.evaluate(text, *given)
    DotDecomposer(keeps_order=keeps_order).run(module)
    module.verify()
    assert all(is_canonical(i) for i in module.entry_computation if i.opcode is O.DOT)
    np.testing.assert_array_equal(xlanb.evaluate(module, *given), want)
