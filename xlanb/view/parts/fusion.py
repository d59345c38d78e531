"""One instruction and its neighbours; a fusion with its ops and the memory traffic that it
saves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.view.parts.hlo import near
from xlanb.view.parts.memory import bytes_text

_AROUND = 24  # instructions drawn around one
_NO_MEMORY = frozenset(
    {HloOpcode.PARAMETER, HloOpcode.CONSTANT, HloOpcode.TUPLE, HloOpcode.GET_TUPLE_ELEMENT, HloOpcode.BITCAST}
)


@dataclass(frozen=True)
class Traffic:
    """Bytes that a fused computation reads and writes, and those that fusion saves.

    The saved bytes are those of inner results, which separate kernels would write and read again.
    """

    reads: int
    writes: int
    saved: int
    operations: int

    def __str__(self) -> str:
        return (
            f"{self.operations} operation{'' if self.operations == 1 else 's'} in one kernel: reads "
            f"{bytes_text(self.reads)}, writes {bytes_text(self.writes)}; "
            f"separate kernels would move {bytes_text(self.saved)} more"
        )


def traffic(computation: ComputationRecord) -> Traffic:
    """Return a fused computation's traffic.

    Inner results that are not outputs are neither written nor read by each of their users.
    """
    uses = Counter(o for i in computation.instructions for o in dict.fromkeys(i.operands))
    root = computation.by_name[computation.root]
    results = set(root.operands) if root.opcode is HloOpcode.TUPLE else {root.name}
    saved = 0
    for i in computation.instructions:
        if i.opcode not in _NO_MEMORY:
            inner_reads = uses[i.name] - (1 if i.name in results and root.opcode is HloOpcode.TUPLE else 0)
            saved += i.shape.byte_size * (inner_reads + (i.name not in results))
    reads = sum(i.shape.byte_size for i in computation.instructions if i.opcode is HloOpcode.PARAMETER and uses[i.name])
    operations = sum(i.opcode not in _NO_MEMORY for i in computation.instructions)
    return Traffic(reads, root.shape.byte_size, saved, operations)


def fused_computation(instruction: InstructionRecord, module: ModuleRecord) -> ComputationRecord | None:
    """Return a fusion's computation; None for other instructions."""
    if instruction.opcode is not HloOpcode.FUSION or not instruction.called_computations:
        return None
    return module.by_name.get(instruction.called_computations[0])


def neighbourhood(instruction: InstructionRecord, computation: ComputationRecord) -> ComputationRecord:
    """The instructions nearest to one, in order."""
    neighbours: dict[str, list[str]] = {i.name: list(i.operands) for i in computation.instructions}
    for i in computation.instructions:
        for o in i.operands:
            if o in neighbours:
                neighbours[o].append(i.name)
    kept = near(neighbours, [instruction.name], _AROUND)
    return ComputationRecord(
        computation.name,
        tuple(i for i in computation.instructions if i.name in kept),
        instruction.name,
        computation.execution_thread,
    )
