"""Gradients of calls, branches and loops over functions (python/ops/{cond_v2,while_v2}.py).

A branch's gradient computes the branch again. A loop's gradient runs the loop again and pushes the
variables of each iteration onto lists, which a second loop pops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import ceil
from typing import Any

from xlanb.errors import GraphValueError, UnimplementedError
from xlanb.graph.builders.array_ops import identity, zeros, zeros_like
from xlanb.graph.builders.functional_control import captured, function_of_nodes, while_v2
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.constant_value import constant_value
from xlanb.graph.convert import constant
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.functions import FunctionRef, GraphFunction
from xlanb.graph.gradients.backprop import gradients, is_trainable
from xlanb.graph.gradients.registry import register_gradient
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call, call_n, op_has_side_effects
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import copy_body

_READS = frozenset({"_Arg", "_Retval", "Assert", "VarHandleOp", "ReadVariableOp", "ResourceGather", "VariableShape"})
_CALLERS = {
    "If": ("then_branch", "else_branch"), "While": ("cond", "body"), "Case": ("branches",),
    "StatefulPartitionedCall": ("f",),
    "StatelessIf": ("then_branch", "else_branch"), "StatelessWhile": ("cond", "body"), "StatelessCase": ("branches",),
    "PartitionedCall": ("f",),
}  # fmt: skip
_NOT_SAVED = frozenset({"resource", "variant"})
_UPDATES = frozenset({"Identity", "TensorListSetItem", "TensorListPushBack", "TensorListScatterIntoExistingList"})
"""Ops that return a changed list, and whose gradients need no element of the list before."""


def _function(op: Operation, ref: FunctionRef) -> GraphFunction:
    """Return a library function that can be computed again.

    Raises:
        UnimplementedError: it is not in the library, or may give other values when computed again.
    """
    found = op.graph.functions.get(ref.name)
    if found is None:
        raise UnimplementedError(
            f"the gradient needs function {ref.name!r}, which is not in the library: {op.describe()}"
        )
    for inner in _within(found, op.graph, set()):
        if op_has_side_effects(inner) and inner.type not in _READS and inner.type not in _CALLERS:
            raise UnimplementedError(
                f"the gradient of {op.type} computes function {ref.name!r} again, which is not possible with "
                f"{inner.type}: {inner.describe()}"
            )
    return found


def _within(function: GraphFunction, graph: Graph, seen: set[str]) -> Iterable[Operation]:
    """The operations of a function and of all that it calls."""
    if function.name in seen:
        return
    seen.add(function.name)
    for op in function.body:
        yield op
        for attr in _CALLERS.get(op.type, ()):
            refs = op.attrs[attr]
            for ref in refs if isinstance(refs, Sequence) else (refs,):
                if ref.name in graph.functions:
                    yield from _within(graph.functions[ref.name], graph, seen)


def inline(function: GraphFunction, arguments: Sequence[Tensor]) -> list[Tensor]:
    """A function's results, by copies of its nodes in the default graph."""
    graph = get_default_graph()
    scope = graph.get_name_scope()
    prefix = f"{scope}/" if scope else ""
    return copy_body(function, graph, arguments, lambda op: graph.unique_name(f"{prefix}{op.name}"))[1]


def _dense(grad: Any) -> Any:
    return grad.as_tensor() if isinstance(grad, IndexedSlices) else grad


def function_gradients(function: GraphFunction, inputs: Sequence[Tensor], grads: Sequence[Any]) -> list[Any]:
    """Return the gradients by a function's arguments, None if there is none.

    `grads` are those of the results, None for missing ones.
    """
    own = [t if t.dtype.name == "resource" else identity(t) for t in inputs]
    results = inline(function, own)
    pairs = [(y, g) for y, g in zip(results, grads, strict=True) if g is not None and _flows(y)]
    places = [i for i, t in enumerate(own) if is_trainable(t)]
    found: list[Any] = [None] * len(own)
    if pairs and places:
        ys, given = zip(*pairs, strict=True)
        stops = [t for t in own if t.dtype.name != "resource"]
        made = gradients(list(ys), [own[i] for i in places], list(given), stop_gradients=stops)
        for place, grad in zip(places, made, strict=True):
            found[place] = _dense(grad)
    return found


