"""Select Triton for fusions that it computes faster: slow transposes, and s32 reductions.

Follows fusion_block_level_rewriter.cc.

    f = f32[16,8,3,3] fusion(k), kind=kLoop, calls={ROOT transpose(p0), dimensions={3,2,0,1}}
    =>  f = f32[16,8,3,3] fusion(k), kind=kCustom, ... "kind":"__triton" ...
        "sizes":["8","1","3","3"]

A transpose is slow if it exchanges the fastest dimension with one of the slowest. The tile is the
fastest one by the performance model.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from xlanb.conditions import Condition, asked, first_failing, objecting
from xlanb.gpu.backend_config import changed, fusion_config
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.heroes import grouped_transpose
from xlanb.gpu.model.cost_analysis import GpuCostAnalysis
from xlanb.gpu.model.fusible import is_loop_fusion
from xlanb.gpu.model.fusion_analysis import TRITON_KIND
from xlanb.gpu.model.fusion_view import FusionView
from xlanb.gpu.model.tiling import Tiling, best_tiling
from xlanb.gpu.triton import support
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType, TupleShape
from xlanb.tracing import Decision, because, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass

_FILE: Final = "xlanb/gpu/transforms/fusion_block_level_rewriter.py"


@dataclass(frozen=True)
class FusionBlockLevelRewriter(HloPass):
    """Rewrites slow transposes and integer reductions as Triton fusions."""

    name = "fusion-block-level-rewriter"
    triggers = frozenset((O.FUSION,))

    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))
    """The GPU of the cost model."""

    def apply(self, module: HloModule) -> None:
        for i in module.instructions():
            if i.opcode is O.FUSION and is_slow(i):
                _rewrite(i, self.device)


def is_slow(fusion: HloInstruction) -> bool:
    """Whether Triton may compute a fusion faster: a slow transpose or an s32 reduction."""
    if isinstance(fusion.shape, TupleShape):
        return False
    root = fusion.fused_computation.root
    return (is_loop_fusion(fusion) and _is_slow_transpose(root)) or _is_integer_reduction(root)


def _is_integer_reduction(root: HloInstruction) -> bool:
    shapes = (root.shape, *(o.shape for o in root.operands))
    return root.opcode is O.REDUCE and all(
        isinstance(s, ArrayShape) and s.element_type is PrimitiveType.S32 for s in shapes
    )


def _is_slow_transpose(root: HloInstruction) -> bool:
    if root.opcode is not O.TRANSPOSE or root.array_shape.minor_to_major[::-1] != tuple(range(root.array_shape.rank)):
        return False
    _, permutation = grouped_transpose(root)
    rank = len(permutation)
    if rank < 3 or permutation[permutation[-1]] != rank - 1 or permutation[-1] >= rank - 2:
        return False
    source = root.operands[0]
    if source.opcode is O.BITCAST and source.operands[0].opcode is O.PARAMETER:
        shape = source.array_shape
        minor = shape.dimensions[shape.minor_to_major[0]]
        return minor & (minor - 1) == 0
    return source.opcode is O.PARAMETER


# -- conditions ------------------------------------------------------------------------------------


@dataclass(slots=True)
class BlockLevelCandidate:
    """A fusion, the device, and the tiling once it is computed."""

    fusion: HloInstruction
    device: GpuDevice
    tiling: Tiling | str | None = None

    def find_tiling(self) -> str:
        """Compute the tiling; return why there is none, or ""."""
        if self.tiling is None:
            self.tiling = best_tiling(FusionView(self.fusion), GpuCostAnalysis(self.device), self.device)
        return self.tiling if isinstance(self.tiling, str) else ""


CONDITIONS: tuple[Condition[BlockLevelCandidate], ...] = (
    objecting("Triton supports its instructions", lambda c: support.objection(c.fusion, c.device)),
    Condition("it has no tile yet", lambda c: "block_level_fusion_config" not in fusion_config(c.fusion)),
    objecting("it has tiles", BlockLevelCandidate.find_tiling),
)
"""Conditions for rewriting a slow fusion."""


def _rewrite(fusion: HloInstruction, device: GpuDevice) -> None:
    candidate = BlockLevelCandidate(fusion, device)
    holds = first_failing(CONDITIONS, candidate) is None
    if is_observed():
        predicates = asked(CONDITIONS, candidate)
        emit(Decision(current_cause(), "emit by Triton", (fusion.name,), holds, predicates))
    if not holds or not isinstance(candidate.tiling, Tiling):
        return
    config = fusion_config(fusion) | {"kind": TRITON_KIND, "block_level_fusion_config": candidate.tiling.config}
    where = f"{_FILE}:{_rewrite.__code__.co_firstlineno}"
    with because(rule="emit by Triton", where=where, parts=(("fusion", fusion.name),)):
        text = changed(fusion, fusion_backend_config=config, native_emitter_backend_config=None)
        fusion.parent.update(fusion, attributes={"kind": "kCustom"}, backend_config=text)
