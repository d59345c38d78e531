"""Fold batch normalization of a trained model into the preceding convolution or product.

    conv(x, W) -> y = conv(x, W * s) + t    y: any chain of these after conv or matmul

    FusedBatchNorm*(y, scale, offset, mean, variance), BatchNormWithGlobalNormalization
    (y - mean) * (rsqrt(variance + epsilon) * scale) + offset, written out in any order
    y * c, y / c, y + c, y - c, c - y, BiasAdd(y, c)        c: a number for each channel, or one

s and t are computed in double precision; a zero t is left out. Only constants are folded: a graph
in training, whose weights are variables, is unchanged. Source of the semantics:
fold_batch_norms.cc, fold_old_batch_norms.cc and fold_subdivmul_batch_norms.cc in
tensorflow/tools/graph_transforms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import copy_graph, needed_by

Array = np.ndarray[Any, Any]
Affine = tuple[Array, Array]
"""A factor and an offset for each channel."""

_NORMS: Final = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
_OLD_NORM: Final = "BatchNormWithGlobalNormalization"
_LINEAR: Final = frozenset({"Conv2D", "Conv3D", "DepthwiseConv2dNative", "MatMul"})
_CHANNELS_FIRST: Final = frozenset({"NCHW", "NCDHW"})
_DEEPEST: Final = 32
"""Operations of constants within each other that are evaluated."""

_ADDS: Final = frozenset({"Add", "AddV2"})
_DIVIDES: Final = frozenset({"RealDiv", "Div"})
# The ops of a written-out norm: evaluated on constants in their own precision, as in TensorFlow.
_FUNCTIONS: Final[dict[str, Callable[..., Array]]] = {
    "Add": np.add,
    "AddV2": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "RealDiv": np.divide,
    "Div": np.divide,
    "Neg": np.negative,
    "Sqrt": np.sqrt,
    "Rsqrt": lambda x: np.divide(x.dtype.type(1), np.sqrt(x)),
    "Square": np.square,
    "Reciprocal": np.reciprocal,
    "Inv": np.reciprocal,
    "Identity": lambda x: x,
}


_RESHAPES: Final = frozenset({"Reshape", "Squeeze", "ExpandDims"})


@dataclass(frozen=True)
class _LinearOp:
    """A convolution or product with constant weights; `axes` are the weights' output channels."""

    op: Operation
    weights: Array
    axes: tuple[int, ...]
    rank: int

    @property
    def channels(self) -> int:
        return int(np.prod([self.weights.shape[a] for a in self.axes]))

    @property
    def channels_first(self) -> bool:
        return self.op.attrs.get("data_format", "NHWC") in _CHANNELS_FIRST


@dataclass(frozen=True)
class _Fold:
    """A fold: the output of `last` becomes `linear` with weights times `scale`, plus `offset`.

    The nodes between `linear` and `made` are kept.
    """

    last: Operation
    linear: _LinearOp
    made: Tensor
    scale: Array
    offset: Array


Step = Callable[[Affine, _LinearOp], "Affine | None"]


def fold_batch_norms(graph: Graph, keep: Collection[str] = ()) -> Graph:
    """Fold constant batch normalizations and factors into weights; return the same object if none.

    Nodes named in `keep` keep their names and values. A convolution with several users is not
    folded.
    """
    result = graph
    while (found := _first(result, keep)) is not None:
        if result is graph:
            result = copy_graph(graph)
            found = _first(result, keep)
        if found is not None:
            _apply(result, found)
    if result is graph:
        return graph
    ends = {op.name for op in graph if not any(t.uses for t in op.outputs) and not op.control_outputs} | set(keep)
    return copy_graph(result, needed_by([op for op in result if op.name in ends]))


def _first(graph: Graph, keep: Collection[str]) -> _Fold | None:
    """Return the last node of a chain that folds; later nodes come first, for the longest chain."""
    for op in reversed(graph.get_operations()):
        if not _is_fixed(op) and (found := _match(op, keep)) is not None:
            return found
    return None


def _is_fixed(op: Operation) -> bool:
    """Whether a node has control edges, which a fold would lose."""
    return bool(op.control_inputs)


# ---------------------------------------------------------------------------------------- constants


