"""Mutations of GraphDef messages: attributes, inputs, names, nodes, functions, whole graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.graph_seeds import any_seed
from tests.fuzz.mutate import NUMBERS, TEXTS, change_bytes
from xlanb.graph.graphdef.attr_values import new_message
from xlanb.graph.ops.table import op_names

_SIZES = (-(2**62), -7, -2, -1, 0, 1, 2, 3, 7, 64, 2**16, 2**31 - 1, 2**31, 2**40, 2**62)
_TYPES = (*range(24), 30, 101, 109, 999)
_SMALL = 0.7


def pick(rng: np.random.Generator, items: Any) -> Any:
    """A random item."""
    found = list(items)
    return found[int(rng.integers(0, len(found)))]


def _attr(node: Any, rng: np.random.Generator) -> Any:
    return node.attr[pick(rng, sorted(node.attr))] if node.attr else None


def _drop_attr(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    if node.attr:
        del node.attr[pick(rng, sorted(node.attr))]


def _swap_attrs(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    if len(node.attr) > 1:
        first, second = (pick(rng, sorted(node.attr)) for _ in range(2))
        kept = node.attr[first].SerializeToString()
        node.attr[first].CopyFrom(node.attr[second])
        node.attr[second].ParseFromString(kept)


def _copy_attr(node: Any, graph: Any, rng: np.random.Generator) -> None:
    other = pick(rng, graph.node)
    if other.attr:
        key = pick(rng, sorted(other.attr))
        node.attr[pick(rng, [key, *sorted(node.attr)])].CopyFrom(other.attr[key])


def _change_attr(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    attr = _attr(node, rng)
    kind = None if attr is None else attr.WhichOneof("value")
    if kind == "i":
        attr.i = _number(rng, 64)
    elif kind == "f":
        attr.f = pick(rng, (0.0, -1.0, float("inf"), float("nan"), 1e30))
    elif kind == "b":
        attr.b = not attr.b
    elif kind == "s":
        attr.s = pick(rng, TEXTS).encode("utf-8", "surrogatepass") if rng.random() < 0.5 else attr.s[:-1]
    elif kind == "type":
        attr.type = pick(rng, _TYPES)
    elif kind == "shape":
        _change_shape(attr.shape, rng)
    elif kind == "tensor":
        _change_tensor(attr.tensor, rng)
    elif kind == "func":
        attr.func.name = pick(rng, ("", "nothing", attr.func.name[:-1]))
    elif kind == "list":
        _change_list(attr.list, rng)


def _change_list(value: Any, rng: np.random.Generator) -> None:
    filled = [f for f in ("s", "i", "f", "b", "type", "shape") if len(getattr(value, f))]
    if not filled:
        value.i.append(_number(rng, 64))
        return
    field = getattr(value, filled[0])
    how = int(rng.integers(0, 3))
    if how == 0:
        del field[int(rng.integers(0, len(field)))]
    elif filled[0] == "shape":
        _change_shape(field[int(rng.integers(0, len(field)))], rng)
    elif how == 1:
        field.append(field[0])
    else:
        new = pick(rng, _TYPES) if filled[0] == "type" else _number(rng, 63)
        field[int(rng.integers(0, len(field)))] = (
            b"\xff" if filled[0] == "s" else bool(new) if filled[0] == "b" else new
        )


def _number(rng: np.random.Generator, bits: int) -> int:
    limit = 1 << (bits - 1)
    return int(pick(rng, [n for n in (*NUMBERS, *_SIZES) if -limit <= n < limit]))


def _change_shape(shape: Any, rng: np.random.Generator) -> None:
    how = int(rng.integers(0, 5))
    if how == 0:
        shape.dim.add(size=pick(rng, _SIZES))
    elif how == 1 and shape.dim:
        del shape.dim[0]
    elif how == 2:
        shape.unknown_rank = True
    elif how == 3:
        for _ in range(70):
            shape.dim.add(size=1)
    elif shape.dim:
        shape.dim[int(rng.integers(0, len(shape.dim)))].size = pick(rng, _SIZES)


def _change_tensor(tensor: Any, rng: np.random.Generator) -> None:
    how = int(rng.integers(0, 5))
    if how == 0:
        _change_shape(tensor.tensor_shape, rng)
    elif how == 1:
        tensor.dtype = pick(rng, _TYPES)
    elif how == 2:
        tensor.tensor_content = change_bytes(tensor.tensor_content, rng)
    elif how == 3 and tensor.tensor_content and len(tensor.tensor_content) % 4 == 0:
        values = np.frombuffer(tensor.tensor_content, np.int32).copy()
        values[int(rng.integers(0, values.size))] = _number(rng, 32)
        tensor.tensor_content = values.tobytes()
    elif len(tensor.int_val):
        tensor.int_val[0] = _number(rng, 32)
    else:
        tensor.ClearField("tensor_content")


def _rewire(node: Any, graph: Any, rng: np.random.Generator) -> None:
    source = pick(rng, graph.node).name + pick(rng, ("", "", ":1", ":2", ":99", ":-1", ":99999999", ":x"))
    if node.input and rng.random() < 0.8:
        node.input[int(rng.integers(0, len(node.input)))] = source
    else:
        node.input.append(source)


def _drop_input(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    if node.input:
        del node.input[int(rng.integers(0, len(node.input)))]


def _swap_inputs(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    order = [node.input[int(k)] for k in rng.permutation(len(node.input))]
    del node.input[:]
    node.input.extend(order)


def _control(node: Any, graph: Any, rng: np.random.Generator) -> None:
    node.input.append(f"^{pick(rng, graph.node).name}")


def _change_op(node: Any, graph: Any, rng: np.random.Generator) -> None:
    node.op = pick(rng, [n.op for n in graph.node] if rng.random() < 0.7 else [*op_names(), "Bogus", ""])


def _rename(node: Any, graph: Any, rng: np.random.Generator) -> None:
    node.name = pick(rng, (pick(rng, graph.node).name, "", "a b", "/", "x:0", "^x", "é", "a" * 5000))


def _drop_node(node: Any, graph: Any, _rng: np.random.Generator) -> None:
    kept = [n for n in graph.node if n is not node and n.name != node.name]
    del graph.node[:]
    graph.node.extend(kept)


def _copy_node(node: Any, graph: Any, rng: np.random.Generator) -> None:
    graph.node.add().CopyFrom(node)
    if rng.random() < 0.7:
        graph.node[-1].name += "_copy"


def _device(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    node.device = pick(rng, ("/gpu:0", "/device:XLA_GPU:0", "nonsense", "/job:x/task:9", "/cpu:1", "\x00"))


def _change_function(_node: Any, graph: Any, rng: np.random.Generator) -> None:
    if not graph.library.function:
        return
    function = pick(rng, graph.library.function)
    how = int(rng.integers(0, 7))
    if how == 0 and function.ret:
        del function.ret[pick(rng, sorted(function.ret))]
    elif how == 1 and function.ret:
        function.ret[pick(rng, sorted(function.ret))] = pick(
            rng, ("", "x:0", "x:y:9", *(n.name for n in function.node_def))
        )
    elif how == 2:
        argument = pick(rng, [*function.signature.input_arg, *function.signature.output_arg, function.signature])
        argument.name = pick(rng, ("", function.signature.name, "é"))
    elif how == 3 and function.signature.input_arg:
        pick(rng, function.signature.input_arg).type = pick(rng, _TYPES)
    elif how == 4 and function.signature.input_arg:
        del function.signature.input_arg[0]
    elif how == 5:
        graph.library.function.add().CopyFrom(function)
    elif function.node_def:  # it calls itself, or another function
        call = pick(rng, function.node_def)
        call.op = pick(rng, graph.library.function).signature.name


def _change_library_node(_node: Any, graph: Any, rng: np.random.Generator) -> None:
    bodies = [f.node_def for f in graph.library.function if len(f.node_def)]
    if bodies:
        body = new_message("GraphDef")
        chosen = pick(rng, bodies)
        body.node.extend(chosen)
        pick(rng, _OF_NODES)(pick(rng, body.node), body, rng)
        del chosen[:]
        chosen.extend(body.node)


def _splice(node: Any, graph: Any, rng: np.random.Generator) -> None:
    """Add the nodes of another graph, one of which replaces an input."""
    other = new_message("GraphDef")
    other.ParseFromString(any_seed(rng, _SMALL))
    for new in other.node:
        new.input[:] = [f"^s/{i[1:]}" if i.startswith("^") else f"s/{i}" for i in new.input]
        new.name = f"s/{new.name}"
    graph.node.extend(other.node)
    known = {f.signature.name for f in graph.library.function}
    graph.library.function.extend(f for f in other.library.function if f.signature.name not in known)
    if other.node and node.input:
        node.input[int(rng.integers(0, len(node.input)))] = pick(rng, other.node).name


def _cycle(node: Any, graph: Any, rng: np.random.Generator) -> None:
    """Make a node depend on itself or one of its consumers, by an input or control input."""
    after = [n for n in graph.node if any(i.lstrip("^").partition(":")[0] == node.name for i in n.input)]
    source = pick(rng, [node, *after]).name
    if node.input and rng.random() < 0.6:
        node.input[int(rng.integers(0, len(node.input)))] = source
    else:
        node.input.append(f"^{source}")


def _odd_attr(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    """Add an attribute that the op lacks, or one with a meaning for any op, of any kind."""
    value = node.attr[pick(rng, _ATTRS)]
    kind = pick(rng, ("i", "f", "b", "s", "type", "shape", "list", "placeholder", "none"))
    if kind in ("shape", "list"):
        getattr(value, kind).SetInParent()
    elif kind != "none":
        values = {"s": b"loc:@nothing", "placeholder": "x", "b": True, "f": float("nan")}
        setattr(value, kind, values.get(kind, int(pick(rng, _TYPES))))


def _arity(node: Any, graph: Any, rng: np.random.Generator) -> None:
    """Replace the op by one with the same number of inputs, and an existing node's attributes."""
    alike = [n for n in graph.node if len(n.input) == len(node.input) and n.op != node.op]
    if alike:
        other = pick(rng, alike)
        node.op = other.op
        for key in other.attr:
            node.attr[key].CopyFrom(other.attr[key])


_ATTRS = (
    "T",
    "dtype",
    "shape",
    "N",
    "_class",
    "_XlaCompile",
    "_XlaMustCompile",
    "_output_shapes",
    "container",
    "shared_name",
    "",
    "é",
    "value",
    "axis",
    "index",
    "data_format",
    "_XlaScope",
)

_Mutation = Callable[[Any, Any, np.random.Generator], None]
_OF_NODES: tuple[_Mutation, ...] = (
    _drop_attr, _swap_attrs, _copy_attr, _change_attr, _change_attr, _change_attr, _rewire, _rewire, _drop_input,
    _swap_inputs, _control, _change_op, _rename, _drop_node, _copy_node, _device, _cycle, _odd_attr, _arity,
)  # fmt: skip
MUTATIONS: tuple[_Mutation, ...] = (*_OF_NODES, _change_function, _change_library_node, _splice)
