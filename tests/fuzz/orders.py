"""Whether a sum or product of floats depends on the order of evaluation, which XLA leaves open.

The instruction is evaluated in other orders: step by step in its own type from the initial value,
backwards, and, if its type is narrower than f32, exactly and rounded once. In a narrow type any
difference counts. In a wide one roundings are left to `conditioning`, and it counts if a step
overflows, gives NaN or underflows in one order and not in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from xlanb.errors import XlanbError
from xlanb.evaluator import Evaluator
from xlanb.hlo import HloInstruction, HloModule
from xlanb.hlo.attributes import Window
from xlanb.hlo.builder import HloBuilder
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType
from xlanb.shape.primitive_type import from_dtype
from xlanb.shape.shape import array

Array = NDArray[Any]
_REDUCERS = {
    Op.REDUCE: "to_apply",
    Op.REDUCE_WINDOW: "to_apply",
    Op.SCATTER: "to_apply",
    Op.SELECT_AND_SCATTER: "scatter",
}
_PRODUCTS = (Op.DOT, Op.CONVOLUTION)
FOLDS = frozenset((*_REDUCERS, *_PRODUCTS))
_WIDE = 32
"""Bits of the narrowest float whose sums are computed in the type itself."""


def shows_order(i: HloInstruction, operands: Sequence[Any], value: Any, max_seconds: float) -> bool:
    """Whether a fold has another value than the interpreter's in another order."""
    if i.opcode in _PRODUCTS:
        return _may_overflow(i, operands)
    opcode = _folds_by(i)
    if opcode is None or not all(isinstance(x, np.ndarray) for x in (*operands, value)):
        return False
    is_narrow = i.array_shape.element_type.bits < _WIDE
    try:
        others = [o.astype(value.dtype) for o in _other_orders(i, opcode, operands, max_seconds, is_narrow=is_narrow)]
    except XlanbError:  # it takes too long
        return False
    differ = _differ if is_narrow else _are_of_other_sorts
    return any(differ(value, other, is_product=opcode is Op.MULTIPLY) for other in others)


def _may_overflow(i: HloInstruction, operands: Sequence[Any]) -> bool:
    """Whether the terms of a product of arrays may overflow their sum in some order."""
    t = i.array_shape.element_type
    if not (t.is_floating or t.is_complex):
        return False
    finite = [np.abs(x[np.isfinite(x)].astype(np.complex128)) for x in map(np.asarray, operands)]
    terms = min(x.size for x in finite)
    largest = float(np.prod([np.max(x, initial=0.0) for x in finite])) * terms
    return largest > float(ml_dtypes.finfo(t.dtype).max)


def _folds_by(i: HloInstruction) -> Op | None:
    """ADD or MULTIPLY if one array of floats is folded by it in its own type; else None."""
    if i.opcode not in _REDUCERS or i.shape.is_tuple:
        return None
    t = i.array_shape.element_type
    root = _reducer(i).root
    is_plain = {*root.operands} == {*_reducer(i).parameters} and len(root.operands) == 2
    if not (is_plain and root.opcode in (Op.ADD, Op.MULTIPLY) and (t.is_floating or t.is_complex)):
        return None
    floats = [i.operands[0], *i.operands[2 if i.opcode is Op.SCATTER else 1 :], root]
    return root.opcode if all(o.array_shape.element_type is t for o in floats) else None


def _reducer(i: HloInstruction) -> HloComputation:
    found: HloComputation = i.attributes[_REDUCERS[i.opcode]]
    return found


def _other_orders(
    i: HloInstruction, opcode: Op, operands: Sequence[Array], max_seconds: float, *, is_narrow: bool
) -> Iterator[Array]:
    def run(module: HloModule, arguments: Sequence[Array]) -> Array:
        found: Array = Evaluator(max_seconds=max_seconds).run(module.entry_computation, arguments)
        return found

    yield run(_alone(i, operands, _stepwise(opcode)), operands)
    if backwards := _BACKWARDS.get(i.opcode):
        arguments, attributes = backwards(i, operands)
        yield run(_alone(i, arguments, _stepwise(opcode), **attributes), arguments)
    if is_narrow:
        kept = 1 if i.opcode is Op.SELECT_AND_SCATTER else 0  # it selects in the operand's own type
        t = i.array_shape.element_type
        wide = [x.astype(np.float64) if x.dtype == t.dtype and n >= kept else x for n, x in enumerate(operands)]
        yield run(_alone(i, wide, _stepwise(opcode)), wide)