def _constant(tensor: Tensor, depth: int = 0) -> Array | None:
    """The value of a floating-point tensor that is a constant, or arithmetic on constants."""
    op = tensor.op
    if op.type == "Const":
        value = op.attrs.get("value")
        return value if value is not None and value.dtype.kind == "f" else None
    function = _FUNCTIONS.get(op.type)
    if depth > _DEEPEST or _is_fixed(op):
        return None
    if op.type in _RESHAPES:
        return _reshaped(_constant(op.inputs[0], depth + 1), tensor.shape.as_tuple())
    if function is None:
        return None
    values = [_constant(t, depth + 1) for t in op.inputs]
    if any(v is None for v in values):
        return None
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*values))
    except ValueError:  # shapes that do not fit: running it will say so
        return None


def _reshaped(value: Array | None, dims: Sequence[int | None] | None) -> Array | None:
    if value is None or dims is None or math.prod(d or 0 for d in dims) != value.size:
        return None
    return value.reshape([d or 0 for d in dims])


def _by_channel(value: Array | None, linear: _LinearOp) -> Array | None:
    """Return a constant as a vector of doubles, one per channel (or one for all); else None."""
    if value is None or value.ndim > linear.rank:
        return None
    if value.size == 1:
        return np.full(linear.channels, value.reshape(()), np.float64)
    behind = linear.rank - 2 if linear.channels_first else 0
    at = value.ndim - 1 - behind
    if at < 0 or value.size != linear.channels or value.shape[at] != linear.channels:
        return None
    return value.reshape(-1).astype(np.float64)


# -------------------------------------------------------------------------------------------- steps


def _step(op: Operation) -> tuple[Tensor, Step, bool] | None:
    """Return a chain node's input, its effect on factor and offset, and whether folding it pays."""
    if op.type in _NORMS:
        return _norm(op)
    if op.type == _OLD_NORM:
        return op.inputs[0], _old_norm(op), True
    if op.type == "BiasAdd":
        return op.inputs[0], _bias(op), False
    if op.type == "Identity":
        return op.inputs[0], lambda affine, _: affine, False
    if op.type not in {*_ADDS, *_DIVIDES, "Sub", "Mul"}:
        return None
    values = [_constant(t) for t in op.inputs]
    known = [k for k, v in enumerate(values) if v is not None]
    if len(known) != 1 or (op.type in _DIVIDES and known[0] == 0):
        return None
    constant = values[known[0]]
    rest = op.inputs[1 - known[0]]
    kind = "from" if op.type == "Sub" and known[0] == 0 else op.type
    return rest, _arithmetic(kind, constant), op.type in {*_DIVIDES, "Mul"}


def _arithmetic(kind: str, constant: Array | None) -> Step:
    def step(affine: Affine, linear: _LinearOp) -> Affine | None:
        c = _by_channel(constant, linear)
        if c is None:
            return None
        scale, offset = affine
        if kind in _ADDS:
            return scale, offset + c
        if kind == "Sub":
            return scale, offset - c
        if kind == "from":
            return -scale, c - offset
        return (scale * c, offset * c) if kind == "Mul" else (scale / c, offset / c)

    return step


def _bias(op: Operation) -> Step:
    def step(affine: Affine, linear: _LinearOp) -> Affine | None:
        value = _constant(op.inputs[1])
        is_first = op.attrs.get("data_format", "NHWC") in _CHANNELS_FIRST
        if value is None or value.shape != (linear.channels,) or is_first is not linear.channels_first:
            return None
        return affine[0], affine[1] + value

    return step


def _norm(op: Operation) -> tuple[Tensor, Step, bool] | None:
    if op.attrs.get("is_training", True) or any(t.uses for t in op.outputs[1:]):
        return None

    def step(affine: Affine, linear: _LinearOp) -> Affine | None:
        if (op.attrs.get("data_format", "NHWC") in _CHANNELS_FIRST) is not linear.channels_first:
            return None
        vectors = _vectors(op, linear)
        if vectors is None:
            return None
        gamma, beta, mean, variance = vectors
        factor = gamma / np.sqrt(variance + float(op.attrs.get("epsilon", 1e-4)))
        return affine[0] * factor, (affine[1] - mean) * factor + beta

    return op.inputs[0], step, True


