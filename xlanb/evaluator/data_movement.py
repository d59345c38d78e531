"""Constants, iotas and the like, and operations that only move elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.bits import bitcast_convert
from xlanb.evaluator.registry import lifted_rule, rule
from xlanb.evaluator.values import Array, Value, scalar_int
from xlanb.hlo.attributes import PaddingDimension, SliceDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import ArrayShape

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


_PART = 1 << 22
"""Elements computed per chunk; Python handles signals between chunks."""


@rule("parameter", lifted=True)
def _parameter(ev: Evaluator, i: HloInstruction) -> Value:
    return ev.arguments[i.parameter_number]


@rule("constant", lifted=True)
def _constant(ev: Evaluator, i: HloInstruction) -> Value:
    # XLA makes zeros of a value that the text elides ({...}), and so does the literal.
    return i.literal.numpy()


@rule("iota")
def _iota(ev: Evaluator, i: HloInstruction) -> Array:
    shape = i.array_shape
    axis = i.attributes["iota_dimension"]
    size = shape.dimensions[axis] if shape.element_count else 0  # other dimensions may be larger
    # XLA counts in the element type: integers wrap around, floats are rounded from the exact index.
    exact = shape.element_type.bits >= 16 or shape.element_type.is_integral
    values = np.empty(size, shape.dtype)
    for first in range(0, size, _PART):
        line = np.arange(first, min(first + _PART, size), dtype=np.int64)
        values[first : first + _PART] = (line if exact else line.astype(np.float32)).astype(shape.dtype)
    if not shape.element_count:
        return values.reshape(shape.dimensions)
    column = values.reshape([size if d == axis else 1 for d in range(shape.rank)])
    return np.broadcast_to(column, shape.dimensions)


@rule("broadcast")
def _broadcast(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return broadcasted(i, x)


def broadcasted(i: HloInstruction, x: Array) -> Array:
    """The value of a broadcast: a view of its operand's."""
    shape = i.array_shape
    at = i.dimensions
    sizes = list(shape.dimensions)
    aligned = [1] * shape.rank
    for k, d in enumerate(at):
        aligned[d] = x.shape[k]
        if shape.is_dynamic_dimension(d):
            sizes[d] = x.shape[k]
    order = sorted(range(len(at)), key=at.__getitem__)
    return np.broadcast_to(x.transpose(order).reshape(aligned), sizes)


