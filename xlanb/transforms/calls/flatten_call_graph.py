"""Clone computations so that each call has its own copy.

a = call(x), to_apply=f;  b = call(y), to_apply=f
  =>  a = call(x), to_apply=f;  b = call(y), to_apply=f.clone

Source: xla/hlo/transforms/simplifiers/flatten_call_graph.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.expansion import check_expansion
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.transforms.base import HloPass


class FlattenCallGraph(HloPass):
    """Clones computations that several instructions call, or that one instruction calls twice."""

    name = "flatten-call-graph"
    triggers = frozenset(o for o in HloOpcode if o.may_call)

    def apply(self, module: HloModule) -> None:
        check_expansion(module, self.name)
        graph = CallGraph(module)
        for c in module.post_order():
            shared = c.is_entry
            for site in graph.callers[c]:
                for attribute, index in _uses(site.instruction, c):
                    if shared:
                        _redirect(site.instruction, attribute, index, _clone_tree(module, c))
                    shared = True


def _uses(instruction: HloInstruction, computation: HloComputation) -> list[tuple[str, int | None]]:
    """The attributes that name a computation, each with the index in it if it is a list."""
    out: list[tuple[str, int | None]] = []
    for key, value in instruction.attributes.items():
        if value is computation:
            out.append((key, None))
        elif isinstance(value, tuple):
            out.extend((key, n) for n, v in enumerate(value) if v is computation)
    return out


def _redirect(instruction: HloInstruction, attribute: str, index: int | None, target: HloComputation) -> None:
    value: HloComputation | tuple[HloComputation, ...] = target
    if index is not None:
        listed = instruction.attributes[attribute]
        value = (*listed[:index], target, *listed[index + 1 :])
    instruction.parent.update(instruction, attributes={attribute: value})


def _clone_tree(module: HloModule, source: HloComputation) -> HloComputation:
    """Clone a computation and everything that it calls."""
    clone = module.clone_computation(source, f"{source.name}.clone")
    for site in CallGraph.sites_of(clone):
        for called in dict.fromkeys(site.computations):
            for attribute, index in _uses(site.instruction, called):
                _redirect(site.instruction, attribute, index, _clone_tree(module, called))
    return clone
