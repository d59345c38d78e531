"""Dots and large reductions handed to a kernel library (xla/backends/cpu/transforms/library_rewriter.h, the pass dot-library-rewriter).

    d = f32[8,4] dot(a, b), lhs_contracting_dims={1}    =>    d = f32[8,4] fusion(a, b), kind=kCustom, calls={ROOT dot(p0, p1)}, "__ynn_fusion"

What the library takes follows from what XLA:CPU of jax 0.10 hands to it: dots whose left operand is contracted along its last dimension, reductions of some thousand elements.
XLA also draws neighbouring elementwise instructions into such a fusion; this pass leaves them to loop fusions.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.analysis.call_graph import CallGraph
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.transforms.algebraic_simplifier.reduce import reducer
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion_editing import create_fusion

_CONFIG = '{"outer_dimension_partitions":[],"fusion_config":{"kind":"__ynn_fusion"}}'
_MIN_REDUCED = 4096
_TYPES = frozenset((PrimitiveType.F32, PrimitiveType.BF16))


@dataclass(frozen=True)
class DotLibraryRewriter(HloPass):
    """Wraps what the library takes in custom fusions."""

    name = "dot-library-rewriter"

    def apply(self, module: HloModule) -> None:
        graph = CallGraph(module)
        for c in module.post_order():
            if not graph.is_control(c):
                continue
            for i in c.post_order():
                if _is_library_dot(i) or is_library_reduce(i):
                    fusion = create_fusion(i, "kCustom", name="ynn_fusion")
                    c.update(fusion, backend_config=_CONFIG)


def _is_library_dot(i: HloInstruction) -> bool:
    if i.opcode is not O.DOT or any(o.shape.element_type not in _TYPES for o in i.operands):
        return False
    return i.ints("lhs_contracting_dims") == (i.operands[0].array_shape.rank - 1,)


def is_library_reduce(i: HloInstruction) -> bool:
    """Whether it is a reduction that the library takes."""
    if i.opcode is not O.REDUCE or len(i.operands) != 2 or i.shape.element_type is not PrimitiveType.F32:
        return False
    return (
        reducer(i.to_apply) in (O.ADD, O.MAXIMUM, O.MINIMUM) and i.operands[0].array_shape.element_count >= _MIN_REDUCED
    )
