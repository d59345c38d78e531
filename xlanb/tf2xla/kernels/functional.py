"""Calls, branches and loops over functions of the graph's library (tf2xla/kernels/{while_op,if_op,case_op,partitioned_call_op}.cc).

Variables go into a loop or a branch by value and come out by value; what is written inside is assigned behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlanb.graph.graph import Graph
from xlanb.hlo import HloComputation, HloInstruction, HloModule
from xlanb.hlo.builder import HloBuilder
from xlanb.shape import PrimitiveType, TupleShape
from xlanb.shape.shape import same
from xlanb.tf2xla.compiler import lower_body
from xlanb.tf2xla.const_analysis import unchanged_arguments
from xlanb.tf2xla.context import NotConstantError, OpContext, PendingList, Value, Variable
from xlanb.tf2xla.kernels.tensor_lists import zeros_list
from xlanb.tf2xla.registry import register

Array = np.ndarray[Any, Any]


def _body(ctx: OpContext, name: str) -> Graph:
    function = ctx.op.graph.functions.get(name)
    if function is None:
        ctx.fail(f"the library has no function {name!r}")
    return function.body


def _held(ctx: OpContext, value: Value, index: int) -> HloInstruction:
    """The HLO of an input; of a variable, its value now."""
    if isinstance(value, Variable):
        return ctx.read_variable(index)
    if value is None:
        ctx.fail(f"input {index} has no value")
    if isinstance(value, PendingList):
        return ctx.b.constant(np.zeros((), np.bool_))  # nobody reads it before the list has a form
    return value


@register("PartitionedCall", "StatefulPartitionedCall")
def _call(ctx: OpContext) -> Sequence[Value]:
    """The function's body in place of the call."""
    return lower_body(_body(ctx, ctx.attr("f").name), ctx.values, ctx.b, ctx.constants)


@register("If", "StatelessIf")
def _if(ctx: OpContext) -> Sequence[Value]:
    condition = ctx.input(0)
    if condition.array_shape.element_type is not PrimitiveType.PRED:  # a number is true where it is not zero
        zero = ctx.b.constant(np.zeros((), condition.array_shape.dtype))
        condition = ctx.b.compare(condition, zero, "NE")
    if condition.array_shape.rank:
        ctx.fail(f"the condition must be a scalar, not {condition.shape}")
    return _branches(ctx, condition, [ctx.attr("then_branch").name, ctx.attr("else_branch").name])


@register("Case", "StatelessCase")
def _case(ctx: OpContext) -> Sequence[Value]:
    return _branches(ctx, ctx.input(0), [f.name for f in ctx.attr("branches")])


def _branches(ctx: OpContext, selector: HloInstruction, names: Sequence[str]) -> Sequence[Value]:
    given = ctx.values[1:]
    operand = ctx.b.tuple([_held(ctx, v, i + 1) for i, v in enumerate(given)])
    known = [_known(ctx, v) for v in given]
    made = [_Function(ctx, _body(ctx, name), given, known, operand) for name in names]
    written = [i for i, v in enumerate(given) if isinstance(v, Variable) and any(m.writes[i] for m in made)]
    computations = [m.close([*m.results, *(m.after(i) for i in written)]) for m in made]
    whole = ctx.b.conditional(selector, computations, [operand] * len(names))
    count = len(made[0].results)
    for k, i in enumerate(written):
        ctx.assign_variable(i + 1, ctx.b.get_tuple_element(whole, count + k))
    return [ctx.b.get_tuple_element(whole, k) for k in range(count)]


