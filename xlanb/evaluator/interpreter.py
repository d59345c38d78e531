"""The reference interpreter: walks a computation in post order and applies each rule."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from xlanb.boundary import array_of, boundary, internal_error, is_foreign
from xlanb.errors import (
    EvaluationError,
    InstructionError,
    InstructionMemoryError,
    InternalError,
    UnimplementedError,
    UnimplementedInstructionError,
    XlanbError,
)
from xlanb.evaluator import interruptible
from xlanb.evaluator.dynamic import meeting
from xlanb.evaluator.feeds import Feeds, RaisedError
from xlanb.evaluator.host import acts
from xlanb.evaluator.mixed_precision import unmixed
from xlanb.evaluator.registry import LIFTED, RULES, EvaluationRule
from xlanb.evaluator.values import TOKEN, Array, Value, mismatch, narrow
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.devices import is_per_device
from xlanb.hlo.diagnostic import with_origin
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.text.parser import parse
from xlanb.hooks import Hook
from xlanb.lazy_dataclass import dataclass
from xlanb.memory import ADDRESSABLE, out_of_memory, size_text
from xlanb.shape import MOST_DIMENSIONS, ArrayShape, BufferShape, Shape, TupleShape
from xlanb.wording import counted

MAX_STEPS = 10_000_000
MAX_BYTES = 4 << 30
MAX_DEPTH = 64

# Errors that a rule may raise for values that do not match.
_FAILURES = (XlanbError, np.linalg.LinAlgError)
# Further errors that it may raise if the module breaks a rule of HLO, which may not have been
# verified. In a valid module they are bugs of the interpreter.
_BUGS = (ArithmeticError, LookupError, ValueError, TypeError, AttributeError)
# Their values are operands, or were checked inside a called computation.
_TRANSPARENT = frozenset(
    {
        HloOpcode.TUPLE,
        HloOpcode.GET_TUPLE_ELEMENT,
        HloOpcode.PARAMETER,
        HloOpcode.CONSTANT,
        HloOpcode.WHILE,
    }
)


@dataclass(slots=True)
class _PlanStep:
    """One instruction of a plan.

    The slots of its operands and its value, and the slots that are dead after it.
    """

    instruction: HloInstruction
    rule: EvaluationRule
    operands: tuple[int, ...]
    slot: int
    dead: tuple[int, ...]
    is_checked: bool
    is_long: bool
    # the expected value, if the shape is a static array's
    dtype: np.dtype[Any] | None
    dimensions: tuple[int, ...]


@dataclass(slots=True)
class _ComputationPlan:
    """How to evaluate a computation.

    It has a slot for every instruction that the root depends on or that has an effect on the host.
    Constants are filled in.
    """

    initial: list[Value]
    root: int
    parameters: list[tuple[int, int]]
    steps: list[_PlanStep]


class Evaluator:
    """Evaluates computations of one module, which must not change in the meantime.

    It holds the hidden state of rng and rng-get-and-update-state, so a new evaluator gives the same
    numbers again.

    Args:
        max_steps: the maximum number of evaluated instructions; those of loop bodies count each
            time.
        max_bytes: the maximum size of a single value.
        max_seconds: how long from now on further computations are entered (a loop's body in each
            iteration).
        seed: for the opcode rng; without one, instructions that read hidden state raise.
        feeds: the host's side of infeed and outfeed. Without it an infeed raises, and values of an
            outfeed are dropped.
    """

    def __init__(
        self,
        *,
        max_steps: int = MAX_STEPS,
        max_bytes: int = MAX_BYTES,
        max_seconds: float = math.inf,
        seed: int | None = 42,
        feeds: Feeds | None = None,
    ) -> None:
        self.seed = seed
        self.feeds = feeds
        self.rng_state = 7  # the initial value of XLA:CPU's 128-bit counter
        self._steps_left = max_steps
        self._max_bytes = max_bytes
        self._deadline = time.monotonic() + max_seconds
        self._is_abandoned = False
        self._parameters: list[tuple[Value, ...]] = []
        self._plans: dict[tuple[HloComputation, bool], _ComputationPlan] = {}
        self._liftable: dict[HloComputation, bool] = {}

    # -- entry points ------------------------------------------------------------------------------

    def run(self, computation: HloComputation, arguments: Sequence[Any]) -> Value:
        """The result of a computation for external arguments, which are checked.

        Arrays of the result are new.

        Raises:
            EvaluationError: the arguments do not match, or an instruction cannot be evaluated.
            Exception: raised by a Python function that the computation calls.
        """
        parameters = computation.parameters
        if len(arguments) != len(parameters):
            raise EvaluationError(
                f"computation {computation.name} takes {counted(len(parameters), 'argument')}, not {len(arguments)}"
            )
        if [p.parameter_number for p in parameters] != list(range(len(parameters))):
            raise EvaluationError(
                f"the parameters of computation {computation.name} are not numbered consecutively from 0"
            )
        values = tuple(_argument(a, p) for a, p in zip(arguments, parameters, strict=True))
        try:
            with boundary("evaluate"), np.errstate(all="ignore"):
                return _result(computation.root, self.call(computation, values))
        except RaisedError as raised:
            error = raised.error
        raise error

    def call(self, computation: HloComputation, arguments: tuple[Value, ...]) -> Value:
        """The result of a called computation."""
        return self._walk(computation, arguments, lifted=False)

    def call_lifted(self, computation: HloComputation, arguments: tuple[Value, ...]) -> Value:
        """Evaluate a scalar computation for many elements at once.

        Each argument and each result holds one element per evaluation. Arguments broadcast against
        each other. A result may be smaller than the broadcast shape, if it does not depend on all
        arguments.
        """
        return self._walk(computation, arguments, lifted=True)

    def map(self, computation: HloComputation, arguments: Sequence[Array]) -> Value:
        """Apply a scalar computation to each element of equally shaped arrays.

        A tuple of results gives a tuple of arrays. Floats of another type than a parameter's (mixed
        precision) are converted to it.
        """
        wanted = [p.array_shape.dtype for p in computation.parameters]
        arguments = [narrow(a, t) for a, t in zip(arguments, wanted, strict=True)]
        shape = np.broadcast_shapes(*(a.shape for a in arguments))
        if self.is_liftable(computation):
            return _broadcast(self.call_lifted(computation, tuple(arguments)), shape)
        return self._map_one_by_one(computation, [np.broadcast_to(a, shape) for a in arguments], shape)

    def is_liftable(self, computation: HloComputation) -> bool:
        """Whether the computation uses only scalars and every instruction has a lifted rule."""
        found = self._liftable.get(computation)
        if found is None:
            self._liftable[computation] = False  # for recursive computations
            found = self._liftable[computation] = all(
                i.opcode in LIFTED and _is_scalar(i.shape) and all(map(self.is_liftable, i.called_computations))
                for i in _reachable(computation)
            )
        return found

    def apply(self, i: HloInstruction, operands: tuple[Value, ...]) -> Value:
        """Apply one instruction to operand values."""
        return self._apply(self._step(i, RULES, (), 0, ()), operands, lifted=False)

    def checked(self, i: HloInstruction, value: Value) -> Value:
        """Use a value computed elsewhere as an instruction's, in the form that `apply` returns.

        Raises:
            EvaluationError: it does not have the instruction's shape.
        """
        step = self._step(i, RULES, (), 0, ())
        return self._apply(replace(step, rule=lambda *_: value, is_long=False), (), lifted=False)

    @property
    def arguments(self) -> tuple[Value, ...]:
        """The arguments of the computation that is being evaluated."""
        return self._parameters[-1]

    def abandon(self) -> None:
        """Make work of this evaluator in other threads enter no further computation."""
        self._is_abandoned = True

    # -- the walk ----------------------------------------------------------------------------------

    def _walk(self, computation: HloComputation, arguments: tuple[Value, ...], *, lifted: bool) -> Value:
        if len(self._parameters) >= MAX_DEPTH:
            raise EvaluationError(f"computations are nested more than {MAX_DEPTH} calls deep, at {computation.name}")
        if self._is_abandoned:
            raise EvaluationError(f"the evaluation was interrupted before {computation.name}")
        if time.monotonic() > self._deadline:
            raise EvaluationError(f"the time limit was reached before {computation.name} was evaluated")
        plan = self._plan(computation, lifted=lifted)
        values = plan.initial.copy()
        for slot, number in plan.parameters:
            values[slot] = arguments[number]
        self._steps_left -= len(plan.steps)
        self._parameters.append(arguments)
        try:
            for step in plan.steps:
                values[step.slot] = self._apply(step, [values[o] for o in step.operands], lifted=lifted)
                for d in step.dead:
                    values[d] = None
        finally:
            self._parameters.pop()
        return values[plan.root]

    def _apply(self, step: _PlanStep, operands: Sequence[Value], *, lifted: bool) -> Value:
        i = step.instruction
        try:
            if self._steps_left < 0:
                raise EvaluationError("too many instructions evaluated; is there an infinite loop?")
            if step.is_long:
                value = interruptible.run(step.rule, self, i, *operands, abandon=self.abandon)
            else:
                value = step.rule(self, i, *operands)
        except (InstructionError, InternalError):
            raise
        except MemoryError as error:
            raise _no_memory(i) from error
        except _FAILURES as error:
            text = str(error) if isinstance(error, XlanbError) else f"{type(error).__name__}: {error}"
            raise _located(
                i,
                text,
                kind=UnimplementedInstructionError if isinstance(error, UnimplementedError) else InstructionError,
            ) from error
        except _BUGS as error:
            if not is_foreign(error):
                raise
            raise _unexpected(i, error) from error
        if step.is_checked:
            if value is not TOKEN and not isinstance(value, (np.ndarray, tuple)):
                value = np.asarray(value)
            if (
                isinstance(value, np.ndarray)
                and value.dtype == step.dtype
                and (lifted or value.shape == step.dimensions)
            ):
                return value
            value = _rounded(value, i)
            problem = mismatch(value, i.shape, lifted=lifted)
            if problem:
                raise _located(i, problem)
        return value

    def _plan(self, computation: HloComputation, *, lifted: bool) -> _ComputationPlan:
        found = self._plans.get((computation, lifted))
        if found is None:
            found = self._plans[computation, lifted] = self._new_plan(computation, LIFTED if lifted else RULES)
        return found

    def _new_plan(self, computation: HloComputation, rules: dict[HloOpcode, EvaluationRule]) -> _ComputationPlan:
        order = _needed(computation)
        slots = {i: n for n, i in enumerate(order)}
        last_use = {o: n for n, i in enumerate(order) for o in i.operands}
        last_use.pop(computation.root, None)
        dead: list[list[int]] = [[] for _ in order]
        for o, n in last_use.items():
            dead[n].append(slots[o])
        plan = _ComputationPlan([None] * len(order), slots[computation.root], [], [])
        for n, i in enumerate(order):
            if i.opcode is HloOpcode.PARAMETER:
                plan.parameters.append((n, i.parameter_number))
            elif i.opcode is HloOpcode.CONSTANT:
                plan.initial[n] = i.literal.numpy()
            else:
                plan.steps.append(self._step(i, rules, tuple(slots[o] for o in i.operands), n, tuple(dead[n])))
        return plan

    def _step(
        self,
        i: HloInstruction,
        rules: dict[HloOpcode, EvaluationRule],
        operands: tuple[int, ...],
        slot: int,
        dead: tuple[int, ...],
    ) -> _PlanStep:
        is_view = i.opcode in _TRANSPARENT or i.opcode is HloOpcode.BROADCAST
        size, limit = i.shape.byte_size, ADDRESSABLE if is_view else self._max_bytes
        if size > limit:
            raise _located(i, f"the value would take {size_text(size)}, more than the limit of {size_text(limit)}")
        if isinstance(i.shape, ArrayShape) and i.shape.rank > MOST_DIMENSIONS:
            raise _located(i, f"an array of {i.shape.rank} dimensions: at most {MOST_DIMENSIONS} are supported")
        is_static = isinstance(i.shape, ArrayShape) and i.shape.is_array and not i.shape.is_dynamic
        dtype, dimensions = (i.array_shape.dtype, i.array_shape.dimensions) if is_static else (None, ())
        meaning = _nothing if i.opcode.is_elementwise and 0 in dimensions else rules.get(i.opcode, _missing)
        return _PlanStep(
            i,
            meeting(i, unmixed(i, meaning)),
            operands,
            slot,
            dead,
            i.opcode not in _TRANSPARENT,
            interruptible.is_long(i),
            dtype,
            dimensions,
        )

    def _map_one_by_one(self, computation: HloComputation, arguments: Sequence[Array], shape: tuple[int, ...]) -> Value:
        """Map a computation that uses arrays inside, one element at a time.

        This is the only place that loops over elements.
        """
        results = [
            self.call(computation, tuple(np.asarray(a[index]) for a in arguments)) for index in np.ndindex(shape)
        ]
        root = computation.root.shape
        if isinstance(root, TupleShape):
            return tuple(_stack([r[k] for r in results], s, shape) for k, s in enumerate(root.shapes))
        return _stack(results, root, shape)


def _nothing(ev: Evaluator, i: HloInstruction, /, *operands: Any) -> Value:
    """The value of an elementwise instruction without elements, of any type.

    Compiled code does not compute any either.
    """
    return np.zeros(i.array_shape.dimensions, i.array_shape.dtype)


def _missing(ev: Evaluator, i: HloInstruction, /, *operands: Any) -> Value:
    raise EvaluationError(f"{i.opcode} cannot be evaluated on a single device without a host")


def _reachable(computation: HloComputation) -> list[HloInstruction]:
    """The instructions that the root depends on, operands before users; others don't matter."""
    return _ordered([computation.root])


