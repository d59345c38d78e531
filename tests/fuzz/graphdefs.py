"""GraphDefs, binary and text, with changed fields: read, written, clustered, lowered and run, with clusters and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from google.protobuf import text_format

import xlanb
from tests.fuzz import graph_edits
from tests.fuzz.graph_seeds import given_seeds, seeds, small_seeds
from tests.fuzz.kinds import Item
from tests.fuzz.mutate import NUMBERS, TEXTS, change_bytes, change_text
from tests.fuzz.op_seeds import op_graph
from tests.fuzz.proto_bombs import bomb
from tests.fuzz.worker import TooLong, _place
from xlanb import tf
from xlanb.errors import InternalError, XlanbError
from xlanb.graph.attr_values import new_message
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Tensor
from xlanb.graph.ops.table import op_names

_SIZES = (-(2**62), -7, -2, -1, 0, 1, 2, 3, 7, 64, 2**16, 2**31 - 1, 2**31, 2**40, 2**62)
_TYPES = (*range(24), 30, 101, 109, 999)
_LOOPS = frozenset({"While", "StatelessWhile", "NextIteration", "RefNextIteration"})
_RUN = 2
_SMALL = 0.7
_OPS = 0.3  # any op of the table, with inputs that may fit
_SMALL_TEXTS = 0.9  # text is parsed by Python
_EDITS = 0.5  # of texts: changes of tokens and blocks


def _one(rng: np.random.Generator, items: Any) -> Any:
    found = list(items)
    return found[int(rng.integers(0, len(found)))]


# -------------------------------------------------------------------------------------------------------- the mutations


def _attr(node: Any, rng: np.random.Generator) -> Any:
    return node.attr[_one(rng, sorted(node.attr))] if node.attr else None


def _drop_attr(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    if node.attr:
        del node.attr[_one(rng, sorted(node.attr))]


def _swap_attrs(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    if len(node.attr) > 1:
        first, second = (_one(rng, sorted(node.attr)) for _ in range(2))
        kept = node.attr[first].SerializeToString()
        node.attr[first].CopyFrom(node.attr[second])
        node.attr[second].ParseFromString(kept)


def _copy_attr(node: Any, graph: Any, rng: np.random.Generator) -> None:
    other = _one(rng, graph.node)
    if other.attr:
        key = _one(rng, sorted(other.attr))
        node.attr[_one(rng, [key, *sorted(node.attr)])].CopyFrom(other.attr[key])


def _change_attr(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    attr = _attr(node, rng)
    kind = None if attr is None else attr.WhichOneof("value")
    if kind == "i":
        attr.i = _number(rng, 64)
    elif kind == "f":
        attr.f = _one(rng, (0.0, -1.0, float("inf"), float("nan"), 1e30))
    elif kind == "b":
        attr.b = not attr.b
    elif kind == "s":
        attr.s = _one(rng, TEXTS).encode("utf-8", "surrogatepass") if rng.random() < 0.5 else attr.s[:-1]
    elif kind == "type":
        attr.type = _one(rng, _TYPES)
    elif kind == "shape":
        _change_shape(attr.shape, rng)
    elif kind == "tensor":
        _change_tensor(attr.tensor, rng)
    elif kind == "func":
        attr.func.name = _one(rng, ("", "nothing", attr.func.name[:-1]))
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
        new = _one(rng, _TYPES) if filled[0] == "type" else _number(rng, 63)
        field[int(rng.integers(0, len(field)))] = (
            b"\xff" if filled[0] == "s" else bool(new) if filled[0] == "b" else new
        )


def _number(rng: np.random.Generator, bits: int) -> int:
    limit = 1 << (bits - 1)
    return int(_one(rng, [n for n in (*NUMBERS, *_SIZES) if -limit <= n < limit]))


def _change_shape(shape: Any, rng: np.random.Generator) -> None:
    how = int(rng.integers(0, 5))
    if how == 0:
        shape.dim.add(size=_one(rng, _SIZES))
    elif how == 1 and shape.dim:
        del shape.dim[0]
    elif how == 2:
        shape.unknown_rank = True
    elif how == 3:
        for _ in range(70):
            shape.dim.add(size=1)
    elif shape.dim:
        shape.dim[int(rng.integers(0, len(shape.dim)))].size = _one(rng, _SIZES)


def _change_tensor(tensor: Any, rng: np.random.Generator) -> None:
    how = int(rng.integers(0, 5))
    if how == 0:
        _change_shape(tensor.tensor_shape, rng)
    elif how == 1:
        tensor.dtype = _one(rng, _TYPES)
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
    source = _one(rng, graph.node).name + _one(rng, ("", "", ":1", ":2", ":99", ":-1", ":99999999", ":x"))
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
    node.input.append(f"^{_one(rng, graph.node).name}")


def _change_op(node: Any, graph: Any, rng: np.random.Generator) -> None:
    node.op = _one(rng, [n.op for n in graph.node] if rng.random() < 0.7 else [*op_names(), "Bogus", ""])


def _rename(node: Any, graph: Any, rng: np.random.Generator) -> None:
    node.name = _one(rng, (_one(rng, graph.node).name, "", "a b", "/", "x:0", "^x", "é", "a" * 5000))


def _drop_node(node: Any, graph: Any, _rng: np.random.Generator) -> None:
    kept = [n for n in graph.node if n is not node and n.name != node.name]
    del graph.node[:]
    graph.node.extend(kept)


def _copy_node(node: Any, graph: Any, rng: np.random.Generator) -> None:
    graph.node.add().CopyFrom(node)
    if rng.random() < 0.7:
        graph.node[-1].name += "_copy"


def _device(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    node.device = _one(rng, ("/gpu:0", "/device:XLA_GPU:0", "nonsense", "/job:x/task:9", "/cpu:1", "\x00"))


def _change_function(_node: Any, graph: Any, rng: np.random.Generator) -> None:
    if not graph.library.function:
        return
    function = _one(rng, graph.library.function)
    how = int(rng.integers(0, 7))
    if how == 0 and function.ret:
        del function.ret[_one(rng, sorted(function.ret))]
    elif how == 1 and function.ret:
        function.ret[_one(rng, sorted(function.ret))] = _one(
            rng, ("", "x:0", "x:y:9", *(n.name for n in function.node_def))
        )
    elif how == 2:
        argument = _one(rng, [*function.signature.input_arg, *function.signature.output_arg, function.signature])
        argument.name = _one(rng, ("", function.signature.name, "é"))
    elif how == 3 and function.signature.input_arg:
        _one(rng, function.signature.input_arg).type = _one(rng, _TYPES)
    elif how == 4 and function.signature.input_arg:
        del function.signature.input_arg[0]
    elif how == 5:
        graph.library.function.add().CopyFrom(function)
    elif function.node_def:  # it calls itself, or another function
        call = _one(rng, function.node_def)
        call.op = _one(rng, graph.library.function).signature.name


def _change_library_node(_node: Any, graph: Any, rng: np.random.Generator) -> None:
    bodies = [f.node_def for f in graph.library.function if len(f.node_def)]
    if bodies:
        body = new_message("GraphDef")
        chosen = _one(rng, bodies)
        body.node.extend(chosen)
        _one(rng, _OF_NODES)(_one(rng, body.node), body, rng)
        del chosen[:]
        chosen.extend(body.node)


def _splice(node: Any, graph: Any, rng: np.random.Generator) -> None:
    """The nodes of another graph come in, and one of them takes an input's place."""
    other = new_message("GraphDef")
    other.ParseFromString(_seed(rng, _SMALL))
    for new in other.node:
        new.input[:] = [f"^s/{i[1:]}" if i.startswith("^") else f"s/{i}" for i in new.input]
        new.name = f"s/{new.name}"
    graph.node.extend(other.node)
    known = {f.signature.name for f in graph.library.function}
    graph.library.function.extend(f for f in other.library.function if f.signature.name not in known)
    if other.node and node.input:
        node.input[int(rng.integers(0, len(node.input)))] = _one(rng, other.node).name