@rule("reshape")
def _reshape(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    shape = i.array_shape
    if x.size == shape.element_count:
        return x.reshape(shape.dimensions)
    return x.reshape(_actual_sizes(x, shape, i.get("inferred_dimension")))


def _actual_sizes(x: Array, shape: ArrayShape, inferred: int | None) -> list[int]:
    """Sizes of a reshape to dynamic dimensions whose bounds exceed the number of elements.

    One of the dimensions is inferred from the others.
    """
    sizes = list(shape.dimensions)
    dynamic = [d for d in range(shape.rank) if shape.is_dynamic_dimension(d)]
    if inferred is None or inferred < 0:
        if len(dynamic) != 1:
            raise EvaluationError(f"the sizes of {shape} cannot be inferred from {x.size} elements")
        inferred = dynamic[0]
    known = math.prod(n for d, n in enumerate(sizes) if d != inferred)
    if known == 0 or x.size % known:
        raise EvaluationError(f"the sizes of {shape} cannot be inferred from {x.size} elements")
    sizes[inferred] = x.size // known
    return sizes


@rule("transpose")
def _transpose(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return x.transpose(i.dimensions)


@rule("reverse")
def _reverse(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return np.flip(x, i.dimensions) if i.dimensions else x


@rule("copy")
def _copy(ev: Evaluator, i: HloInstruction, x: Value) -> Value:
    return x


@rule("bitcast")
def _bitcast(ev: Evaluator, i: HloInstruction, x: Any) -> Any:
    """The only rule that depends on layouts: elements keep their position in memory."""
    source, target = i.operands[0].shape, i.shape
    if not isinstance(source, ArrayShape) or not isinstance(target, ArrayShape) or not source.is_array:
        return x
    if source.is_dynamic or target.is_dynamic:
        if (source.dimensions, source.minor_to_major) != (target.dimensions, target.minor_to_major):
            raise EvaluationError("the padding of a dynamic array is not kept, and would be visible here")
        return np.ascontiguousarray(x).view(target.dtype)
    memory_order = source.minor_to_major[::-1]
    elements = np.ascontiguousarray(x.transpose(memory_order))
    if elements.dtype != target.dtype:
        elements = bitcast_convert(elements.reshape(-1), target.dtype, (target.element_count,))
    order = target.minor_to_major[::-1]
    laid_out = elements.reshape([target.dimensions[d] for d in order])
    return laid_out.transpose(np.argsort(order)) if order else laid_out


@lifted_rule("broadcast", "reshape", "transpose", "copy", "reverse")
def _same_scalar(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return x


@lifted_rule("bitcast")
def _same_bits(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return np.ascontiguousarray(x).view(i.array_shape.dtype).reshape(x.shape)  # stays a scalar


@rule("slice")
def _slice(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    cuts: tuple[SliceDimension, ...] = i.get("slice") or ()
    shape = i.array_shape
    # A dynamic dimension that is taken whole keeps its size.
    return x[
        tuple(slice(c.start, None if shape.is_dynamic_dimension(d) else c.limit, c.stride) for d, c in enumerate(cuts))
    ]


@rule("concatenate")
def _concatenate(ev: Evaluator, i: HloInstruction, *operands: Array) -> Array:
    return np.concatenate(operands, axis=i.dimensions[0])


def padded(x: Array, value: Array, padding: tuple[PaddingDimension, ...]) -> Array:
    """Pad x by a scalar: `interior` between elements, then `low` and `high` at the ends.

    Negative `low` and `high` remove elements.
    """
    spread = [n + max(n - 1, 0) * p.interior for n, p in zip(x.shape, padding, strict=True)]
    sizes = [max(n + p.low + p.high, 0) for n, p in zip(spread, padding, strict=True)]
    if any(n + p.low + p.high < 0 for n, p in zip(spread, padding, strict=True)):
        raise EvaluationError("negative padding removes more elements than there are")
    out = np.full(sizes, value, x.dtype)
    target, source = [], []
    for n, size, p in zip(x.shape, sizes, padding, strict=True):
        step = p.interior + 1
        first = max(0, -(p.low // step))  # the first element that is kept at the low end
        last = min(n, (size - 1 - p.low) // step + 1) if size else 0
        source.append(slice(first, max(last, first)))
        target.append(slice(p.low + first * step, max(p.low + first * step, p.low + (last - 1) * step + 1), step))
    out[tuple(target)] = x[tuple(source)]
    return out


@rule("pad")
def _pad(ev: Evaluator, i: HloInstruction, x: Array, value: Array) -> Array:
    return padded(x, value, i.get("padding") or ())


@rule("tuple", lifted=True)
def _tuple(ev: Evaluator, i: HloInstruction, *operands: Value) -> tuple[Value, ...]:
    return operands


@rule("get-tuple-element", lifted=True)
def _get_tuple_element(ev: Evaluator, i: HloInstruction, x: tuple[Value, ...]) -> Value:
    return x[i.tuple_index]


def clamped_starts(starts: tuple[Array, ...], sizes: tuple[int, ...], dimensions: tuple[int, ...]) -> list[int]:
    """Start indices clamped so that a slice of `sizes` is within `dimensions`.

    They are given as scalars or as one vector.
    """
    if len(starts) == 1 and starts[0].ndim == 1:
        starts = tuple(starts[0])
    return [
        min(max(scalar_int(np.asarray(s)), 0), n - size) for s, size, n in zip(starts, sizes, dimensions, strict=True)
    ]


@rule("dynamic-slice")
def _dynamic_slice(ev: Evaluator, i: HloInstruction, x: Array, *starts: Array) -> Array:
    sizes = i.ints("dynamic_slice_sizes")
    first = clamped_starts(starts, sizes, x.shape)
    return x[tuple(slice(s, s + n) for s, n in zip(first, sizes, strict=True))]


@rule("dynamic-update-slice")
def _dynamic_update_slice(ev: Evaluator, i: HloInstruction, x: Array, update: Array, *starts: Array) -> Array:
    first = clamped_starts(starts, update.shape, x.shape)
    out = np.array(x)
    out[tuple(slice(s, s + n) for s, n in zip(first, update.shape, strict=True))] = update
    return out