def _flows(tensor: Tensor) -> bool:
    return is_trainable(tensor) and tensor.dtype.name != "resource"


def _zero(tensor: Tensor, dtype: Any) -> Tensor:
    """Zeros for the gradient by a tensor, or by the variable behind a handle."""
    return zeros(call("VariableShape", tensor), dtype) if tensor.dtype.name == "resource" else zeros_like(tensor)


@register_gradient("PartitionedCall", "StatefulPartitionedCall")
def _call(op: Operation, *grads: Any) -> Any:
    return function_gradients(_function(op, op.get_attr("f")), list(op.inputs), grads)


def gradient_body(op: Operation) -> Graph:
    """Return the body of a SymbolicGradient: from arguments and result gradients to argument
    gradients.

    Raises:
        UnimplementedError: an op of the function has no gradient, or the function cannot be
            computed again.
    """
    function = _function(op, op.get_attr("f"))
    if len(op.inputs) != len(function.inputs) + len(function.outputs) or len(op.outputs) != len(function.inputs):
        raise GraphValueError(
            f"{function!r} needs {len(function.inputs) + len(function.outputs)} inputs and "
            f"{len(function.inputs)} outputs: {op.describe()}"
        )
    body = Graph(f"{function.name}_gradient")
    body.functions = op.graph.functions
    with body.as_default():
        arguments = []
        for index, tensor in enumerate(op.inputs):
            dtype = tensor.dtype.base_dtype
            made = body.add_op("_Arg", f"arg_{index}", (), [dtype], {"T": dtype, "index": index}).outputs[0]
            made.give_shape(tensor.shape.as_tuple())
            arguments.append(made)
        count = len(function.inputs)
        found = function_gradients(function, arguments[:count], arguments[count:])
        for index, (argument, grad) in enumerate(zip(arguments[:count], found, strict=True)):
            result = zeros_like(argument) if grad is None else grad
            body.add_op("_Retval", f"result_{index}", [result], [], {"T": result.dtype.base_dtype, "index": index})
    return body


# ----------------------------------------------------------------------------------------- branches


@register_gradient("If", "StatelessIf")
def _if(op: Operation, *grads: Any) -> Any:
    branches = [_function(op, op.get_attr(n)) for n in ("then_branch", "else_branch")]

    def choose(inputs: list[Tensor], refs: list[FunctionRef], types: list[Any]) -> list[Tensor]:
        return call_n(
            "StatelessIf", op.inputs[0], inputs, Tin=[t.dtype.base_dtype for t in inputs], Tout=types,
            then_branch=refs[0],
            else_branch=refs[1],
        )  # fmt: skip

    return _branches(op, branches, grads, choose)


@register_gradient("Case", "StatelessCase")
def _case(op: Operation, *grads: Any) -> Any:
    branches = [_function(op, ref) for ref in op.get_attr("branches")]

    def choose(inputs: list[Tensor], refs: list[FunctionRef], types: list[Any]) -> list[Tensor]:
        kinds = [t.dtype.base_dtype for t in inputs]
        return call_n("StatelessCase", op.inputs[0], inputs, Tin=kinds, Tout=types, branches=refs)

    return _branches(op, branches, grads, choose)


def _branches(
    op: Operation, branches: Sequence[GraphFunction], grads: Sequence[Any], choose: Callable[..., list[Tensor]]
) -> Any:
    """Choose among the branches' gradients; those that a branch lacks are zeros."""
    graph, inputs = get_default_graph(), list(op.inputs[1:])
    made = [_nodes_made(graph, partial(function_gradients, b, inputs, grads)) for b in branches]
    by_place = zip(*(found for found, _ in made), strict=True)
    kinds = [next((g.dtype.base_dtype for g in found if g is not None), None) for found in by_place]
    places = [i for i, kind in enumerate(kinds) if kind is not None]
    if not places:
        graph.remove_ops([o for _, own in made for o in own])
        return [None] * len(op.inputs)

    def filled(found: list[Any]) -> list[Tensor]:
        return [_zero(inputs[i], kinds[i]) if found[i] is None else identity(found[i]) for i in places]

    results: list[list[Tensor]] = []
    ops: list[list[Operation]] = []
    for gradient, own in made:
        tensors, more = _nodes_made(graph, partial(filled, gradient))
        results.append(tensors)
        ops.append([*own, *more])
    captures = list(dict.fromkeys(t for own, ends in zip(ops, results, strict=True) for t in captured(own, ends)))
    refs = [
        function_of_nodes(graph, f"{branch.name}_grad", own, captures, ends)
        for branch, own, ends in zip(branches, ops, results, strict=True)
    ]
    graph.remove_ops([o for own in ops for o in own])
    found = choose(captures, refs, [kinds[i] for i in places])
    by_input: list[Any] = [None] * len(inputs)
    for place, tensor in zip(places, found, strict=True):
        if inputs[place].dtype.name != "resource":
            tensor.set_shape(inputs[place].shape)
        by_input[place] = tensor
    return [None, *by_input]


