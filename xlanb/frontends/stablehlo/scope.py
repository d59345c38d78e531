"""The lowering of one function or region: its values, and helpers for the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, NoReturn, TypeGuard

import numpy as np

from xlanb.errors import HloVerifierError, LiteralError, ShapeError, UnimplementedError, XlanbError
from xlanb.evaluator import evaluate_instruction
from xlanb.frontends.stablehlo import shapes
from xlanb.frontends.stablehlo.elements import Elements
from xlanb.frontends.stablehlo.ir import Block, Opaque, StablehloOperation, StablehloType, StablehloValue, TensorType
from xlanb.frontends.stablehlo.locations import LocationParser
from xlanb.frontends.stablehlo.source import placed
from xlanb.hlo.builder import HloBuilder
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.names import sanitized
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape
from xlanb.wording import counted

Instructions = Sequence[HloInstruction]
Rule = Callable[["RegionScope", StablehloOperation], HloInstruction | Instructions]
RULES: dict[str, Rule] = {}
"""Rules that lower operations to HLO, by name; they return an instruction, or one per result."""

Constraint = Callable[["RegionScope", StablehloOperation], None]
CONSTRAINTS: dict[str, list[Constraint]] = {}
"""Additional constraints of an operation, by its name. Each raises an error if violated."""

_FOLDED_BYTES = 2**20
_FOLDED_DEPTH = 10_000


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the lowering of operations of these names."""

    def register(made: Rule) -> Rule:
        for name in names:
            RULES[name] = made
        return made

    return register


def constraint(*names: str) -> Callable[[Constraint], Constraint]:
    """Register a check that runs before operations of these names are lowered."""

    def register(made: Constraint) -> Constraint:
        for name in names:
            CONSTRAINTS.setdefault(name, []).append(made)
        return made

    return register