def _needed(computation: HloComputation) -> list[HloInstruction]:
    """The instructions that the root depends on, and those with an effect on the host."""
    acting = [i for i in computation if i.has_side_effect and i is not computation.root and acts(i)]
    return _ordered([*acting, computation.root])


def _ordered(wanted: Sequence[HloInstruction]) -> list[HloInstruction]:
    """Instructions and their dependencies, operands before users, else in the order of `wanted`."""
    order: list[HloInstruction] = []
    first = set(wanted)
    done: set[HloInstruction] = set()
    opened: set[HloInstruction] = set()
    stack = [*reversed(wanted)]
    while stack:
        top = stack[-1]
        if top in done:
            stack.pop()
        elif top in opened:
            stack.pop()
            done.add(top)
            order.append(top)
        else:
            opened.add(top)
            before = [p for p in top.control_predecessors if p in first] if top in first else []
            pending = [o for o in reversed((*before, *top.operands)) if o not in done]
            if any(o in opened for o in pending):
                raise EvaluationError(f"{top.name} depends on itself")
            stack.extend(pending)
    return order


def _is_scalar(shape: Shape) -> bool:
    if isinstance(shape, TupleShape):
        return all(map(_is_scalar, shape.shapes))
    return isinstance(shape, ArrayShape) and not shape.dimensions


