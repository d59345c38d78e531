"""Folding with a computation: recognising the common ones, and applying any other to whole arrays at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.evaluator.values import Array, Value, is_complex, is_floating, narrow, widen
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.opcode import HloOpcode

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator

# Up to so many elements a fold goes from first to last, as XLA on the CPU does; beyond, neighbours are folded pairwise, which gives the same for
# every associative computation and takes logarithmically many steps.
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
_ON_PREDICATES: dict[HloOpcode, np.ufunc] = {HloOpcode.ADD: np.logical_or, HloOpcode.MULTIPLY: np.logical_and}


@dataclass(frozen=True, slots=True)
class Monoid:
    """An associative operation that NumPy folds by itself."""

    opcode: HloOpcode
    ufunc: np.ufunc

    def identity(self, like: Array) -> Any:
        """The number that changes nothing, of the type that `like` is computed in."""
        wide = widen(like).dtype
        if self.opcode in (HloOpcode.ADD, HloOpcode.OR, HloOpcode.XOR):
            return wide.type(0)
        if self.opcode is HloOpcode.MULTIPLY:
            return wide.type(1)
        if self.opcode is HloOpcode.AND:
            return wide.type(True) if wide == np.bool_ else wide.type(-1) if wide.kind == "i" else np.iinfo(wide).max
        if wide == np.bool_:
            return np.bool_(self.opcode is HloOpcode.MINIMUM)
        if wide.kind == "f":
            return wide.type(-np.inf if self.opcode is HloOpcode.MAXIMUM else np.inf)
        return np.iinfo(wide).min if self.opcode is HloOpcode.MAXIMUM else np.iinfo(wide).max

    def accumulator(self, x: Array) -> Array:
        """x in the type in which it is folded: sums and products of floats in the next wider one."""
        if self.opcode not in (HloOpcode.ADD, HloOpcode.MULTIPLY):
            return widen(x)
        if is_floating(x):
            return x.astype(np.float64)
        return x.astype(np.complex128) if is_complex(x) else widen(x)


def monoid(computation: HloComputation) -> Monoid | None:
    """The operation of a computation that combines its two parameters, and does nothing else; None for any other."""
    root = computation.root
    if root.opcode not in _UFUNCS or len(computation.parameters) != 2:
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
    return Monoid(root.opcode, _ON_PREDICATES.get(root.opcode, _UFUNCS[root.opcode]) if is_predicate else _UFUNCS[root.opcode])


def takes_second(computation: HloComputation) -> bool:
    """Whether the computation gives its second parameter as it is: an update that overwrites."""
    root = computation.root
    return root.opcode is HloOpcode.PARAMETER and len(computation.parameters) == 2 and root.parameter_number == 1


def as_tuple(value: Value) -> tuple[Array, ...]:
    """The arrays of a computation that gives one or several."""
    return value if isinstance(value, tuple) else (value,)


def combine(ev: Evaluator, computation: HloComputation, left: Sequence[Array], right: Sequence[Array]) -> tuple[Array, ...]:
    """The computation applied elementwise to accumulators and new elements."""
    return as_tuple(ev.map(computation, [*left, *right]))


def fold(ev: Evaluator, computation: HloComputation, operands: Sequence[Array], inits: Sequence[Array], axes: tuple[int, ...]) -> tuple[Array, ...]:
    """Arrays folded along axes, from initial scalars.

    Args:
        ev: the evaluator.
        computation: takes the accumulators, then one element of each operand; gives the accumulators.
        operands: equally shaped arrays.
        inits: a scalar for each.
        axes: the dimensions to fold.
    """
    known = monoid(computation) if len(operands) == 1 else None
    if known is not None and operands[0].dtype == inits[0].dtype:
        return (_fold_known(known, operands[0], inits[0], axes),)
    kept = [d for d in range(operands[0].ndim) if d not in axes]
    shape = tuple(operands[0].shape[d] for d in kept)
    # the folded dimensions first and as one, in row-major order
    lines = [x.transpose([*sorted(axes), *kept]).reshape(-1, *shape) for x in operands]
    accumulators = tuple(np.broadcast_to(v, shape) for v in inits)
    count = lines[0].shape[0]
    if count > SEQUENTIAL_LIMIT and all(a.dtype == x.dtype for a, x in zip(accumulators, lines, strict=True)):
        return combine(ev, computation, accumulators, _fold_pairs(ev, computation, lines))
    for k in range(count):
        accumulators = combine(ev, computation, accumulators, [x[k] for x in lines])
    return accumulators


def _fold_known(known: Monoid, x: Array, init: Array, axes: tuple[int, ...]) -> Array:
    wide = known.accumulator(x)
    total = known.ufunc.reduce(wide, axis=axes, dtype=wide.dtype, initial=known.identity(wide), keepdims=False)
    return narrow(np.asarray(known.ufunc(known.accumulator(init), total)), x.dtype)


def _fold_pairs(ev: Evaluator, computation: HloComputation, lines: list[Array]) -> list[Array]:
    """Neighbours folded until one is left of each line; there is at least one."""
    while (count := lines[0].shape[0]) > 1:
        pairs = combine(ev, computation, [x[0 : count - 1 : 2] for x in lines], [x[1::2] for x in lines])
        odd = count % 2
        lines = [np.concatenate([p, x[count - odd :]]) for p, x in zip(pairs, lines, strict=True)]
    return [x[0] for x in lines]
