"""tf.cond, tf.case and tf.while_loop, with TensorFlow 1's nodes.

Source: python/ops/{cond,control_flow_case,while_loop}.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph.builders import nest
from xlanb.graph.builders.array_ops import identity, stack
from xlanb.graph.builders.control_flow_context import (
    CondContext,
    WhileContext,
    close_loop,
    enter,
    is_loop_constant,
    leave,
    merge,
    switch,
    switch_beside,
)
from xlanb.graph.builders.control_ops import no_op, with_dependencies
from xlanb.graph.builders.functional_control import bounded, cond_v2, while_v2
from xlanb.graph.builders.math_ops import cast, reduce_sum
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.tensor_array import TensorArray
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import int32
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.tensor_shape import TensorShape


def cond(
    pred: Any, true_fn: Callable[[], Any] | None = None, false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None, fn1: Callable[[], Any] | None = None, fn2: Callable[[], Any] | None = None,
) -> Any:  # fmt: skip
    """Return the result of `true_fn` if `pred` (a scalar bool tensor) is true, else that of
    `false_fn`.

    Only the nodes of the taken branch run. Both functions return tensors in the same structure; a
    list of one tensor becomes its element unless `strict`.

    Raises:
        GraphTypeError: no functions, a Python bool, or results of different kinds.
        GraphValueError: results that differ in number, or none.
    """
    true_fn, false_fn = true_fn or fn1, false_fn or fn2
    if not callable(true_fn) or not callable(false_fn):
        raise GraphTypeError("cond takes two functions: 'true_fn' and 'false_fn' must be callable")
    if isinstance(pred, bool):
        raise GraphTypeError("'pred' must not be a Python bool.")
    graph = get_default_graph()
    if graph.builds_function:
        return cond_v2(pred, true_fn, false_fn, name)
    with name_scope(name, "cond", [pred]):
        sides = switch(pred, pred)
        pivot_true, pivot_false = identity(sides[1], name="switch_t"), identity(sides[0], name="switch_f")
        held = identity(pred, name="pred_id")
        given_true, true = _side(CondContext(held, pivot_true, 1), true_fn, "true_fn")
        given_false, false = _side(CondContext(held, pivot_false, 0), false_fn, "false_fn")
        if not strict:
            given_true, given_false = _alone(given_true), _alone(given_false)
        nest.check_alike(given_true, given_false, "the results of 'true_fn' and 'false_fn'")
        if not true:
            raise GraphValueError("'true_fn' and 'false_fn' must return at least one result.")
        for x, y in zip(true, false, strict=True):
            if x.dtype.base_dtype is not y.dtype.base_dtype:
                raise GraphValueError(
                    f"Outputs of 'true_fn' and 'false_fn' must have the same type(s). Received {x.dtype.name} "
                    f"from 'true_fn' and {y.dtype.name} from 'false_fn'."
                )
        merged = [merge(pair) for pair in zip(false, true, strict=True)]
        flat = nest.flatten(given_true)
        found = nest.pack_like(given_true, [as_array(like, m) for like, m in zip(flat, merged, strict=True)])
        return found if strict else _alone(found)


def _side(context: CondContext, function: Callable[[], Any], what: str) -> tuple[Any, list[Tensor]]:
    """Build one branch; return the function's result, and its tensors inside the context."""
    context.enter()
    try:
        given = function()
        if given is None:
            raise GraphValueError(f"'{what}' must have a return value.")
        given = nest.map_structure(_no_variable, given)
        results = [_side_result(context, v) for v in nest.flatten(given)]
        context.give_out(results)
        return given, results
    finally:
        context.exit()


def _side_result(context: CondContext, value: Any) -> Tensor:
    if isinstance(value, Operation):
        found: Tensor = with_dependencies([value], context.pivot)
        return found
    return context.result(convert_to_tensor(flow_of(value)))


def _no_variable(value: Any) -> Any:
    return value if isinstance(value, Tensor | Operation | TensorArray) else convert_to_tensor(value)


def _alone(value: Any) -> Any:
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value


def flow_of(value: Any) -> Any:
    """Return the flow of a tensor array, or any other value unchanged."""
    return value.flow if isinstance(value, TensorArray) else value


def as_array(like: Any, value: Tensor) -> Any:
    """A tensor array as of the flow `value` where `like` is one, else the value."""
    return like.with_flow(value) if isinstance(like, TensorArray) else value


# --------------------------------------------------------------------------------------------- case


def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Return the result of the function paired with the first true predicate, else of the default.

    The pairs are in a list or a dictionary. Without a default, a run fails if no predicate is true;
    with `exclusive`, if several are.

    Raises:
        GraphTypeError: a pair is not a bool tensor and a function.
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, Mapping) else list(pred_fn_pairs)
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Tensor) and callable(pair[1])):
            raise GraphTypeError(f"case expects pairs of a bool tensor and a function, got {pair!r}")
        if not pair[0].dtype.is_bool:
            raise GraphTypeError(f"case's predicate {pair[0].name!r} has the type {pair[0].dtype.name}, not bool")
    preds = [p for p, _ in pairs]
    functions = [f for _, f in pairs]
    with name_scope(name, "case", preds):
        function = default
        if function is None:
            function = _last_as_default(preds, functions)
            preds, functions = preds[:-1], functions[:-1]
        for pred, action in reversed(list(zip(preds, functions, strict=True))):
            function = partial(cond, pred, action, function, strict)
        if exclusive:
            with get_default_graph().control_dependencies([_at_most(preds, 1, "Input error: exclusive=True")]):
                return function()
        return function()