def is_integer(value: object) -> TypeGuard[int]:
    """Whether an attribute is an integer: `true` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass
class StablehloProgram:
    """The shared state of all scopes of one program."""

    source: str
    module: HloModule
    builder: HloBuilder
    locations: LocationParser
    functions: dict[str, StablehloOperation]
    meshes: dict[str, str] = field(default_factory=dict)
    """The text of each mesh of devices, by its name."""
    called: dict[tuple[Any, ...], HloComputation] = field(default_factory=dict)
    being_lowered: list[str] = field(default_factory=list)
    free_values: dict[int, dict[StablehloValue, None]] = field(default_factory=dict)
    folded: dict[HloInstruction, Any] = field(default_factory=dict)
    regions: int = 0

    def fail(self, kind: type[XlanbError], op: StablehloOperation, problem: str) -> NoReturn:
        """Raise an error about an operation, with its place in the text."""
        raise kind(placed(self.source, op.offset, f"{op.name}: {problem}"))


class RegionScope:
    """Values by name, as instructions of one computation; `outer` is a region's enclosing scope."""

    def __init__(self, program: StablehloProgram, builder: HloBuilder, outer: RegionScope | None = None) -> None:
        self.program = program
        self.b = builder
        self.outer = outer
        self.made: dict[StablehloValue, HloInstruction] = {}
        """The instructions of the values that this scope has had so far."""

    # -- values ------------------------------------------------------------------------------------

    def bind(self, value: StablehloValue, instruction: HloInstruction) -> None:
        """Let an instruction be the value."""
        self.made[value] = instruction

    def value(self, value: StablehloValue) -> HloInstruction:
        """The instruction of a value; a constant from around the region is made again in it."""
        found = self.made.get(value)
        if found is None:
            found = self.made[value] = self._from_outside(value)
        return found

    def operands(self, op: StablehloOperation, count: int | None = None, *, at_least: int = 0) -> list[HloInstruction]:
        """The instructions of all operands; raises if their number is not `count`."""
        given = len(op.operands)
        if count is not None and given != count:
            self.fail(op, f"expected {count} operands, not {given}")
        if given < at_least:
            self.fail(op, f"expected {at_least} operands or more, not {given}")
        return [self.value(v) for v in op.operands]

    def is_constant(self, value: StablehloValue) -> bool:
        """Whether a value is a constant that a region may make again."""
        return value.owner is not None and value.owner.name in _CONSTANTS

    def _from_outside(self, value: StablehloValue) -> HloInstruction:
        if self.is_constant(value) and value.owner is not None:
            return self.constant(value.owner.attributes["value"])
        at = self.outer
        while at is not None:
            if value in at.made:
                return self._again(at.made[value], value)
            at = at.outer
        raise UnimplementedError(f"{value} is not a value of this computation")

    def _again(self, found: HloInstruction, value: StablehloValue) -> HloInstruction:
        known = self.outer.constant_of(found) if self.outer is not None else None
        if known is None:
            raise UnimplementedError(f"the region captures {value}, which is not a constant")
        return self.b.constant(known)

    def constant(self, elements: Any) -> HloInstruction:
        """A constant; where all elements are the same, a scalar that is broadcast."""
        if not isinstance(elements, Elements):
            raise LiteralError("expected elements such as dense<0.0> : tensor<f32>")
        if elements.is_splat and elements.dimensions:
            scalar = self.b.constant(elements.array.reshape(()))
            return self.b.broadcast_in_dim(scalar, elements.dimensions, ())
        return self.b.constant(elements.array.reshape(elements.dimensions))

    def full(self, value: float, like: HloInstruction) -> HloInstruction:
        """A number in the shape of an array."""
        shape = like.array_shape
        scalar = self.b.constant(np.asarray(value, shape.dtype))
        return self.b.broadcast_in_dim(scalar, shape.dimensions, ())

    def constant_of(self, i: HloInstruction) -> np.ndarray[Any, Any] | None:
        """Return the value of a small array that depends only on constants, else None.

        Sizes that a program computes before use become known this way.
        """
        known = self.program.folded
        stack, steps = [i], 0
        while stack:
            at = stack[-1]
            steps += 1
            if at in known:
                stack.pop()
                continue
            missing = [o for o in at.operands if o not in known]
            if at.opcode in _NOT_FOLDED or at.shape.byte_size > _FOLDED_BYTES or steps > _FOLDED_DEPTH:
                known[at] = None
            elif missing:
                stack.extend(missing)
                continue
            else:
                known[at] = self._folded(at)
            stack.pop()
        found: np.ndarray[Any, Any] | None = known[i]
        return found

    def _folded(self, i: HloInstruction) -> Any:
        operands = [self.program.folded[o] for o in i.operands]
        if any(o is None for o in operands) or i.has_side_effect:
            return None
        try:
            return evaluate_instruction(i, operands, max_steps=_FOLDED_DEPTH)
        except XlanbError:
            return None  # unknown values are computed at run time

    # -- attributes --------------------------------------------------------------------------------

    def ints(self, op: StablehloOperation, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """A list of integers: an array, or the elements of a vector."""
        value = op.attributes.get(name)
        if value is None:
            if default is None:
                self.fail(op, f"the attribute '{name}' is missing")
            return tuple(default)
        if isinstance(value, Elements):
            value = tuple(value.full().reshape(-1).tolist()) if value.full().size <= _FOLDED_BYTES else None
        if not isinstance(value, tuple) or not all(map(is_integer, value)):
            self.fail(op, f"expected a list of integers as '{name}'")
        return tuple(int(v) for v in value)

    def integer(self, op: StablehloOperation, name: str, default: int | None = None) -> int:
        """An integer."""
        value = op.attributes.get(name, default)
        if not is_integer(value):
            self.fail(op, f"expected an integer as '{name}'")
        return int(value)

    def flag(self, op: StablehloOperation, name: str) -> bool:
        """true, false, or a name alone for true."""
        return op.attributes.get(name) is True

    def word(self, op: StablehloOperation, name: str, default: str | None = None) -> str:
        """A string, or a case of an enumeration."""
        value = op.attributes.get(name, default)
        if not isinstance(value, str):
            self.fail(op, f"expected a keyword as '{name}'")
        return value

    def fields(self, op: StablehloOperation, name: str) -> dict[str, Any]:
        """Return an attribute that has fields; empty if it is missing."""
        value = op.attributes.get(name, {})
        if not isinstance(value, dict):
            self.fail(op, f"expected fields as '{name}'")
        return value

    def channel(self, op: StablehloOperation) -> int | None:
        """Return a channel's number, or None."""
        handle = self.fields(op, "channel_handle").get("handle")
        return handle if isinstance(handle, int) and handle > 0 else None

    # -- shapes ------------------------------------------------------------------------------------

    def result_shape(self, op: StablehloOperation, number: int = 0) -> ArrayShape:
        """Return the array shape that the text gives a result.

        Raises:
            UnimplementedError: one of its sizes is unknown.
        """
        shape = self.shape(op, self._result(op, number).type)
        if not isinstance(shape, ArrayShape):
            self.fail(op, f"expected a tensor as the result, not {op.results[number].type}")
        return shape

    def result_element(self, op: StablehloOperation, number: int = 0) -> PrimitiveType:
        """Return the element type of a result, whose sizes may be unknown."""
        type_ = self._result(op, number).type
        if not isinstance(type_, TensorType) or type_.element is None:
            self.fail(op, f"expected a tensor of numbers as the result, not {type_}")
        return type_.element

    def _result(self, op: StablehloOperation, number: int) -> StablehloValue:
        if number >= len(op.results):
            self.fail(op, f"expected {number + 1} results or more, not {len(op.results)}")
        return op.results[number]

    def shape(self, op: StablehloOperation, type_: StablehloType) -> Shape:
        """The shape of a type that an operation names."""
        try:
            return shapes.shape_of(type_)
        except (ShapeError, UnimplementedError) as error:
            self.program.fail(type(error), op, str(error))

    # -- operations --------------------------------------------------------------------------------

    def fail(self, op: StablehloOperation, problem: str) -> NoReturn:
        """Raise HloVerifierError that shows the operation."""
        self.program.fail(HloVerifierError, op, problem)

    def refuse(self, op: StablehloOperation, problem: str) -> NoReturn:
        """Raise UnimplementedError that shows the operation."""
        self.program.fail(UnimplementedError, op, problem)

    def instruction(
        self, opcode: HloOpcode, operands: Sequence[HloInstruction], shape: Shape | None = None, **attributes: Any
    ) -> HloInstruction:
        """An instruction of any opcode."""
        return self.b.instruction(opcode, operands, shape, **attributes)

    def unpacked(self, i: HloInstruction, op: StablehloOperation) -> Instructions:
        """Return an instruction's results: itself if there is one, else its tuple's elements."""
        if len(op.results) == 1:
            return [i]
        return [self.b.get_tuple_element(i, n) for n in range(len(op.results))]

    def packed(self, values: Instructions) -> HloInstruction:
        """The one value, or a tuple of several or none."""
        return values[0] if len(values) == 1 else self.b.tuple(values)

    def lower_block(self, block: Block) -> list[HloInstruction]:
        """Make the instructions of a block; the operands of its terminator."""
        if not block.operations:
            raise UnimplementedError("the region has no terminator")
        for op in block.operations[:-1]:
            self.lower(op)
        last = block.operations[-1]
        if last.name not in TERMINATORS:
            self.fail(last, "expected a return at the end of a region")
        with self.placed(last):
            return self.operands(last)

    def lower(self, op: StablehloOperation) -> None:
        """Lower an operation, and check its result types against the text."""
        if op.name in TERMINATORS:
            self.fail(op, "a return must be the last operation of its region")
        made = RULES.get(op.name)
        if made is None:
            self.refuse(op, "there is no lowering of this operation")
        for check in CONSTRAINTS.get(op.name, ()):
            check(self, op)
        metadata = self.program.locations.metadata(op.location)
        with self.placed(op), self.b.metadata(metadata):
            found = made(self, op)
        given = [found] if isinstance(found, HloInstruction) else list(found)
        if len(given) != len(op.results):
            self.fail(op, f"returns {len(given)} results, its types specify {len(op.results)}")
        for value, i in zip(op.results, given, strict=True):
            if not shapes.fits(i.shape, value.type):
                self.fail(op, f"returns {i.shape.text(layout=False)}, its type is {value.type}")
            self.bind(value, i)
        self._annotate(op, given)

    def _annotate(self, op: StablehloOperation, given: Instructions) -> None:
        """Add JAX's annotations of an operation: its sharding and its frontend attributes."""
        named = op.attributes.get("mhlo.frontend_attributes")
        extra = [(str(k), _text(v)) for k, v in named.items()] if isinstance(named, dict) else []
        rule_ = op.attributes.get("sdy.sharding_rule")
        if isinstance(rule_, Opaque):
            extra.append(("xla.sdy.sharding_rule", rule_.text))
        if extra and given:
            target = given[0].operands[0] if len(given) > 1 else given[0]
            target.frontend_attributes = tuple(extra)

    @contextmanager
    def placed(self, op: StablehloOperation) -> Iterator[None]:
        """Add the operation to errors without a position."""
        try:
            yield
        except (ShapeError, LiteralError, UnimplementedError) as error:
            if _has_place(str(error)):
                raise
            kind = HloVerifierError if isinstance(error, ShapeError) else type(error)
            raise kind(placed(self.program.source, op.offset, f"{op.name}: {error}")) from None

    # -- regions -----------------------------------------------------------------------------------

    def region(self, op: StablehloOperation, number: int, inputs: Sequence[Shape] | None = None) -> HloComputation:
        """Lower a region to a computation; parameters have the given shapes, or the text's
        types.
        """
        block = self.block(op, number)
        inner = self.inner("region")
        wanted = inputs if inputs is not None else [self.shape(op, a.type) for a in block.arguments]
        if len(wanted) != len(block.arguments):
            self.fail(op, f"region {number} takes {counted(len(block.arguments), 'argument')}, expected {len(wanted)}")
        for n, (argument, shape) in enumerate(zip(block.arguments, wanted, strict=True)):
            inner.bind(argument, inner.parameter(n, shape, argument))
        return inner.b.build_computation(inner.packed(inner.lower_block(block)))

    def reducer(self, op: StablehloOperation, number: int, count: int) -> HloComputation:
        """The computation of a region that reduces this many values."""
        block = self.block(op, number)
        if len(block.arguments) != 2 * count:
            self.fail(op, f"expected a region of {2 * count} arguments, not {len(block.arguments)}")
        given = len(block.operations[-1].operands) if block.operations else 0
        if given != count:
            self.fail(op, f"expected a region that returns {count} values, got {given}")
        made = self.region(op, number)
        results = made.root.shape.shapes if isinstance(made.root.shape, TupleShape) else (made.root.shape,)
        for n, result in enumerate(results):
            for p in made.parameters[n::count]:
                if p.shape != result:
                    self.fail(
                        op, f"region {number} returns {result} for argument {p.parameter_number}, which is {p.shape}"
                    )
        return made

    def dims(self, op: StablehloOperation, fields: dict[str, Any], name: str) -> tuple[int, ...]:
        """Return a field that lists dimensions; empty if it is missing."""
        value = fields.get(name, ())
        if not isinstance(value, tuple) or not all(map(is_integer, value)):
            self.fail(op, f"expected a list of dimensions as '{name}'")
        return value

    def number(self, op: StablehloOperation, fields: dict[str, Any], name: str, default: int = 0) -> int:
        """A field that is an integer."""
        value = fields.get(name, default)
        if not is_integer(value):
            self.fail(op, f"expected an integer as '{name}'")
        return value

    def block(self, op: StablehloOperation, number: int) -> Block:
        """A region of an operation."""
        if number >= len(op.regions):
            self.fail(op, f"expected {number + 1} regions, not {len(op.regions)}")
        return op.regions[number]

    def inner(self, name: str) -> RegionScope:
        """The scope of a region in this one."""
        self.program.regions += 1
        return RegionScope(self.program, self.b.sub_computation(f"{name}_{self.program.regions - 1}"), self)

    def parameter(self, number: int, shape: Shape, value: StablehloValue | None = None) -> HloInstruction:
        """Make a parameter, named by its argument's location."""
        metadata = self.program.locations.metadata(value.location if value is not None else None)
        with self.b.metadata(metadata):
            return self.b.parameter(number, shape, sanitized(metadata.op_name) or f"Arg_{number}")


TERMINATORS = frozenset({"stablehlo.return", "func.return", "mhlo.return", "sdy.return"})
_CONSTANTS = frozenset({"stablehlo.constant", "chlo.constant", "arith.constant"})
_NOT_FOLDED = frozenset(
    {HloOpcode.PARAMETER, HloOpcode.WHILE, HloOpcode.CUSTOM_CALL, HloOpcode.RNG, HloOpcode.CALL, HloOpcode.CONDITIONAL}
)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _has_place(message: str) -> bool:
    """Whether a message begins with `line:column:`."""
    line, _, rest = message.partition(":")
    column, colon, _ = rest.partition(":")
    return line.isdigit() and column.isdigit() and bool(colon)