def _cycle(node: Any, graph: Any, rng: np.random.Generator) -> None:
    """A node takes what it leads to, or itself, as an input or before it runs."""
    after = [n for n in graph.node if any(i.lstrip("^").partition(":")[0] == node.name for i in n.input)]
    source = _one(rng, [node, *after]).name
    if node.input and rng.random() < 0.6:
        node.input[int(rng.integers(0, len(node.input)))] = source
    else:
        node.input.append(f"^{source}")


def _odd_attr(node: Any, _graph: Any, rng: np.random.Generator) -> None:
    """An attribute that the op does not have, or that has a meaning for any op, of any kind."""
    value = node.attr[_one(rng, _ATTRS)]
    kind = _one(rng, ("i", "f", "b", "s", "type", "shape", "list", "placeholder", "none"))
    if kind in ("shape", "list"):
        getattr(value, kind).SetInParent()
    elif kind != "none":
        values = {"s": b"loc:@nothing", "placeholder": "x", "b": True, "f": float("nan")}
        setattr(value, kind, values.get(kind, int(_one(rng, _TYPES))))


def _arity(node: Any, graph: Any, rng: np.random.Generator) -> None:
    """The op becomes another one that takes as many inputs, with that one's attributes where a node has it."""
    alike = [n for n in graph.node if len(n.input) == len(node.input) and n.op != node.op]
    if alike:
        other = _one(rng, alike)
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
_MUTATIONS: tuple[_Mutation, ...] = (*_OF_NODES, _change_function, _change_library_node, _splice)