def _at_most(preds: Sequence[Tensor], count: int, message: str) -> Operation:
    together = stack(preds, name="preds_c")
    true = reduce_sum(cast(together, int32), name="num_true_conds")
    few = call("LessEqual", true, constant(count, name="n_true_conds"))
    names = ", ".join(p.name for p in preds)
    text = f"{message}: more than {count} conditions ({names}) evaluated as True:"
    return assert_that(few, [text, together], summarize=len(preds))


def _last_as_default(preds: Sequence[Tensor], functions: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
    last = len(preds) - 1
    others = (
        f"Implementation error: selected default action #{last} was called, but some of other predicates are True: "
    )

    def action() -> Any:
        none = ["Input error: None of conditions evaluated as True:", stack(preds, name="preds_c")]
        checks = [_at_most(preds[:-1], 0, others)] if last else []
        with get_default_graph().control_dependencies([*checks, assert_that(preds[-1], none)]):
            return functions[-1]()

    return action


def assert_that(
    condition: Any, data: Sequence[Any], summarize: int | None = None, name: str | None = None
) -> Operation:
    """tf.Assert: make an operation that fails with `data` if the condition is false.

    It is made within a cond, so that `data` is read only in that case.
    """
    with name_scope(name, "Assert", [condition, *data]):
        values = [convert_to_tensor(d) for d in data]
        if get_default_graph().builds_function or all(v.dtype.name in {"string", "int32"} for v in values):
            return call_op("Assert", condition, list(data), summarize=summarize, name="Assert")
        condition = convert_to_tensor(condition, name="Condition")

        def fails() -> Operation:
            return call_op("Assert", condition, list(data), summarize=summarize, name="Assert")

        guarded = cond(condition, no_op, fails, name="AssertGuard")
        found: Operation = guarded.op
        return found


# -------------------------------------------------------------------------------------- while loops


def while_loop(
    cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True, swap_memory: bool = False, name: str | None = None, maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:  # fmt: skip
    """Apply `body` to `loop_vars` while `cond` holds; return their structure, a single one as
    itself.

    Shapes may change between iterations only as `shape_invariants` allow.

    Raises:
        GraphTypeError: cond or body is not a function, or body returns another structure.
        GraphValueError: no variables, or shapes that change.
    """
    if not all(callable(f) for f in (cond, body)):
        raise GraphTypeError("while_loop: 'cond' and 'body' must be callable.")
    if parallel_iterations < 1:
        raise GraphTypeError("'parallel_iterations' must be a positive integer.")
    if get_default_graph().builds_function:
        return while_v2(cond, body, loop_vars, shape_invariants, maximum_iterations, name, same=return_same_structure)
    loop_vars = nest.map_structure(_loop_value, loop_vars)
    with name_scope(name, "while", [v for v in nest.flatten(loop_vars) if isinstance(v, Tensor)]):
        if not nest.flatten(loop_vars):
            raise GraphValueError("'loop_vars' must be provided.")
        limit = None
        if maximum_iterations is not None:
            limit = convert_to_tensor(maximum_iterations, name="maximum_iterations")
            counter = constant(0, limit.dtype, name="iteration_counter")
            cond, body, loop_vars, shape_invariants = bounded(
                cond, body, loop_vars, shape_invariants, limit, counter, same=return_same_structure
            )
        context = WhileContext(limit, parallel_iterations, back_prop=back_prop, swap_memory=swap_memory)
        same = return_same_structure and limit is None
        result = _LoopBuilder(context).build(cond, body, loop_vars, shape_invariants, same=same)
        return result if limit is None else result[1]


def _loop_value(value: Any) -> Any:
    """Variables are read before the loop; Python's numbers become constants when they enter it."""
    is_variable = hasattr(value, "as_tensor") and not isinstance(value, Tensor | TensorArray)
    return convert_to_tensor(value) if is_variable else value


class _LoopBuilder:
    """Makes the nodes of one loop."""

    def __init__(self, context: WhileContext) -> None:
        self._context = context
        self._graph = context.graph

    def build(
        self, cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, invariants: Any, *, same: bool
    ) -> Any:
        given = nest.flatten(loop_vars)
        values = [v if isinstance(v, TensorArray) else convert_to_tensor(v) for v in given]
        flows = [flow_of(v) for v in values]
        shapes = self._invariants(loop_vars, flows, invariants)
        context = self._context
        context.enter()
        try:
            result, exits = self._loop(cond, body, nest.pack_like(loop_vars, values), flows, shapes)
        finally:
            context.exit()
        found = [as_array(like, e) for like, e in zip(nest.flatten(result), exits, strict=True)]
        packed = nest.pack_like(result, found)
        return packed if same or len(exits) > 1 else packed[0]

    def _invariants(self, loop_vars: Any, flows: list[Tensor], invariants: Any) -> list[TensorShape]:
        if invariants is None:
            return [t.shape for t in flows]
        wanted = _flat_shapes(invariants, loop_vars)
        if len(wanted) != len(flows):
            raise GraphValueError(
                f"while_loop: {len(wanted)} shape invariants do not match {len(flows)} loop variables"
            )
        for t, shape in zip(flows, wanted, strict=True):
            if not _is_within(t.shape, shape):
                raise GraphValueError(
                    f"The shape invariant specified for {t.name} is not compatible with the initial shape of the "
                    f"loop variable. It enters the loop with shape {t.shape}, but the specified shape invariant is "
                    f"{shape}."
                )
        return wanted

    def _loop(
        self,
        cond: Callable[..., Any],
        body: Callable[..., Any],
        loop_vars: Any,
        flows: list[Tensor],
        shapes: list[TensorShape],
    ) -> tuple[Any, list[Tensor]]:
        context = self._context
        likes = nest.flatten(loop_vars)
        context.values = set(flows)
        enters = self._enter(flows, shapes)
        merges = [merge([e, e]) for e in enters]
        context.pivot_for_pred = merges[0]
        holds = convert_to_tensor(cond(*self._packed(loop_vars, likes, merges)))
        context.pivot = call("LoopCond", holds, name="LoopCond")
        switches = [switch_beside(m, context.pivot) for m in merges]
        inside = [identity_of(s[1]) for s in switches]
        context.pivot_for_body = inside[0]
        packed = self._packed(loop_vars, likes, inside)
        result = body(*packed)
        if not nest.is_nested(result):
            result = [result]
        result = nest.map_structure(_loop_value, result)
        nest.check_alike(list(packed), list(result), "the loop variables and the results of 'body'")
        for merged, value, entered in zip(merges, nest.flatten(result), enters, strict=True):
            self._close(merged, convert_to_tensor(flow_of(value)), entered)
        exits = [leave(s[0]) for s in switches]
        context.exits = exits
        context.give_out(exits)
        return result, exits

    def _enter(self, flows: list[Tensor], shapes: list[TensorShape]) -> list[Tensor]:
        context = self._context
        real = flows if context.outer is None else [context.outer.add_value(t) for t in flows]
        enters = []
        with self._graph.control_dependencies(None):
            for tensor, shape in zip(real, shapes, strict=True):
                made = enter(tensor, context.name, parallel=context.parallel)
                made.give_shape(shape.as_tuple())
                enters.append(made)
        outer = context.outer
        pivot = None
        while outer is not None and pivot is None:
            pivot = outer.pivot_now()
            outer = outer.outer
        for made in enters:
            if pivot is not None and is_loop_constant(made.op.inputs[0].op):
                made.op.add_control_input(pivot.op)
        context.place_enters(enters)
        context.values = set(enters)
        context.enters = enters
        return enters

    @staticmethod
    def _packed(structure: Any, likes: list[Any], values: list[Tensor]) -> Any:
        return nest.pack_like(structure, [as_array(like, v) for like, v in zip(likes, values, strict=True)])

    @staticmethod
    def _close(merged: Tensor, value: Tensor, entered: Tensor) -> None:
        if value.dtype.base_dtype is not merged.dtype.base_dtype:
            raise GraphTypeError(
                f"loop variable {entered.op.inputs[0].name!r} has type {merged.dtype.name} before the loop, but "
                f"{value.dtype.name} after one iteration: cast it in 'body'"
            )
        back = close_loop(merged, value)
        if not _is_within(back.shape, merged.shape):
            source = entered.op.inputs[0]
            raise GraphValueError(
                f"Input tensor {source.name!r} enters the loop with shape {source.shape}, but has shape {back.shape} "
                "after one iteration. To allow the shape to vary across iterations, use the `shape_invariants` "
                "argument of tf.while_loop to specify a less-specific shape."
            )


def identity_of(tensor: Tensor) -> Tensor:
    """An Identity of a tensor, a RefIdentity of a reference."""
    return call("RefIdentity", tensor) if tensor.dtype.is_ref_dtype else identity(tensor)


def _flat_shapes(invariants: Any, like: Any) -> list[TensorShape]:
    """Flatten the loop variables' shapes; a TensorShape or, per variable, a list of sizes."""
    if isinstance(invariants, TensorShape) or not nest.is_nested(like):
        return [TensorShape(invariants)]
    if isinstance(like, Mapping):
        return [s for key in sorted(like) for s in _flat_shapes(invariants[key], like[key])]
    return [s for i, part in enumerate(like) for s in _flat_shapes(invariants[i], part)]


def _is_within(shape: TensorShape, wider: TensorShape) -> bool:
    """Whether every tensor of the one shape is of the other, too."""
    a, b = shape.as_tuple(), wider.as_tuple()
    if b is None:
        return True
    return a is not None and len(a) == len(b) and all(y is None or x == y for x, y in zip(a, b, strict=True))
