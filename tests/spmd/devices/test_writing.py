"""Slices, concatenations, reshapes and transposes combined while writing.

The elements stay the same, with fewer instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.hlo.attributes import SliceDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.spmd.devices.not_merged import NotMergedError
from xlanb.spmd.devices.writing import Writer, dimensions, everything, splat

BASE = np.arange(4 * 6 * 8, dtype=np.float32).reshape(4, 6, 8)


class Written:
    """A computation on one array, with NumPy's result."""

    def __init__(self, most: int = 10_000) -> None:
        self.module = xlanb.hlo.parse("HloModule m\nENTRY e { ROOT x = f32[4,6,8] parameter(0) }")
        self.write = Writer(self.module.entry_computation, most)
        self.x = self.module.entry_computation.root

    def value(self, root: HloInstruction) -> Any:
        self.module.entry_computation.set_root(root)
        self.module.verify()
        return xlanb.evaluate(self.module, BASE)


def box(*ranges: tuple[int, ...]) -> list[SliceDimension]:
    return [SliceDimension(*r) for r in ranges]


def opcodes(root: HloInstruction) -> list[str]:
    """Return the opcodes from the root on, along first operands."""
    found = []
    while root.opcode is not Op.PARAMETER:
        found.append(root.opcode.text)
        root = root.operands[0]
    return found


def test_a_slice_of_a_slice_is_one_slice():
    w = Written()
    inner = w.write.slice(w.x, box((1, 4), (0, 6, 2), (0, 8)))
    outer = w.write.slice(inner, box((1, 3), (1, 3), (0, 8, 3)))
    assert opcodes(outer) == ["slice"]
    np.testing.assert_array_equal(w.value(outer), BASE[1:4, ::2][1:3, 1:3, ::3])
    assert w.write.slice(w.x, everything(BASE.shape)) is w.x


def test_neighbouring_slices_become_one():
    w = Written()
    parts = [w.write.slice(w.x, box((0, 4), (k, k + 2), (0, 8))) for k in (0, 2, 4)]
    assert w.write.concatenate(parts, 1) is w.x
    strided = [w.write.slice(w.x, box((0, 4), (0, 6), (k, k + 4, 2))) for k in (1, 5)]
    joined = w.write.concatenate(strided, 2)
    assert opcodes(joined) == ["slice"]
    np.testing.assert_array_equal(w.value(joined), BASE[:, :, 1:8:2])


@pytest.mark.parametrize(
    ("pieces", "dim"),
    [
        ([BASE[k : k + 2, 0:3] for k in (0, 2)], 1),  # follow each other along another dimension
        ([BASE[0:1, 3:6, k : k + 2] for k in (0, 4)], 2),  # with gaps, along the same one
        ([BASE[0:1, k : k + 1, 4:8] for k in (1, 4)], 2),  # with gaps, along another one
    ],
)
def test_slices_in_another_order_are_one_slice_of_a_transposed_array(pieces: list[Any], dim: int):
    w = Written()
    starts = [np.unravel_index(int(p.flat[0]), BASE.shape) for p in pieces]
    parts = [
        w.write.slice(w.x, box(*((int(s), int(s) + n) for s, n in zip(start, p.shape, strict=True))))
        for start, p in zip(starts, pieces, strict=True)
    ]
    joined = w.write.concatenate(parts, dim)
    assert "concatenate" not in opcodes(joined)
    np.testing.assert_array_equal(w.value(joined), np.concatenate(pieces, dim))


def test_slices_of_tiles_along_another_dimension_are_lined_up():
    """Half rows of the devices before and after, each with its own columns."""
    w = Written()
    pieces = [(slice(2, 4), slice(2, 4)), (slice(0, 4), slice(4, 6))]
    parts = [w.write.slice(w.x, box((a.start, a.stop), (b.start, b.stop), (0, 8))) for a, b in pieces]
    zeros = w.write.zeros(parts[0].array_shape)
    joined = w.write.concatenate([*parts, zeros], 0)
    assert [o.opcode for o in joined.operands] == [Op.SLICE, Op.BROADCAST]
    np.testing.assert_array_equal(w.value(joined), np.concatenate([*(BASE[p] for p in pieces), np.zeros((2, 2, 8))]))


