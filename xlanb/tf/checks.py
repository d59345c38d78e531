"""tf.assert_*: check tensors statically if constant, else at run time (python/ops/check_ops.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import boolean_mask, reshape, stack
from xlanb.graph.builders.array_ops import rank as rank_of
from xlanb.graph.builders.control_flow import assert_that
from xlanb.graph.builders.control_ops import no_op
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variables import global_variables, local_variables
from xlanb.graph.constant_value import constant_value
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor
from xlanb.tf.sparse import SparseTensor

_SYMBOLS = {"Equal": "==", "NotEqual": "!=", "Less": "<", "LessEqual": "<=", "Greater": ">", "GreaterEqual": ">="}
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
}


def _compare(
    op_type: str, function: str, x: Any, y: Any, data: Any, summarize: int | None, message: str | None, name: str | None
) -> Operation:
    with name_scope(name, function, [x, y, data]):
        a = convert_to_tensor(x, name="x")
        b = convert_to_tensor(y, name="y", preferred_dtype=a.dtype.base_dtype)
        shown = data or [
            message or "",
            f"Condition x {_SYMBOLS[op_type]} y did not hold element-wise:",
            f"x ({a.name}) = ",
            a,
            f"y ({b.name}) = ",
            b,
        ]
        known = constant_value(a), constant_value(b)
        if known[0] is not None and known[1] is not None:
            if not np.all(_NUMPY[op_type](known[0], known[1])):
                raise GraphValueError(
                    f"{message or ''} Condition x {_SYMBOLS[op_type]} y did not hold. x ({a.name}) = "
                    f"{known[0]}, y ({b.name}) = {known[1]}".strip()
                )
            return no_op(name="static_checks_determined_all_ok")
        return assert_that(math_ops.reduce_all(call(op_type, a, b)), shown, summarize)


def _comparison(op_type: str, function: str) -> Callable[..., Operation]:
    def check(
        x: Any,
        y: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        return _compare(op_type, function, x, y, data, summarize, message, name)

    check.__name__ = check.__qualname__ = function
    check.__doc__ = (
        f"An operation that fails unless x {_SYMBOLS[op_type]} y for all elements. Raises GraphValueError now for "
        "constants."
    )
    return check


assert_equal = _comparison("Equal", "assert_equal")
assert_none_equal = _comparison("NotEqual", "assert_none_equal")
assert_less = _comparison("Less", "assert_less")
assert_less_equal = _comparison("LessEqual", "assert_less_equal")
assert_greater = _comparison("Greater", "assert_greater")
assert_greater_equal = _comparison("GreaterEqual", "assert_greater_equal")


def _against_zero(op_type: str, function: str) -> Callable[..., Operation]:
    def check(
        x: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
    ) -> Operation:
        with name_scope(name, function, [x, data]):
            tensor = convert_to_tensor(x, name="x")
            zero = convert_to_tensor(0, tensor.dtype.base_dtype)
            return _compare(op_type, function, tensor, zero, data, summarize, message, None)

    check.__name__ = check.__qualname__ = function
    check.__doc__ = (
        f"An operation that fails unless all elements are {function.removeprefix('assert_').replace('_', ' ')}."
    )
    return check


assert_positive = _against_zero("Greater", "assert_positive")
assert_negative = _against_zero("Less", "assert_negative")
assert_non_negative = _against_zero("GreaterEqual", "assert_non_negative")
assert_non_positive = _against_zero("LessEqual", "assert_non_positive")


def assert_rank(
    x: Any,
    rank: int,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Make an operation that fails unless x has this rank.

    Raises:
        GraphValueError: the static rank differs.
    """
    return _rank(x, rank, "Equal", "assert_rank", data, summarize, message, name)


