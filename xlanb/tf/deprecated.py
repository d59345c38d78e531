"""Old names of casts, scopes and batch operations, with their old arguments."""

from __future__ import annotations

from typing import Any

from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variable_scope import variable_scope
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor


def to_bfloat16(x: Any, name: str = "ToBFloat16") -> Any:
    """As bfloat16."""
    return math_ops.cast(x, dtypes.bfloat16, name)


def to_complex64(x: Any, name: str = "ToComplex64") -> Any:
    """As complex64."""
    return math_ops.cast(x, dtypes.complex64, name)


def to_complex128(x: Any, name: str = "ToComplex128") -> Any:
    """As complex128."""
    return math_ops.cast(x, dtypes.complex128, name)


def batch_to_space(input: Any, crops: Any, block_size: int, name: str | None = None) -> Tensor:
    """Pieces of pictures in the batch as larger pictures."""
    return call("BatchToSpaceND", input, [block_size, block_size], crops, name=name)


def space_to_batch(input: Any, paddings: Any, block_size: int, name: str | None = None) -> Tensor:
    """Pictures in pieces, as a larger batch."""
    return call("SpaceToBatchND", input, [block_size, block_size], paddings, name=name)


def op_scope(values: Any, name: str | None, default_name: str | None = None) -> Any:
    """As tf.name_scope, arguments in the order of 2015."""
    return name_scope(name, default_name, list(values))


def variable_op_scope(values: Any, name_or_scope: Any, default_name: str | None = None, **how: Any) -> Any:
    """As tf.variable_scope, arguments in the order of 2015."""
    return variable_scope(name_or_scope, default_name, list(values), **how)
