"""Mutated GraphDefs, binary and text.

They are read, written, clustered, lowered and run, with clusters and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from google.protobuf import text_format

import xlanb
from tests.fuzz import graph_edits
from tests.fuzz.graph_changes import MUTATIONS, pick
from tests.fuzz.graph_seeds import any_seed, given_seeds, seeds, small_seeds
from tests.fuzz.kinds import Item
from tests.fuzz.mutate import NUMBERS, change_bytes, change_text
from tests.fuzz.op_seeds import op_graph
from tests.fuzz.proto_bombs import bomb
from tests.fuzz.worker import TooLong, _place
from xlanb import tf
from xlanb.errors import InternalError, XlanbError
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import new_message
from xlanb.graph.operation import Tensor
from xlanb.graph.ops.table import op_names

_LOOPS = frozenset({"While", "StatelessWhile", "NextIteration", "RefNextIteration"})
_RUN = 2
_SMALL = 0.7
_OPS = 0.3  # any op of the table, with plausible inputs
_SMALL_TEXTS = 0.9  # text is parsed by Python
_EDITS = 0.5  # for texts: changes of tokens and blocks


def _mutated(rng: np.random.Generator) -> Any:
    if rng.random() < _OPS:
        proto, least = op_graph(rng), 0
    else:
        proto, least = new_message("GraphDef"), 1
        proto.ParseFromString(any_seed(rng, _SMALL))
    for _ in range(int(rng.integers(least, 4))):
        if proto.node:
            pick(rng, MUTATIONS)(pick(rng, proto.node), proto, rng)
    return proto


def mutants(rng: np.random.Generator) -> Iterator[bytes]:
    """Binary GraphDefs: most with changed fields, some with changed bytes."""
    while True:
        how = rng.random()
        if how < 0.1:
            yield change_bytes(any_seed(rng, _SMALL), rng)
        elif how < 0.12:
            data = any_seed(rng, 1.0)
            yield bomb(rng) + data if rng.random() < 0.5 else data + bomb(rng)
        else:
            yield _mutated(rng).SerializeToString()


@cache
def _text_of(data: bytes) -> tuple[str, ...]:
    proto = new_message("GraphDef")
    proto.ParseFromString(data)
    return tuple(text_format.MessageToString(proto).splitlines())


def prepare() -> None:
    """Create the seeds, which takes a second, before the children of a campaign are forked."""
    for seed in (*small_seeds(), *seeds().values(), *given_seeds()):
        _text_of(seed)


def text_mutants(rng: np.random.Generator) -> Iterator[str]:
    """GraphDef texts with changed words, numbers and lines.

    Half of the changes use another value of the same field.
    """
    while True:
        lines = list(_text_of(any_seed(rng, _SMALL_TEXTS)))
        if rng.random() < 0.1:
            yield change_text("\n".join(lines), rng)
            continue
        if rng.random() < _EDITS:
            other = "\n".join(_text_of(any_seed(rng, _SMALL_TEXTS)))
            yield graph_edits.edited("\n".join(lines), other, rng)
            continue
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(0, len(lines)))
            words = lines[at].split(": ")
            if len(words) != 2:
                lines[at] = lines[int(rng.integers(0, len(lines)))] if rng.random() < 0.1 else lines[at]
            elif rng.random() < 0.5:
                lines[at] = pick(rng, [line for line in lines if line.split(": ")[0].strip() == words[0].strip()])
            else:
                lines[at] = f"{words[0]}: {_word(words[1], rng)}"
        yield "\n".join(lines)


def _word(old: str, rng: np.random.Generator) -> str:
    """Another word, usually of the same kind, so that the text can still be parsed."""
    if rng.random() < 0.2:
        return str(pick(rng, ("9" * 24, "1e999", "nan", "DT_BOGUS", "true", '"x"', "{", "")))
    if old.startswith('"'):
        return str(pick(rng, ('""', '"x"', '"\\377"', '"y:1"', '"^x0"', f'"{pick(rng, op_names())}"', f'{old[:-2]}"')))
    if old.startswith("DT_"):
        return str(pick(rng, ("DT_FLOAT", "DT_INT32", "DT_STRING", "DT_RESOURCE", "DT_BFLOAT16", "DT_VARIANT", "77")))
    return str(pick(rng, NUMBERS))


# ---------------------------------------------------------------------------------------- the check


def quick(item: Item, rng: np.random.Generator) -> str | None:
    """Read and write a GraphDef; take each expensive step for a random fraction of graphs."""
    return _checked(item, rng, _SHARES)


def check(item: Item, rng: np.random.Generator) -> str | None:
    """Process a GraphDef in every way.

    Read, write, import, cluster, lower, run with clusters and without.
    """
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
                return None  # the program itself does not terminate
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
        found.why(pick(rng, graph.get_operations()).name)
    for cluster in found.clusters[:3]:
        _tried_quietly(lambda c=cluster: c.hlo_module)


def _tried_quietly(step: Callable[[], object]) -> None:
    """Run a step and ignore a rejection, so that the next cluster is tried too."""
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
"""The fraction of graphs for which a campaign takes a step; compiling and running cost most."""
