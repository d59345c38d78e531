"""Semantics of cuBLAS triangular solves, created by XLA:GPU's triangular-solve-rewriter.

    __cublas$triangularSolve(a, b)    x with op(a) x = b, or x op(a) = b, and a workspace

Source: xla/service/gpu/transforms/triangular_solve_rewriter.cc, xla_data.proto
(TriangularSolveOptions).
"""

from __future__ import annotations

import json
from dataclasses import asdict

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass

TARGET = "__cublas$triangularSolve"


@dataclass(frozen=True)
class TriangularSolveOptions:
    """The options of a triangular-solve; `transpose_a` is NO_TRANSPOSE, TRANSPOSE or ADJOINT."""

    left_side: bool = False
    lower: bool = False
    unit_diagonal: bool = False
    transpose_a: str = "NO_TRANSPOSE"

    @property
    def config(self) -> str:
        """The backend config of a call with these options."""
        return json.dumps(asdict(self), separators=(",", ":"))


def is_triangular_solve(i: HloInstruction) -> bool:
    """Whether an instruction is a call of a cuBLAS triangular solve."""
    return i.opcode is HloOpcode.CUSTOM_CALL and i.get("custom_call_target") == TARGET


def options_of(call: HloInstruction) -> TriangularSolveOptions:
    """The options in the backend config of a call, with defaults for absent ones."""
    try:
        given = json.loads(call.backend_config)
    except ValueError:
        given = {}
    if not isinstance(given, dict):
        given = {}
    flags = {name: bool(given.get(name, False)) for name in ("left_side", "lower", "unit_diagonal")}
    return TriangularSolveOptions(**flags, transpose_a=str(given.get("transpose_a", "NO_TRANSPOSE")))
