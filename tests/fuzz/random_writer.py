"""HLO text being written.

Values of one computation; new parameters if a value of some type and shape is needed; other
computations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeVar

import numpy as np

Dims = tuple[int, ...]
T = TypeVar("T")

NARROW_FLOATS = ("f8e4m3fn", "f8e5m2", "f8e4m3", "f8e3m4", "f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2fnuz", "f4e2m1fn")
FLOATS = ("f32", "f32", "f32", "f64", "bf16", "f16", *NARROW_FLOATS[:2])
NARROW_INTS = ("s4", "u4", "s2", "u2")
INTS = ("s32", "s32", "s8", "u8", "s16", "u16", "u32", "s64", "u64", *NARROW_INTS)
COMPLEX = ("c64", "c128")
NUMBERS = (*FLOATS, *INTS, *COMPLEX, *NARROW_FLOATS)
ANY = (*NUMBERS, "pred", "pred")
SIZES = (
    1,
    1,
    2,
    2,
    3,
    3,
    4,
    5,
    6,
    7,
    7,
    8,
    9,
    11,
    13,
    15,
    15,
    16,
    16,
    17,
    17,
    23,
    31,
    32,
    33,
    47,
    63,
    64,
    65,
    97,
    127,
    129,
)
"""Sizes of dimensions: around vector widths, primes, and small ones."""
LONG = (255, 256, 257, 500, 513, 1000, 1023, 1025, 2049, 4099)
MOST = 20_000
"""Elements of an array, usually at most."""


@dataclass(frozen=True)
class Value:
    """An array of the computation; `layout` is minor to major."""

    name: str
    type: str
    dims: Dims
    layout: Dims

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.dims)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def text(self) -> str:
        """The shape with its layout."""
        return shape(self.type, self.dims, self.layout)


def shape(type_: str, dims: Sequence[int], layout: Sequence[int] | None = None) -> str:
    """The text of a shape; row-major by default."""
    layout = range(len(dims))[::-1] if layout is None else layout
    return f"{type_}[{braced(dims)[1:-1]}]{braced(layout) if dims else ''}"


def braced(numbers: Sequence[int]) -> str:
    """Format numbers as {1,2,3}."""
    return "{" + ",".join(map(str, numbers)) + "}"


def is_float(type_: str) -> bool:
    """Whether a type is a real floating-point type."""
    return type_[0] in "fb"


@dataclass(frozen=True)
class Line:
    """An instruction: its name and what follows.

    `operands` are names or, for parameters and constants, text.
    """

    name: str
    result: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str

    @property
    def text(self) -> str:
        """Its text in a computation."""
        more = f", {self.attributes}" if self.attributes else ""
        return f"{self.name} = {self.result} {self.opcode}({', '.join(self.operands)}){more}"


@dataclass
class Writer:
    """One computation; `beside` collects the text of the module's other ones, by purpose."""

    rng: np.random.Generator
    beside: dict[str, str] = field(default_factory=dict)
    prefix: str = ""
    lines: list[Line] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    parameters: list[Value] = field(default_factory=list)
    used: set[Value] = field(default_factory=set)

    # -- dice --------------------------------------------------------------------------------------

    def pick(self, choices: Sequence[T]) -> T:
        """A random choice."""
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < probability)

    def between(self, low: int, high: int) -> int:
        """A number in low..high, inclusive."""
        return int(self.rng.integers(low, high + 1)) if high > low else low

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order."""
        return [items[int(k)] for k in self.rng.permutation(len(items))]

    def size(self) -> int:
        """The size of a dimension."""
        roll = self.rng.random()
        return 0 if roll < 0.01 else self.pick(LONG) if roll < 0.06 else self.pick(SIZES)

    def dims(self, rank: int | None = None, most: int = MOST) -> Dims:
        """The dimensions of an array of at most `most` elements."""
        rank = self.pick((0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5)) if rank is None else rank
        if self.chance(0.04):
            most *= 10
        while True:
            made = tuple(self.size() for _ in range(rank))
            if prod(made) <= most:
                return made
            rank_left = [d for d in range(rank) if made[d] > 3]
            shrunk = self.pick(rank_left)
            made = tuple(self.pick((1, 2, 3)) if d == shrunk else n for d, n in enumerate(made))
            if prod(made) <= most:
                return made

    def layout(self, rank: int) -> Dims:
        """A layout, usually row-major."""
        return tuple(self.shuffled(range(rank))) if self.chance(0.4) else tuple(range(rank))[::-1]

    # -- values ------------------------------------------------------------------------------------

    def emit(
        self,
        opcode: str,
        type_: str,
        dims: Sequence[int],
        operands: Sequence[Value | str] = (),
        attributes: str = "",
        layout: Dims | None = None,
    ) -> Value:
        """Add an instruction; return its value."""
        layout = self.layout(len(dims)) if layout is None and self.chance(0.25) else layout
        made = Value(
            self._name(opcode), type_, tuple(dims), tuple(range(len(dims)))[::-1] if layout is None else layout
        )
        self.line(made.name, made.text, opcode, operands, attributes)
        self.values.append(made)
        return made

    def tuple_of(
        self, opcode: str, shapes: Sequence[tuple[str, Dims]], operands: Sequence[Value | str], attributes: str = ""
    ) -> list[Value]:
        """Add an instruction with a tuple result; return its elements."""
        name = self._name(opcode)
        text = ", ".join(shape(t, d) for t, d in shapes)
        self.line(name, f"({text})", opcode, operands, attributes)
        return [
            self.emit("get-tuple-element", t, d, [name], f"index={k}", tuple(range(len(d)))[::-1])
            for k, (t, d) in enumerate(shapes)
        ]

    def line(self, name: str, result: str, opcode: str, operands: Sequence[Value | str], attributes: str = "") -> None:
        """Add an instruction."""
        self.used.update(o for o in operands if isinstance(o, Value))
        given = tuple(o if isinstance(o, str) else o.name for o in operands)
        self.lines.append(Line(name, result, opcode, given, attributes))

    def _name(self, opcode: str) -> str:
        return f"{self.prefix}{opcode.replace('-', '_')}.{len(self.lines)}"

    def parameter(self, type_: str, dims: Sequence[int], layout: Dims | None = None) -> Value:
        """Add a parameter."""
        made = self.emit(
            "parameter",
            type_,
            dims,
            [str(len(self.parameters))],
            "",
            self.layout(len(dims)) if layout is None else layout,
        )
        self.parameters.append(made)
        return made

    def constant(self, type_: str, value: float) -> Value:
        """Add a scalar constant."""
        text = (
            ("true" if value else "false") if type_ == "pred" else str(int(value)) if type_[0] in "su" else f"{value}"
        )
        return self.emit("constant", type_, (), [f"({text}, 0)" if type_[0] == "c" else text], "", ())

    def value(self, type_: str, dims: Sequence[int]) -> Value:
        """A value of a type and shape: existing, derived, a broadcast constant, or a parameter."""
        dims = tuple(dims)
        same = [v for v in self.values if v.type == type_ and v.dims == dims]
        if same and self.chance(0.7):
            return self.pick(same)
        roll = self.rng.random()
        if roll < 0.35:
            made = self._adapted(type_, dims)
            if made is not None:
                return made
        elif roll < 0.4:
            scalar = self.constant(type_, self.between(0, 1))
            return self.emit("broadcast", type_, dims, [scalar], "dimensions={}") if dims else scalar
        return self.parameter(type_, dims)

    def _adapted(self, type_: str, dims: Dims) -> Value | None:
        """A value of another type or shape, converted or reshaped; None if none fits."""
        shaped = [v for v in self.values if v.dims == dims and (v.type[0] == "c") <= (type_[0] == "c")]
        if shaped:
            return self.emit("convert", type_, dims, [self.pick(shaped)])
        counted = [v for v in self.values if v.type == type_ and v.count == prod(dims)]
        if counted:
            return self.emit("reshape", type_, dims, [self.pick(counted)])
        return None

    def any(self, types: Sequence[str] = ANY, low: int = 0, high: int = 5, most: int = MOST) -> Value:
        """A value of one of some types, of low..high dimensions."""
        fitting = [v for v in self.values if v.type in types and low <= v.rank <= high and v.count <= 10 * most]
        if fitting and self.chance(0.75):
            return self.pick(fitting[-6:])
        ranks = [r for r in (0, 1, 1, 2, 2, 2, 3, 3, 4, 5) if low <= r <= high]
        return self.value(self.pick(types), self.dims(self.pick(ranks), most))

    def index(self, size: int, extent: int) -> Value:
        """A scalar start index, sometimes constant, in or out of bounds."""
        type_ = self.pick(("s32", "s32", "s64", "u32", "s8"))
        if self.chance(0.3):
            low = -1 if type_[0] == "s" else 0
            return self.constant(type_, self.between(low, min(size - extent + 1, 100)))
        return self.value(type_, ())

    # -- computations ------------------------------------------------------------------------------

    def computation(self, key: str, text: Callable[[str], str]) -> str:
        """The name of a computation, created once; `text` returns its text for a name."""
        name = "c_" + "".join(c if c.isalnum() else "_" for c in key)
        self.beside.setdefault(name, text(name))
        return name

    def binary(self, opcode: str, type_: str) -> str:
        """The name of the computation that applies an opcode to two scalars."""
        return self.computation(
            f"{opcode}_{type_}",
            lambda name: (
                f"{name} {{\n  a = {type_}[] parameter(0)\n  b = {type_}[] parameter(1)\n"
                f"  ROOT r = {type_}[] {opcode}(a, b)\n}}\n"
            ),
        )

    def inner(self, prefix: str) -> Writer:
        """A writer of another computation of the module."""
        return Writer(self.rng, self.beside, prefix)

    def computation_of(self, name: str, root: str) -> str:
        """The text of the computation with the given root."""
        lines = [f"  {'ROOT ' if line.name == root else ''}{line.text}" for line in self.lines]
        return "\n".join([f"{name} {{", *lines, "}\n"])

    def prune(self, root: Value) -> list[Value]:
        """Drop what a root does not need, unused parameters too; return those that remain."""
        operands = {line.name: line.operands for line in self.lines}
        live: set[str] = set()
        stack = [root.name]
        while stack:
            name = stack.pop()
            if name not in live and name in operands:
                live.add(name)
                stack.extend(operands[name])
        self.parameters = [p for p in self.parameters if p.name in live]
        number = {p.name: str(k) for k, p in enumerate(self.parameters)}
        self.lines = [
            replace(line, operands=(number[line.name],)) if line.name in number else line
            for line in self.lines
            if line.name in live
        ]
        return self.parameters
