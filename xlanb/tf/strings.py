"""tf.print, tf.string_split, tf.decode_raw and tf.reduce_join.

Source: python/ops/{logging_ops,string_ops,parsing_ops}.py.
"""

from __future__ import annotations

import sys
from typing import Any

from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor
from xlanb.tf.sparse import SparseTensor


def print_(*inputs: Any, **how: Any) -> Operation:
    """tf.print: make an operation that writes values to stderr (or stdout) when it runs.

    Structures and texts may be among the tensors.
    """
    stream = how.get("output_stream", sys.stderr)
    target = stream if isinstance(stream, str) else "stdout" if stream is sys.stdout else "stderr"
    separator = how.get("sep", " ")
    pieces, tensors = [], []
    for value in inputs:
        if isinstance(value, str):
            pieces.append(value.replace("{}", "{ }"))
        else:
            pieces.append("{}")
            tensors.append(convert_to_tensor(value))
    text = call(
        "StringFormat", tensors, template=separator.join(pieces), placeholder="{}", summarize=how.get("summarize") or 3
    )  # fmt: skip
    return call_op("PrintV2", text, output_stream=target, end=how.get("end", "\n"), name=how.get("name"))


def string_split(source: Any, delimiter: str = " ", skip_empty: bool = True, **_old: Any) -> SparseTensor:
    """The words of texts, a row for each text."""
    indices, values, size = call_op("StringSplit", source, delimiter, skip_empty=skip_empty).outputs
    indices.set_shape([None, 2])
    values.set_shape([None])
    size.set_shape([2])
    return SparseTensor(indices, values, size)


def decode_raw(bytes: Any, out_type: Any, little_endian: bool = True, name: str | None = None) -> Tensor:
    """Bytes as numbers."""
    return call("DecodeRaw", bytes, out_type=out_type, little_endian=little_endian, name=name)


def reduce_join(
    inputs: Any, axis: Any = None, keep_dims: bool = False, separator: str = "", name: str | None = None, **old: Any
) -> Tensor:
    """Texts joined along a dimension, by default the last."""
    found = convert_to_tensor(inputs)
    where = old.get("reduction_indices", axis)
    wanted = list(range(found.shape.rank or 1)) if where is None else where
    return call("ReduceJoin", found, wanted, keep_dims=keep_dims, separator=separator, name=name)
