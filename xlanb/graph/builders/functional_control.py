"""Branches and loops as functions (If and While), for functions that are compiled as a whole.

A branch's nodes are made in the calling graph, then moved into a function of the graph's library.
The outside tensors that they read become arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph.builders import nest
from xlanb.graph.builders.array_ops import identity
from xlanb.graph.builders.control_flow_context import common_shape
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.functions import FunctionRef, GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import copy_nodes
from xlanb.graph.tensor_shape import TensorShape


class Traced:
    """The nodes that a Python function made in a graph, its result, and the outside tensors it
    reads.
    """

    def __init__(self, graph: Graph, function: Callable[..., Any], arguments: Sequence[Tensor], like: Any) -> None:
        self.graph = graph
        before = len(graph)
        given = function() if like is None else function(*nest.pack_like(like, list(arguments)))
        if given is None:
            raise GraphValueError("a branch or loop function must return a value.")
        self.given = given
        self.results = [_result(v) for v in nest.flatten(given)]
        self.ops = graph.get_operations()[before:]
        given_arguments = set(arguments)
        self.captures = [t for t in captured(self.ops, self.results) if t not in given_arguments]

    def move(self, name: str, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> FunctionRef:
        """Make the function from `inputs` to `results`; the caller removes the nodes."""
        return function_of_nodes(self.graph, name, self.ops, inputs, results)

    def drop(self) -> None:
        """Remove the nodes from the graph that they were made in."""
        self.graph.remove_ops(self.ops)


def captured(ops: Sequence[Operation], results: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of other nodes that these nodes read, and those among the results."""
    own = {t for op in ops for t in op.outputs}
    return [t for t in dict.fromkeys([*(t for op in ops for t in op.inputs), *results]) if t not in own]


def function_of_nodes(
    graph: Graph, name: str, ops: Sequence[Operation], inputs: Sequence[Tensor], results: Sequence[Tensor]
) -> FunctionRef:
    """Move nodes into a function of the graph's library, with arguments `inputs` and results
    `results`.
    """
    body = Graph(name)
    body.functions = graph.functions
    stands: dict[Tensor, Tensor] = {}
    for index, tensor in enumerate(inputs):
        dtype = tensor.dtype.base_dtype
        arg = body.add_op("_Arg", f"arg_{index}", (), [dtype], {"T": dtype, "index": index})
        arg.outputs[0].give_shape(tensor.shape.as_tuple())
        stands[tensor] = arg.outputs[0]
    copies = copy_nodes(ops, body, lambda op: op.name, stands)
    for op, copy in copies.items():
        copy.attrs.pop("_class", None)
        for old, made in zip(op.outputs, copy.outputs, strict=True):
            made.give_shape(old.shape.as_tuple())
            stands[old] = made
    for index, tensor in enumerate(results):
        kind = {"T": tensor.dtype.base_dtype, "index": index}
        body.add_op("_Retval", f"result_{index}_retval", [stands[tensor]], [], kind)
    unique = name
    number = 0
    while unique in graph.functions:
        number += 1
        unique = f"{name}_{number}"
    graph.functions[unique] = GraphFunction.of_body(unique, body)
    return FunctionRef(unique)


def _result(value: Any) -> Tensor:
    if isinstance(value, Operation):
        raise GraphTypeError(f"a branch of a compiled function must return tensors, got the operation {value.name!r}")
    return convert_to_tensor(value)


def cond_v2(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None) -> Any:
    """`tf.cond` as one If node.

    Raises:
        GraphTypeError, GraphValueError: the results of the two branches differ in kind or number.
    """
    graph = get_default_graph()
    with name_scope(name, "cond", [pred]) as scope:
        pred = convert_to_tensor(pred, name="pred")
        true = Traced(graph, true_fn, (), None)
        false = Traced(graph, false_fn, (), None)
        nest.check_alike(true.given, false.given, "the results of 'true_fn' and 'false_fn'")
        for x, y in zip(true.results, false.results, strict=True):
            if x.dtype.base_dtype is not y.dtype.base_dtype:
                raise GraphValueError(
                    f"Outputs of 'true_fn' and 'false_fn' must have the same type(s). Received {x.dtype.name} "
                    f"from 'true_fn' and {y.dtype.name} from 'false_fn'."
                )
        types = [t.dtype.base_dtype for t in true.results]
        shapes = [common_shape([x.shape, y.shape]) for x, y in zip(true.results, false.results, strict=True)]
        inputs = list(dict.fromkeys([*true.captures, *false.captures]))
        label = scope.removesuffix("/").replace("/", "_")
        then_branch = true.move(f"{label}_true", inputs, true.results)
        else_branch = false.move(f"{label}_false", inputs, false.results)
        false.drop()
        true.drop()
        found = call_n(
            "StatelessIf", pred, inputs, Tin=[t.dtype.base_dtype for t in inputs], Tout=types, then_branch=then_branch,
            else_branch=else_branch, output_shapes=shapes, name=scope,
        )  # fmt: skip
        for tensor, shape in zip(found, shapes, strict=True):
            tensor.give_shape(shape.as_tuple())
        packed = nest.pack_like(true.given, list(found))
        return packed[0] if isinstance(packed, list | tuple) and len(packed) == 1 else packed


