"""Shapes of TensorFlow tensors, found by lowering, so that no shape rule is written twice.

An operation is lowered with parameters of its inputs' shapes. If a dimension is unknown, it is
lowered twice, with two different sizes: dimensions of the result that differ are unknown too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlanb.errors import GraphError, UnknownOpError
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.shapes import handle_shape
from xlanb.shape.primitive_type import from_dtype
from xlanb.shape.shape import array
from xlanb.tf2xla.compiler import Argument, lower
from xlanb.tf2xla.const_analysis import constant_inputs
from xlanb.tf2xla.context import ConstantValues, NotConstantError
from xlanb.tf2xla.registry import kernel
from xlanb.tracing import unobserved

# Sizes that real dimensions rarely have, so that they are not mistaken for known sizes.
_STAND_INS = (7919, 7907)
_LARGEST_CONE = 64

Dimensions = tuple[int | None, ...]
Array = np.ndarray[Any, Any]


def infer_shapes(op: Operation) -> list[Dimensions | None] | None:
    """Infer the shape of each output of an operation; None for sizes unknown before run time.

    Raises:
        GraphError: the inputs' shapes do not fit the op for any values of unknown dimensions.
    """
    with unobserved():
        return _inferred(op)


def _inferred(op: Operation) -> list[Dimensions | None] | None:
    found = kernel(op.type)
    if found is None or _is_of_store(op) or any(t.dtype.name == "variant" for t in op.outputs):
        return None
    if not all(t.dtype.has_numpy_dtype or t.dtype.name == "resource" for t in op.inputs):
        return None
    dims = [_dimensions(t) for t in op.inputs]
    known = _known_inputs(op)
    if known is None or any(d is None and k is None for d, k in zip(dims, known, strict=True)):
        return None
    if not any(d is not None and k is None and None in d for d, k in zip(dims, known, strict=True)):
        exact = _attempt(op, dims, known, 0)
        return None if exact is None else list(exact)
    refusal: GraphError | None = None
    try:
        pair = [_attempt(op, dims, known, size) for size in _STAND_INS]
        return None if pair[0] is None or pair[1] is None else [_merge(column) for column in zip(*pair, strict=True)]
    except GraphError as error:
        refusal = error
    # The unknown size may have to be 1, or that of a neighbour: then the ranks at least are known.
    for size in dict.fromkeys((1, *(n for d in dims for n in d or () if n is not None))):
        try:
            shapes = _attempt(op, dims, known, size)
        except GraphError:
            continue
        return None if shapes is None else [None if s is None else (None,) * len(s) for s in shapes]
    if found.constants:  # a size that only the constant explains, as for Reshape
        return None
    raise type(refusal)(re.sub(rf"\b{_STAND_INS[0]}\b", "?", str(refusal)))


def _attempt(
    op: Operation, dims: Sequence[Dimensions | None], known: Sequence[Array | None], size: int
) -> list[Dimensions | None] | None:
    """Return output shapes with `size` for unknown dimensions, None if the op cannot be lowered.

    Raises GraphError if the shapes do not fit.
    """
    try:
        return _lowered_shapes(op, dims, known, size)
    except (UnknownOpError, NotConstantError):
        return None


def exact_shapes(
    op: Operation, dims: Sequence[tuple[int, ...]], known: Sequence[Array | None]
) -> list[tuple[int, ...] | None]:
    """Return output shapes for inputs of these shapes; None if a size depends on values.

    `dims` has the variable's shape for a handle; `known` has the values of inputs that must be
    constant.

    Raises:
        GraphError: the shapes do not fit; NotConstantError if `known` lacks a value that is needed.
        UnknownOpError: the op has no lowering.
    """
    shapes = _lowered_shapes(op, dims, known, 0)
    return [None if s is None or None in s else tuple(d for d in s if d is not None) for s in shapes]


def evaluate_op(op: Operation, dims: Sequence[tuple[int, ...]], known: Sequence[Array | None]) -> list[Array] | None:
    """Evaluate an op on known inputs, or on shapes if only these matter; None if that is not
    enough.
    """
    feeds: dict[Tensor, Argument] = {}
    for t, d, value in zip(op.inputs, dims, known, strict=True):
        if value is not None:
            feeds[t] = Argument("constant", None, value)
        elif t.dtype.has_numpy_dtype:
            feeds[t] = Argument("parameter", array(from_dtype(t.dtype.base_dtype.as_numpy_dtype), d))
        else:
            return None
    try:
        root = lower(op.name, list(feeds.items()), op.outputs, follow_control=False).module.entry_computation.root
        constants = ConstantValues()
        return [constants.of(o) for o in root.operands[: len(op.outputs)]]
    except (NotConstantError, UnknownOpError):
        return None


def constant_value(tensor: Tensor) -> Array | None:
    """The value of a tensor that depends on constants and known shapes alone, else None."""
    feeds: dict[Tensor, Argument] = {}
    seen: set[Operation] = set()
    stack = [tensor]
    while stack:
        t = stack.pop()
        if t.op in seen:
            continue
        seen.add(t.op)
        found = kernel(t.op.type)
        if found is None or not found.is_compilable or len(seen) > _LARGEST_CONE:
            return None
        dims = _dimensions(t.op.inputs[0]) if t.op.type == "Shape" else None
        if dims is not None and None not in dims:
            feeds[t] = Argument("constant", None, np.asarray(dims, t.dtype.as_numpy_dtype))
        elif t.op.type == "Shape":
            return None
        else:
            stack.extend(t.op.inputs)
    try:
        with unobserved():
            module = lower("constant", list(feeds.items()), [tensor], follow_control=False).module
        return ConstantValues().of(module.entry_computation.root.operands[0])
    except GraphError:
        return None


def _dimensions(tensor: Tensor) -> Dimensions | None:
    """Return a tensor's known dimensions; for a variable's handle, the variable's."""
    if tensor.dtype.name == "resource":
        return handle_shape(tensor.op)
    return tensor.shape.as_tuple()


