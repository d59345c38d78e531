"""Patterns over HLO as data (after xla/service/pattern_matcher.h): printable, indexed by the opcode of their root, matched with captures.

    import xlanb.transforms.match as m
    m.op(HloOpcode.MULTIPLY, m.any("a"), m.all_equal(1))       multiply(a, 1), operands in either order
    m.op(HloOpcode.TRANSPOSE, m.op(HloOpcode.TRANSPOSE, "a", name="inner"))

A string where a pattern is expected captures anything under that name; a name that comes twice must be the same instruction both times.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape

Captures: TypeAlias = dict[str, HloInstruction]


@dataclass(frozen=True)
class InstructionPredicate:
    """A named predicate over one instruction."""

    name: str
    holds: Callable[[HloInstruction], bool]


class Pattern(ABC):
    """A set of instructions; `match` fills in captures."""

    __slots__ = ()

    @abstractmethod
    def match(self, i: HloInstruction, captures: Captures) -> bool:
        """Whether `i` is one of them; what was captured stands in `captures` (also where the match fails: start from a copy)."""

    def admits(self, opcode: HloOpcode, operands: tuple[HloOpcode, ...]) -> bool:
        """Whether an instruction of an opcode over operands of opcodes can be one of them, as far as these tell."""
        del operands
        return self.opcodes is None or opcode in self.opcodes

    @property
    def opcodes(self) -> frozenset[HloOpcode] | None:
        """The opcodes that an instruction of the set can have; None for any."""
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """The captures it makes."""
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
    """An instruction of one of some opcodes whose operands match; of a commutative opcode in either order.

    `operands` None leaves the operands open. `where` are conditions on the instruction itself.
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
        for c in self.where:  # loops, not generators: this is where the simplifier spends its time
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
                if p.__class__ is Anything:  # most are: no call for them
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
    """A constant, or a broadcast of a scalar one; with `value`, one whose elements are all equal to it."""

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


def any(name: str) -> Anything:  # noqa: A001 - the pattern language's word
    """Anything, captured under a name."""
    return Anything(name)


def op(
    codes: HloOpcode | Iterable[HloOpcode],
    *operands: Pattern | str,
    name: str = "",
    where: Iterable[InstructionPredicate] = (),
) -> OpPattern:
    """An instruction of an opcode (or one of several) and its operands' patterns; none given: any operands."""
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
    """The same, used by one instruction only."""
    return OpPattern(
        pattern.codes,
        pattern.operands,
        pattern.name,
        (*pattern.where, InstructionPredicate("one user", lambda i: i.user_count == 1 and not i.is_root)),
    )


def constant_behind(i: HloInstruction) -> HloInstruction | None:
    """The constant that `i` is or broadcasts, the latter of one element only; None for anything else and for elided values."""
    if i.opcode is HloOpcode.BROADCAST:
        i = i.operands[0]
        if i.opcode is not HloOpcode.CONSTANT or i.array_shape.element_count != 1:
            return None
    if i.opcode is not HloOpcode.CONSTANT or not i.shape.is_array or i.literal.is_elided:
        return None
    return i


def is_all(i: HloInstruction, value: float) -> bool:
    """Whether every element of a constant, or of a broadcast one, is `value`; -0.0 equals 0 here as in XLA's IsAll. False where there is no element."""
    if i.opcode is HloOpcode.BROADCAST:
        i = i.operands[0]
    if i.opcode is not HloOpcode.CONSTANT or not i.shape.is_array or i.literal.is_elided:
        return False
    array = i.literal.array
    if array.size == 0:
        return False
    # Most constants fail on the first element: look at all only then.
    first = array.flat[0]
    if first != value:
        return False
    return bool(array.size == 1 or np.all(array == np.asarray(value, array.dtype)))


def scalar_value(i: HloInstruction) -> int | float | complex | None:
    """The one value of a constant or of a broadcast constant whose elements are all equal; None for anything else."""
    behind = constant_behind(i)
    if behind is None:
        return None
    array = behind.literal.array
    if array.size == 0 or (array.size > 1 and not bool(np.all(array == array.flat[0]))):
        return None
    found: int | float | complex = array.flat[0].item()
    return found


def shape_of(i: HloInstruction) -> ArrayShape:
    """The array shape of an instruction (patterns' conditions use it often)."""
    return i.array_shape