def _seed(rng: np.random.Generator, small: float) -> bytes:
    """A seed, most often a small one: it takes less time, and a mutation reaches more of what is in it."""
    whole = (*seeds().values(), *given_seeds())
    found: bytes = _one(rng, small_seeds() if rng.random() < small else whole)
    return found


def _mutated(rng: np.random.Generator) -> Any:
    if rng.random() < _OPS:
        proto, least = op_graph(rng), 0
    else:
        proto, least = new_message("GraphDef"), 1
        proto.ParseFromString(_seed(rng, _SMALL))
    for _ in range(int(rng.integers(least, 4))):
        if proto.node:
            _one(rng, _MUTATIONS)(_one(rng, proto.node), proto, rng)
    return proto


def mutants(rng: np.random.Generator) -> Iterator[bytes]:
    """Binary GraphDefs: most with changed fields, some with changed bytes."""
    while True:
        how = rng.random()
        if how < 0.1:
            yield change_bytes(_seed(rng, _SMALL), rng)
        elif how < 0.12:
            data = _seed(rng, 1.0)
            yield bomb(rng) + data if rng.random() < 0.5 else data + bomb(rng)
        else:
            yield _mutated(rng).SerializeToString()


@cache
def _text_of(data: bytes) -> tuple[str, ...]:
    proto = new_message("GraphDef")
    proto.ParseFromString(data)
    return tuple(text_format.MessageToString(proto).splitlines())


def prepare() -> None:
    """Make the seeds, which takes a second, before the children of a campaign are forked."""
    for seed in (*small_seeds(), *seeds().values(), *given_seeds()):
        _text_of(seed)


def text_mutants(rng: np.random.Generator) -> Iterator[str]:
    """GraphDefs as text: words, numbers and lines changed; half of them to what the same field has elsewhere."""
    while True:
        lines = list(_text_of(_seed(rng, _SMALL_TEXTS)))
        if rng.random() < 0.1:
            yield change_text("\n".join(lines), rng)
            continue
        if rng.random() < _EDITS:
            other = "\n".join(_text_of(_seed(rng, _SMALL_TEXTS)))
            yield graph_edits.edited("\n".join(lines), other, rng)
            continue
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(0, len(lines)))
            words = lines[at].split(": ")
            if len(words) != 2:
                lines[at] = lines[int(rng.integers(0, len(lines)))] if rng.random() < 0.1 else lines[at]
            elif rng.random() < 0.5:
                lines[at] = _one(rng, [line for line in lines if line.split(": ")[0].strip() == words[0].strip()])
            else:
                lines[at] = f"{words[0]}: {_word(words[1], rng)}"
        yield "\n".join(lines)


def _word(old: str, rng: np.random.Generator) -> str:
    """Another word: most often of the same sort, so that the text can still be parsed."""
    if rng.random() < 0.2:
        return str(_one(rng, ("9" * 24, "1e999", "nan", "DT_BOGUS", "true", '"x"', "{", "")))
    if old.startswith('"'):
        return str(_one(rng, ('""', '"x"', '"\\377"', '"y:1"', '"^x0"', f'"{_one(rng, op_names())}"', f'{old[:-2]}"')))
    if old.startswith("DT_"):
        return str(_one(rng, ("DT_FLOAT", "DT_INT32", "DT_STRING", "DT_RESOURCE", "DT_BFLOAT16", "DT_VARIANT", "77")))
    return str(_one(rng, NUMBERS))


# ------------------------------------------------------------------------------------------------------------ the check


def quick(item: Item, rng: np.random.Generator) -> str | None:
    """Read and write a GraphDef; of some, drawn by chance, take the steps that cost more as well: each of them for itself."""
    return _checked(item, rng, _SHARES)


