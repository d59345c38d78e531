"""Python's operators on tensors, with the node names that TensorFlow uses."""

from __future__ import annotations

from typing import Any

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import stack
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.op_library import apply_op
from xlanb.graph.operation import Tensor, binary_operator, index_tensor, unary_operator

# Operator -> (op type, name of its scope, names of its inputs).
_OPS: dict[str, tuple[str, str]] = {
    "add": ("AddV2", "add"),
    "sub": ("Sub", "sub"),
    "mul": ("Mul", "mul"),
    "floordiv": ("FloorDiv", "floordiv"),
    "mod": ("FloorMod", "mod"),
    "pow": ("Pow", "pow"),
    "and": ("LogicalAnd", "and"),
    "or": ("LogicalOr", "or"),
    "less": ("Less", "Less"),
    "less_equal": ("LessEqual", "LessEqual"),
    "greater": ("Greater", "Greater"),
    "greater_equal": ("GreaterEqual", "GreaterEqual"),
}
_BITWISE = {"and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor"}
_UNARY = {"neg": "Neg", "abs": "Abs", "invert": "LogicalNot"}


@binary_operator.implement
def binary(method: str, tensor: Tensor, other: Any, reverse: bool) -> Tensor:
    """Build `tensor <method> other`, or with operands swapped."""
    graph = tensor.graph
    scope_name = {"truediv": "truediv", "matmul": "matmul", "xor": "xor"}.get(method) or _OPS[method][1]
    with graph.as_default(), graph.undone_on_error(), graph.name_scope(scope_name) as scope:
        if reverse:
            left, right = convert_to_tensor(other, tensor.dtype.base_dtype, "x"), tensor
        else:
            left, right = tensor, other
        return _apply(method, left, right, scope)


def _apply(method: str, x: Tensor, y: Any, scope: str) -> Tensor:
    if method == "truediv":
        return math_ops.truediv(x, y, scope)
    if method == "matmul":
        return math_ops.matmul(x, y, name=scope)
    if method == "xor" and x.dtype.is_bool:
        return math_ops.logical_xor(x, y, name=scope)
    if method in _BITWISE and not x.dtype.is_bool:
        return apply_op(_BITWISE[method], scope, x=x, y=y).outputs[0]
    op_type = "Add" if method == "add" and x.dtype.base_dtype is dtypes.string else _OPS[method][0]
    return apply_op(op_type, scope, x=x, y=y).outputs[0]


@unary_operator.implement
def unary(method: str, tensor: Tensor) -> Tensor:
    """-tensor, abs(tensor), ~tensor."""
    graph = tensor.graph
    with graph.as_default():
        if method == "abs":
            return math_ops.abs(tensor)
        if method == "neg":
            return apply_op("Neg", None, x=tensor).outputs[0]
        return apply_op("LogicalNot" if tensor.dtype.is_bool else "Invert", None, x=tensor).outputs[0]


@index_tensor.implement
def slice_tensor(tensor: Tensor, key: Any) -> Tensor:
    """Build `tensor[key]` as a StridedSlice.

    The key has integers, slices, `...`, None (a new axis), tensors as bounds; boolean masks are not
    supported.

    Raises:
        GraphTypeError: another kind of index.
        GraphValueError: more than one `...`.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if sum(k is Ellipsis for k in keys) > 1:
        raise GraphValueError(f"more than one `...` in an index of {tensor.name!r}")
    begin: list[Any] = []
    end: list[Any] = []
    strides: list[Any] = []
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    for i, k in enumerate(keys):
        b, e, s = _index(tensor, k, 1 << i, masks)
        begin.append(b)
        end.append(e)
        strides.append(s)
    graph = tensor.graph
    with graph.as_default(), graph.undone_on_error(), graph.name_scope("strided_slice") as scope:
        parts = [stack(values) for values in (begin, end, strides)]
        if not begin:
            parts = [constant([], dtypes.int32, name=n) for n in ("begin", "end", "strides")]
        return apply_op(
            "StridedSlice", scope, input=tensor, begin=parts[0], end=parts[1], strides=parts[2], **masks
        ).outputs[0]


def _index(tensor: Tensor, key: Any, bit: int, masks: dict[str, int]) -> tuple[Any, Any, Any]:
    """Return begin, end and stride of one dimension; set the masks for open ends."""
    if isinstance(key, slice):
        bounds = []
        bound_type = _bound_type(key)
        for value, mask, default in ((key.start, "begin_mask", 0), (key.stop, "end_mask", 0), (key.step, "", 1)):
            if value is None and mask:
                masks[mask] |= bit
            missing = default if bound_type is None else constant(default, bound_type) if value is None else None
            bounds.append(missing if value is None else value)
        return bounds[0], bounds[1], bounds[2]
    if key is Ellipsis:
        masks["ellipsis_mask"] |= bit
        return 0, 0, 1
    if key is None:
        masks["new_axis_mask"] |= bit
        return 0, 0, 1
    masks["shrink_axis_mask"] |= bit
    if isinstance(key, Tensor):
        wide = key.dtype.base_dtype in {dtypes.int16, dtypes.int64}
        return key, key + 1, constant(1, key.dtype.base_dtype) if wide else 1
    if not isinstance(key, str | float | bool) and hasattr(key, "__index__"):
        return key, key + 1, 1
    raise GraphTypeError(
        f"tensor {tensor.name!r} can be indexed by integers, slices, `...`, None and integer tensors, got {key!r}"
    )


def _bound_type(key: slice) -> Any:
    """Return the widest type of the tensors among a slice's bounds, or None."""
    found = [t.dtype.base_dtype for t in (key.start, key.stop, key.step) if isinstance(t, Tensor)]
    return next((t for t in (dtypes.int64, dtypes.int32, dtypes.int16) if t in found), None)
