"""The registry of the rules of shape inference, and the arguments of a rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from xlanb.errors import ShapeError
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, Layout, PrimitiveType, Shape, TupleShape
from xlanb.shape.narrow_types import finfo

if TYPE_CHECKING:
    from xlanb.hlo.computation import HloComputation


class Site:
    """An opcode with operand shapes and attributes: the argument of a rule, shown in its errors."""

    __slots__ = ("attributes", "opcode", "shapes")

    def __init__(self, opcode: HloOpcode, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
        self.opcode = opcode
        self.shapes = shapes
        self.attributes = attributes

    def fail(self, expected: str) -> NoReturn:
        """Raise an error that names the opcode, says what was expected and shows the operands.

        Raises:
            ShapeError: always.
        """
        shown = ", ".join(str(s) for s in self.shapes)
        raise ShapeError(f"{self.opcode}({shown}): {expected}")

    def array(self, index: int) -> ArrayShape:
        """The shape of one operand, which must be an array.

        Raises:
            ShapeError: it is not, or there is no such operand.
        """
        if index >= len(self.shapes):
            self.fail(f"expected an operand {index}")
        shape = self.shapes[index]
        if not isinstance(shape, ArrayShape) or not shape.element_type.is_array:
            self.fail(f"expected an array as operand {index}, not {shape}")
        return shape

    def arrays(self) -> list[ArrayShape]:
        """The shapes of all operands, which must be arrays."""
        return [self.array(i) for i in range(len(self.shapes))]

    def tuple_shape(self, index: int) -> TupleShape:
        """The shape of one operand, which must be a tuple."""
        if index >= len(self.shapes):
            self.fail(f"expected an operand {index}")
        shape = self.shapes[index]
        if not isinstance(shape, TupleShape):
            self.fail(f"expected a tuple as operand {index}, not {shape}")
        return shape

    def get(self, name: str) -> Any:
        """An attribute, or its default in the table; raises if a required one is missing."""
        value = self.attributes.get(name)
        if value is None:
            row = self.opcode.attribute.get(name)
            if row is not None and row.required:
                self.fail(f"expected the attribute {name}")
            return row.default if row else None
        return value

    def ints(self, name: str) -> tuple[int, ...]:
        """A list-of-integers attribute; empty if an optional one is absent."""
        value = self.get(name)
        return tuple(value) if value else ()

    def computation(self, name: str) -> HloComputation:
        """A computation among the attributes."""
        value = self.get(name)
        if value is None:
            self.fail(f"expected the computation {name}")
        found: HloComputation = value
        return found

    def count(self, *allowed: int) -> None:
        """Raise if the operand count is none of these."""
        if len(self.shapes) not in allowed:
            self.fail(f"expected {' or '.join(map(str, allowed))} operands, not {len(self.shapes)}")

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """A list-of-dimensions attribute; raises if one is not below `rank`, or occurs twice."""
        dims = self.ints(name)
        for d in dims:
            if not 0 <= d < rank:
                self.fail(f"expected {name} in [0, {rank}), not {brackets(dims)}")
        if len(set(dims)) != len(dims):
            self.fail(f"expected {name} without repetition, not {brackets(dims)}")
        return dims


Rule = Callable[[Site], Shape]
Check = Callable[[Site, Shape], None]

RULES: dict[HloOpcode, Rule] = {}
"""Rules that infer the shape from the operands."""

CHECKS: dict[HloOpcode, Check] = {}
"""Rules that check a given shape that cannot be inferred."""


def rule(*opcodes: HloOpcode) -> Callable[[Rule], Rule]:
    """Register an inference rule for these opcodes."""

    def register(function: Rule) -> Rule:
        if twice := RULES.keys() & set(opcodes):
            raise ValueError(f"duplicate rules for {', '.join(map(str, twice))}")
        RULES.update(dict.fromkeys(opcodes, function))
        return function

    return register


def check_rule(*opcodes: HloOpcode) -> Callable[[Check], Check]:
    """Register a check for these opcodes, whose shape must be given."""

    def register(function: Check) -> Check:
        if twice := CHECKS.keys() & set(opcodes):
            raise ValueError(f"duplicate checks for {', '.join(map(str, twice))}")
        CHECKS.update(dict.fromkeys(opcodes, function))
        return function

    return register


# -- what many rules need --------------------------------------------------------------------------

_COMPONENT = {PrimitiveType.C64: PrimitiveType.F32, PrimitiveType.C128: PrimitiveType.F64}


def component_type(kind: PrimitiveType) -> PrimitiveType:
    """The real type of a complex type's parts; a real type itself."""
    return _COMPONENT.get(kind, kind)


