"""A parsed MLIR program: operations with operands, attributes and regions, before
interpretation.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType


class StablehloType:
    """The type of a value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ScalarType(StablehloType):
    """An element type standing alone, as in `1 : i32`; `name` is MLIR's."""

    name: str
    element: PrimitiveType | None


@dataclass(frozen=True, slots=True)
class TensorType(StablehloType):
    """A ranked tensor. An unknown dimension is None, and may have a bound in `bounds`.

    `element` is None if HLO has no such element type (quantized, index vectors of other dialects);
    `element_text` is its MLIR text.
    """

    dimensions: tuple[int | None, ...]
    element: PrimitiveType | None
    element_text: str
    bounds: tuple[int | None, ...] = ()

    @property
    def is_static(self) -> bool:
        """Whether every size is known."""
        return None not in self.dimensions

    def __str__(self) -> str:
        dims = "".join(f"{'?' if d is None else d}x" for d in self.dimensions)
        return f"tensor<{dims}{self.element_text}>"


@dataclass(frozen=True, slots=True)
class TupleType(StablehloType):
    """A tuple of types; `leaf_count` are the values in it and in its tuples."""

    types: tuple[StablehloType, ...]
    leaf_count: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        count = sum(t.leaf_count if isinstance(t, TupleType) else 1 for t in self.types)
        object.__setattr__(self, "leaf_count", count)

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.types))}>"


@dataclass(frozen=True, slots=True)
class TokenType(StablehloType):
    """A token: the order of effects."""

    def __str__(self) -> str:
        return "!stablehlo.token"


@dataclass(frozen=True, slots=True)
class FunctionType(StablehloType):
    """The types of a function's arguments and results."""

    inputs: tuple[StablehloType, ...]
    results: tuple[StablehloType, ...]


@dataclass(frozen=True, slots=True)
class FutureType(StablehloType):
    """The result of an async_start: values of these types, once async_done has waited for them."""

    types: tuple[StablehloType, ...]

    def __str__(self) -> str:
        return f"!stablehlo.future<{', '.join(map(str, self.types))}>"


@dataclass(frozen=True, slots=True)
class OpaqueType(StablehloType):
    """A type that StableHLO's operations do not take; `text` is verbatim."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Symbol:
    """`@name`; nested ones are joined by `::`."""

    name: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """An attribute of another dialect, verbatim."""

    text: str


@dataclass(frozen=True, slots=True)
class TypedNumber:
    """A float that was written as the bits of it, `0x7FC00000 : f32`, or a number with its type."""

    value: int | float
    type: StablehloType


@dataclass(eq=False, slots=True)
class StablehloValue:
    """An operation's result or a block's argument."""

    name: str
    type: StablehloType
    owner: StablehloOperation | None = None
    location: Any = None

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(eq=False, slots=True)
class Block:
    """Arguments and operations in order; the last one is the terminator."""

    arguments: list[StablehloValue] = field(default_factory=list)
    operations: list[StablehloOperation] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class StablehloOperation:
    """One operation. `offset` is its position in the text; `location` is its `loc(...)`."""

    name: str
    operands: list[StablehloValue]
    attributes: dict[str, Any]
    regions: list[Block]
    results: list[StablehloValue]
    offset: int
    location: Any = None
