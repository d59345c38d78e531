"""Graph rewrites before clustering; each returns a new graph, or the same object if unchanged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlanb.errors import FlagError, GraphError, nearest
from xlanb.graph.graph import Graph
from xlanb.graph.limits import stored
from xlanb.graph.op_library import op_has_side_effects
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.optimize.fold_batch_norms import fold_batch_norms
from xlanb.graph.optimize.grappler import OPTIMIZERS, Rewrite
from xlanb.graph.recording import attribute_text
from xlanb.graph.rewrite import copy_graph, edit, needed_by

Evaluate = Callable[[Tensor], "np.ndarray[Any, Any] | None"]

_LARGEST_CONSTANT = 1 << 20  # elements of a folded constant: folding must not blow the graph up
# Never folded: they are constants already, depend on the run, or mean something by being there.
_NOT_FOLDED = frozenset({"Const", "Placeholder", "PlaceholderWithDefault", "_Arg", "_Retval", "NoOp", "StopGradient",
                         "PreventGradient", "Enter", "Exit", "Switch", "Merge", "NextIteration", "LoopCond",
                         "CheckNumerics", "IdentityN"})  # fmt: skip


@dataclass(frozen=True)
class OptimizeStep:
    """A pass, the graph after it, and the named rewrites of one of Grappler's."""

    name: str
    graph: Graph
    rewrites: tuple[Rewrite, ...] = ()


def optimize_steps(
    graph: Graph,
    fetches: Sequence[str],
    feeds: Sequence[str],
    targets: Sequence[str],
    evaluate: Evaluate,
    *,
    fold_norms: bool = False,
    grappler: Sequence[str] = (),
) -> Iterator[OptimizeStep]:
    """Yield each pass's name and the graph after it, in order.

    `fetches` and `feeds` are names of tensors, `targets` names of operations to run; these keep
    their names and meaning. `evaluate` returns the value of a tensor that depends only on
    constants, or None. Batch normalizations are folded only with `fold_norms`, as it changes
    rounding. `grappler` names Grappler's optimizers to run too.

    Raises:
        FlagError: there is no optimizer of such a name.
    """
    keep = {name.rpartition(":")[0] for name in (*fetches, *feeds)} | set(targets)
    fed = {name.rpartition(":")[0] for name in feeds}
    graph = fold_constants(graph, keep, fed, evaluate)
    yield OptimizeStep("constant_folding", graph)
    if fold_norms:
        graph = fold_batch_norms(graph, keep)
        yield OptimizeStep("fold_batch_norms", graph)
    for name in grappler:
        if name not in OPTIMIZERS:
            known = ", ".join(OPTIMIZERS)
            raise FlagError(
                f"--xlanb_grappler={name}: no such optimizer{nearest(name, OPTIMIZERS)}; known optimizers: {known}"
            )
        graph, rewrites = OPTIMIZERS[name](graph, keep, fed)
        yield OptimizeStep(name, graph, tuple(rewrites))
    graph = remove_identities(graph, keep)
    yield OptimizeStep("remove_identities", graph)
    graph = merge_common_subgraphs(graph, keep, fed)
    yield OptimizeStep("common_subgraph_elimination", graph)


def prune(graph: Graph, keep: Collection[str]) -> Graph:
    """Keep only nodes that the operations named in `keep` need."""
    needed = needed_by([op for op in graph if op.name in keep])
    return graph if len(needed) == len(graph) else copy_graph(graph, needed)


def fold_constants(
    graph: Graph, keep: Collection[str], fed: Collection[str], evaluate: Evaluate, *, identities: bool = False
) -> Graph:
    """Replace operations that depend only on constants by Const nodes of the same name.

    mul(Const 2, Const 3) -> Const 6
    add(Identity(Const 2), Const 3) -> Const 5

    Only the last operations of a constant part are evaluated; unused nodes are dropped afterwards.
    An Identity becomes a Const only with `identities`: `remove_identities` removes the others.
    """
    constant = _foldable(graph, fed)
    foldable = {op: None for op in constant if identities or op.type != "Identity"}
    frontier = [op for op in foldable if op.name in keep or any(user not in foldable for user in op.outputs[0].uses)]
    values = {
        op.name: value
        for op in frontier
        if (value := evaluate(op.outputs[0])) is not None and value.size <= _LARGEST_CONSTANT
    }
    if not values:
        return graph
    result = copy_graph(graph)
    for name, value in values.items():
        _become_constant(result.get_operation_by_name(name), value)
    sinks = {op.name for op in graph if not any(t.uses for t in op.outputs) and not op.control_outputs}
    return prune(result, sinks | set(keep))


