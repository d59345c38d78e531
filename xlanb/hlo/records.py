"""Frozen snapshots of instructions, computations and modules.

Observers and views read them instead of the live IR. An unchanged record is shared with the
snapshot before, so `before is after` says whether anything changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, Final

from xlanb.display import Displayable
from xlanb.hlo.attributes import NO_METADATA, OpMetadata
from xlanb.hlo.calling import CallingConvention
from xlanb.hlo.opcode import HloOpcode
from xlanb.hooks import Hook
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import Shape
from xlanb.stage import named_parts, size_text

print_instruction: Final[Hook[[InstructionRecord], str]] = Hook("hlo.print_instruction")
"""XLA's canonical line for an instruction; the printer implements it."""

print_module: Final[Hook[[ModuleRecord], str]] = Hook("hlo.print_module")
"""XLA's canonical text of a module; the printer implements it."""


@dataclass(frozen=True)
class ComputationName:
    """A computation's name in a record's attributes."""

    name: str


@dataclass(frozen=True, slots=True)
class InstructionRecord(Displayable):
    """A snapshot of one instruction.

    Attribute values are the live ones', with computations replaced by `ComputationName`s. `uid`
    identifies the live instruction across renaming; it is 0 for records that were read from a file.
    """

    name: str
    opcode: HloOpcode
    shape: Shape
    operands: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    metadata: OpMetadata = NO_METADATA
    sharding: str = ""
    frontend_attributes: tuple[tuple[str, str], ...] = ()
    backend_config: str = ""
    statistics: str = ""
    origin: str = ""
    control_predecessors: tuple[str, ...] = ()
    is_root: bool = False
    uid: int = field(default=0, compare=False)
    _text: str = field(default="", init=False, repr=False, compare=False)

    @property
    def text(self) -> str:
        """XLA's canonical line for it, without indentation and without ROOT."""
        if not self._text:
            object.__setattr__(self, "_text", print_instruction(self))
        return self._text

    @property
    def called_computations(self) -> tuple[str, ...]:
        """Names of the computations that it calls, in the order of its attributes."""
        names: list[str] = []
        for value in self.attributes.values():
            if isinstance(value, ComputationName):
                names.append(value.name)
            elif isinstance(value, tuple) and value and isinstance(value[0], ComputationName):
                names.extend(v.name for v in value)
        return tuple(names)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class _Unfrozen(InstructionRecord):
    """A record that is not complete yet: a frozen dataclass sets each field by a call."""

    __slots__ = ()
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__  # both, or Python would still look either up for each assignment


def record_of(
    i: Any, operands: tuple[str, ...], attributes: Mapping[str, Any], before: tuple[str, ...], is_root: bool
) -> InstructionRecord:
    """The record of an HloInstruction, or with other operands of an InstructionRecord.

    `before` are its control predecessors. An observed compilation makes tens of thousands.
    """
    made: Any = object.__new__(_Unfrozen)
    made.name = i.name
    made.opcode = i.opcode
    made.shape = i.shape
    made.operands = operands
    made.attributes = attributes
    made.metadata = i.metadata
    made.sharding = i.sharding
    made.frontend_attributes = i.frontend_attributes
    made.backend_config = i.backend_config
    made.statistics = i.statistics
    made.origin = i.origin
    made.control_predecessors = before
    made.is_root = is_root
    made.uid = i.uid
    made._text = ""
    made.__class__ = InstructionRecord
    record: InstructionRecord = made
    return record


@dataclass(frozen=True)
class ComputationRecord(Displayable):
    """A snapshot of one computation; instructions are in the order in which XLA prints them."""

    name: str
    instructions: tuple[InstructionRecord, ...]
    root: str
    execution_thread: str = ""

    @cached_property
    def by_name(self) -> Mapping[str, InstructionRecord]:
        """Instructions by name."""
        return {i.name: i for i in self.instructions}


@dataclass(frozen=True)
class ModuleRecord(Displayable):
    """A snapshot of one module; computations are in the order in which XLA prints them.

    Attributes:
        entry: the name of the entry computation.
        header: the module's own attributes in XLA's text form, in order.
        tables: the stack frame tables, verbatim.
        host_callbacks: the functions of this process that it calls.
        calling: its calling convention.
        spmd_shardings: how the whole program's arguments and result are sharded (see HloModule).
    """

    name: str
    computations: tuple[ComputationRecord, ...]
    entry: str
    header: tuple[tuple[str, str], ...] = ()
    tables: str = ""
    host_callbacks: tuple[Callable[..., Any], ...] = field(default=(), repr=False)
    calling: CallingConvention | None = field(default=None, repr=False, compare=False)
    spmd_shardings: tuple[tuple[str, ...], str] = field(default=((), ""), repr=False, compare=False)

    @cached_property
    def text(self) -> str:
        """XLA's canonical text."""
        return print_module(self)

    @cached_property
    def by_name(self) -> Mapping[str, ComputationRecord]:
        """Computations by name."""
        return {c.name: c for c in self.computations}

    @property
    def entry_computation(self) -> ComputationRecord:
        """The entry computation."""
        return self.by_name[self.entry]

    @cached_property
    def instruction_count(self) -> int:
        """The number of instructions in all computations."""
        return sum(len(c.instructions) for c in self.computations)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


@named_parts.register
def _instructions(module: ModuleRecord) -> Mapping[str, Mapping[str, InstructionRecord]]:
    return {c.name: c.by_name for c in module.computations}


@size_text.register
def _module_size(module: ModuleRecord) -> str:
    return f"{module.instruction_count:,} HLO instructions"
