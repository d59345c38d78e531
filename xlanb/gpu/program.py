"""The program of a module on a GPU: memory, kernels, and the host's launch sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xlanb.analysis.dataflow import FORWARDING, is_plain_reshape
from xlanb.buffers.buffer_assignment import BufferAssignment, Slice
from xlanb.buffers.live_ranges import LiveRange
from xlanb.codegen.elemental import Leaf, UnplannedKernelError
from xlanb.codegen.module import ModuleBuilder, identifier
from xlanb.gpu import policy
from xlanb.gpu.emitters.kernel import Lowering, constant_bytes
from xlanb.gpu.emitters.table import choose
from xlanb.gpu.launches import (
    Conditional,
    CopyLaunch,
    Fill,
    KernelLaunch,
    Launch,
    Launches,
    LibraryCall,
    MemoryRange,
    While,
    kernels,
)
from xlanb.gpu.target import GpuTarget
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

_NO_CODE = frozenset({Op.PARAMETER, Op.CONSTANT, Op.TUPLE, Op.GET_TUPLE_ELEMENT, Op.AFTER_ALL}) | FORWARDING


@dataclass(frozen=True)
class DeviceMemory:
    """A block of device memory.

    Attributes:
        kind: "parameter", "output", "constant" or "temp".
        size: its bytes.
        number: the leaf's number among those of the parameters, or of the result.
        data: a constant's bytes.
    """

    kind: str
    size: int
    number: int | None = None
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class LaunchProgram:
    """A compiled program: its memories by number, and the launch sequence."""

    name: str
    target: GpuTarget
    memories: tuple[DeviceMemory, ...]
    launches: Launches

    @property
    def outputs(self) -> list[int]:
        """The numbers of the result leaves' memories."""
        found = {m.number: n for n, m in enumerate(self.memories) if m.kind == "output" and m.number is not None}
        return [found[number] for number in sorted(found)]

    @property
    def kernels(self) -> list[KernelLaunch]:
        """The kernels in program order."""
        return list(kernels(self.launches))


def emit_program(
    assignment: BufferAssignment, target: GpuTarget, line_of: dict[str, int] | None = None
) -> LaunchProgram:
    """Return the kernels and launch sequence of a scheduled module with its buffers.

    `line_of` gives the line of each HLO instruction, for debug locations.

    Raises:
        UnimplementedError: the back end does not know an instruction; the message shows it.
        UnplannedKernelError: an instruction cannot be written as one kernel.
    """
    writer = _ProgramWriter(assignment, target, line_of)
    writer.write()
    return LaunchProgram(assignment.module.name, target, tuple(writer.memories), Launches(writer.sequence))


