"""Calls, branches and loops over functions of the graph's library (tf2xla/kernels/{while_op,if_op,case_op,partitioned_call_op}.cc).

Variables go into a loop or a branch by value and come out by value; what is written inside is assigned behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.hlo import HloComputation, HloInstruction
from xlanb.hlo.builder import HloBuilder
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import same
from xlanb.tf2xla.compiler import lower_body
from xlanb.tf2xla.context import NotConstantError, OpContext, Value, Variable
from xlanb.tf2xla.registry import register


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
    made = [_Function(ctx, name, given, operand) for name in names]
    written = [i for i, v in enumerate(given) if isinstance(v, Variable) and any(m.writes[i] for m in made)]
    computations = [m.close([*m.results, *(m.after(i) for i in written)]) for m in made]
    whole = ctx.b.conditional(selector, [operand] * len(names), computations)
    count = len(made[0].results)
    for k, i in enumerate(written):
        ctx.assign_variable(i + 1, ctx.b.get_tuple_element(whole, count + k))
    return [ctx.b.get_tuple_element(whole, k) for k in range(count)]


class _Function:
    """A function lowered into a computation of its own that takes a tuple."""

    def __init__(self, ctx: OpContext, name: str, given: Sequence[Value], operand: HloInstruction) -> None:
        self.ctx = ctx
        self.b: HloBuilder = ctx.b.sub_computation(name)
        parameter = self.b.parameter(0, operand.shape)
        self.inside: list[Value] = []
        for index, value in enumerate(given):
            element = self.b.get_tuple_element(parameter, index)
            known = _known(ctx, value)
            if isinstance(value, Variable):
                self.inside.append(Variable(value.name, value.argument, element))
            else:
                self.inside.append(element if known is None else self.b.constant(known))
        self.results = [self._hlo(v) for v in lower_body(_body(ctx, name), self.inside, self.b, ctx.constants)]

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
        if held is None:
            self.ctx.fail("a function gives no value where one is needed")
        return held


def _known(ctx: OpContext, value: Value) -> np.ndarray | None:  # type: ignore[type-arg]
    """The value of an input that depends on no argument: it stays known inside."""
    if not isinstance(value, HloInstruction):
        return None
    try:
        return ctx.constants.of(value)
    except NotConstantError:
        return None


@register("While", "StatelessWhile")
def _while(ctx: OpContext) -> Sequence[Value]:
    """Loop variables that the body hands on unchanged are known inside as they are outside, constants among them."""
    body = _body(ctx, ctx.attr("body").name)
    unchanged = _unchanged(body)
    state = ctx.b.tuple([_held(ctx, v, i) for i, v in enumerate(ctx.values)])
    loop = _LoopFunction(ctx, body, unchanged, state)
    results = [loop.after(i) if isinstance(v, Variable) else r for i, (v, r) in enumerate(zip(ctx.values, loop.results, strict=True))]
    for index, (before, after) in enumerate(zip(state.operands, results, strict=True)):
        if not same(before.shape, after.shape):
            ctx.fail(f"loop variable {index} is {before.shape} before the loop's body and {after.shape} after it")
    done = loop.b.build_computation(loop.b.tuple(results))
    condition = _LoopFunction(ctx, _body(ctx, ctx.attr("cond").name), unchanged, state)
    holds = condition.results[0]
    if holds.array_shape.element_type is not PrimitiveType.PRED:
        holds = condition.b.compare(holds, condition.b.constant(np.zeros((), holds.array_shape.dtype)), "NE")
    whole = ctx.b.while_(condition.b.build_computation(holds), done, state)
    out: list[Value] = []
    for index, value in enumerate(ctx.values):
        element = ctx.b.get_tuple_element(whole, index)
        if isinstance(value, Variable):
            if loop.writes[index]:
                ctx.assign_variable(index, element)
            out.append(value)
        else:
            known = _known(ctx, value) if index in unchanged else None
            out.append(element if known is None else state.operands[index])
    return out


class _LoopFunction(_Function):
    """A loop's body or condition: a constant stays one inside only where the body hands it on."""

    def __init__(self, ctx: OpContext, body: Graph, unchanged: frozenset[int], state: HloInstruction) -> None:
        self.ctx = ctx
        self.b = ctx.b.sub_computation(body.name)
        parameter = self.b.parameter(0, state.shape)
        self.inside = []
        for index, value in enumerate(ctx.values):
            element = self.b.get_tuple_element(parameter, index)
            known = _known(ctx, value) if index in unchanged else None
            if isinstance(value, Variable):
                self.inside.append(Variable(value.name, value.argument, element))
            else:
                self.inside.append(element if known is None else self.b.constant(known))
        self.results = [self._hlo(v) for v in lower_body(body, self.inside, self.b, ctx.constants)]


def _unchanged(body: Graph) -> frozenset[int]:
    """Numbers of the arguments that a loop's body gives back as they came, through identities perhaps."""
    found = set()
    for op in body:
        if op.type != "_Retval":
            continue
        source: Operation = op.inputs[0].op
        while source.type == "Identity":
            source = source.inputs[0].op
        if source.type == "_Arg" and source.attrs["index"] == op.attrs["index"]:
            found.add(int(op.attrs["index"]))
    return frozenset(found)


