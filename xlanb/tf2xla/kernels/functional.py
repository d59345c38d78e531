"""Calls, branches and loops over functions of the graph's library.

Variables enter and leave a loop or branch by value; changed ones are assigned after it. Source:
tf2xla/kernels/{while_op,if_op,case_op,partitioned_call_op}.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.shape.shape import same
from xlanb.tf2xla.compiler import lower_body
from xlanb.tf2xla.const_analysis import unchanged_arguments
from xlanb.tf2xla.context import OpContext, Value, VariableState
from xlanb.tf2xla.kernels.bodies import Body, body_of, held, known_value, zeros_like
from xlanb.tf2xla.kernels.settling import settle_branches, settle_loop
from xlanb.tf2xla.registry import register


@register("PartitionedCall", "StatefulPartitionedCall")
def _call(ctx: OpContext) -> Sequence[Value]:
    """The function's body in place of the call."""
    return lower_body(body_of(ctx, ctx.attr("f").name), ctx.values, ctx.b, ctx.constants)


@register("If", "StatelessIf", "XlaIf")
def _if(ctx: OpContext) -> Sequence[Value]:
    condition = ctx.input(0)
    if condition.array_shape.element_type is not PrimitiveType.PRED:  # a number is true if it is not zero
        zero = ctx.b.constant(np.zeros((), condition.array_shape.dtype))
        condition = ctx.b.compare(condition, zero, "NE")
    if condition.array_shape.rank:
        ctx.fail(f"the condition must be a scalar, not {condition.shape}")
    names = [ctx.attr("then_branch").name, ctx.attr("else_branch").name]
    return _branches(ctx, condition, names, lambda value: 0 if value else 1)


@register("Case", "StatelessCase")
def _case(ctx: OpContext) -> Sequence[Value]:
    names = [f.name for f in ctx.attr("branches")]
    last = len(names) - 1
    return _branches(ctx, ctx.input(0), names, lambda value: value if 0 <= value <= last else last)


def _branches(
    ctx: OpContext, selector: HloInstruction, names: Sequence[str], choose: Callable[[int], int]
) -> Sequence[Value]:
    """Lower a conditional; if the selector is known, only the chosen branch, which may have other
    shapes.
    """
    value = ctx.known(selector)
    if value is not None:
        return lower_body(body_of(ctx, names[choose(int(value))]), ctx.values[1:], ctx.b, ctx.constants)
    known = [known_value(ctx, v) for v in ctx.values[1:]]
    settle_branches(ctx, [body_of(ctx, name) for name in names], known)
    given = ctx.values[1:]
    operand = ctx.b.tuple([held(ctx, v) for v in given])
    made = [Body(ctx, body_of(ctx, name), given, known, operand) for name in names]
    written = [i for i, v in enumerate(given) if isinstance(v, VariableState) and any(m.writes[i] for m in made)]
    results = _of_one_shape(made, _filled(made))
    computations = [m.close([*r, *(m.after(i) for i in written)]) for m, r in zip(made, results, strict=True)]
    whole = ctx.b.conditional(selector, computations, [operand] * len(names))
    count = len(results[0])
    for k, i in enumerate(written):
        ctx.assign_variable(i + 1, ctx.b.get_tuple_element(whole, count + k))
    return [ctx.b.get_tuple_element(whole, k) for k in range(count)]


def _filled(made: Sequence[Body]) -> list[list[HloInstruction]]:
    """Return the branches' results; replace missing ones by zeros like another branch's."""
    columns = list(zip(*(m.raw_results for m in made), strict=True))
    like = [next((v for v in column if v is not None), None) for column in columns]
    return [
        [
            m.hlo(zeros_like(m.b, w) if v is None and isinstance(w, HloInstruction) else v)
            for v, w in zip(m.raw_results, like, strict=True)
        ]
        for m in made
    ]