def test_reshapes_and_transposes_there_and_back_are_nothing():
    w = Written()
    there = w.write.rearranged(w.x, [2, 2, 6, 8], [1, 2, 0, 3], [12, 16])
    assert opcodes(there) == ["reshape", "transpose", "reshape"]
    np.testing.assert_array_equal(w.value(there), BASE.reshape(2, 2, 6, 8).transpose(1, 2, 0, 3).reshape(12, 16))
    back = w.write.transpose(w.write.reshape(there, [2, 6, 2, 8]), [2, 0, 1, 3])
    assert w.write.reshape(back, BASE.shape) is w.x


def test_a_slice_takes_only_what_it_needs_of_a_concatenation():
    w = Written()
    negated = w.write.add(Op.NEGATE, (w.x,))
    both = w.write.concatenate([w.x, negated, w.x], 0)
    assert w.write.slice(both, box((4, 8), (0, 6), (0, 8))) is negated
    across = w.write.slice(both, box((2, 6), (0, 6), (0, 8)))
    assert [o.opcode for o in across.operands] == [Op.SLICE, Op.SLICE]
    np.testing.assert_array_equal(w.value(across), np.concatenate([BASE, -BASE, BASE])[2:6])


@pytest.mark.parametrize("seed", range(40))
def test_any_sequence_of_moves_keeps_the_elements(seed: int):
    """Compare twelve random data movements with NumPy."""
    random = np.random.default_rng(seed)
    w = Written()
    known: list[tuple[HloInstruction, Any]] = [(w.x, BASE)]
    for _ in range(12):
        value, array = known[random.integers(len(known))]
        known.append(moved(w.write, value, array, random))
    for value, array in known:
        np.testing.assert_array_equal(w.value(value), array)


def moved(write: Writer, value: HloInstruction, array: Any, random: Any) -> tuple[HloInstruction, Any]:
    kind = random.integers(5)
    if kind == 0:
        order = [int(k) for k in random.permutation(array.ndim)]
        return write.transpose(value, order), array.transpose(order)
    if kind == 1:
        sizes = shape_of_size(array.size, random)
        return write.reshape(value, sizes), array.reshape(sizes)
    if kind == 2:
        starts = [int(random.integers(n)) for n in array.shape]
        ends = zip(starts, array.shape, strict=True)
        boxes = [(s, int(random.integers(s, n)) + 1, int(random.integers(1, 3))) for s, n in ends]
        return write.slice(value, box(*boxes)), array[tuple(slice(*b) for b in boxes)]
    dim = int(random.integers(array.ndim))
    if kind == 3 or array.shape[dim] % 2:
        return write.concatenate([value, value], dim), np.concatenate([array, array], dim)
    to, half = int(random.integers(array.ndim)), array.shape[dim] // 2
    ranges = [[(0, n) for n in array.shape] for _ in range(2)]
    ranges[0][dim], ranges[1][dim] = (0, half), (half, 2 * half)
    halves = [write.slice(value, box(*r)) for r in ranges]
    return write.concatenate(halves, to), np.concatenate([array[tuple(slice(*r) for r in b)] for b in ranges], to)


def shape_of_size(size: int, random: Any) -> list[int]:
    sizes = []
    while size > 1:
        divisor = int(random.choice([d for d in range(2, size + 1) if size % d == 0]))
        sizes.append(divisor)
        size //= divisor
    return sizes or [1]


def test_equal_instructions_are_written_once():
    w = Written()
    assert w.write.constant(np.float32(2)) is w.write.constant(np.float32(2))
    assert w.write.constant(np.float32(0)) is not w.write.constant(np.float32(-0.0))
    assert w.write.add(Op.NEGATE, (w.x,)) is w.write.add(Op.NEGATE, (w.x,))
    assert dimensions(w.write.zeros(w.x.array_shape)) == BASE.shape
    assert splat(w.write.zeros(w.x.array_shape)) == 0
    assert splat(w.x) is None


def test_a_program_that_gets_too_long_is_given_up():
    w = Written(most=3)
    value = w.x
    for opcode in (Op.NEGATE, Op.ABS, Op.SIGN):
        value = w.write.add(opcode, (value,))
    with pytest.raises(NotMergedError, match="more than 3 instructions"):
        w.write.add(Op.TANH, (value,))