def _stack(results: list[Value], shape: Shape, outer: tuple[int, ...]) -> Array:
    array = shape.as_array()
    return np.array(results, dtype=array.dtype).reshape(outer + array.dimensions)


def _broadcast(value: Value, shape: tuple[int, ...]) -> Value:
    if isinstance(value, tuple):
        return tuple(_broadcast(v, shape) for v in value)
    return np.broadcast_to(value, shape)


def _result(i: HloInstruction, value: Value) -> Value:
    """The value of an instruction for callers: new arrays."""
    try:
        return _fresh(value)
    except MemoryError as error:
        raise _no_memory(i) from error


def _fresh(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_fresh, value))
    return value if value is TOKEN else np.array(value, order="C")


def _argument(argument: Any, parameter: HloInstruction) -> Value:
    label = f"argument {parameter.parameter_number} ({parameter.name})"
    value = _converted(argument, parameter.shape, label)
    problem = mismatch(value, parameter.shape)
    if problem:
        raise EvaluationError(f"{label}: {problem}")
    return value


def _converted(argument: Any, shape: Shape, label: str) -> Value:
    """A caller's argument as a value; Python numbers take the parameter's element type."""
    if isinstance(shape, TupleShape):
        if isinstance(argument, (tuple, list)) and len(argument) == len(shape.shapes):
            return tuple(_converted(a, s, label) for a, s in zip(argument, shape.shapes, strict=True))
        return argument
    if isinstance(shape, BufferShape):
        shape = shape.array
    if not shape.is_array or isinstance(argument, tuple):
        return argument
    value = array_of(
        argument,
        lambda error: EvaluationError(
            f"{label}: expected {shape.text(layout=False)}, not {type(argument).__name__}: {error}"
        ),
        None if hasattr(argument, "dtype") else shape.as_array().dtype,
    )
    return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))


