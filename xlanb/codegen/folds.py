"""Building blocks of reductions: reorderable operations, neutral elements, window positions."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen import arithmetic, complex_math
from xlanb.codegen.complex_math import Complex
from xlanb.codegen.elements import Element, constant, highest, lowest, parts
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.types import I1
from xlanb.codegen.values import Value
from xlanb.hlo.attributes import WindowDimension
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType
_SIMPLE = frozenset({Op.ADD, Op.MULTIPLY, Op.MAXIMUM, Op.MINIMUM, Op.AND, Op.OR, Op.XOR})


def simple_reducer(target: HloComputation) -> Op | None:
    """The opcode of a reducer that is one reorderable operation on its two parameters, or None."""
    root = target.root
    if root.opcode not in _SIMPLE or len(target.parameters) != 2 or set(root.operands) != set(target.parameters):
        return None
    if root.opcode in (Op.MAXIMUM, Op.MINIMUM) and root.array_shape.element_type.is_complex:
        return None  # unordered: the operation itself raises an error
    return root.opcode


def identity(f: Function, op: Op, t: PrimitiveType) -> Element:
    """The neutral element of a reduction."""
    if op is Op.MAXIMUM:
        return lowest(f, t)
    if op is Op.MINIMUM:
        return highest(f, t)
    if op is Op.ADD and t.is_floating:
        return constant(f, t, -0.0)
    if op is Op.AND:
        return constant(f, t, 1 if t is T.PRED else -1)
    return constant(f, t, t.dtype.type(1 if op is Op.MULTIPLY else 0))


class AnyOrder:
    """One operation as a combiner of elements' values (see nest.py), or of vectors of them.

    `name` is its instruction's. Sums and products of floats may be reordered (`reassoc`), as in
    XLA.
    """

    minds_nan = False

    def __init__(self, f: Function, op: Op, t: PrimitiveType, name: str = "") -> None:
        self.f, self.op, self.type, self.name = f, op, t, name
        self.neutral = parts(identity(f, op, t))
        self.later = self.step

    def parts(self, values: Sequence[Value]) -> Sequence[Value]:
        """The values to combine for an element."""
        return values

    def step(self, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        """Combine two sets of values, lane by lane."""
        mark = self.f.locate(self.name)
        if self.type.is_complex:
            made = complex_math.binary(self.op, self.type, Complex(*a), Complex(*b))
            found = [made.re, made.im]
        else:
            flags = "reassoc" if self.type.is_floating and self.op in (Op.ADD, Op.MULTIPLY) else ""
            found = [arithmetic.binary(self.f, self.op, self.type, a[0], b[0], flags)]
        self.f.restore(mark)
        return found


def window_position(
    f: Function, window: Sequence[WindowDimension], output: Sequence[Ix], offset: Sequence[Ix], sizes: Sequence[int]
) -> tuple[Value, list[Ix]]:
    """(i1: is it an element of the base, its index) of position `offset` in an output's window."""
    inside = f.const(I1, True)
    where: list[Ix] = []
    for w, o, k, n in zip(window, output, offset, sizes, strict=True):
        if w.reversal:
            k = f.sub(w.size - 1, k)
        reach = f.add(f.mul(o, w.stride), f.mul(k, w.window_dilation))
        at = f.sub(reach, w.padding_low)
        if w.padding_low or w.padding_high or w.base_dilation > 1:
            inside = f.both(inside, f.within(at, 0, (n - 1) * w.base_dilation + 1))
        if w.base_dilation > 1:
            left = f.rem(at, w.base_dilation)
            inside = f.both(inside, f.const(I1, left == 0) if isinstance(left, int) else left.equals(0))
            at = f.div(at, w.base_dilation)
        where.append(at)
    return inside, where
