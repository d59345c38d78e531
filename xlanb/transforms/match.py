"""Patterns over HLO as data (after xla/service/pattern_matcher.h).

    import xlanb.transforms.match as m
    m.op(HloOpcode.MULTIPLY, m.any("a"), m.all_equal(1))    # multiply(a, 1) or multiply(1, a)
    m.op(HloOpcode.TRANSPOSE, m.op(HloOpcode.TRANSPOSE, "a", name="inner"))

They can be printed, are indexed by the opcode of their root, and capture instructions. A string in
place of a pattern captures any instruction under that name; a name that occurs twice must be the
same instruction both times.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape

Captures: TypeAlias = dict[str, HloInstruction]


@dataclass(frozen=True)
class InstructionPredicate:
    """A named predicate over one instruction."""

    name: str
    holds: Callable[[HloInstruction], bool]


class Pattern(ABC):
    """A set of instructions; `match` records captures."""

    __slots__ = ()

    @abstractmethod
    def match(self, i: HloInstruction, captures: Captures) -> bool:
        """Whether `i` matches; adds its captures to `captures`.

        A failed match may leave captures there too: start from a copy.
        """

    def admits(self, opcode: HloOpcode, operands: tuple[HloOpcode, ...]) -> bool:
        """Whether an instruction with this opcode and these operand opcodes may match."""
        del operands
        return self.opcodes is None or opcode in self.opcodes

    @property
    def opcodes(self) -> frozenset[HloOpcode] | None:
        """The opcodes of the instructions that may match; None for any."""
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its captures."""
        return ()


@dataclass(frozen=True, slots=True)
class Anything(Pattern):
    """Any instruction, captured."""

    name: str

    def match(self, i: HloInstruction, captures: Captures) -> bool:
        return captures.setdefault(self.name, i) is i

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class OpPattern(Pattern):
    """An instruction of one of some opcodes whose operands match.

    Operands of a commutative opcode match in either order. `operands` None matches any operands.
    `where` are conditions on the instruction itself.
    """

    codes: tuple[HloOpcode, ...]
    operands: tuple[Pattern, ...] | None = None
    name: str = ""
    where: tuple[InstructionPredicate, ...] = ()

    def match(self, i: HloInstruction, captures: Captures) -> bool:
        if i.opcode not in self.codes:
            return False
        if self.operands is not None and not self._match_operands(i, captures):
            return False
        for c in self.where:  # loops, not generators: the simplifier spends most of its time here
            if not c.holds(i):
                return False
        return not self.name or captures.setdefault(self.name, i) is i

    def admits(self, opcode: HloOpcode, operands: tuple[HloOpcode, ...]) -> bool:
        if opcode not in self.codes:
            return False
        if self.operands is None:
            return True
        if len(operands) != len(self.operands):
            return False
        orders = (operands, operands[::-1]) if len(operands) == 2 and opcode.is_commutative else (operands,)
        return bool(
            builtins.any(
                all(p.opcodes is None or c in p.opcodes for p, c in zip(self.operands, order, strict=True))
                for order in orders
            )
        )

    def _match_operands(self, i: HloInstruction, captures: Captures) -> bool:
        patterns = self.operands or ()
        operands = i.operands
        if len(operands) != len(patterns):
            return False
        if len(patterns) != 2 or not i.opcode.is_commutative:
            for n, p in enumerate(patterns):
                o = operands[n]
                if p.__class__ is Anything:  # most patterns: avoid a call
                    if captures.setdefault(p.name, o) is not o:
                        return False
                elif not p.match(o, captures):
                    return False
            return True
        left, right = patterns
        for first, second in (operands, operands[::-1]):
            trial = dict(captures) if captures else {}
            if left.match(first, trial) and right.match(second, trial):
                captures.update(trial)
                return True
        return False

    @property
    def opcodes(self) -> frozenset[HloOpcode]:
        return frozenset(self.codes)

    @property
    def names(self) -> tuple[str, ...]:
        inner = tuple(n for p in self.operands or () for n in p.names)
        return (*inner, self.name) if self.name else inner

    def __str__(self) -> str:
        prefix = f"{self.name}=" if self.name else ""
        operands = "..." if self.operands is None else ", ".join(map(str, self.operands))
        conditions = "".join(f" [{c.name}]" for c in self.where)
        return f"{prefix}{'|'.join(map(str, self.codes))}({operands}){conditions}"


