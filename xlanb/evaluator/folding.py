"""Reduce arrays by a computation.

Common computations are recognized; any other is applied to whole arrays at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.analysis.mixed_precision import rounded_operation
from xlanb.evaluator.elementwise import maximum, minimum
from xlanb.evaluator.values import Array, Value, is_complex, is_floating, narrow, widen
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator

# Up to this many elements, reduce in order, as XLA does on the CPU. Beyond, reduce adjacent pairs,
# which gives the same for associative computations and takes a logarithmic number of steps.
SEQUENTIAL_LIMIT = 4096

_UFUNCS: dict[HloOpcode, np.ufunc] = {
    HloOpcode.ADD: np.add,
    HloOpcode.MULTIPLY: np.multiply,
    HloOpcode.MAXIMUM: np.maximum,
    HloOpcode.MINIMUM: np.minimum,
    HloOpcode.AND: np.bitwise_and,
    HloOpcode.OR: np.bitwise_or,
    HloOpcode.XOR: np.bitwise_xor,
}
_ON_PREDICATES: dict[HloOpcode, np.ufunc] = {
    HloOpcode.ADD: np.logical_or,
    HloOpcode.MULTIPLY: np.logical_and,
}


@dataclass(frozen=True, slots=True)
class Monoid:
    """An associative operation that NumPy can reduce by; sums may be `rounded` to a narrow type."""

    opcode: HloOpcode
    ufunc: np.ufunc
    rounded: PrimitiveType | None = None

    def identity(self, dtype: np.dtype[Any]) -> Array:
        """The neutral scalar for an accumulator's dtype."""
        if self.opcode in (HloOpcode.ADD, HloOpcode.OR, HloOpcode.XOR):
            return np.zeros((), dtype)
        if self.opcode is HloOpcode.MULTIPLY:
            return np.ones((), dtype)
        is_low = self.opcode is HloOpcode.MAXIMUM
        if dtype == np.bool_:
            return np.asarray(not is_low)
        if self.opcode is HloOpcode.AND:
            return np.invert(np.zeros((), dtype))
        if dtype.kind == "f":
            return np.asarray(-np.inf if is_low else np.inf, dtype)
        return np.asarray(np.iinfo(dtype).min if is_low else np.iinfo(dtype).max, dtype)

    def combine(self, x: Array, y: Array) -> Array:
        """The operation on two arrays."""
        if self.opcode is HloOpcode.MAXIMUM:
            return maximum(x, y)
        return minimum(x, y) if self.opcode is HloOpcode.MINIMUM else np.asarray(self.ufunc(x, y))

    def reduce(self, x: Array, axes: tuple[int, ...]) -> Array:
        """Reduce by the operation over some dimensions."""
        total = np.asarray(self.ufunc.reduce(x, axis=axes, dtype=x.dtype, initial=self.identity(x.dtype)[()]))
        if self.opcode not in (HloOpcode.MAXIMUM, HloOpcode.MINIMUM) or not is_floating(x) or not (total == 0).any():
            return total
        # NumPy's minimum and maximum of 0 and -0 may be either; 0 must be larger.
        is_wanted = (x == 0) & (np.signbit(x) == (self.opcode is HloOpcode.MINIMUM))
        wanted = -0.0 if self.opcode is HloOpcode.MINIMUM else 0.0
        zero = np.where(is_wanted.any(axis=axes), x.dtype.type(wanted), x.dtype.type(-wanted))
        return np.where(total == 0, zero, total)

    def accumulator(self, x: Array) -> Array:
        """x in the type in which it is reduced: sums and products of numbers use the widest."""
        if self.opcode not in (HloOpcode.ADD, HloOpcode.MULTIPLY):
            return widen(x)
        if is_floating(x):
            return x.astype(np.float64)
        return x.astype(np.complex128) if is_complex(x) else widen(x)

    def result(self, init: Array, total: Array, dtype: np.dtype[Any]) -> Array:
        """The result for an initial value and the total of everything else, rounded once."""
        whole = self.combine(self.accumulator(init), total)
        return narrow(whole if self.rounded is None else narrow(whole, self.rounded.dtype), dtype)

    def stored(self, x: Array) -> Array:
        """x in the type in which updates are combined in memory: each rounds a narrow float."""
        is_narrow = is_floating(x) and widen(x).dtype != x.dtype
        return x if is_narrow and self.opcode in (HloOpcode.ADD, HloOpcode.MULTIPLY) else self.accumulator(x)


