"""Replace dots, convolutions and large reductions by library calls (dot-library-rewriter).

    d = f32[64,4] dot(a, b), lhs_contracting_dims={1}
      =>  d = f32[64,4] fusion(a, b), kind=kCustom, calls={ROOT dot(p0, p1)}, "__ynn_fusion"

A reduction is fused with the operands that have no other use and with its only user, as long as the
library can compute them. `ynn_support` says what the library supports.
Source: xla/backends/cpu/transforms/library_rewriter.h.
"""

from __future__ import annotations

from collections import deque

from xlanb.analysis.call_graph import CallGraph
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.base import HloPass
from xlanb.transforms.dots.ynn_support import YnnRules, supported
from xlanb.transforms.fusion_editing import create_fusion, fuse_consumer, fuse_into

_CONFIG = '{"outer_dimension_partitions":[],"fusion_config":{"kind":"__ynn_fusion"}}'
_PRODUCTS = (O.DOT, O.CONVOLUTION)
_STARTERS = frozenset((*_PRODUCTS, O.REDUCE, O.REDUCE_WINDOW))


@dataclass(frozen=True)
class DotLibraryRewriter(HloPass):
    """Wraps instructions that the library supports in custom fusions.

    `bf16_dots` and `large_bitcasts` as in YnnRules.
    """

    name = "dot-library-rewriter"
    bf16_dots: bool = False
    large_bitcasts: bool = False

    def apply(self, module: HloModule) -> None:
        graph = CallGraph(module)
        rules = YnnRules(self.bf16_dots, self.large_bitcasts)
        for c in module.post_order():
            if graph.is_control(c):
                _rewrite(c, rules)


def _rewrite(c: HloComputation, rules: YnnRules) -> None:
    """Start a fusion with each dot, convolution and reduction not fused yet, users first."""
    fused: set[HloInstruction] = set()
    for i in reversed([i for i in c.post_order() if i.opcode in _STARTERS]):
        if i in fused or not supported(i, rules):
            continue
        is_product = i.opcode in _PRODUCTS
        fused.add(i)
        fusion = create_fusion(i, "kCustom", name="ynn_fusion")
        c.update(fusion, backend_config=_CONFIG)
        # Fusing a neighbour may leave an operand with one user: try again.
        while not is_product and _grow(fusion, rules, fused):
            pass


def _grow(fusion: HloInstruction, rules: YnnRules, fused: set[HloInstruction]) -> bool:
    """Fuse the neighbours of a fusion, nearest first; return whether any was fused."""
    c, before = fusion.parent, len(fused)
    seen = {fusion}
    queue: deque[tuple[HloInstruction, bool]] = deque()
    _add_neighbours(fusion, fusion, queue, seen, up=True, down=True)
    while queue:
        i, is_operand = queue.popleft()
        if not supported(i, rules) or i.control_predecessors or i.control_successors:
            continue
        fused.add(i)
        _add_neighbours(fusion, i, queue, seen, up=is_operand, down=not is_operand)
        if is_operand:
            fuse_into(fusion, i)
            c.remove(i)
        else:
            fuse_consumer(fusion, i)
    return len(fused) > before


def _add_neighbours(
    fusion: HloInstruction,
    i: HloInstruction,
    queue: deque[tuple[HloInstruction, bool]],
    seen: set[HloInstruction],
    *,
    up: bool,
    down: bool,
) -> None:
    """Queue the operands of `i` that have no other use, and its user if it is the only one."""
    if up:
        for o in dict.fromkeys(i.operands):
            if o not in seen and not o.is_root and all(u in (fusion, i) for u in o.users):
                queue.append((o, True))
                seen.add(o)
    if down and i.user_count == 1 and not i.is_root:
        (user,) = i.users
        if user not in seen:
            queue.append((user, False))
            seen.add(user)