def _nodes_made(graph: Graph, function: Callable[[], list[Any]]) -> tuple[list[Any], list[Operation]]:
    """Return a function's result, and the nodes that it made in the graph."""
    before = len(graph)
    found = function()
    return found, graph.get_operations()[before:]


# -------------------------------------------------------------------------------------------- loops


@register_gradient("While", "StatelessWhile")
def _while(op: Operation, *grads: Any) -> Any:
    cond, body = (_function(op, op.get_attr(n)) for n in ("cond", "body"))
    starts, own = list(op.inputs), _unchanged(body)
    limit = _bound(op, cond, body, own)
    lists = _lists_read(body, own)
    saved = [i for i, t in enumerate(starts) if i in lists or (i not in own and t.dtype.name not in _NOT_SAVED)]
    count, held = _run_again(cond, body, starts, saved, limit)
    places = [i for i, t in enumerate(starts) if is_trainable(t)]
    kinds = {i: _kind(body, starts, i) for i in places}
    places = [i for i in places if kinds[i] is not None]
    first = [_start(starts[i], grads[i], kinds[i]) for i in places]

    def step(k: Tensor, lists: list[Tensor], down: list[Tensor]) -> Any:
        values, rest = list(starts), []
        for i, stack in zip(saved, lists, strict=True):
            shorter, values[i] = call_n(
                "TensorListPopBack", stack, _element_shape(starts[i]), element_dtype=starts[i].dtype.base_dtype
            )
            values[i].set_shape(starts[i].shape)
            rest.append(shorter)
        wanted: list[Any] = [None] * len(starts)
        for i, grad in zip(places, down, strict=True):
            wanted[i] = None if starts[i].dtype.name == "resource" else grad
        made = function_gradients(body, values, wanted)
        return k - 1, rest, [_next(starts[i], d, made[i]) for i, d in zip(places, down, strict=True)]

    most = None if limit is None else constant(limit)
    _, _, ends = while_v2(lambda k, *_: k > 0, step, (count, held, first), None, most, None, same=True)
    found: list[Any] = [None] * len(starts)
    for i, grad in zip(places, ends, strict=True):
        found[i] = grad
    return found


def _unchanged(body: GraphFunction) -> set[int]:
    """Return the loop variables that the body returns unchanged."""
    return {
        index
        for index, source in _results(body).items()
        if source.type == "_Arg" and int(source.attrs["index"]) == index
    }


def _results(body: GraphFunction) -> dict[int, Operation]:
    """Return the operation that computes each result, behind identities."""
    found = {}
    for op in body.body:
        if op.type == "_Retval":
            source = op.inputs[0].op
            while source.type == "Identity":
                source = source.inputs[0].op
            found[int(op.attrs["index"])] = source
    return found


def _lists_read(body: GraphFunction, own: set[int]) -> set[int]:
    """Return the lists that the body changes and of which it needs elements or the length.

    A list that grows by TensorListSetItem counts: the gradient needs its length before.
    """
    found = set()
    for arg in (inner for inner in body.body if inner.type == "_Arg"):
        index = int(arg.attrs["index"])
        if arg.outputs[0].dtype.name != "variant" or index in own:
            continue
        pending = list(arg.outputs)
        while pending:
            for reader in pending.pop().uses:
                if reader.type in _UPDATES and not reader.attrs.get("resize_if_index_out_of_bounds"):
                    pending += reader.outputs
                elif reader.type != "_Retval":
                    found.add(index)
    return found


