"""Batch normalization of a trained model folded into the convolution or product before it (tools/graph_transforms/fold_batch_norms.cc).

    conv(x, W) -> [bias b] -> batch_norm(scale, offset, mean, variance)
    conv(x, W * s) + ((b - mean) * s + offset),  s = scale / sqrt(variance + epsilon), constants
    conv(x, W) * s (a constant for each channel) -> conv(x, W * s)

Only constants are folded: a graph that is still trained, whose weights are variables, stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor, handed_on_from
from xlanb.graph.rewrite import copy_graph, needed_by

Array = np.ndarray[Any, Any]
_NORMS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
_LINEAR = frozenset({"Conv2D", "DepthwiseConv2dNative", "MatMul"})


@dataclass(frozen=True)
class _Fold:
    """What becomes of the output of `last`: `linear` with weights times `scale` for each channel, and `offset` added, None for none."""

    last: Operation
    linear: Operation
    weights: Array
    scale: Array
    offset: Array | None


def fold_batch_norms(graph: Graph, keep: Collection[str] = ()) -> Graph:
    """The graph with constant batch normalizations and factors folded into weights; the same object where there is none.

    Nodes named in `keep` keep their names and values. A convolution whose result something else reads too is left alone.
    """
    result = graph
    while (found := next((f for op in result if (f := _match(op, keep)) is not None), None)) is not None:
        if result is graph:
            result = copy_graph(graph)
            found = next(f for op in result if (f := _match(op, keep)) is not None)
        _apply(result, found)
    if result is graph:
        return graph
    ends = {op.name for op in graph if not any(t.uses for t in op.outputs) and not op.control_outputs} | set(keep)
    return copy_graph(result, needed_by([op for op in result if op.name in ends]))


def _constant(tensor: Tensor) -> Array | None:
    tensor = handed_on_from(tensor, lambda op: op.type == "Identity" and not op.control_inputs)
    value = tensor.op.attrs.get("value") if tensor.op.type == "Const" else None
    return value if value is not None and value.dtype.kind == "f" else None


def _linear(tensor: Tensor, keep: Collection[str]) -> tuple[Operation, Array] | None:
    """The convolution or product that alone makes a tensor, and its constant weights."""
    op = tensor.op
    if op.type not in _LINEAR or op.name in keep or len(tensor.uses) != 1 or op.control_outputs:
        return None
    if op.attrs.get("data_format", "NHWC") != "NHWC" or op.attrs.get("transpose_b"):
        return None
    weights = _constant(op.inputs[1])
    return None if weights is None else (op, weights)


def _channels(op: Operation, weights: Array) -> int:
    return int(np.prod(weights.shape[2:]) if op.type == "DepthwiseConv2dNative" else weights.shape[-1])


def _match(op: Operation, keep: Collection[str]) -> _Fold | None:
    if op.type in _NORMS:
        return _normalized(op, keep)
    if op.type == "Mul":
        return _scaled(op, keep)
    return None


def _normalized(op: Operation, keep: Collection[str]) -> _Fold | None:
    if op.attrs.get("is_training", True) or op.attrs.get("data_format", "NHWC") != "NHWC":
        return None
    if any(t.uses for t in op.outputs[1:]):
        return None
    values = [_constant(t) for t in op.inputs[1:5]]
    before, bias = op.inputs[0], None
    if before.op.type in {"BiasAdd", "Add", "AddV2"} and len(before.uses) == 1 and before.op.name not in keep:
        bias = _constant(before.op.inputs[1])
        if bias is None or bias.ndim != 1 or before.op.attrs.get("data_format", "NHWC") != "NHWC":
            return None
        before = before.op.inputs[0]
    found = _linear(before, keep)
    if found is None or any(v is None for v in values):
        return None
    scale, offset, mean, variance = (np.asarray(v, np.float64) for v in values)
    factor = scale / np.sqrt(variance + float(op.attrs.get("epsilon", 1e-4)))
    if factor.shape != (_channels(*found),) or (bias is not None and bias.shape != factor.shape):
        return None
    return _Fold(op, *found, factor, offset + ((0 if bias is None else bias) - mean) * factor)


def _scaled(op: Operation, keep: Collection[str]) -> _Fold | None:
    for place in (0, 1):
        factor, found = _constant(op.inputs[1 - place]), _linear(op.inputs[place], keep)
        if found is not None and factor is not None and factor.shape == (_channels(*found),):
            return _Fold(op, *found, np.asarray(factor, np.float64), None)
    return None


def _apply(graph: Graph, fold: _Fold) -> None:
    """Weights of their own for the product, then the offset under the last node's name."""
    last, linear = fold.last, fold.linear
    dtype = linear.outputs[0].dtype
    factor = fold.scale.reshape(fold.weights.shape[2:]) if linear.type == "DepthwiseConv2dNative" else fold.scale
    weights = _const(graph, f"{linear.name}/folded_weights", (fold.weights * factor).astype(fold.weights.dtype), last)
    linear.set_input(1, weights)
    made = linear.outputs[0]
    last.disconnect()
    last.raw_attrs = None
    for extra in last.outputs[1:]:
        extra.uses.clear()
    del last.outputs[1:]
    if fold.offset is None:
        last.type, last.attrs = "Identity", {"T": dtype}
        last.add_input(made)
    else:
        offset = _const(graph, f"{last.name}/folded_offset", fold.offset.astype(fold.weights.dtype), last)
        last.type, last.attrs = "BiasAdd", {"T": dtype, "data_format": "NHWC"}
        last.set_inputs([made, offset])


def _const(graph: Graph, name: str, value: Array, near: Operation) -> Tensor:
    dtype = near.outputs[0].dtype
    op = graph.add_op("Const", graph.unique_name(name), (), [dtype], {"dtype": dtype, "value": value})
    op.source_file, op.source_line = near.source_file, near.source_line
    return op.outputs[0]
