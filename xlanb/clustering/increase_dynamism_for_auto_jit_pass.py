"""Compile slices of fixed size at a variable position once for all positions.

Slice(x, begin, size=[2, -1])   =>   Slice(x, begin, [2, shape(x)[1] - begin[1]])

Only the new `size` must be constant. Source: TensorFlow's increase_dynamism_for_auto_jit_pass.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlanb.clustering.mark_for_compilation import CLUSTER
from xlanb.clustering.node_graph import CONSTANT, known_dims
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor

_INT64 = as_dtype("int64")


def increase_dynamism_for_auto_jit(graph: Graph) -> Graph:
    """Copy a graph with such slices rewritten; return the graph itself if there are none."""
    if not any(_is_rewritable(op) for op in graph):
        return graph
    copy = graph.copy()
    for op in copy.get_operations():
        if _is_rewritable(op):
            _rewrite(op)
    return copy


def _is_rewritable(op: Operation) -> bool:
    if op.type != "Slice" or not op.attrs.get(CLUSTER) or op.inputs[1].op.type in CONSTANT:
        return False
    size = op.inputs[2].op.attrs.get("value") if op.inputs[2].op.type in CONSTANT else None
    return isinstance(size, np.ndarray) and size.ndim == 1 and bool((size >= -1).all())


class _SliceBuilder:
    """Make nodes under `<slice>/static_shaped_slice/`, in the slice's cluster and on its device."""

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.scope = f"{op.name}/static_shaped_slice"
        self._constants: dict[int, Tensor] = {}

    def node(self, op_type: str, name: str, inputs: Sequence[Tensor], **attrs: Any) -> Tensor:
        graph = self.op.graph
        attrs[CLUSTER] = self.op.attrs[CLUSTER]
        made = graph.add_op(op_type, graph.unique_name(f"{self.scope}/{name}"), inputs, None, attrs, (), self.op.device)
        made.source_file, made.source_line = self.op.source_file, self.op.source_line
        return made.outputs[0]

    def constant(self, name: str, value: Any, dtype: str = "int64") -> Tensor:
        made = self.node("Const", name, (), dtype=as_dtype(dtype), value=np.array(value, dtype))
        for waited in self.op.inputs[2].op.control_inputs:
            made.op.add_control_input(waited)
        return made

    def vector_of(self, value: int) -> Tensor:
        if value not in self._constants:
            self._constants[value] = self.constant(f"const_{value}", [value])
        return self._constants[value]

    def int64(self, name: str, tensor: Tensor) -> Tensor:
        base = tensor.dtype.base_dtype
        return (
            tensor
            if base is _INT64
            else self.node("Cast", f"{name}_s64", [tensor], SrcT=base, DstT=_INT64, Truncate=False)
        )

    def element(self, name: str, vector: Tensor, index: int) -> Tensor:
        return self.node("Slice", name, [vector, self.vector_of(index), self.vector_of(1)], T=_INT64, Index=_INT64)


def _rewrite(op: Operation) -> None:
    build = _SliceBuilder(op)
    source, begin, size = op.inputs
    dtype = source.dtype.base_dtype
    begin64, size64 = build.int64("begin", begin), build.int64("size", size)
    sizes = [int(s) for s in size.op.attrs["value"]]
    whole = size64 if min(sizes, default=0) >= 0 else _sizes(build, source, begin64, sizes)
    new = build.node("Slice", "static_shaped_slice", [source, begin64, whole], T=dtype, Index=_INT64)
    new.op.set_attr("_XlaCompileTimeConstantInputs", ("size",))
    shape = known_dims(op.outputs[0])
    op.outputs[0].replace_uses(new)
    new.give_shape(shape)
    for waiting in op.control_outputs:
        waiting.add_control_input(new.op)
    for waited in op.control_inputs:
        new.op.add_control_input(waited)
    op.graph.remove_ops([op])


def _sizes(build: _SliceBuilder, source: Tensor, begin: Tensor, sizes: Sequence[int]) -> Tensor:
    """Replace -1 in the size by the rest of the dimension."""
    shape = build.node("Shape", "input_shape", [source], T=source.dtype.base_dtype, out_type=_INT64)
    parts = []
    for index, size in enumerate(sizes):
        if size >= 0:
            parts.append(build.vector_of(size))
            continue
        start = build.element(f"begin_{index}", begin, index)
        extent = build.element(f"input_shape_{index}", shape, index)
        parts.append(build.node("Sub", f"slice_size_{index}", [extent, start], T=_INT64))
    if len(parts) == 1:
        return parts[0]
    axis = build.constant("concat_axis", 0, "int32")
    return build.node("ConcatV2", "slice_size", [*parts, axis], N=len(parts), T=_INT64, Tidx=as_dtype("int32"))
