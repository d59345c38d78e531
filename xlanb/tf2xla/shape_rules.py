"""Shape rules of ops in both directions: rules that always hold, and guesses for open shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.ops import find_op

if TYPE_CHECKING:
    from xlanb.tf2xla.stand_in_shapes import ShapeSolver, Unknown

Rule = Callable[["ShapeSolver", Operation], None]
_RULES: dict[str, Rule] = {}
_GUESSES: dict[str, Rule] = {}


def rule(op_type: str) -> Rule | None:
    """Return the shape rule of an op type, or None if only its lowering is known."""
    return _RULES.get(op_type)


def guess_rule(op_type: str) -> Rule | None:
    """Return the guess for an op type's shapes."""
    return _GUESSES.get(op_type)


def keeps_first_shape(op_type: str) -> bool:
    """Whether the first output has the shape of the first input."""
    return _RULES.get(op_type) in (_one_shape, _all_inputs, _switch, _bias, _batch_norm)


def _demands(*op_types: str) -> Callable[[Rule], Rule]:
    def decorate(found: Rule) -> Rule:
        _RULES.update(dict.fromkeys(op_types, found))
        return found

    return decorate


def _suggests(*op_types: str) -> Callable[[Rule], Rule]:
    def decorate(found: Rule) -> Rule:
        _GUESSES.update(dict.fromkeys(op_types, found))
        return found

    return decorate


def _alike(s: ShapeSolver, tensors: Sequence[Tensor]) -> None:
    """All of one shape, as far as any of them is known."""
    known = next((dims for t in tensors if (dims := s.get(t)) is not None), None)
    if known is not None:
        for t in tensors:
            s.set_dims(t, known)


@_demands("Identity", "Snapshot", "StopGradient", "PreventGradient", "Cast", "Neg", "Abs", "Sign", "Square", "Sqrt",
          "Rsqrt", "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh",
          "Asinh", "Acosh", "Atanh",
          "Sigmoid", "Erf", "Erfc", "Erfinv", "Lgamma", "Digamma", "Relu", "Relu6", "Elu", "Selu", "LeakyRelu",
          "Softplus", "Softsign", "Softmax",
          "LogSoftmax", "Reciprocal", "Inv", "Floor", "Ceil", "Round", "Rint", "IsNan", "IsInf", "IsFinite",
          "LogicalNot", "ZerosLike", "OnesLike",
          "Conj", "Real", "Imag", "Cumsum", "Cumprod", "Reverse", "ReverseV2", "CheckNumerics", "ReluGrad",
          "Relu6Grad", "EluGrad",
          "SoftplusGrad", "TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "Enter", "RefEnter",
          "Exit", "RefExit",
          "NextIteration", "RefNextIteration", "EnsureShape", "InvertPermutation", "ReadVariableOp",
          "AssignVariableOp", "AssignAddVariableOp",
          "AssignSubVariableOp", "Assign", "AssignAdd", "AssignSub", "LRN", "DebugIdentity")  # fmt: skip
def _one_shape(s: ShapeSolver, op: Operation) -> None:
    with_shape = op.inputs[:1] if op.type in {"Cumsum", "Cumprod", "Reverse", "ReverseV2"} else op.inputs
    _alike(s, [*with_shape, *op.outputs[:1]])


@_demands("AddN", "Merge", "RefMerge")
def _all_inputs(s: ShapeSolver, op: Operation) -> None:
    _alike(s, [*op.inputs, op.outputs[0]])
    if len(op.outputs) > 1:
        s.with_rank(op.outputs[1], 0)


@_demands("IdentityN", "ShapeN")
def _each(s: ShapeSolver, op: Operation) -> None:
    for given, made in zip(op.inputs, op.outputs, strict=True):
        if op.type == "IdentityN":
            _alike(s, [given, made])


@_demands("LoopCond")
def _scalar(s: ShapeSolver, op: Operation) -> None:
    for t in (*op.inputs, *op.outputs):
        s.with_rank(t, 0)


@_demands("Switch", "RefSwitch")
def _switch(s: ShapeSolver, op: Operation) -> None:
    _alike(s, [op.inputs[0], *op.outputs])
    s.with_rank(op.inputs[1], 0)


