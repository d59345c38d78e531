"""tf.assert_*: check tensors statically if constant, else at run time (python/ops/check_ops.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import boolean_mask, stack
from xlanb.graph.builders.array_ops import rank as rank_of
from xlanb.graph.builders.control_flow import assert_that
from xlanb.graph.builders.control_ops import no_op
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variables import global_variables, local_variables
from xlanb.graph.constant_value import constant_value
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.op_library import call
from xlanb.graph.operation import Operation, Tensor

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
