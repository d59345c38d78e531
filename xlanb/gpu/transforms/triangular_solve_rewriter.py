"""Replace triangular solves by cuBLAS calls.

Follows xla/service/gpu/transforms/triangular_solve_rewriter.cc.

    triangular-solve(a, b)    =>    custom-call(a, b), "__cublas$triangularSolve", with a workspace

A batch needs two pointers per matrix in the workspace.
"""

from __future__ import annotations

from math import prod
from typing import Final

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.cublas_triangular_solve import TARGET, TriangularSolveOptions
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType as T
from xlanb.shape.shape import array, tuple_of
from xlanb.transforms.base import HloPass

_POINTERS: Final = 2 * 8


class TriangularSolveRewriter(HloPass):
    """Replaces every triangular solve by a cuBLAS call."""

    name = "triangular-solve-rewriter"
    triggers = frozenset((O.TRIANGULAR_SOLVE,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c:
                if i.opcode is O.TRIANGULAR_SOLVE and not (i.control_predecessors or i.control_successors):
                    _rewrite(i)


def _rewrite(i: HloInstruction) -> None:
    c, batches = i.parent, prod(i.operands[1].array_shape.dimensions[:-2])
    memory = 0 if batches == 1 else _POINTERS * batches
    options = TriangularSolveOptions(
        bool(i.get("left_side")), bool(i.get("lower")), bool(i.get("unit_diagonal")), str(i.get("transpose_a"))
    )
    call = c.add(
        O.CUSTOM_CALL,
        i.operands,
        tuple_of((i.shape, array(T.S8, (memory,)))),
        name="triangular-solve",
        metadata=i.metadata,
        custom_call_target=TARGET,
    )
    c.update(call, backend_config=options.config, frontend_attributes=i.frontend_attributes)
    c.replace(i, c.add(O.GET_TUPLE_ELEMENT, (call,), i.shape, like=i, index=0))