_BROADCAST = ("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "MulNoNan", "FloorDiv", "TruncateDiv", "Mod",
              "FloorMod", "Pow", "Maximum", "Minimum", "SquaredDifference", "Equal", "NotEqual", "Less", "LessEqual",
              "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr",
              "Atan2", "Xdivy", "Xlogy", "SelectV2", "BitwiseAnd", "BitwiseOr", "BitwiseXor")  # fmt: skip


@_demands(*_BROADCAST)
def _broadcast(s: ShapeSolver, op: Operation) -> None:
    """Set the result's sizes if all inputs are known; a size other than 1 on one side suffices."""
    shapes = [s.get(t) for t in op.inputs]
    known = [d for d in shapes if d is not None]
    others = [t for t, d in zip(op.inputs, shapes, strict=True) if d != []]
    if s.get(op.outputs[0]) == []:
        for t in others:
            s.with_rank(t, 0)
    if len(others) == 1:
        _alike(s, [*others, op.outputs[0]])
        return
    if len(known) < len(shapes):
        return
    rank = max(len(d) for d in known)
    out = s.with_rank(op.outputs[0], rank)
    for place in range(1, rank + 1):
        sizes = [d[-place] for d in known if len(d) >= place]
        wide = next((d for d in sizes if d.known not in (None, 1)), None)
        if wide is not None:
            s.equal(out[-place], wide, op.outputs[0])
        elif len(sizes) == 1 or all(d.root() is sizes[0].root() for d in sizes):
            s.equal(out[-place], sizes[0], op.outputs[0])
        elif sum(d.known != 1 for d in sizes) == 1:
            s.equal(out[-place], next(d for d in sizes if d.known != 1), op.outputs[0])


@_suggests(*_BROADCAST)
def _same_operands(s: ShapeSolver, op: Operation) -> None:
    """Give an operand of unknown rank the other's shape, unless that is a scalar; equate open
    sizes.
    """
    known = [d for t in op.inputs if (d := s.get(t))]
    if not known:
        return
    widest = max(known, key=len)
    for t in op.inputs:
        dims = s.get(t)
        if dims is None:
            if s.may_guess(t):
                s.set_dims(t, widest)
                return
            continue
        for a, b in zip(reversed(dims), reversed(widest), strict=False):
            if (
                a.root() is not b.root()
                and 1 not in (a.known, b.known)
                and (s.may_guess_size(a) or s.may_guess_size(b))
            ):
                s.equal(a, b, t)
                return


@_demands("MatMul")
def _matmul(s: ShapeSolver, op: Operation) -> None:
    a, b, out = (s.with_rank(t, 2) for t in (*op.inputs, op.outputs[0]))
    rows, inner = a[::-1] if op.attrs.get("transpose_a") else a
    inner_b, columns = b[::-1] if op.attrs.get("transpose_b") else b
    s.equal(inner, inner_b, op.inputs[0])
    s.equal(out[0], rows, op.outputs[0])
    s.equal(out[1], columns, op.outputs[0])