def check(item: Item, rng: np.random.Generator) -> str | None:
    """Every way that a GraphDef goes: read, written, imported, clustered, lowered, run with clusters and without."""
    return _checked(item, rng, {})


def _checked(item: Item, rng: np.random.Generator, shares: Mapping[str, float]) -> str | None:
    graphs: list[Graph] = []
    find = _tried("read", lambda: graphs.append(Graph.from_graphdef(item)))
    if find is not None or not graphs:
        return find
    (graph,) = graphs
    for name, step in _STEPS.items():
        if rng.random() >= shares.get(name, 1.0):
            continue
        try:
            find = _tried(name, lambda s=step: s(graph, rng))
        except TooLong:
            if name.startswith("run") and _may_loop(graph):
                return None  # the program itself has no end
            raise
        if find is not None:
            return find
    return None


def _tried(name: str, step: Callable[[], object]) -> str | None:
    try:
        step()
    except InternalError as error:
        cause = error.__cause__ or error
        return f"internal {type(cause).__name__} in {name} at {_place(cause)}: {str(cause)[:200]!r}"
    except XlanbError as error:
        return None if str(error).strip() else f"silent {type(error).__name__} in {name}: no message"
    return None


def _may_loop(graph: Graph) -> bool:
    bodies = [graph, *(f.body for f in graph.functions.values())]
    return any(op.type in _LOOPS for body in bodies for op in body)


def _shown(graph: Graph, _rng: np.random.Generator) -> None:
    _ = str(graph), graph.record()


def _written(graph: Graph, _rng: np.random.Generator) -> None:
    Graph.from_graphdef(graph.to_graphdef())


def _imported(graph: Graph, _rng: np.random.Generator) -> None:
    with Graph().as_default():
        tf.import_graph_def(graph.as_graph_def(), name="imported")


def _clustered(graph: Graph, rng: np.random.Generator) -> None:
    found = xlanb.cluster(graph, tf_xla_min_cluster_size=1)
    if graph.get_operations():
        found.why(_one(rng, graph.get_operations()).name)
    for cluster in found.clusters[:3]:
        _tried_quietly(lambda c=cluster: c.hlo_module)


def _tried_quietly(step: Callable[[], object]) -> None:
    """One cluster that cannot be lowered is no reason not to try the next."""
    try:
        step()
    except InternalError:
        raise
    except XlanbError:
        return


def _run(graph: Graph, rng: np.random.Generator, *, jit: bool = False) -> None:
    if not graph.get_operations():
        return
    session = tf.Session(graph)
    feeds: dict[Any, Any] = {}
    for op in graph:
        if op.type in {"Placeholder", "PlaceholderV2"}:
            feeds[op.outputs[0]] = _value(op.outputs[0], rng)
        elif op.type in {"VarHandleOp", "VariableV2", "Variable"}:
            shape, dtype = op.attrs.get("shape"), op.attrs.get("dtype")
            known = shape is not None and shape.is_fully_defined() and shape.rank <= 64
            if known and (shape.num_elements() or 0) < 1000:
                session.load_variables({op.name: np.ones(shape.as_list(), dtype.numpy_dtype)})
    fetched = [t for op in rng.permutation(np.asarray(graph.get_operations(), object))[:_RUN] for t in op.outputs[:1]]
    fetched += [t for op in graph.get_operations()[-1:] for t in op.outputs[:1]]
    with xlanb.flags(f"--tf_xla_auto_jit={2 if jit else -1} --tf_xla_min_cluster_size=1"):
        for tensor in fetched:
            _tried_quietly(lambda t=tensor: session.run(t, feeds))


def _value(tensor: Tensor, rng: np.random.Generator) -> Any:
    dims = tensor.shape.as_tuple() or ()
    sizes = [2 if d is None else min(d, 8) for d in dims[:8]]
    if tensor.dtype.name == "string":
        return np.full(sizes, b"a word", object)
    return rng.integers(0, 3, sizes).astype(tensor.dtype.numpy_dtype)


_STEPS: dict[str, Callable[[Graph, np.random.Generator], None]] = {
    "show": _shown,
    "write": _written,
    "import": _imported,
    "cluster": _clustered,
    "run": _run,
    "run jit": partial(_run, jit=True),
}
_SHARES = {"show": 0.3, "write": 0.5, "import": 0.3, "cluster": 0.2, "run": 0.25, "run jit": 0.2}
"""Of how many graphs a campaign takes a step; compiling and running is where most of the time goes."""
