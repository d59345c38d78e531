"""Lower a function's body to a computation; variables, stacks and arrays are passed by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xlanb.graph.graph import Graph
from xlanb.hlo import HloComputation, HloInstruction
from xlanb.hlo.builder import HloBuilder
from xlanb.shape import TupleShape
from xlanb.tf2xla.compiler import lower_body
from xlanb.tf2xla.context import NotConstantError, OpContext, PendingList, Store, Value, VariableState

Array = np.ndarray[Any, Any]


def body_of(ctx: OpContext, name: str) -> Graph:
    """The body of a function of the library."""
    function = ctx.op.graph.functions.get(name)
    if function is None:
        ctx.fail(f"the library has no function {name!r}")
    return function.body


def held(ctx: OpContext, value: Value, b: HloBuilder | None = None) -> HloInstruction:
    """The HLO of an input; of a variable, its value now."""
    if isinstance(value, Store | PendingList) and getattr(value, "value", None) is None:
        return (b or ctx.b).constant(np.zeros((), np.bool_))  # it is not read before its shape is known
    if isinstance(value, VariableState):
        return ctx.value_of(value)
    if value is None or isinstance(value, PendingList):
        ctx.fail("an input has no value")
    return value


def known_value(ctx: OpContext, value: Value) -> Array | None:
    """The value of an input that depends on no argument: it stays known inside."""
    if not isinstance(value, HloInstruction) or isinstance(value.shape, TupleShape):
        return None
    try:
        return ctx.constants.of(value)
    except NotConstantError:
        return None


class Body:
    """A function's body, lowered to a computation of a tuple; `known` inputs are constants inside.

    `inside` are the inner values of the inputs. An input that occurs twice is one value inside;
    arrays keep the arrays of their gradients.
    """

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
        self.parameter = self.b.parameter(0, operand.shape)
        self.inside: list[Value] = []
        variables: dict[int, VariableState] = {}
        for index, (value, constant) in enumerate(zip(given, known, strict=True)):
            element = self.b.get_tuple_element(self.parameter, index)
            if isinstance(value, VariableState):
                if id(value) not in variables:
                    variables[id(value)] = _entered(value, element)
                self.inside.append(variables[id(value)])
            elif isinstance(value, PendingList):
                self.inside.append(value)
            else:
                self.inside.append(element if constant is None else self.b.constant(constant))
        for outside in given:
            if isinstance(outside, Store):
                inner = variables[id(outside)]
                gradients = {s: variables[id(g)] for s, g in outside.gradients.items() if id(g) in variables}
                if isinstance(inner, Store):
                    inner.gradients = {s: g for s, g in gradients.items() if isinstance(g, Store)}
        self.raw_results = lower_body(body, self.inside, self.b, ctx.constants)

    @property
    def results(self) -> list[HloInstruction]:
        """The function's results."""
        return [self.hlo(v) for v in self.raw_results]

    @property
    def writes(self) -> list[bool]:
        """Which inputs are variables that the function writes."""
        return [isinstance(v, VariableState) and v.is_written for v in self.inside]

    def after(self, index: int) -> HloInstruction:
        """The value of an input variable at the end."""
        return self.hlo(self.inside[index])

    def close(self, results: Sequence[HloInstruction]) -> HloComputation:
        """Build the computation that returns these results as a tuple."""
        return self.b.build_computation(self.b.tuple(list(results)))

    def hlo(self, value: Value) -> HloInstruction:
        """Return the HLO of an inner value. Raises GraphError if there is none."""
        if isinstance(value, Store) and value.value is None:
            return self.b.constant(np.zeros((), np.bool_))
        found = value.value if isinstance(value, VariableState) else value
        if found is None or isinstance(found, PendingList):
            self.ctx.fail("a function returns no value where one is expected")
        return found


def _entered(value: VariableState, element: HloInstruction) -> VariableState:
    if isinstance(value, Store):
        formed = None if value.value is None else element
        return replace(value, value=formed, is_written=False, pushes=0, gradients={})
    return VariableState(value.name, value.argument, element)


def zeros_like(b: HloBuilder, x: HloInstruction) -> HloInstruction:
    """Zeros of the shape of a value from another computation."""
    if isinstance(x.shape, TupleShape):
        parts = [
            b.broadcast(b.constant(np.zeros((), s.as_array().dtype)), s.as_array().dimensions) for s in x.shape.shapes
        ]
        return b.tuple(parts)
    return b.broadcast(b.constant(np.zeros((), x.array_shape.dtype)), x.array_shape.dimensions)
