"""Rewrites of Grappler, TensorFlow's graph optimizer, each with its name and reason.

    arithmetic_optimizer    x * 1 -> x, transposes that cancel, a * x + a * y -> a * (x + y), ...
    remapper                Conv2D or MatMul, BiasAdd, Relu -> _FusedConv2D, _FusedMatMul
    layout(to=NCHW)         convolutions and pooling in a device's layout, transposes around

A rewrite keeps the nodes named in `keep`, and assumes no values for those named in `fed`. Source of
the semantics: tensorflow/core/grappler/optimizers/
{arithmetic_optimizer,constant_folding,remapper,generic_layout_optimizer}.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from xlanb.errors import GraphError, GraphValueError
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import copy_graph, needed_by

Array = np.ndarray[Any, Any]
Found = tuple[Tensor, str]
"""The replacement of a node's first output, and the reason."""

_MOST_REWRITES: Final = 100_000
_INVOLUTIONS: Final = frozenset({"Neg", "LogicalNot", "Invert", "Conj"})
_POWERS: Final = {2.0: "Square", 1.0: "Identity", 0.5: "Sqrt", -0.5: "Rsqrt", -1.0: "Reciprocal"}
_ACTIVATIONS: Final = {
    "Conv2D": frozenset({"Relu", "Relu6", "Elu", "LeakyRelu"}),
    "MatMul": frozenset({"Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid"}),
}
_FUSED: Final = {"Conv2D": "_FusedConv2D", "MatMul": "_FusedMatMul"}
_BY_LAYOUT: Final = frozenset(
    {"Conv2D", "BiasAdd", "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "MaxPool", "AvgPool"}
)
_UNARY: Final = frozenset("Relu Relu6 Elu Selu LeakyRelu Tanh Sigmoid Neg Abs Square Sqrt Rsqrt Exp Identity".split())
_BINARY: Final = frozenset({"Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "RealDiv"})
_PERMUTATIONS: Final = {"NCHW": (0, 3, 1, 2), "NHWC": (0, 2, 3, 1)}


@dataclass(frozen=True)
class Rewrite:
    """One rewrite: the optimizer, Grappler's name of the rule, the replaced node, and the
    reason.
    """

    optimizer: str
    rule: str
    node: str
    why: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.node}: {self.why}"


@dataclass
class _GraphRewrite:
    """A graph under rewriting."""

    graph: Graph
    keep: Collection[str]
    fed: Collection[str] = ()
    to: str = ""

    def is_opaque(self, op: Operation) -> bool:
        """Whether an input, or an input's input, is fed: then its node does not determine its
        value.
        """
        near = [t.op for t in op.inputs]
        return any(o.name in self.fed for o in (*near, *(t.op for o in near for t in o.inputs)))

    def drop(self, op: Operation) -> None:
        """Remove a node without users, and its inputs that are then unused."""
        waiting = [op]
        while waiting:
            gone = waiting.pop()
            is_used = any(t.uses for t in gone.outputs) or gone.control_outputs
            if is_used or gone.name in self.keep or gone.name not in self.graph or gone.control_inputs:
                continue
            sources = [t.op for t in gone.inputs]
            gone.disconnect()
            self.graph.remove_ops([gone])
            waiting += sources

    def is_inner(self, tensor: Tensor, op_type: str = "") -> bool:
        """Whether only one node reads a tensor, and its own node may go."""
        op = tensor.op
        is_free = op.name not in self.keep and not op.control_inputs and not op.control_outputs
        return is_free and len(tensor.uses) == 1 and (not op_type or op.type == op_type)

    def make(self, op_type: str, inputs: Sequence[Tensor], near: Operation, what: str, **attrs: Any) -> Tensor:
        """Add a node named after another, with its element type."""
        dtype = near.outputs[0].dtype.base_dtype
        op = self.graph.add_op(
            op_type, self.graph.unique_name(f"{near.name}/{what}"), inputs, [dtype], {"T": dtype, **attrs},
            device=near.device,
        )  # fmt: skip
        op.source_file, op.source_line = near.source_file, near.source_line
        return op.outputs[0]

    def constant(self, value: Array, near: Operation, what: str) -> Tensor:
        """Add a Const named after a node."""
        dtype = as_dtype(value.dtype)
        name = self.graph.unique_name(f"{near.name}/{what}")
        return self.graph.add_op("Const", name, (), [dtype], {"dtype": dtype, "value": value}).outputs[0]

    def transposed(self, x: Tensor, permutation: Sequence[int], near: Operation, what: str) -> Tensor:
        """Add a Transpose named after a node."""
        perm = self.constant(np.asarray(permutation, np.int32), near, f"{what}_perm")
        return self.make("Transpose", [x, perm], near, what, Tperm=as_dtype("int32"))


Rule = Callable[[_GraphRewrite, Operation], "Found | None"]


def arithmetic_optimizer(
    graph: Graph, keep: Collection[str] = (), fed: Collection[str] = ()
) -> tuple[Graph, list[Rewrite]]:
    """Simplify arithmetic; return the graph (the same if unchanged) and the rewrites."""
    return _rewritten("arithmetic_optimizer", _ARITHMETIC, _GraphRewrite(graph, keep, fed))


def remapper(graph: Graph, keep: Collection[str] = (), fed: Collection[str] = ()) -> tuple[Graph, list[Rewrite]]:
    """Fuse Conv2D and MatMul with the following bias and activation; return the graph and the
    rewrites.
    """
    return _rewritten("remapper", {"FuseContractionWithBiasAdd": _remap}, _GraphRewrite(graph, keep, fed))


def layout(
    graph: Graph, keep: Collection[str] = (), fed: Collection[str] = (), to: str = "NCHW"
) -> tuple[Graph, list[Rewrite]]:
    """Change the images' layout, move transposes as far as possible and cancel them.

    Returns the graph and the rewrites.

    Raises:
        GraphValueError: `to` is not a layout.
    """
    if to not in _PERMUTATIONS:
        raise GraphValueError(f"layout(to=...) expects NCHW or NHWC, got {to!r}")
    return _rewritten("layout", _LAYOUT, _GraphRewrite(graph, keep, fed, to))


def _rewritten(name: str, rules: dict[str, Rule], work: _GraphRewrite) -> tuple[Graph, list[Rewrite]]:
    """Apply rules at each node until none applies; then drop unused nodes."""
    given = work.graph
    work.graph = copy_graph(given)
    done: list[Rewrite] = []
    waiting = list(reversed(work.graph.get_operations()))
    while waiting and len(done) < _MOST_REWRITES:
        op = waiting.pop()
        if op.name not in work.graph or op.name in work.keep or not op.outputs or not op.outputs[0].uses:
            continue
        if op.control_outputs or op.control_inputs or work.is_opaque(op):
            continue
        before = len(work.graph)
        for rule_name, rule in rules.items():
            found = rule(work, op)
            if found is None:
                continue
            new, why = found
            done.append(Rewrite(name, rule_name, op.name, why))
            readers = list(op.outputs[0].uses)
            op.outputs[0].replace_uses(new)
            waiting += [*readers, new.op, *(t.op for t in new.op.inputs), *work.graph.get_operations()[before:]]
            work.drop(op)
            break
    if not done:
        return given, []
    ends = {op.name for op in given if not any(t.uses for t in op.outputs) and not op.control_outputs} | set(work.keep)
    return copy_graph(work.graph, needed_by([op for op in work.graph if op.name in ends])), done


# -------------------------------------------------------------------------------------------- facts


def _value(tensor: Tensor) -> Array | None:
    value = tensor.op.attrs.get("value") if tensor.op.type == "Const" else None
    return value if isinstance(value, np.ndarray) else None


def _dims(tensor: Tensor) -> tuple[int, ...] | None:
    """The sizes of a tensor where all are known."""
    try:
        dims = tensor.shape.as_list() if tensor.shape.rank is not None else [None]
    except GraphError:
        return None
    known = tuple(d for d in dims if d is not None)
    return known if len(known) == len(dims) else None


def _all(tensor: Tensor, number: float) -> bool:
    value = _value(tensor)
    return value is not None and value.dtype.kind in "fiuc" and bool(np.all(value == number))


def _same_shape(a: Tensor, b: Tensor) -> bool:
    dims = _dims(a)
    return dims is not None and dims == _dims(b)


# --------------------------------------------------------------------------------------- arithmetic


def _involution(_work: _GraphRewrite, op: Operation) -> Found | None:
    if op.type not in _INVOLUTIONS or op.inputs[0].op.type != op.type:
        return None
    return op.inputs[0].op.inputs[0], f"{op.type} of {op.type} cancels"


def _identity_transpose(work: _GraphRewrite, op: Operation) -> Found | None:
    if op.type != "Transpose" or (perm := _value(op.inputs[1])) is None:
        return None
    if np.array_equal(perm, np.arange(perm.size)):
        return op.inputs[0], f"the permutation {perm.tolist()} is the identity"
    inner = op.inputs[0].op
    first = _value(inner.inputs[1]) if inner.type == "Transpose" else None
    if first is None or first.size != perm.size:
        return None
    both = first[perm]
    if np.array_equal(both, np.arange(both.size)):
        return inner.inputs[0], f"the permutations {first.tolist()} and {perm.tolist()} cancel"
    if not work.is_inner(op.inputs[0]):
        return None
    made = work.transposed(inner.inputs[0], both.tolist(), op, "transpose")
    return made, f"the permutations {first.tolist()} and {perm.tolist()} combine to {both.tolist()}"


def _redundant_reshape(work: _GraphRewrite, op: Operation) -> Found | None:
    if op.type != "Reshape":
        return None
    x = op.inputs[0]
    if _same_shape(x, op.outputs[0]):
        return x, f"it already has the shape {list(_dims(x) or ())}"
    if x.op.type == "Reshape" and x.op.inputs[0].op is not op and _dims(op.outputs[0]) is not None:
        shape = work.constant(np.asarray(_dims(op.outputs[0]), np.int32), op, "shape")
        made = work.make("Reshape", [x.op.inputs[0], shape], op, "reshape", Tshape=as_dtype("int32"))
        return made, f"it does not depend on the shape of {x.op.name}"
    return None


def _redundant_cast(_work: _GraphRewrite, op: Operation) -> Found | None:
    if op.type != "Cast" or op.inputs[0].dtype.base_dtype is not op.outputs[0].dtype.base_dtype:
        return None
    return op.inputs[0], f"{op.inputs[0].name} is {op.outputs[0].dtype.name} already"


def _neutral_operand(_work: _GraphRewrite, op: Operation) -> Found | None:
    numbers = {"Mul": 1, "RealDiv": 1, "Div": 1, "Add": 0, "AddV2": 0, "Sub": 0}
    if op.type not in numbers:
        return None
    number = numbers[op.type]
    for place in (1, 0) if op.type in ("Mul", "Add", "AddV2") else (1,):
        if _all(op.inputs[place], number) and _same_shape(op.inputs[1 - place], op.outputs[0]):
            return op.inputs[1 - place], f"{op.type} with {number} is the identity"
    return None


def _square(work: _GraphRewrite, op: Operation) -> Found | None:
    if op.type != "Mul" or op.inputs[0] is not op.inputs[1]:
        return None
    return work.make("Square", [op.inputs[0]], op, "square"), "both factors are the same tensor"


def _power(work: _GraphRewrite, op: Operation) -> Found | None:
    if op.type != "Pow" or not op.outputs[0].dtype.is_floating or not _same_shape(op.inputs[0], op.outputs[0]):
        return None
    exponent = _value(op.inputs[1])
    if exponent is None or exponent.size == 0 or not np.all(exponent == exponent.reshape(-1)[0]):
        return None
    number = float(exponent.reshape(-1)[0])
    if number not in _POWERS:
        return None
    made = work.make(_POWERS[number], [op.inputs[0]], op, "power")
    return made, f"the power {number:g} is {_POWERS[number]}"


def _log1p(work: _GraphRewrite, op: Operation) -> Found | None:
    inner = op.inputs[0].op if op.type == "Log" else None
    if inner is None or inner.type not in ("Add", "AddV2"):
        return None
    for place in (1, 0):
        rest = inner.inputs[1 - place]
        if _all(inner.inputs[place], 1) and _same_shape(rest, op.outputs[0]) and op.outputs[0].dtype.is_floating:
            return work.make("Log1p", [rest], op, "log1p"), "the logarithm of 1 + x is more exact as Log1p"
    return None


def _expm1(work: _GraphRewrite, op: Operation) -> Found | None:
    if op.type != "Sub" or op.inputs[0].op.type != "Exp" or not _all(op.inputs[1], 1):
        return None
    x = op.inputs[0].op.inputs[0]
    if not (_same_shape(x, op.outputs[0]) and op.outputs[0].dtype.is_floating):
        return None
    return work.make("Expm1", [x], op, "expm1"), "exp(x) - 1 is more exact as Expm1"


def _negation(work: _GraphRewrite, op: Operation) -> Found | None:
    if op.type not in ("Add", "AddV2", "Sub"):
        return None
    a, b = op.inputs
    if b.op.type == "Neg":
        other = "AddV2" if op.type == "Sub" else "Sub"
        return work.make(other, [a, b.op.inputs[0]], op, other.lower()), f"its second operand is negated: use {other}"
    if a.op.type == "Neg" and op.type != "Sub":
        return work.make("Sub", [b, a.op.inputs[0]], op, "sub"), "its first operand is negated: use Sub"
    return None


def _common_factor(work: _GraphRewrite, op: Operation) -> Found | None:
    """a * x + a * y -> a * (x + y), if x and y have one shape and neither product has other
    users.
    """
    if op.type not in ("Add", "AddV2", "Sub") or not all(work.is_inner(t, "Mul") for t in op.inputs):
        return None
    left, right = (t.op for t in op.inputs)
    for i in (0, 1):
        for j in (0, 1):
            x, y = left.inputs[1 - i], right.inputs[1 - j]
            if left is not right and left.inputs[i] is right.inputs[j] and _same_shape(x, y):
                inner = work.make(op.type, [x, y], op, "hoisted")
                made = work.make("Mul", [left.inputs[i], inner], op, "product")
                return made, f"{left.name} and {right.name} have the factor {left.inputs[i].name}"
    return None


_CANCEL: Final[dict[str, Rule]] = {"RemoveIdentityTranspose": _identity_transpose}
_ARITHMETIC: Final[dict[str, Rule]] = {
    "RemoveInvolution": _involution,
    **_CANCEL,
    "RemoveRedundantReshape": _redundant_reshape,
    "RemoveRedundantCast": _redundant_cast,
    "SimplifyArithmeticOperations": _neutral_operand,
    "ReplaceMulWithSquare": _square,
    "ConvertPow": _power,
    "ConvertLog1p": _log1p,
    "ConvertExpm1": _expm1,
    "RemoveNegation": _negation,
    "HoistCommonFactorOutOfAggregation": _common_factor,
}


# ----------------------------------------------------------------------------------------- remapper


def _remap(work: _GraphRewrite, op: Operation) -> Found | None:
    """Fuse BiasAdd, and an activation if any, into a convolution or product."""
    activation = op if any(op.type in types for types in _ACTIVATIONS.values()) else None
    if activation is not None and not work.is_inner(op.inputs[0], "BiasAdd"):
        return None
    bias = op.inputs[0].op if activation is not None else op
    if bias.type != "BiasAdd" or not work.is_inner(bias.inputs[0]):
        return None
    linear = bias.inputs[0].op
    if linear.type not in _FUSED or (activation is not None and activation.type not in _ACTIVATIONS[linear.type]):
        return None
    if activation is None and _is_activated(work, bias, linear.type):
        return None  # the activation takes both
    if bias.attrs.get("data_format", "NHWC") != linear.attrs.get("data_format", "NHWC"):
        return None
    ops = ("BiasAdd", *([activation.type] if activation is not None else []))
    attrs = {k: v for k, v in linear.attrs.items() if not k.startswith("_")}
    attrs |= {"fused_ops": ops, "num_args": 1, "epsilon": 1e-4}
    if activation is not None and activation.type == "LeakyRelu":
        attrs["leakyrelu_alpha"] = activation.attrs.get("alpha", 0.2)
    if linear.type == "Conv2D":
        attrs |= {"TArgs": (linear.outputs[0].dtype.base_dtype,), "num_host_args": 0}
    made = work.make(_FUSED[linear.type], [*linear.inputs, bias.inputs[1]], op, "fused", **attrs)
    return made, f"{linear.name} has no other users: {' and '.join(ops)} are fused into it"


def _is_activated(work: _GraphRewrite, bias: Operation, kind: str) -> bool:
    readers = bias.outputs[0].uses
    reader = next(iter(readers)) if len(readers) == 1 else None
    return reader is not None and reader.type in _ACTIVATIONS[kind] and reader.name not in work.keep


# ------------------------------------------------------------------------------------------- layout


def _permuted(values: Any, permutation: Sequence[int]) -> Any:
    return tuple(values[k] for k in permutation)


def _to_layout(work: _GraphRewrite, op: Operation) -> Found | None:
    """An op of images in the wanted layout, between a transpose to it and one back."""
    old = op.attrs.get("data_format", "NHWC")
    if op.type not in _BY_LAYOUT or old == work.to or old not in _PERMUTATIONS or op.inputs[0].shape.rank != 4:
        return None
    if any(t.uses for t in op.outputs[1:]):
        return None
    there, back = _PERMUTATIONS[work.to], _PERMUTATIONS[old]
    attrs = {k: v for k, v in op.attrs.items() if not k.startswith("_")} | {"data_format": work.to}
    for name in ("strides", "ksize", "dilations"):
        if attrs.get(name):
            attrs[name] = _permuted(attrs[name], there)
    if attrs.get("explicit_paddings"):
        pairs = [attrs["explicit_paddings"][2 * k : 2 * k + 2] for k in range(4)]
        attrs["explicit_paddings"] = tuple(n for k in there for n in pairs[k])
    x = work.transposed(op.inputs[0], there, op, f"to_{work.to.lower()}")
    types = [t.dtype for t in op.outputs]
    name = work.graph.unique_name(f"{op.name}/{work.to.lower()}")
    new = work.graph.add_op(op.type, name, [x, *op.inputs[1:]], types, attrs, device=op.device)
    new.source_file, new.source_line = op.source_file, op.source_line
    made = work.transposed(new.outputs[0], back, op, f"from_{work.to.lower()}")
    return made, f"it uses the format {old}, the device prefers {work.to}"


def _unwrapped(tensor: Tensor, permutation: Sequence[int]) -> Tensor | None:
    """Return the input of a Transpose with this permutation, or None."""
    op = tensor.op
    perm = _value(op.inputs[1]) if op.type == "Transpose" else None
    return op.inputs[0] if perm is not None and perm.tolist() == list(permutation) else None


def _sink_transpose(work: _GraphRewrite, op: Operation) -> Found | None:
    """f(transpose(x)) -> transpose(f(x)) for elementwise f.

    Of two operands, both are transposed or one is a scalar.
    """
    back = _PERMUTATIONS["NHWC" if work.to == "NCHW" else "NCHW"]
    inner: list[Tensor] = []
    if op.type in _UNARY:
        found = _unwrapped(op.inputs[0], back)
        inner = [found] if found is not None else []
    elif op.type in _BINARY:
        pairs = [(_unwrapped(t, back), _value(t)) for t in op.inputs]
        if any(x is not None for x, _ in pairs) and all(
            x is not None or (v is not None and v.size == 1 and v.ndim == 0) for x, v in pairs
        ):
            inner = [x if x is not None else t for (x, _), t in zip(pairs, op.inputs, strict=True)]
    if not inner:
        return None
    attrs = {k: v for k, v in op.attrs.items() if not k.startswith("_") and k != "T"}
    made = work.make(op.type, inner, op, op.type.lower(), **attrs)
    return work.transposed(made, back, op, "transpose"), f"{op.type} is elementwise: the transpose can follow it"


_LAYOUT: Final[dict[str, Rule]] = {
    **_CANCEL,
    "ConvertLayout": _to_layout,
    "SinkTranspose": _sink_transpose,
}


OPTIMIZERS: Final[dict[str, Callable[[Graph, Collection[str], Collection[str]], tuple[Graph, list[Rewrite]]]]] = {
    "arithmetic_optimizer": arithmetic_optimizer,
    "layout": layout,
    "remapper": remapper,
}
"""The optimizers by Grappler's names."""
