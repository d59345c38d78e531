"""Call graph: the callers of each computation, and the kinds of calls.

A control call (call, while, conditional, async-start) runs its computation as a separate sequence;
an embedded one (reduce, sort, fusion, ...) is part of an instruction.
Source: xla/hlo/analysis/call_graph.h.
"""

from __future__ import annotations

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass

_CONTROL = frozenset(
    (
        HloOpcode.CALL,
        HloOpcode.WHILE,
        HloOpcode.CONDITIONAL,
        HloOpcode.ASYNC_START,
        HloOpcode.ASYNC_UPDATE,
        HloOpcode.ASYNC_DONE,
    )
)


@dataclass(frozen=True)
class CallSite:
    """An instruction that calls computations."""

    instruction: HloInstruction
    computations: tuple[HloComputation, ...]

    @property
    def is_control(self) -> bool:
        """Whether the computations run as separate sequences."""
        return self.instruction.opcode in _CONTROL


class CallGraph:
    """The current calls of a module; linear in the module."""

    __slots__ = ("callers", "sites")

    def __init__(self, module: HloModule) -> None:
        self.sites: dict[HloComputation, list[CallSite]] = {c: self.sites_of(c) for c in module.computations}
        self.callers: dict[HloComputation, list[CallSite]] = {c: [] for c in module.computations}
        for sites in self.sites.values():
            for site in sites:
                for d in dict.fromkeys(site.computations):
                    self.callers[d].append(site)

    @staticmethod
    def sites_of(computation: HloComputation) -> list[CallSite]:
        """The calls that a computation makes."""
        return [CallSite(i, called) for i in computation if i.opcode.may_call and (called := i.called_computations)]

    def is_control(self, computation: HloComputation) -> bool:
        """Whether it runs as a separate sequence: the entry, or called only by control calls."""
        callers = self.callers[computation]
        return computation.is_entry or (bool(callers) and all(s.is_control for s in callers))


def is_fusion_computation(computation: HloComputation, graph: CallGraph) -> bool:
    """Whether it is the body of a fusion."""
    return any(s.instruction.opcode is HloOpcode.FUSION for s in graph.callers[computation])


def nonfusion_computations(module: HloModule) -> list[HloComputation]:
    """All computations except fusion bodies, callees first (XLA's MakeNonfusionComputations)."""
    if HloOpcode.FUSION not in module.opcodes:
        return module.post_order()
    fused = {i.fused_computation for i in module.instructions() if i.opcode is HloOpcode.FUSION}
    return [c for c in module.post_order() if c not in fused]