def bounded(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    invariants: Any,
    limit: Tensor,
    counter: Tensor,
    *,
    same: bool,
) -> tuple[Callable[..., Any], Callable[..., Any], Any, Any]:
    """The same loop with an additional counter, which limits the number of iterations."""
    single = len(loop_vars) == 1 and not same
    held = loop_vars[0] if single else loop_vars

    def condition(i: Any, values: Any) -> Any:
        return call("LogicalAnd", i < limit, cond(values) if single else cond(*values))

    def step(i: Any, values: Any) -> Any:
        return i + 1, body(values) if single else body(*values)

    known = None
    if invariants is not None:
        known = (TensorShape([]), invariants[0] if single else invariants)
    return condition, step, (counter, held), known


def while_v2(
    cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, invariants: Any, maximum_iterations: Any,
    name: str | None,
    *, same: bool,
) -> Any:  # fmt: skip
    """`tf.while_loop` as one While. Errors as for version 1; variables cannot be tensor arrays."""
    graph = get_default_graph()
    with name_scope(name, "while") as scope:
        values = nest.pack_like(loop_vars, [convert_to_tensor(v) for v in nest.flatten(loop_vars)])
        if maximum_iterations is not None:
            limit = convert_to_tensor(maximum_iterations, name="maximum_iterations")
            counter = constant(0, limit.dtype, name="loop_counter")
            cond, body, values, invariants = bounded(cond, body, values, invariants, limit, counter, same=same)
        flat = nest.flatten(values)
        shapes = [t.shape for t in flat] if invariants is None else [TensorShape(s) for s in nest.flatten(invariants)]
        arguments = [_argument(t, s) for t, s in zip(flat, shapes, strict=True)]
        holds = Traced(graph, cond, arguments, values)
        step = Traced(graph, body if nest.is_nested(values) else (lambda *a: [body(*a)]), arguments, values)
        results = step.results
        if len(results) != len(flat):
            raise GraphValueError(f"while_loop: {len(flat)} loop variables, but 'body' returns {len(results)} values")
        for value, result in zip(flat, results, strict=True):
            if value.dtype.base_dtype is not result.dtype.base_dtype:
                raise GraphTypeError(
                    f"loop variable {value.name!r} has type {value.dtype.name} before the loop, but "
                    f"{result.dtype.name} after one iteration: cast it in 'body'"
                )
        captures = list(dict.fromkeys([*holds.captures, *step.captures]))
        label = scope.removesuffix("/").replace("/", "_")
        inside = [*arguments, *captures]
        condition = holds.move(f"{label}_cond", inside, holds.results)
        body_ref = step.move(f"{label}_body", inside, [*results, *captures])
        step.drop()
        holds.drop()
        graph.remove_ops([t.op for t in arguments])
        types = [t.dtype.base_dtype for t in (*flat, *captures)]
        found = call_n(
            "StatelessWhile", [*flat, *captures], T=types, cond=condition, body=body_ref,
            output_shapes=[*shapes, *(t.shape for t in captures)], name=scope,
        )  # fmt: skip
        for tensor, shape in zip(found, shapes, strict=False):
            tensor.give_shape(shape.as_tuple())
        out = [identity(t) for t in found[: len(flat)]]
        packed = nest.pack_like(step.given if nest.is_nested(step.given) else [step.given], out)
        if maximum_iterations is not None:
            return packed[1]
        return packed if same or len(out) > 1 else packed[0]


def _argument(tensor: Tensor, shape: TensorShape) -> Tensor:
    """Make a placeholder for a loop variable while the loop's functions are traced."""
    graph = tensor.graph
    dtype = tensor.dtype.base_dtype
    made = graph.create_op("Placeholder", (), [dtype], {"dtype": dtype, "shape": shape}, "loop_var")
    made.outputs[0].give_shape(shape.as_tuple())
    return made.outputs[0]