def _old_norm(op: Operation) -> Step:
    def step(affine: Affine, linear: _LinearOp) -> Affine | None:
        vectors = _vectors(op, linear)
        if vectors is None or linear.channels_first:
            return None
        mean, variance, beta, gamma = vectors
        factor = 1 / np.sqrt(variance + float(op.attrs["variance_epsilon"]))
        if op.attrs["scale_after_normalization"]:
            factor = factor * gamma
        return affine[0] * factor, (affine[1] - mean) * factor + beta

    return step


def _vectors(op: Operation, linear: _LinearOp) -> list[Array] | None:
    """The four vectors of a normalization, in the order of its inputs."""
    found: list[Array] = []
    for tensor in op.inputs[1:5]:
        value = _constant(tensor)
        if value is None or value.shape != (linear.channels,):
            return None
        found.append(value.astype(np.float64))
    return found


# -------------------------------------------------------------------------------------------- chain


def _match(last: Operation, keep: Collection[str]) -> _Fold | None:
    steps: list[Step] = []
    is_worth = False
    op = last
    while (found := _step(op)) is not None:
        below, step, scales = found
        steps.append(step)
        is_worth = is_worth or scales
        if not _is_inner(below, keep):
            return None
        op = below.op
    if not is_worth:
        return None
    made = op.outputs[0]
    if op.type == "BatchToSpaceND":  # of a dilated convolution: it moves pixels, not channels
        if not _is_inner(op.inputs[0], keep):
            return None
        op = op.inputs[0].op
    linear = _linear(op)
    if linear is None:
        return None
    affine: Affine | None = (np.ones(linear.channels), np.zeros(linear.channels))
    with np.errstate(all="ignore"):  # non-finite values are not folded
        for step in reversed(steps):
            affine = step(affine, linear) if affine is not None else None
    if affine is None or not all(np.all(np.isfinite(part)) for part in affine):
        return None
    return _Fold(last, linear, made, *affine)


def _is_inner(tensor: Tensor, keep: Collection[str]) -> bool:
    """Whether only the chain reads a tensor, and its node is not in `keep`."""
    op = tensor.op
    return (
        tensor.value_index == 0
        and len(tensor.uses) == 1
        and not op.control_outputs
        and op.name not in keep
        and not (_is_fixed(op) and op.type not in _LINEAR)
    )


def _linear(op: Operation) -> _LinearOp | None:
    if op.type not in _LINEAR:
        return None
    weights = _constant(op.inputs[1])
    if weights is None:
        return None
    if op.type == "MatMul":
        return _LinearOp(op, weights, (0 if op.attrs.get("transpose_b") else 1,), 2) if weights.ndim == 2 else None
    rank = 5 if op.type == "Conv3D" else 4
    if weights.ndim != rank or op.attrs.get("data_format", "NHWC") == "NCHW_VECT_C":
        return None
    axes = (2, 3) if op.type == "DepthwiseConv2dNative" else (rank - 1,)
    return _LinearOp(op, weights, axes, rank)


# ------------------------------------------------------------------------------------------ rewrite


def _apply(graph: Graph, fold: _Fold) -> None:
    """Weights of their own for the product, then the offset under the last node's name."""
    last, linear = fold.last, fold.linear
    dtype = linear.op.outputs[0].dtype
    shape = [n if a in linear.axes else 1 for a, n in enumerate(linear.weights.shape)]
    scaled = (linear.weights * fold.scale.reshape(shape)).astype(linear.weights.dtype)
    linear.op.set_input(1, _const(graph, f"{linear.op.name}/folded_weights", scaled, last))
    last.disconnect()
    last.raw_attrs = None
    for extra in last.outputs[1:]:
        extra.uses.clear()
    del last.outputs[1:]
    if not np.any(fold.offset):
        last.type, last.attrs = "Identity", {"T": dtype}
        last.add_input(fold.made)
        return
    offset = _const(graph, f"{last.name}/folded_offset", fold.offset.astype(linear.weights.dtype), last)
    form = "NCHW" if linear.channels_first else "NHWC"
    last.type, last.attrs = "BiasAdd", {"T": dtype, "data_format": form}
    last.set_inputs([fold.made, offset])


def _const(graph: Graph, name: str, value: Array, near: Operation) -> Tensor:
    dtype = near.outputs[0].dtype
    op = graph.add_op("Const", graph.unique_name(name), (), [dtype], {"dtype": dtype, "value": value})
    op.source_file, op.source_line = near.source_file, near.source_line
    return op.outputs[0]