class _ProgramWriter:
    def __init__(self, assignment: BufferAssignment, target: GpuTarget, line_of: dict[str, int] | None) -> None:
        self.assignment, self.target, self.line_of = assignment, target, line_of
        self.flow = assignment.live
        self.memories = [
            DeviceMemory(a.kind, a.size, a.number, constant_bytes(a.constant) if a.constant is not None else None)
            for a in assignment.allocations
        ]
        self.sequence: list[Launch] = []
        self._constants: dict[object, MemoryRange] = {}
        self._symbols = ModuleBuilder("", target)
        self._loop_of = {loop.instruction: loop for loop in self.flow.loops}
        self._choice_of = {c.instruction: c for c in self.flow.choices}

    def write(self) -> None:
        self._computation(self.assignment.module.entry_computation)
        outputs = {a.number: a.index for a in self.assignment.allocations if a.kind == "output"}
        for value, number in self.assignment.result_copies:
            if value.size:
                source = _place(self.assignment.slice_of_value(value))
                self.launch(
                    CopyLaunch(
                        MemoryRange(outputs[number], 0, value.size),
                        MemoryRange(source.memory, source.offset, value.size),
                    )
                )

    # -- for lowerings (see Memories) --------------------------------------------------------------

    def place(self, i: HloInstruction, leaf: Leaf = ()) -> MemoryRange:
        return _place(self.assignment.slice_of(i, leaf))

    def scratch(self, i: HloInstruction) -> MemoryRange | None:
        found = self.assignment.scratch_of(i)
        return None if found is None else _place(found)

    def constant(self, i: HloInstruction) -> MemoryRange:
        known = self._constants.get(i.literal)
        if known is None:
            data = constant_bytes(i)
            self.memories.append(DeviceMemory("constant", len(data), None, data))
            known = self._constants[i.literal] = MemoryRange(len(self.memories) - 1, 0, len(data))
        return known

    def unique(self, name: str) -> str:
        wanted = identifier(name).replace(".", "_").replace("-", "_")
        if not wanted[0].isalpha():  # PTX rejects a lone underscore as a name, and LLVM a leading digit
            wanted = f"kernel_{wanted}"
        made = self._symbols.unique(wanted)
        while "." in made:  # taken, or a C library function: PTX names have no dots
            made = self._symbols.unique(made.replace(".", "_"))
        return made

    def launch(self, launch: Launch) -> None:
        self.sequence.append(launch)

    # -- the sequence ------------------------------------------------------------------------------

    def _computation(self, c: HloComputation) -> None:
        for i in self.assignment.orders[c]:
            if i.opcode is Op.COPY_START and self.assignment.has_place(i, (2,)):
                self.launch(Fill(self.place(i, (2,)), 0))
            if i.opcode in _NO_CODE or is_plain_reshape(i):
                continue
            if i.opcode is Op.WHILE:
                self._while(i)
            elif i.opcode is Op.CONDITIONAL:
                self._conditional(i)
            elif i.opcode is Op.CALL:
                self._computation(i.called_computations[0])
            else:
                self._instruction(i)

    def _instruction(self, i: HloInstruction) -> None:
        library = policy.library_of(i)
        if library is not None:
            self.launch(LibraryCall(library, i, tuple(self._leaves(i.operands)), tuple(self._leaves([i]))))
            return
        emitter = choose(i)
        try:
            emitter.emit(Lowering(self, i, emitter.name))
        except UnplannedKernelError as error:
            error.instruction = i
            raise

    def _leaves(self, instructions: Sequence[HloInstruction]) -> list[MemoryRange | None]:
        """Return the arrays of instructions, leaf by leaf; None for a token."""
        return [None if s.is_token else self.place(i, leaf) for i in instructions for leaf, s in i.shape.leaves()]

    def _inner(self, *computations: HloComputation, end: int | None = None) -> tuple[Launch, ...]:
        """Return the launches of a computation, and of the copies at a position."""
        outer, self.sequence = self.sequence, []
        for c in computations:
            self._computation(c)
        if end is not None:
            self._copies(end)
        made, self.sequence = tuple(self.sequence), outer
        return made

    def _while(self, i: HloInstruction) -> None:
        loop = self._loop_of[i]
        if not loop.state and not i.has_side_effect:
            return  # the body changes nothing: if the loop ends, its result is its input
        condition, body = i.attributes["condition"], i.attributes["body"]
        self._copies(loop.begin)
        tested = self._inner(condition)
        self.launch(While(i, tested, self.place(condition.root), self._inner(body, end=loop.body_end)))

    def _conditional(self, i: HloInstruction) -> None:
        index = i.operands[0]
        pairs = zip(i.called_computations, self._choice_of[i].branches, strict=True)
        branches = tuple(self._inner(c, end=end) for c, (end, _) in pairs)
        kind: PrimitiveType = index.array_shape.element_type
        self.launch(Conditional(i, self.place(index), kind, branches))

    def _copies(self, position: int) -> None:
        """Emit the copies at a position.

        First save what later copies overwrite, then copy everything to its destination.
        """
        copies = self.assignment.copies.get(position, ())
        where: dict[LiveRange, MemoryRange] = {}
        for c in copies:
            if c.source not in where:
                where[c.source] = _place(self.assignment.slice_of_value(c.source))
                aside = self.assignment.staged.get((position, c.source))
                if aside is not None:
                    target = _place(aside)
                    self.launch(CopyLaunch(target, where[c.source]))
                    where[c.source] = target
        for c in copies:
            self.launch(CopyLaunch(_place(self.assignment.slice_of_value(c.target)), where[c.source]))


def _place(s: Slice) -> MemoryRange:
    return MemoryRange(s.allocation, s.offset, s.size)
