"""Wrap single instructions into fusions, for the fusion emitter (fusion_wrapper.h).

ROOT a = f32[8] add(x, y)
  =>  ROOT wrapped_add = f32[8] fusion(x, y), kind=kLoop, calls={ROOT a = add(p0, p1)}
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.operand_use import is_elementwise
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion.cpu_instruction_fusion import copies_rows
from xlanb.transforms.fusion_editing import create_fusion

_MOVES_DATA = frozenset(
    (
        O.BROADCAST,
        O.CONCATENATE,
        O.DYNAMIC_SLICE,
        O.DYNAMIC_UPDATE_SLICE,
        O.GATHER,
        O.IOTA,
        O.PAD,
        O.REDUCE,
        O.REDUCE_WINDOW,
        O.REVERSE,
        O.SCATTER,
        O.SLICE,
        O.TRANSPOSE,
    )
)
_NOT_WORTH_IT = frozenset((O.CONSTANT, O.MAP, O.BITCAST_CONVERT))


@dataclass(frozen=True)
class Wrapping:
    """What a target other than the CPU wraps.

    `wraps` says whether to wrap an instruction, `kind_of` as which kind of fusion.
    """

    name: str
    wraps: Callable[[HloInstruction], bool]
    kind_of: Callable[[HloInstruction], str]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FusionWrapper(HloPass):
    """Wraps every instruction that the fusion emitter supports and that is not in a fusion.

    XLA:CPU of JAX 0.10.2 leaves concatenations to a kernel of their own. With `rows_by_bytes`, as
    in 0.12, only those whose rows CpuInstructionFusion would copy. `wrapping` replaces these rules
    for another target.
    """

    name = "fusion-wrapper"
    rows_by_bytes: bool = False
    wrapping: Wrapping | None = None

    def apply(self, module: HloModule) -> None:
        graph = CallGraph(module)
        for c in module.computations:
            if not graph.is_control(c):
                continue
            for i in c.post_order():
                if self._wraps(i):
                    kind = self.wrapping.kind_of(i) if self.wrapping else "kLoop"
                    create_fusion(i, kind, f"wrapped_{i.opcode}_computation", f"wrapped_{i.opcode}")

    def _wraps(self, i: HloInstruction) -> bool:
        if self.wrapping is not None:
            return self.wrapping.wraps(i)
        return is_wrappable(i) and not self._is_concatenated_alone(i)

    def _is_concatenated_alone(self, i: HloInstruction) -> bool:
        return i.opcode is O.CONCATENATE and (not self.rows_by_bytes or copies_rows(i, by_bytes=True))


def is_wrappable(i: HloInstruction) -> bool:
    """Whether the loop emitter supports it."""
    if i.opcode is O.FUSION or i.opcode in _NOT_WORTH_IT or i.control_predecessors or i.control_successors:
        return False
    return (i.opcode in _MOVES_DATA or is_elementwise(i)) and not _leaves_bytes(i)


def _leaves_bytes(i: HloInstruction) -> bool:
    """Whether a copy or transpose moves no bytes; algsimp removes it or makes it a bitcast."""
    if i.opcode is O.COPY:
        return i.shape == i.operands[0].shape
    if i.opcode is not O.TRANSPOSE:
        return False
    return tuple(i.dimensions[d] for d in i.array_shape.minor_to_major) == i.operands[0].array_shape.minor_to_major