@dataclass(frozen=True, slots=True)
class ConstantPattern(Pattern):
    """A constant, or a broadcast scalar constant; with `value`, one whose elements all equal it."""

    name: str = ""
    value: float | None = None

    def match(self, i: HloInstruction, captures: Captures) -> bool:
        literal = constant_behind(i)
        if literal is None or (self.value is not None and not is_all(i, self.value)):
            return False
        return not self.name or captures.setdefault(self.name, i) is i

    @property
    def opcodes(self) -> frozenset[HloOpcode]:
        return frozenset((HloOpcode.CONSTANT, HloOpcode.BROADCAST))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,) if self.name else ()

    def __str__(self) -> str:
        return self.name or ("constant" if self.value is None else f"{self.value:g}")


class FlatNames(NamedTuple):
    """The pattern's names of an instruction's operands (None if open) and of it; "" if unnamed."""

    operands: tuple[str, ...] | None
    root: str


def operand_names(pattern: Pattern) -> FlatNames | None:
    """The names in a pattern of an opcode over unconstrained operands; None for other patterns."""
    if not isinstance(pattern, OpPattern) or pattern.where:
        return None
    if pattern.operands is None:
        return FlatNames(None, pattern.name)
    names = tuple([p.name for p in pattern.operands if isinstance(p, Anything)])
    if len(names) != len(pattern.operands) or len({*names, pattern.name}) != len(names) + 1:
        return None
    return FlatNames(names, pattern.name)


def any(name: str) -> Anything:  # noqa: A001 - the pattern language's word
    """Anything, captured under a name."""
    return Anything(name)


def op(
    codes: HloOpcode | Iterable[HloOpcode],
    *operands: Pattern | str,
    name: str = "",
    where: Iterable[InstructionPredicate] = (),
) -> OpPattern:
    """A pattern for an opcode (or one of several) and its operands; without operands: any."""
    several = (codes,) if isinstance(codes, HloOpcode) else tuple(codes)
    patterns = tuple(Anything(o) if isinstance(o, str) else o for o in operands)
    return OpPattern(several, patterns or None, name, tuple(where))


def constant(name: str = "") -> ConstantPattern:
    """A constant or a broadcast scalar constant."""
    return ConstantPattern(name)


def all_equal(value: float, name: str = "") -> ConstantPattern:
    """A constant (or a broadcast one) with every element equal to `value`."""
    return ConstantPattern(name, value)


def one_user(pattern: OpPattern) -> OpPattern:
    """The same pattern, for instructions with exactly one user."""
    return OpPattern(
        pattern.codes,
        pattern.operands,
        pattern.name,
        (*pattern.where, InstructionPredicate("one user", lambda i: i.user_count == 1 and not i.is_root)),
    )


def constant_behind(i: HloInstruction) -> HloInstruction | None:
    """The constant that `i` is, or broadcasts if it has one element.

    None for anything else, and for elided values.
    """
    if i.opcode is HloOpcode.BROADCAST:
        i = i.operands[0]
        if i.opcode is not HloOpcode.CONSTANT or i.array_shape.element_count != 1:
            return None
    if i.opcode is not HloOpcode.CONSTANT or not i.shape.is_array or i.literal.is_elided:
        return None
    return i


def is_all(i: HloInstruction, value: float) -> bool:
    """Whether every element of a constant, or of a broadcast scalar constant, is `value`.

    -0.0 equals 0 here, as in XLA's IsAll. False for a constant without elements.
    """
    if i.opcode is HloOpcode.BROADCAST:
        i = i.operands[0]
    if i.opcode is not HloOpcode.CONSTANT or not i.shape.is_array or i.literal.is_elided:
        return False
    array = i.literal.array
    if array.size == 0:
        return False
    # Most constants differ in the first element; check all only if it matches.
    first = array.flat[0]
    if first != value:
        return False
    return bool(array.size == 1 or np.all(array == np.asarray(value, array.dtype)))


def scalar_value(i: HloInstruction) -> int | float | complex | None:
    """The single value of a constant, or broadcast constant, with equal elements; else None."""
    behind = constant_behind(i)
    if behind is None:
        return None
    array = behind.literal.array
    if array.size == 0 or (array.size > 1 and not bool(np.all(array == array.flat[0]))):
        return None
    found: int | float | complex = array.flat[0].item()
    return found


def shape_of(i: HloInstruction) -> ArrayShape:
    """The array shape of an instruction (often used in conditions of patterns)."""
    return i.array_shape