def monoid(computation: HloComputation, *arrays: Array) -> Monoid | None:
    """The operation of a computation that only combines its two parameters, else None.

    Also None if the arrays to reduce are of another type than the computation.
    """
    root, rounded = rounded_operation(computation)
    if root.opcode not in _UFUNCS or len(computation.parameters) != 2:
        return None
    if any(x.dtype != root.array_shape.dtype for x in arrays):
        return None
    if any(o.opcode is not HloOpcode.PARAMETER for o in root.operands) or root.operands[0] is root.operands[1]:
        return None
    shapes = [p.shape for p in computation.parameters]
    if any(s.is_tuple or s.as_array().dimensions or s.element_type is not root.shape.element_type for s in shapes):
        return None
    t = root.shape.element_type
    if t.is_complex and root.opcode in (HloOpcode.MAXIMUM, HloOpcode.MINIMUM):
        return None
    is_predicate = t.text == "pred"
    return Monoid(
        root.opcode,
        _ON_PREDICATES.get(root.opcode, _UFUNCS[root.opcode]) if is_predicate else _UFUNCS[root.opcode],
        rounded,
    )


def takes_second(computation: HloComputation) -> bool:
    """Whether the computation returns its second parameter: an update that overwrites."""
    root = computation.root
    return root.opcode is HloOpcode.PARAMETER and len(computation.parameters) == 2 and root.parameter_number == 1


def as_tuple(value: Value) -> tuple[Array, ...]:
    """The arrays of a result, which may be one array or a tuple."""
    return value if isinstance(value, tuple) else (value,)


def combine(
    ev: Evaluator, computation: HloComputation, left: Sequence[Array], right: Sequence[Array]
) -> tuple[Array, ...]:
    """The computation applied elementwise to accumulators and new elements."""
    return as_tuple(ev.map(computation, (*left, *right)))


def fold(
    ev: Evaluator,
    computation: HloComputation,
    operands: Sequence[Array],
    inits: Sequence[Array],
    axes: tuple[int, ...],
) -> tuple[Array, ...]:
    """Reduce arrays along axes, from initial scalars.

    Args:
        ev: the evaluator.
        computation: takes the accumulators, then one element of each operand; returns the
            accumulators.
        operands: equally shaped arrays.
        inits: a scalar for each.
        axes: the dimensions to reduce.
    """
    known = monoid(computation, operands[0], inits[0]) if len(operands) == 1 else None
    if known is not None:
        return (_fold_known(known, operands[0], inits[0], axes),)
    lines = [_lines(x, axes) for x in operands]
    accumulators = tuple(np.broadcast_to(v, lines[0].shape[1:]) for v in inits)
    count = lines[0].shape[0]
    results = [leaf.as_array().dtype for _, leaf in computation.root.shape.leaves()]
    if count > SEQUENTIAL_LIMIT and [a.dtype for a in accumulators] == [x.dtype for x in lines] == results:
        return combine(ev, computation, accumulators, _fold_pairs(ev, computation, lines))
    for k in range(count):
        accumulators = combine(ev, computation, accumulators, [x[k] for x in lines])
    return accumulators


def _fold_known(known: Monoid, x: Array, init: Array, axes: tuple[int, ...]) -> Array:
    return known.result(init, known.reduce(known.accumulator(x), axes), x.dtype)


def _lines(x: Array, axes: tuple[int, ...]) -> Array:
    """Move the reduced dimensions to the front, merged into one, in row-major order."""
    kept = [d for d in range(x.ndim) if d not in axes]
    return x.transpose([*sorted(axes), *kept]).reshape(math.prod(x.shape[d] for d in axes), *(x.shape[d] for d in kept))


def _fold_pairs(ev: Evaluator, computation: HloComputation, lines: list[Array]) -> list[Array]:
    """Reduce adjacent elements until one is left per line; there must be at least one."""
    while (count := lines[0].shape[0]) > 1:
        pairs = combine(ev, computation, [x[0 : count - 1 : 2] for x in lines], [x[1::2] for x in lines])
        odd = count % 2
        lines = [np.concatenate([p, x[count - odd :]]) for p, x in zip(pairs, lines, strict=True)]
    return [x[0] for x in lines]