Region = Callable[[HloBuilder, PrimitiveType], HloComputation]


def _stepwise(opcode: Op) -> Region:
    """The reducer in an unrecognized form, which the interpreter applies element by element."""

    def made(outer: HloBuilder, t: PrimitiveType) -> HloComputation:
        b = outer.sub_computation("step")
        x, y = b.parameter(0, array(t, ())), b.parameter(1, array(t, ()))
        return b.build_computation(b.instruction(opcode, (b.instruction(Op.COPY, (x,), x.shape), y)))

    return made


def _alone(i: HloInstruction, operands: Sequence[Array], region: Region, **attributes: Any) -> HloModule:
    """A module of this instruction over operands of these types, with another reducer."""
    b = HloBuilder("order")
    parameters = [b.parameter(n, array(from_dtype(x.dtype), x.shape)) for n, x in enumerate(operands)]
    t = parameters[-1].array_shape.element_type
    given = {**i.attributes, _REDUCERS[i.opcode]: region(b, t), **attributes}
    if select := given.get("select"):
        given["select"] = b.module.clone_computation(select)
    return b.build(b.instruction(i.opcode, parameters, i.array_shape.with_type(t), **given))


Backwards = Callable[[HloInstruction, Sequence[Array]], tuple[list[Array], dict[str, Any]]]


def _reduce_backwards(i: HloInstruction, operands: Sequence[Array]) -> tuple[list[Array], dict[str, Any]]:
    x, init = operands
    return [np.flip(x, i.dimensions), init], {}


def _window_backwards(i: HloInstruction, operands: Sequence[Array]) -> tuple[list[Array], dict[str, Any]]:
    dimensions = tuple(replace(d, reversal=not d.reversal) for d in i.window.dimensions)
    return [*operands], {"window": Window(dimensions)}


def _scatter_backwards(i: HloInstruction, operands: Sequence[Array]) -> tuple[list[Array], dict[str, Any]]:
    """The last updates first; those of a batch keep their order."""
    target, indices, updates = operands
    of_indices = [d for d in range(indices.ndim) if d != i.get("index_vector_dim")]
    of_updates = [d for d in range(updates.ndim) if d not in i.ints("update_window_dims")]
    batches = i.ints("scatter_indices_batching_dims")
    pairs = [(d, u) for d, u in zip(of_indices, of_updates, strict=True) if d not in batches]
    flipped = [np.flip(indices, [d for d, _ in pairs]), np.flip(updates, [u for _, u in pairs])]
    return [target, *flipped], {}


_BACKWARDS: dict[Op, Backwards] = {
    Op.REDUCE: _reduce_backwards,
    Op.REDUCE_WINDOW: _window_backwards,
    Op.SCATTER: _scatter_backwards,
}


def _differ(a: Array, b: Array, *, is_product: bool) -> bool:
    return not np.array_equal(a.astype(np.float64), b.astype(np.float64), equal_nan=True)


def _are_of_other_sorts(a: Array, b: Array, *, is_product: bool) -> bool:
    """Whether any element is NaN, an infinity or, for products, 0 in only one of both."""
    if is_product and not np.array_equal(a == 0, b == 0):
        return True
    parts = ((a.real, b.real), (a.imag, b.imag)) if a.dtype.kind == "c" else ((a, b),)
    return any(not np.array_equal(_sorts(x), _sorts(y)) for x, y in parts)


def _sorts(x: Array) -> Array:
    """0 for finite elements, the sign of infinities, 2 for NaN."""
    return np.where(np.isnan(x), 2, np.where(np.isinf(x), np.sign(x), 0))


__all__ = ["FOLDS", "shows_order"]