def _bound(op: Operation, cond: GraphFunction, body: GraphFunction, own: set[int]) -> int | None:
    """Return an upper bound of the trip count, or None.

    It is found from a variable with a constant start and increment that stays below a limit.
    """
    for less in (inner for inner in cond.body if inner.type == "Less"):
        first, limit = (_outer(op, t) for t in less.inputs)
        index = _argument(less.inputs[0])
        other = _argument(less.inputs[1])
        if index is None or first is None or limit is None or index in own or (other is not None and other not in own):
            continue
        step = _growth(body, index)
        if step is not None and step > 0 and _holds_loop(cond, less):
            return max(0, ceil((limit - first) / step))
    return None


def _argument(tensor: Tensor) -> int | None:
    return int(tensor.op.attrs["index"]) if tensor.op.type == "_Arg" else None


def _outer(op: Operation, tensor: Tensor) -> int | None:
    """Return the static value of an inner scalar in the outer graph, or None."""
    index = _argument(tensor)
    value = constant_value(tensor if index is None else op.inputs[index])
    return None if value is None or value.ndim or value.dtype.kind not in "iu" else int(value)


def _growth(body: GraphFunction, index: int) -> int | None:
    """Return the increment of a variable in the body."""
    source = _results(body)[index]
    if source.type in {"Add", "AddV2"}:
        for mine, added in (source.inputs, reversed(source.inputs)):
            value = constant_value(added)
            if _argument(mine) == index and value is not None and not value.ndim:
                return int(value)
    return None


def _holds_loop(cond: GraphFunction, less: Operation) -> bool:
    """Whether the loop ends where the comparison is false."""
    ends = [op.inputs[0].op for op in cond.body if op.type == "_Retval"]
    while ends:
        op = ends.pop()
        if op is less:
            return True
        if op.type in {"Identity", "LogicalAnd"}:
            ends += [t.op for t in op.inputs]
    return False


def _run_again(
    cond: GraphFunction, body: GraphFunction, starts: list[Tensor], saved: Sequence[int], limit: int | None
) -> tuple[Tensor, list[Tensor]]:
    """The number of iterations, and lists of the variables before each of them."""
    most = constant(-1 if limit is None else limit)
    lists = [
        call("EmptyTensorList", _element_shape(starts[i]), most, element_dtype=starts[i].dtype.base_dtype)
        for i in saved
    ]
    varying = [i for i, t in enumerate(starts) if t.dtype.name != "resource"]

    def all_of(values: list[Tensor]) -> list[Tensor]:
        whole = list(starts)
        for i, value in zip(varying, values, strict=True):
            whole[i] = value
        return whole

    def more(_: Tensor, values: list[Tensor], __: list[Tensor]) -> Tensor:
        return inline(cond, all_of(values))[0]

    def step(k: Tensor, values: list[Tensor], held: list[Tensor]) -> Any:
        whole = all_of(values)
        pushed = [call("TensorListPushBack", h, whole[i]) for i, h in zip(saved, held, strict=True)]
        results = inline(body, whole)
        return k + 1, [results[i] for i in varying], pushed

    count, _, held = while_v2(
        more, step, (constant(0), [starts[i] for i in varying], lists), None, None, None, same=True
    )
    return count, held


def _element_shape(tensor: Tensor) -> Tensor:
    dims = tensor.shape.as_tuple()
    return constant(-1) if dims is None else constant([-1 if d is None else d for d in dims], "int32")


def _kind(body: GraphFunction, starts: Sequence[Tensor], index: int) -> Any:
    """Return the type of the gradient by a loop variable; for a variable's handle, the type that is
    read.
    """
    if starts[index].dtype.name != "resource":
        return starts[index].dtype.base_dtype
    reads = (op for op in body.body if op.type in {"ReadVariableOp", "ResourceGather"})
    return next((op.outputs[0].dtype for op in reads if _argument(op.inputs[0]) == index), None)


def _start(start: Tensor, grad: Any, kind: Any) -> Tensor:
    return _zero(start, kind) if grad is None or start.dtype.name == "resource" else _dense(grad)


def _next(start: Tensor, down: Tensor, made: Any) -> Tensor:
    """Return the gradient one iteration earlier; gradients of a variable add up."""
    if start.dtype.name == "resource":
        return down if made is None else down + made
    return zeros_like(down) if made is None else made