def same_type(a: PrimitiveType, b: PrimitiveType) -> bool:
    """Whether types are equal or both floating: XLA lets one instruction mix precisions."""
    return a is b or (a.is_floating and b.is_floating)


def higher_precision(a: PrimitiveType, b: PrimitiveType) -> PrimitiveType:
    """The type that represents both best (XLA's HigherPrecisionType).

    Complex before real, then by range, precision, width and sign.
    """
    return a if a is b or _precision(a) >= _precision(b) else b


def product_type(a: PrimitiveType, b: PrimitiveType, result: PrimitiveType) -> PrimitiveType:
    """The type in which a dot or convolution of `a` by `b` computes a result of type `result`.

    Operands are converted to it, and the sums from it: XLA's result_caster and operand_upcaster.
    """
    return higher_precision(higher_precision(a, b), result)


@cache
def _precision(kind: PrimitiveType) -> tuple[bool, float, float, int, bool]:
    real = component_type(kind)
    if not real.is_floating:
        # any integer has a wider range, even below a byte
        bits = 0 if kind is PrimitiveType.PRED else kind.bits
        return kind.is_complex, -math.inf, -math.inf, bits, kind.is_signed
    info = finfo(real.dtype)
    return kind.is_complex, float(info.maxexp), float(info.nmant), kind.bits, kind.is_signed


def make(kind: PrimitiveType, dimensions: Sequence[int], dynamic: Sequence[bool] = ()) -> ArrayShape:
    """A row-major array shape."""
    dims = tuple(dimensions)
    return ArrayShape(kind, dims, Layout.default(len(dims)), tuple(dynamic))


def dynamics(shape: ArrayShape) -> tuple[bool, ...]:
    """One flag per dimension: whether it is dynamic."""
    return shape.dynamic or (False,) * len(shape.dimensions)


def row_major(shape: Shape) -> Shape:
    """The same shape with every array row-major."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map(row_major, shape.shapes)))
    if isinstance(shape, ArrayShape) and shape.is_array:
        layout = Layout.default(len(shape.dimensions))
        return shape if shape.layout == layout else make(shape.element_type, shape.dimensions, shape.dynamic)
    return shape


def compatible(a: Shape, b: Shape, *, mixed_precision: bool = False) -> bool:
    """Whether shapes are equal except for layouts and dynamic flags (ShapeUtil::Compatible).

    With `mixed_precision` floating types may differ too.
    """
    if a is b:
        return True
    if isinstance(a, ArrayShape):
        if not isinstance(b, ArrayShape) or a.dimensions != b.dimensions:
            return False
        return a.element_type is b.element_type or (
            mixed_precision and a.element_type.is_floating and b.element_type.is_floating
        )
    if isinstance(a, TupleShape):
        if not isinstance(b, TupleShape) or len(a.shapes) != len(b.shapes):
            return False
        return all(compatible(x, y, mixed_precision=mixed_precision) for x, y in zip(a.shapes, b.shapes, strict=True))
    return a == b or a.without_layout() == b.without_layout()


def brackets(numbers: Sequence[int]) -> str:
    """A list of dimensions as HLO prints it."""
    return "{" + ",".join(map(str, numbers)) + "}"


def group_prefix(ragged: int, batch: Sequence[int], contracting: Sequence[int], rank: int) -> tuple[int, ...]:
    """The dimensions of a ragged-dot's lhs that come before the groups in the group sizes.

    There are some only if the group sizes are not a vector. They are the batch dimensions, then the
    dimensions of the ragged one's kind (contracting or free) before it. For a ragged batch
    dimension they are the batch dimensions before it. `rank` is the lhs's.
    """
    if ragged in batch:
        return tuple(batch[: list(batch).index(ragged)])
    alike = contracting if ragged in contracting else [d for d in range(rank) if d not in (*batch, *contracting)]
    return (*batch, *alike[: list(alike).index(ragged)])