@_demands("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(s: ShapeSolver, op: Operation) -> None:
    a, b = (s.get(t) for t in op.inputs)
    if a is None or b is None or min(len(a), len(b)) < 2:
        return
    rows, inner = a[-2:][::-1] if op.attrs.get("adj_x") else a[-2:]
    inner_b, columns = b[-2:][::-1] if op.attrs.get("adj_y") else b[-2:]
    s.equal(inner, inner_b, op.inputs[0])
    out = s.with_rank(op.outputs[0], max(len(a), len(b)))
    s.equal(out[-2], rows, op.outputs[0])
    s.equal(out[-1], columns, op.outputs[0])


@_demands("BiasAdd", "BiasAddV1")
def _bias(s: ShapeSolver, op: Operation) -> None:
    _alike(s, [op.inputs[0], op.outputs[0]])
    bias, data = s.with_rank(op.inputs[1], 1), s.get(op.inputs[0])
    if data is not None and len(data) > 1:
        s.equal(data[1 if op.attrs.get("data_format") == "NCHW" else -1], bias[0], op.inputs[0])


@_demands("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(s: ShapeSolver, op: Operation) -> None:
    _alike(s, [op.inputs[0], op.outputs[0]])
    _alike(s, [op.inputs[1], op.inputs[2]])
    scale, x = s.with_rank(op.inputs[1], 1), s.get(op.inputs[0])
    if x is not None and len(x) > 1:
        s.equal(x[1 if op.attrs.get("data_format") == "NCHW" else -1], scale[0], op.inputs[0])


# ------------------------------------------------------------------------------------------ windows


def _space(op: Operation) -> tuple[int, list[int]]:
    """The places of channels and of the picture's sides."""
    return (1, [2, 3]) if op.attrs.get("data_format") == "NCHW" else (3, [1, 2])


def _sizes_of(op: Operation, attr: str) -> list[int]:
    """Return an attribute with four sizes; ones if it is missing or invalid."""
    sizes = [int(n) for n in op.attrs.get(attr) or ()]
    return sizes if len(sizes) == 4 and min(sizes) > 0 else [1] * 4


def _sides(s: ShapeSolver, op: Operation, image: Tensor, made: Tensor, window: Sequence[int | None]) -> None:
    """Set the sizes of the result's sides from the known image sizes."""
    for index, place in enumerate(_space(op)[1]):
        side, out, size = s.with_rank(image, 4)[place], s.with_rank(made, 4)[place], window[index]
        side.root().is_picture = out.root().is_derived = True
        stride, step = (_sizes_of(op, a)[place] for a in ("strides", "dilations"))
        if side.known is None or size is None or op.attrs.get("padding") == "EXPLICIT":
            continue
        reach = (size - 1) * step + 1 if op.attrs.get("padding") == "VALID" else 1
        s.fix(out, max(0, -(-(side.known - reach + 1) // stride)), made)


def _sides_back(s: ShapeSolver, op: Operation, window: Sequence[int | None]) -> None:
    """Guess the image size that gives the result's size with these windows."""
    image, made = s.get(op.inputs[0]), s.get(op.outputs[0])
    for index, place in enumerate(_space(op)[1]):
        size = window[index]
        if image is None or made is None or size is None:
            return
        out = made[place].known
        if s.may_guess_size(image[place]) and out is not None:
            stride, step = (_sizes_of(op, a)[place] for a in ("strides", "dilations"))
            is_valid = op.attrs.get("padding") == "VALID"
            s.fix(image[place], (out - 1) * stride + (size - 1) * step + 1 if is_valid else out * stride, op.inputs[0])


def _conv_window(s: ShapeSolver, op: Operation) -> list[int | None]:
    return [d.known for d in s.with_rank(op.inputs[1], 4)[:2]]


def _pool_window(op: Operation) -> list[int | None]:
    return [_sizes_of(op, "ksize")[place] for place in _space(op)[1]]


@_demands("Conv2D", "DepthwiseConv2dNative")
def _conv(s: ShapeSolver, op: Operation) -> None:
    image, window, out = (s.with_rank(t, 4) for t in (*op.inputs[:2], op.outputs[0]))
    channels, _ = _space(op)
    s.equal(image[0], out[0], op.outputs[0])
    if op.type == "Conv2D":
        s.equal(out[channels], window[3], op.outputs[0])
    else:
        s.equal(image[channels], window[2], op.inputs[0])
    _sides(s, op, op.inputs[0], op.outputs[0], _conv_window(s, op))


@_suggests("Conv2D", "DepthwiseConv2dNative")
def _conv_guess(s: ShapeSolver, op: Operation) -> None:
    """One group of channels."""
    image, window = s.with_rank(op.inputs[0], 4), s.with_rank(op.inputs[1], 4)
    channels = image[_space(op)[0]]
    if s.may_guess_size(channels):
        s.equal(channels, window[2], op.inputs[0])
    else:
        _sides_back(s, op, _conv_window(s, op))


@_demands("MaxPool", "AvgPool")
def _pool(s: ShapeSolver, op: Operation) -> None:
    image, out = s.with_rank(op.inputs[0], 4), s.with_rank(op.outputs[0], 4)
    for place in (0, _space(op)[0]):
        s.equal(image[place], out[place], op.outputs[0])
    _sides(s, op, op.inputs[0], op.outputs[0], _pool_window(op))


@_suggests("MaxPool", "AvgPool")
def _pool_guess(s: ShapeSolver, op: Operation) -> None:
    _sides_back(s, op, _pool_window(op))


# ------------------------------------------------------------------------------------------- shapes


@_demands("Reshape")
def _reshape(s: ShapeSolver, op: Operation) -> None:
    target, given = s.value(op.inputs[1]), s.get(op.inputs[0])
    s.with_rank(op.inputs[1], 1)
    if target is None:
        return
    out = s.with_rank(op.outputs[0], target.size)
    for d, size in zip(out, target.ravel(), strict=True):
        if size >= 0:
            s.fix(d, int(size), op.outputs[0])
    if given is not None:
        _same_count(s, op.inputs[0], given, op.outputs[0], out)
        _same_count(s, op.outputs[0], out, op.inputs[0], given)


def _same_count(s: ShapeSolver, a: Tensor, first: Sequence[Unknown], b: Tensor, second: Sequence[Unknown]) -> None:
    """The only unknown size of `second`, if all of `first` are known; two unknown sizes with the
    same element count otherwise are equal.
    """
    left, right = ([d for d in dims if d.known is None] for dims in (first, second))
    counts = [prod(d.known or 1 for d in dims if d.known is not None) for dims in (first, second)]
    if len(right) != 1 or 0 in counts:
        return
    if not left and counts[0] % counts[1] == 0:
        s.fix(right[0], counts[0] // counts[1], b)
    elif len(left) == 1 and counts[0] == counts[1]:
        s.equal(left[0], right[0], a)


@_suggests("Reshape")
def _reshape_guess(s: ShapeSolver, op: Operation) -> None:
    """Keep the first size and guess a square image for the rest.

    An input of unknown rank gets the target shape.
    """
    given, out = s.get(op.inputs[0]), s.get(op.outputs[0])
    if out is None:
        return
    if given is None:
        if s.value(op.inputs[1]) is not None and s.may_guess(op.inputs[0]):
            s.set_dims(op.inputs[0], out)
        return
    unknown = [d for d in given if d.known is None]
    if len(unknown) > 1 and unknown[0] is given[0] and len(out) > 1:
        rest, wanted = given[1:], [d.known for d in out[1:]]
        if None in wanted:
            return
        s.equal(given[0], out[0], op.inputs[0])
        count, have = prod(w or 0 for w in wanted), prod(d.known or 1 for d in rest)
        sides = [d for d in rest if d.known is None]
        side = round((count / have) ** (1 / len(sides))) if have else 0
        if side and side ** len(sides) * have == count:
            for d in sides:
                s.fix(d, side, op.inputs[0])


@_demands("Transpose", "ConjugateTranspose")
def _transpose(s: ShapeSolver, op: Operation) -> None:
    order = s.value(op.inputs[1])
    if order is None:
        return
    given, out = s.with_rank(op.inputs[0], order.size), s.with_rank(op.outputs[0], order.size)
    for d, place in zip(out, order.ravel(), strict=True):
        if 0 <= int(place) < len(given):
            s.equal(d, given[int(place)], op.outputs[0])


@_demands("StridedSlice")
def _strided_slice(s: ShapeSolver, op: Operation) -> None:
    """Dimensions that are kept whole, or cut by a number at either end, by steps of 1."""
    given, (begin, end, strides) = s.get(op.inputs[0]), (s.value(t) for t in op.inputs[1:4])
    if given is None or begin is None or end is None or strides is None:
        return
    if any(v.ndim != 1 or v.size != begin.size for v in (begin, end, strides)) or any(int(x) != 1 for x in strides):
        return
    if op.attrs.get("ellipsis_mask") or op.attrs.get("new_axis_mask") or len(begin) > len(given):
        return
    masks = [int(op.attrs.get(a, 0)) for a in ("begin_mask", "end_mask", "shrink_axis_mask")]
    kept: list[tuple[Unknown, int | None]] = []
    for place, side in enumerate(given):
        whole_begin, whole_end, gone = (place >= len(begin) or bool(m >> place & 1) for m in masks)
        if gone and place < len(begin):
            continue
        first = 0 if whole_begin else int(begin[place])
        last = 0 if whole_end else int(end[place])
        kept.append((side, first - last if first >= 0 and (whole_end or last < 0) else None))
    out = s.with_rank(op.outputs[0], len(kept))
    for made, (side, less) in zip(out, kept, strict=True):
        if less == 0:
            s.equal(made, side, op.outputs[0])
        elif less is not None:
            made.root().is_derived = True
            if side.known is not None:
                s.fix(made, max(0, side.known - less), op.outputs[0])
            elif made.known:
                s.fix(side, made.known + less, op.inputs[0])


@_demands("ExpandDims")
def _expand(s: ShapeSolver, op: Operation) -> None:
    axis, given, out = s.number(op.inputs[1]), s.get(op.inputs[0]), s.get(op.outputs[0])
    rank = len(given) + 1 if given is not None else len(out or ())
    if axis is None or rank < 1:
        return
    place = axis % rank
    out, given = s.with_rank(op.outputs[0], rank), s.with_rank(op.inputs[0], rank - 1)
    s.fix(out[place], 1, op.outputs[0])
    for a, b in zip(given, [*out[:place], *out[place + 1 :]], strict=True):
        s.equal(a, b, op.inputs[0])


@_demands("Pack")
def _pack(s: ShapeSolver, op: Operation) -> None:
    _alike(s, op.inputs)
    given = s.get(op.inputs[0])
    if given is not None:
        rank = len(given) + 1
        place = int(op.attrs.get("axis", 0)) % rank
        out = s.with_rank(op.outputs[0], rank)
        s.fix(out[place], len(op.inputs), op.outputs[0])
        for a, b in zip(given, [*out[:place], *out[place + 1 :]], strict=True):
            s.equal(a, b, op.outputs[0])


@_demands("ConcatV2")
def _concat(s: ShapeSolver, op: Operation) -> None:
    axis, parts = s.number(op.inputs[-1]), op.inputs[:-1]
    known = next((d for t in (*parts, op.outputs[0]) if (d := s.get(t)) is not None), None)
    if axis is None or not known:
        return
    place = axis % len(known)
    out = s.with_rank(op.outputs[0], len(known))
    dims = [s.with_rank(t, len(known)) for t in parts]
    for t, d in zip(parts, dims, strict=True):
        for i, (a, b) in enumerate(zip(d, out, strict=True)):
            if i != place:
                s.equal(a, b, t)
    sizes = [d[place].known for d in dims]
    total = out[place].known
    if None not in sizes:
        s.fix(out[place], sum(n or 0 for n in sizes), op.outputs[0])
    elif total is not None and sizes.count(None) == 1:
        s.fix(dims[sizes.index(None)][place], total - sum(n or 0 for n in sizes), parts[sizes.index(None)])


@_demands("Sum", "Mean", "Max", "Min", "Prod", "All", "Any")
def _reduce(s: ShapeSolver, op: Operation) -> None:
    axes, given = s.value(op.inputs[1]), s.get(op.inputs[0])
    if axes is None or given is None or axes.size > len(given):
        return
    gone = {int(a) % max(1, len(given)) for a in axes.ravel()}
    keeps = bool(op.attrs.get("keep_dims"))
    out = s.with_rank(op.outputs[0], len(given) if keeps else len(given) - len(gone))
    left = [d for i, d in enumerate(given) if keeps or i not in gone]
    for i, (a, b) in enumerate(zip(out, left, strict=True)):
        if keeps and i in gone:
            s.fix(a, 1, op.outputs[0])
        else:
            s.equal(a, b, op.outputs[0])


@_demands("ArgMax", "ArgMin")
def _argmax(s: ShapeSolver, op: Operation) -> None:
    axis, given = s.number(op.inputs[1]), s.get(op.inputs[0])
    if axis is not None and given:
        place = axis % len(given)
        s.set_dims(op.outputs[0], [*given[:place], *given[place + 1 :]])


@_demands("ResourceGather", "Gather", "GatherV2")
def _gather(s: ShapeSolver, op: Operation) -> None:
    axis = s.number(op.inputs[2]) if op.type == "GatherV2" else None
    table, indices, out = s.get(op.inputs[0]), s.get(op.inputs[1]), s.get(op.outputs[0])
    if not table or op.attrs.get("batch_dims") or (op.type == "GatherV2" and axis is None):
        return
    place = axis % len(table) if axis is not None else 0
    if indices is None and out is not None:
        indices = s.with_rank(op.inputs[1], len(out) - len(table) + 1)
    if indices is not None:
        s.set_dims(op.outputs[0], [*table[:place], *indices, *table[place + 1 :]])


# -------------------------------------------------------------------------------------------- lists
# The dimensions of a list's handle are those of its elements.


def _stated_element(s: ShapeSolver, shape: Tensor, element: Tensor) -> None:
    stated = s.value(shape)
    if stated is not None and stated.ndim == 1:
        for d, size in zip(s.with_rank(element, stated.size), stated, strict=True):
            if size >= 0:
                s.fix(d, int(size), element)


@_demands("TensorListReserve", "EmptyTensorList")
def _list_made(s: ShapeSolver, op: Operation) -> None:
    _stated_element(s, op.inputs[0], op.outputs[0])


@_demands("TensorListSetItem", "TensorListPushBack", "TensorListPopBack", "TensorListGetItem")
def _list_changed(s: ShapeSolver, op: Operation) -> None:
    item = op.inputs[2 if op.type == "TensorListSetItem" else 1]
    is_put = op.type in {"TensorListSetItem", "TensorListPushBack"}
    if not is_put:
        _stated_element(s, op.inputs[-1], op.outputs[-1])
    _alike(s, [op.inputs[0], *op.outputs, *([item] if is_put else [])])


@_demands("TensorListFromTensor", "TensorListStack", "TensorListGather")
def _list_as_tensor(s: ShapeSolver, op: Operation) -> None:
    is_list = op.type == "TensorListFromTensor"
    handle, tensor = (op.outputs[0], op.inputs[0]) if is_list else (op.inputs[0], op.outputs[0])
    _stated_element(s, op.inputs[-1], handle)
    elements, rows = s.get(handle), s.get(tensor)
    if rows:
        s.set_dims(handle, rows[1:])
    elif elements is not None:
        for a, b in zip(s.with_rank(tensor, len(elements) + 1)[1:], elements, strict=True):
            s.equal(a, b, tensor)


# ------------------------------------------------------------------------------------------- losses


@_demands("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_loss(s: ShapeSolver, op: Operation) -> None:
    logits, labels, loss = s.with_rank(op.inputs[0], 2), s.with_rank(op.inputs[1], 1), s.with_rank(op.outputs[0], 1)
    s.equal(logits[0], labels[0], op.inputs[1])
    s.equal(logits[0], loss[0], op.outputs[0])
    _alike(s, [op.inputs[0], op.outputs[1]])


@_demands("SoftmaxCrossEntropyWithLogits")
def _dense_loss(s: ShapeSolver, op: Operation) -> None:
    logits = s.with_rank(op.inputs[0], 2)
    s.equal(logits[0], s.with_rank(op.outputs[0], 1)[0], op.outputs[0])
    _alike(s, [op.inputs[0], op.outputs[1]])
    s.equal(s.with_rank(op.inputs[1], 2)[1], logits[1], op.inputs[1])


@_suggests("SoftmaxCrossEntropyWithLogits")
def _dense_loss_guess(s: ShapeSolver, op: Operation) -> None:
    if all(s.get(t) is not None or s.may_guess(t) for t in op.inputs):
        _alike(s, op.inputs)


@_demands("InTopK", "InTopKV2")
def _in_top_k(s: ShapeSolver, op: Operation) -> None:
    s.equal(s.with_rank(op.inputs[0], 2)[0], s.with_rank(op.inputs[1], 1)[0], op.inputs[1])


# ------------------------------------------------------------------------------------------ by name

_SLOTS = frozenset({"var", "accum", "m", "v", "ms", "mom", "mg", "grad", "delta", "linear", "vhat", "accum_update"})


def _of_update(s: ShapeSolver, op: Operation) -> None:
    """A variable, its slots and its gradient are of one shape; rates and the like are scalars."""
    op_def = find_op(op.type)
    if op_def is None or len(op_def.inputs) != len(op.inputs):
        return
    _alike(s, [t for arg, t in zip(op_def.inputs, op.inputs, strict=True) if arg.name in _SLOTS])
    for arg, t in zip(op_def.inputs, op.inputs, strict=True):
        if arg.name not in _SLOTS:
            s.with_rank(t, 0)


_RULES.update({
    prefix + name: _of_update
    for prefix in ("Apply", "ResourceApply")
    for name in ("GradientDescent", "Momentum", "KerasMomentum", "Adagrad", "AdagradV2", "Adam", "AdaMax", "RMSProp",
                 "CenteredRMSProp", "Adadelta", "Ftrl", "FtrlV2", "AdamWithAmsgrad", "AddSign", "PowerSign",
                 "ProximalGradientDescent", "ProximalAdagrad")
})  # fmt: skip


@_demands("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessRandomUniformInt",
          "StatelessRandomUniformFullInt", "StatelessMultinomial")  # fmt: skip
def _seeded(s: ShapeSolver, op: Operation) -> None:
    s.fix(s.with_rank(op.inputs[1], 1)[0], 2, op.inputs[1])


@_demands("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg")
def _seed(s: ShapeSolver, op: Operation) -> None:
    s.fix(s.with_rank(op.inputs[0], 1)[0], 2, op.inputs[0])