def _rounded(value: Value, i: HloInstruction) -> Value:
    """A value converted to the instruction's float type, for mixed precision."""
    shape = i.shape
    if isinstance(shape, TupleShape) and isinstance(value, tuple) and len(value) == len(shape.shapes):
        return tuple(_narrowed(v, s, i) for v, s in zip(value, shape.shapes, strict=True))
    return _narrowed(value, shape, i)


def _narrowed(value: Value, shape: Shape, i: HloInstruction) -> Value:
    if not isinstance(shape, ArrayShape) or not isinstance(value, np.ndarray) or value.dtype == shape.dtype:
        return value
    given = [leaf for s in (*i.operands, *(c.root for c in i.called_computations)) for _, leaf in s.shape.leaves()]
    floats = {s.dtype for s in given if isinstance(s, ArrayShape) and s.element_type.is_floating}
    is_mixed = shape.element_type.is_floating and value.dtype in floats
    return narrow(value, shape.dtype) if is_mixed else value


def _unexpected(i: HloInstruction, error: Exception) -> XlanbError:
    """The error for a rule that fails unexpectedly.

    It is the module's fault if that breaks a rule of HLO, else an internal error.
    """
    try:
        i.parent.module.verify(executable=True)
    except XlanbError as fault:
        return _located(i, f"{type(error).__name__}: {error}\n{fault}")
    return internal_error(error, "evaluate")


