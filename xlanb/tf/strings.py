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
    """The words of texts, a row for each."""
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


def string_format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Tensor:
    """tf.strings.format: fill a template's placeholders with tensors.

    `summarize` is the number of entries shown at each end of an axis.
    """
    tensors = [convert_to_tensor(x) for x in (inputs if isinstance(inputs, list | tuple) else [inputs])]
    return call("StringFormat", tensors, template=template, placeholder=placeholder, summarize=summarize, name=name)


def split_strings(
    input: Any = None,
    sep: str | None = None,
    maxsplit: int = -1,
    source: Any = None,
    name: str | None = None,
    **_how: Any,
) -> SparseTensor:
    """tf.strings.split: the parts between separators (default: white space), a row for each."""
    texts = input if source is None else source
    indices, values, size = call_op("StringSplitV2", texts, sep or "", maxsplit=maxsplit, name=name).outputs
    indices.set_shape([None, 2])
    values.set_shape([None])
    size.set_shape([2])
    return SparseTensor(indices, values, size)