def assert_rank_at_least(
    x: Any,
    rank: int,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Make an operation that fails unless x has at least this rank.

    Raises:
        GraphValueError: the static rank is lower.
    """
    return _rank(x, rank, "GreaterEqual", "assert_rank_at_least", data, summarize, message, name)


def _rank(
    x: Any,
    rank: int,
    op_type: str,
    function: str,
    data: Any,
    summarize: int | None,
    message: str | None,
    name: str | None,
) -> Operation:
    with name_scope(name, function, [x]):
        tensor = convert_to_tensor(x, name="x")
        known = tensor.shape.rank
        if known is not None:
            if not _NUMPY[op_type](known, rank):
                raise GraphValueError(
                    f"{message or ''} Tensor {tensor.name} must have rank {_SYMBOLS[op_type]} {rank}. Received "
                    f"rank {known}, shape {tensor.shape}".strip()
                )
            return no_op(name="static_checks_determined_all_ok")
        shown = data or [message or "", f"Tensor {tensor.name} must have rank {_SYMBOLS[op_type]} {rank}"]
        return assert_that(call(op_type, rank_of(tensor), rank), shown, summarize)


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    """The tensor. Raises GraphValueError if it is known not to be a scalar."""
    found = convert_to_tensor(tensor, name=name)
    if found.shape.rank not in {None, 0}:
        raise GraphValueError(
            f"{message or ''} Expected scalar shape for {found.name}, saw shape: {found.shape}.".strip()
        )
    return found


def assert_type(tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Check a tensor's type statically; return a no-op.

    Raises:
        GraphTypeError: the tensor has another type.
    """
    with name_scope(name, "assert_type", [tensor]):
        found = convert_to_tensor(tensor, name="tensor")
        if found.dtype.base_dtype is not as_dtype(tf_type).base_dtype:
            raise GraphTypeError(
                f"{message or ''} {found.name} must be of type {as_dtype(tf_type).name}, not {found.dtype.name}".strip()
            )
        return no_op("statically_determined_correct_type")


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Check statically that a tensor has an integer type; return a no-op.

    Raises:
        GraphTypeError: it has another type.
    """
    with name_scope(name, "assert_integer", [x]):
        found = convert_to_tensor(x, name="x")
        if not found.dtype.is_integer:
            raise GraphTypeError(
                f"{message or ''} Expected {found.name} to be an integer type. Found {found.dtype.name}".strip()
            )
        return no_op("statically_determined_was_integer")


def assert_variables_initialized(var_list: Any = None) -> Operation | None:
    """An operation that fails unless the variables (by default all) have values."""
    chosen = list(var_list) if var_list is not None else [*global_variables(), *local_variables()]
    if not chosen:
        return None
    states = stack([is_variable_initialized(v) for v in chosen])
    return assert_that(math_ops.reduce_all(states), ["variables are not initialized: ", states])


def is_variable_initialized(variable: Any) -> Tensor:
    """Whether a variable has a value."""
    made = getattr(variable, "is_initialized", None)
    if made is not None:
        found: Tensor = made()
        return found
    return call("IsVariableInitialized", variable)


def report_uninitialized_variables(var_list: Any = None, name: str = "report_uninitialized_variables") -> Tensor:
    """Names of the variables (by default all) that have no value, as a vector of strings."""
    chosen = list(var_list) if var_list is not None else [*global_variables(), *local_variables()]
    with name_scope(name):
        if not chosen:
            return constant(np.zeros(0, object), "string")
        missing = call("LogicalNot", stack([is_variable_initialized(v) for v in chosen]))
        return boolean_mask(constant([v.op.name for v in chosen]), missing)


def verify_tensor_all_finite(
    t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None, message: str | None = None
) -> Tensor:
    """The tensor; the run fails where an element is infinite or no number."""
    found = convert_to_tensor(t if x is None else x)
    with name_scope(name, "VerifyFinite", [found]):
        return call("CheckNumerics", found, message=msg or message or "")


def assert_near(
    x: Any,
    y: Any,
    rtol: float | None = None,
    atol: float | None = None,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str = "assert_near",
) -> Operation:
    """Fail unless |x - y| <= atol + rtol |y| everywhere.

    Both default to ten times the type's precision.
    """
    first = convert_to_tensor(x)
    second = convert_to_tensor(y, first.dtype.base_dtype)
    precision = {"float16": 9.77e-4, "bfloat16": 7.8e-3, "float64": 2.220446049250313e-16}.get(
        first.dtype.base_dtype.name, 1.1920928955078125e-07
    )
    bound = (10 * precision if atol is None else atol) + (10 * precision if rtol is None else rtol) * math_ops.abs(
        second
    )
    made: Operation = assert_less_equal(
        math_ops.abs(first - second), bound, data=data, message=message or "x and y not equal to tolerance", name=name
    )
    return made


def assert_rank_in(x: Any, ranks: Sequence[int], *_data: Any, **_how: Any) -> Operation:
    """Raise GraphValueError if the static rank is none of these; return a no-op."""
    found = convert_to_tensor(x)
    if found.shape.rank is not None and found.shape.rank not in ranks:
        raise GraphValueError(
            f"Tensor {found.name} must have rank in {tuple(ranks)}. Received rank {found.shape.rank}, shape "
            f"{found.shape}"
        )
    return call_op("NoOp")


def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> Any:
    """Return the common floating type of all tensors, float32 if there are none.

    Raises:
        GraphValueError: the types differ, or one is not floating.
    """
    found = {t.dtype.base_dtype for t in tensors or () if t is not None} | (
        {dtypes.as_dtype(dtype)} if dtype else set()
    )
    if len(found) > 1 or any(not t.is_floating for t in found):
        raise GraphValueError(
            f"Expected floating point tensors of one type, got {', '.join(sorted(t.name for t in found))}"
        )
    return next(iter(found), dtypes.float32)


def assert_proper_iterable(values: Any) -> None:
    """Raise GraphTypeError if this is a tensor, a text, or not iterable."""
    if isinstance(values, Tensor | str | bytes | SparseTensor) or not hasattr(values, "__iter__"):
        raise GraphTypeError(f"Expected argument 'values' to be a 'proper' iterable.  Found: {type(values)}")


def is_numeric_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of numbers."""
    return isinstance(tensor, Tensor) and tensor.dtype.base_dtype.is_numeric


def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Whether no element is less than the one before."""
    flat = reshape(convert_to_tensor(x), [-1])
    return math_ops.reduce_all(flat[1:] >= flat[:-1])


def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Whether each element is greater than the one before."""
    flat = reshape(convert_to_tensor(x), [-1])
    return math_ops.reduce_all(flat[1:] > flat[:-1])


def add_check_numerics_ops() -> Operation:
    """An operation that fails where any floating tensor of the graph is infinite or no number."""
    graph = get_default_graph()
    found = [
        t
        for op in graph.get_operations()
        for t in op.outputs
        if t.dtype in {dtypes.float16, dtypes.float32, dtypes.float64}
    ]
    checks = [call("CheckNumerics", t, message=t.name).op for t in found]
    made = call_op("NoOp")
    for op in checks:
        made.add_control_input(op)
    return made