def _located(i: HloInstruction, problem: str, kind: type[InstructionError] = InstructionError) -> InstructionError:
    return kind(f"{i.name}: {problem}\n{_shown(i)}")


def _no_memory(i: HloInstruction) -> InstructionMemoryError:
    """An error for an instruction that runs out of memory.

    Values that it uses may be larger than its result, so it may need more memory than the message
    says.
    """
    size = i.shape.byte_size
    lack = out_of_memory(f"{i.name}, whose result is {i.shape.text(layout=False)}", size)
    return InstructionMemoryError(f"{lack}\n{_shown(i)}", size)


def _shown(i: HloInstruction, width: int = 600) -> str:
    return f"  in {i.parent.name}: {with_origin(i, width)}"


on_devices: Final[Hook[[HloModule, Sequence[Any], Feeds | None], Value]] = Hook("evaluator.on_devices")
"""Evaluate a program for several devices on whole arrays; implemented by spmd.devices."""


def evaluate(target: HloModule | HloComputation | str, *arrays: Any, feeds: Feeds | None = None) -> Value:
    """The value of a module's entry computation, or of a computation, for the given arguments.

    A program of each of several devices (`xlanb.hlo.devices.is_per_device`) runs on that many.
    Parameters and results with a sharding are then whole arrays; those without are the same on
    every device.

    Layouts are ignored: arrays are logical values. A tuple parameter takes a tuple, a tuple result
    is a (nested) tuple; a token is None. An array with dynamic dimensions has its actual size. The
    semantics are those of XLA on the CPU (openxla.org/xla/operation_semantics).

    Args:
        target: a module, a computation or HLO text.
        *arrays: one per parameter, of its shape and element type (ml_dtypes for those that NumPy
            lacks).
        feeds: the host's side of infeed and outfeed.

    Raises:
        EvaluationError: the arguments do not match the parameters, or an instruction has no value;
            the message shows it.
        HloParseError: the text is not HLO.
    """
    if isinstance(target, str):
        target = parse(target)
    if isinstance(target, HloModule):
        return (
            on_devices(target, arrays, feeds)
            if is_per_device(target)
            else _alone(target.entry_computation, arrays, feeds)
        )
    return _alone(target, arrays, feeds)


def _alone(computation: HloComputation, arrays: Sequence[Any], feeds: Feeds | None) -> Value:
    return Evaluator(feeds=feeds).run(computation, arrays)


def evaluate_instruction(
    i: HloInstruction,
    operands: Sequence[Value],
    *,
    max_steps: int = MAX_STEPS,
    max_bytes: int = MAX_BYTES,
) -> Value:
    """The value of one instruction for given operand values, for constant folding.

    Args:
        i: the instruction; computations that it calls are evaluated too.
        operands: a value for each operand, as `evaluate` returns them.
        max_steps: the maximum number of evaluated instructions in called computations.
        max_bytes: the maximum size of a value.

    Raises:
        EvaluationError: the value does not depend on the operands alone, or a limit is exceeded.
    """
    if i.opcode is HloOpcode.PARAMETER:
        raise _located(i, f"{i.opcode} has a value that does not depend on its operands alone")
    with boundary("evaluate"), np.errstate(all="ignore"):
        return _result(i, Evaluator(max_steps=max_steps, max_bytes=max_bytes, seed=None).apply(i, tuple(operands)))