def _of_one_shape(made: Sequence[Body], results: Sequence[Sequence[HloInstruction]]) -> list[list[HloInstruction]]:
    """Give the branches' results one shape: a dimension that is dynamic in one is dynamic in
    all.
    """
    out = [list(row) for row in results]
    for k, column in enumerate(zip(*results, strict=True)):
        shapes = [v.shape for v in column]
        arrays = [s for s in shapes if isinstance(s, ArrayShape)]
        if not any(s.is_dynamic for s in arrays) or len({s.rank for s in arrays}) != 1:
            continue
        for row, (m, value) in enumerate(zip(made, column, strict=True)):
            out[row][k] = _with_bounds(m, value, arrays)
    return out


def _with_bounds(m: Body, x: HloInstruction, shapes: Sequence[ArrayShape]) -> HloInstruction:
    b = m.b
    for d in range(shapes[0].rank):
        if not any(s.is_dynamic_dimension(d) for s in shapes):
            continue
        bound, own = max(s.dimensions[d] for s in shapes), x.array_shape.dimensions[d]
        is_dynamic = x.array_shape.is_dynamic_dimension(d)
        if is_dynamic and own == bound:
            continue
        size = b.get_dimension_size(x, d) if is_dynamic else b.constant(np.int32(own))
        if own < bound:
            if is_dynamic:
                x = b.set_dimension_size(x, b.constant(np.int32(own)), d)
            edge = [(0, bound - own if k == d else 0, 0) for k in range(shapes[0].rank)]
            x = b.pad(x, b.constant(np.zeros((), x.array_shape.dtype)), edge)
        # not the builder's: a constant that is the bound would make the dimension static
        x = b.instruction(HloOpcode.SET_DIMENSION_SIZE, (x, size), dimensions=(d,))
    return x


@register("FakeParam")
def _fake_param(ctx: OpContext) -> Value:
    """Return None for a branch's unused result; zeros if the shape is known."""
    dims = ctx.attr("shape").as_tuple()
    if dims is None or None in dims:
        return None
    zero = ctx.b.constant(np.zeros((), ctx.element_type("dtype").dtype))
    return ctx.b.broadcast(zero, [int(d) for d in dims if d is not None])


@register("While", "StatelessWhile", "XlaWhile")
def _while(ctx: OpContext) -> Sequence[Value]:
    """Lower a While; loop variables that the body returns unchanged keep their known values
    inside.
    """
    body = body_of(ctx, ctx.attr("body").name)
    unchanged = unchanged_arguments(body)
    known = [known_value(ctx, v) if i in unchanged else None for i, v in enumerate(ctx.values)]
    settle_loop(ctx, body, body_of(ctx, ctx.attr("cond").name), known)
    state = ctx.b.tuple([held(ctx, v) for v in ctx.values])
    loop = Body(ctx, body, ctx.values, known, state)
    results = loop.results
    # known values are loop invariant
    after = [
        loop.after(i) if isinstance(v, VariableState) or i >= len(results) else results[i]
        for i, v in enumerate(ctx.values)
    ]
    for index, (before, result) in enumerate(zip(state.operands, after, strict=True)):
        if not same(before.shape, result.shape):
            ctx.fail(f"loop variable {index} is {before.shape} before the loop's body and {result.shape} after it")
    done = loop.close(after)
    condition = Body(ctx, body_of(ctx, ctx.attr("cond").name), ctx.values, known, state)
    holds = condition.results[0]
    if holds.array_shape.element_type is not PrimitiveType.PRED:
        holds = condition.b.compare(holds, condition.b.constant(np.zeros((), holds.array_shape.dtype)), "NE")
    whole = ctx.b.while_(condition.b.build_computation(holds), done, state)
    out: list[Value] = []
    for index, value in enumerate(ctx.values):
        element = ctx.b.get_tuple_element(whole, index)
        if isinstance(value, VariableState) and loop.writes[index]:
            ctx.assign_variable(index, element)
        if isinstance(value, VariableState):
            out.append(value)
        else:
            out.append(element if known[index] is None else state.operands[index])
    return out
