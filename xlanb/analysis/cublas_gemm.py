"""Semantics of cuBLAS matrix products, custom calls created by XLA:GPU's cublas-gemm-rewriter.

    __cublas$gemm(lhs, rhs[, c])                  alpha * dot(lhs, rhs) + beta * c
    __cublas$lt$matmul(lhs, rhs[, c][, bias])     the same plus a bias along the last dimension,
                                                  then an activation

They replace dots and their epilogues.
Source: xla/service/gpu/backend_configs.proto (GemmBackendConfig),
xla/service/gpu/gpublas_lt_matmul_thunk.cc.
"""

from __future__ import annotations

import json
from typing import Any

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, TupleShape

GEMM = "__cublas$gemm"
MATMUL = "__cublas$lt$matmul"
TARGETS = (GEMM, MATMUL)
EPILOGUES = ("DEFAULT", "RELU", "GELU", "BIAS", "BIAS_RELU", "BIAS_GELU")
"""The supported epilogues; auxiliary results of GELU are not supported."""


@dataclass(frozen=True)
class Gemm:
    """A call's dimension numbers and scales: `epilogue` is one of EPILOGUES."""

    batch: tuple[tuple[int, ...], tuple[int, ...]]
    contracting: tuple[tuple[int, ...], tuple[int, ...]]
    alpha: complex
    beta: float
    epilogue: str


def is_gemm(i: HloInstruction) -> bool:
    """Whether an instruction is a call of a cuBLAS matrix product with known semantics."""
    if i.opcode is not HloOpcode.CUSTOM_CALL or i.get("custom_call_target") not in TARGETS:
        return False
    made = gemm_of(i)
    return made is not None and made.epilogue in EPILOGUES


def result_shape(i: HloInstruction) -> ArrayShape:
    """The shape of the product; a call returns it in a tuple with the library's workspace."""
    return (i.shape.shapes[0] if isinstance(i.shape, TupleShape) and i.shape.shapes else i.shape).as_array()


def config_of(i: HloInstruction, name: str) -> dict[str, Any]:
    """A part of an instruction's backend config; empty if absent or not JSON."""
    try:
        found = json.loads(i.backend_config).get(name)
    except (ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}


def gemm_of(i: HloInstruction) -> Gemm | None:
    """The parameters in a call's backend config; None if absent or in another form."""
    config = config_of(i, "gemm_backend_config")
    numbers = config.get("dot_dimension_numbers")
    if not isinstance(numbers, dict):
        return None

    def dims(name: str) -> tuple[int, ...]:
        return tuple(int(d) for d in numbers.get(name, ()))

    try:
        alpha = complex(float(config.get("alpha_real", 1.0)), float(config.get("alpha_imag", 0.0)))
        return Gemm(
            (dims("lhs_batch_dimensions"), dims("rhs_batch_dimensions")),
            (dims("lhs_contracting_dimensions"), dims("rhs_contracting_dimensions")),
            alpha,
            float(config.get("beta", 0.0)),
            str(config.get("epilogue", "DEFAULT")),
        )
    except (TypeError, ValueError, OverflowError):  # not a number where one is required
        return None