def _foldable(graph: Graph, fed: Collection[str]) -> dict[Operation, None]:
    """List operations without side effects that depend only on constants, in topological order."""
    constant: set[Operation] = set()
    found: dict[Operation, None] = {}
    has_loops = any(op.type in {"Enter", "RefEnter"} for op in graph)
    for op in graph.topological_order():
        if op.name in fed:
            continue
        if op.type == "Const":
            # A constant's control inputs put it into a loop; folding would move its users out.
            if not (has_loops and op.control_inputs):
                constant.add(op)
        elif op.type not in _NOT_FOLDED and not op.control_inputs and op.inputs and len(op.outputs) == 1:
            simple = (
                op.outputs[0].dtype.has_numpy_dtype
                and op.outputs[0].dtype.name != "string"
                and not op.outputs[0].dtype.is_ref_dtype
            )
            if (
                simple
                and not op_has_side_effects(op)
                and all(t.op in constant for t in op.inputs)
                and not _is_large(op)
            ):
                constant.add(op)
                found[op] = None
    return found


def _is_large(op: Operation) -> bool:
    """Whether the value exceeds the limit for folded constants, or its shape is known to be
    invalid.

    In the second case the run reports the error.
    """
    try:
        count = op.outputs[0].shape.num_elements()
    except GraphError:
        return True
    return count is not None and count > _LARGEST_CONSTANT


def _become_constant(op: Operation, value: np.ndarray[Any, Any]) -> None:
    dtype = op.outputs[0].dtype
    op.disconnect()
    op.type = "Const"
    op.raw_attrs = None
    kept = {k: v for k, v in op.attrs.items() if k.startswith("_")}
    op.attrs = {**kept, "dtype": dtype, "value": np.array(value, dtype.numpy_dtype)}
    op.outputs[0].forget_shape()


def remove_identities(graph: Graph, keep: Collection[str]) -> Graph:
    """Identity(x) -> x, unless it reads a reference variable, has control edges, or is fetched."""

    def change(copy: Graph) -> bool:
        going = [op for op in copy if op.type == "Identity" and op.name not in keep and _is_transparent(op)]
        for op in going:
            op.outputs[0].replace_uses(op.inputs[0])
        copy.remove_ops(going)
        return bool(going)

    return (
        edit(graph, change)
        if any(op.type == "Identity" and op.name not in keep and _is_transparent(op) for op in graph)
        else graph
    )


def _is_transparent(op: Operation) -> bool:
    source = op.inputs[0]
    # An Identity behind a Switch is what holds the control edges of a branch.
    return not (
        op.control_inputs
        or op.control_outputs
        or source.dtype.is_ref_dtype
        or source.op.type in {"Switch", "RefSwitch"}
    )


def merge_common_subgraphs(graph: Graph, keep: Collection[str], fed: Collection[str]) -> Graph:
    """Merge operations of the same type, attributes and inputs into the first in topological order.

    add(a, b), add(a, b) -> add(a, b)
    """

    def change(copy: Graph) -> bool:
        first: dict[Any, Operation] = {}
        going = []
        for op in copy.topological_order():
            if op.name in fed or op.control_inputs or op.control_outputs or not op.outputs or op_has_side_effects(op):
                continue
            kept = first.setdefault(_key(op), op)
            if kept is not op and op.name not in keep:
                for old, new in zip(op.outputs, kept.outputs, strict=True):
                    old.replace_uses(new)
                going.append(op)
        copy.remove_ops(going)
        return bool(going)

    return edit(graph, change)


def _key(op: Operation) -> Any:
    # `_class` requests a placement and does not affect the value.
    attrs = tuple(sorted((k, _attr_key(v)) for k, v in op.attrs.items() if k != "_class"))
    inputs: tuple[Any, ...] = tuple((t.op, t.value_index) for t in op.inputs)
    return op.type, op.device, attrs, inputs


def _attr_key(value: Any) -> str:
    if isinstance(value, np.ndarray):
        held = stored(value)
        # Object arrays (strings) have no bytes of their own.
        return (
            f"{value.dtype}{value.shape}{held.shape}{held.tolist() if held.dtype.kind == 'O' else held.tobytes().hex()}"
        )
    return f"{type(value).__name__} {attribute_text(value) if not isinstance(value, bytes) else value.hex()}"