class _Function:
    """A function's body lowered into a computation of its own that takes a tuple; inputs that are `known` are constants inside."""

    def __init__(
        self,
        ctx: OpContext,
        body: Graph,
        given: Sequence[Value],
        known: Sequence[Array | None],
        operand: HloInstruction,
    ) -> None:
        self.ctx = ctx
        self.b: HloBuilder = ctx.b.sub_computation(body.name)
        parameter = self.b.parameter(0, operand.shape)
        self.inside: list[Value] = []
        for index, (value, constant) in enumerate(zip(given, known, strict=True)):
            element = self.b.get_tuple_element(parameter, index)
            if isinstance(value, Variable):
                self.inside.append(Variable(value.name, value.argument, element))
            elif isinstance(value, PendingList):
                self.inside.append(value)
            else:
                self.inside.append(element if constant is None else self.b.constant(constant))
        self.raw_results = lower_body(body, self.inside, self.b, ctx.constants)

    @property
    def results(self) -> list[HloInstruction]:
        """What the function gives."""
        return [self._hlo(v) for v in self.raw_results]

    @property
    def writes(self) -> list[bool]:
        """Which inputs are variables that the function writes."""
        return [isinstance(v, Variable) and v.is_written for v in self.inside]

    def after(self, index: int) -> HloInstruction:
        """The value of an input variable at the end."""
        return self._hlo(self.inside[index])

    def close(self, results: Sequence[HloInstruction]) -> HloComputation:
        """The computation that gives these results as a tuple."""
        return self.b.build_computation(self.b.tuple(list(results)))

    def _hlo(self, value: Value) -> HloInstruction:
        held = value.value if isinstance(value, Variable) else value
        if held is None or isinstance(held, PendingList):
            self.ctx.fail("a function gives no value where one is needed")
        return held


def _known(ctx: OpContext, value: Value) -> Array | None:
    """The value of an input that depends on no argument: it stays known inside."""
    if not isinstance(value, HloInstruction) or isinstance(value.shape, TupleShape):
        return None
    try:
        return ctx.constants.of(value)
    except NotConstantError:
        return None


def _settle_lists(ctx: OpContext, body: Graph, known: Sequence[Array | None]) -> None:
    """Lists without a form get that which the body gives them: it is lowered once to see."""
    if not any(isinstance(v, PendingList) for v in ctx.values):
        return
    state = ctx.b.tuple([_held(ctx, v, i) for i, v in enumerate(ctx.values)])
    trial = HloModule("trial")
    seen = _Function(ctx.within(HloBuilder("trial", trial)), body, ctx.values, known, state)
    for i, (value, after) in enumerate(zip(ctx.values, seen.raw_results, strict=True)):
        if isinstance(value, PendingList) and isinstance(after, HloInstruction) and isinstance(after.shape, TupleShape):
            ctx.values[i] = zeros_list(ctx, value, after.shape.shapes[0].as_array().dimensions[1:])


@register("While", "StatelessWhile")
def _while(ctx: OpContext) -> Sequence[Value]:
    """Loop variables that the body hands on unchanged are known inside as they are outside, constants among them."""
    body = _body(ctx, ctx.attr("body").name)
    unchanged = unchanged_arguments(body)
    known = [_known(ctx, v) if i in unchanged else None for i, v in enumerate(ctx.values)]
    _settle_lists(ctx, body, known)
    state = ctx.b.tuple([_held(ctx, v, i) for i, v in enumerate(ctx.values)])
    loop = _Function(ctx, body, ctx.values, known, state)
    # what was known goes round as it came in
    after = [
        loop.after(i) if isinstance(v, Variable) else r
        for i, (v, r) in enumerate(zip(ctx.values, loop.results, strict=True))
    ]
    for index, (before, result) in enumerate(zip(state.operands, after, strict=True)):
        if not same(before.shape, result.shape):
            ctx.fail(f"loop variable {index} is {before.shape} before the loop's body and {result.shape} after it")
    done = loop.close(after)
    condition = _Function(ctx, _body(ctx, ctx.attr("cond").name), ctx.values, known, state)
    holds = condition.results[0]
    if holds.array_shape.element_type is not PrimitiveType.PRED:
        holds = condition.b.compare(holds, condition.b.constant(np.zeros((), holds.array_shape.dtype)), "NE")
    whole = ctx.b.while_(condition.b.build_computation(holds), done, state)
    out: list[Value] = []
    for index, value in enumerate(ctx.values):
        element = ctx.b.get_tuple_element(whole, index)
        if isinstance(value, Variable) and loop.writes[index]:
            ctx.assign_variable(index, element)
        if isinstance(value, Variable):
            out.append(value)
        else:
            out.append(element if known[index] is None else state.operands[index])
    return out