def _known_inputs(op: Operation) -> list[Array | None] | None:
    """Return the values of inputs that must be constant, None for others; None if one is
    unknown.
    """
    needed = constant_inputs(op)
    values = [constant_value(t) if i in needed else None for i, t in enumerate(op.inputs)]
    return None if any(values[i] is None for i in needed) else values


def _lowered_shapes(
    op: Operation, dims: Sequence[Dimensions | None], known: Sequence[Array | None], size: int
) -> list[Dimensions | None]:
    if _is_of_store(op):
        return [None for _ in op.outputs]
    feeds: dict[Tensor, Argument] = {}
    for t, d, value in zip(op.inputs, dims, known, strict=True):
        if value is not None or d is None:
            feeds[t] = Argument("constant", None, value)
            continue
        is_handle = t.dtype.name == "resource"
        element = t.op.attrs.get("dtype") or op.attrs.get("dtype") or op.attrs.get("T") if is_handle else t.dtype
        if element is None or not element.has_numpy_dtype:
            return [None for _ in op.outputs]
        # A text is moved like its number when the op is run.
        scalar = np.int32 if element.base_dtype.name == "string" else element.as_numpy_dtype
        shape = array(from_dtype(scalar), [size if n is None else n for n in d])
        feeds[t] = Argument("variable" if is_handle or t.dtype.is_ref_dtype else "parameter", shape)
    root = lower(op.name, list(feeds.items()), op.outputs, follow_control=False).module.entry_computation.root
    shapes = [o.array_shape for o in root.operands[: len(op.outputs)]]
    return [tuple(None if s.is_dynamic_dimension(i) else d for i, d in enumerate(s.dimensions)) for s in shapes]


def _is_of_store(op: Operation) -> bool:
    """Whether an op makes or reads a stack or tensor array: alone it determines no shape."""
    return op.type.startswith(("Stack", "TensorArray"))


def _merge(shapes: Sequence[Dimensions | None]) -> Dimensions | None:
    first, *others = shapes
    if first is None or any(o is None or len(o) != len(first) for o in others):
        return None
    return tuple(d if all(o is not None and o[i] == d for o in others) else None for i, d in enumerate(first))
