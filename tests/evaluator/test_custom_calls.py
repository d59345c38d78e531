"""Custom calls with any number and shape of operands and results.

Each gives a value, or an EvaluationError.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from xlanb.analysis import cublas_gemm, cublas_triangular_solve, cudnn_convolution
from xlanb.errors import EvaluationError, InternalError
from xlanb.evaluator import evaluate
from xlanb.evaluator.custom_calls import _TARGETS
from xlanb.evaluator.lapack import _ROUTINES
from xlanb.hlo import parse
from xlanb.runtime.opt import random_value

SHAPES = ("f32[3,3]", "f32[2,3]", "f32[3]", "f32[]", "s32[]", "f32[2,3,3]", "f32[0,3]")
RESULTS = (
    "f32[3,3]", "f32[2,3]", "f32[3]", "f32[]", "()", "(f32[3,3])", "(f32[3,3], f32[3])", "(f32[3,3], s32[])",
    "(f32[2,3], s32[], s32[])", "(f32[3,3], s32[3], s32[])",
)  # fmt: skip
OPTIONS = (
    "{uplo = 76 : ui8, side = 76 : ui8, trans_x = 78 : ui8, diag = 78 : ui8, mode = 65 : ui8, compute_left = 78 : ui8}"
)


def texts(target: str, rng: np.random.Generator, count: int) -> list[str]:
    found = []
    for _ in range(count):
        given = rng.choice(SHAPES, int(rng.integers(0, 5))) if rng.random() < 0.5 else [rng.choice(SHAPES)] * 2
        rows = [f"p{k} = {s} parameter({k})\n" for k, s in enumerate(given)]
        names = ", ".join(f"p{k}" for k in range(len(given)))
        call = f'{rng.choice(RESULTS)} custom-call({names}), custom_call_target="{target}", backend_config={OPTIONS}'
        found.append(f"HloModule m\nENTRY e {{\n{''.join(rows)}ROOT r = {call}\n}}\n")
    return found


@pytest.mark.parametrize(
    "target", [*sorted(_TARGETS), *(f"lapack_{letter}{name}_ffi" for letter, name in product("s", sorted(_ROUTINES)))]
)
def test_any_operands_and_results_of_a_custom_call(target: str, rng: np.random.Generator) -> None:
    for text in texts(target, rng, 60):
        module = parse(text)
        arguments = [
            np.ones(p.array_shape.dimensions, p.array_shape.dtype) for p in module.entry_computation.parameters
        ]
        try:
            evaluate(module, *arguments)
        except InternalError as error:
            raise AssertionError(text) from error
        except EvaluationError:
            continue


LIBRARY_SHAPES = ("f32[1,4,4,3]", "f32[3,3]", "s8[3,3]", "c64[3,3]", "(f32[3,3])", "f32[3]", "f32[2,3,3]")
CONFIGS = {
    **dict.fromkeys(
        cudnn_convolution.TARGETS,
        (
            '{"cudnn_conv_backend_config":{"activation_mode":"kRelu","conv_result_scale":1}}',
            '{"cudnn_conv_backend_config":{"activation_mode":7,"conv_result_scale":"one"}}',
            '{"cudnn_conv_backend_config":{"side_input_scale":[1]}}',
            '"[]"',
        ),
    ),
    **dict.fromkeys(
        cublas_gemm.TARGETS,
        (
            '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}',
            '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":1}}}',
            '{"gemm_backend_config":{"alpha_real":{},"dot_dimension_numbers":{}}}',
            '{"gemm_backend_config":{"beta":"none","dot_dimension_numbers":{"lhs_batch_dimensions":["x"]}}}',
        ),
    ),
    cublas_triangular_solve.TARGET: ('{"left_side":true,"transpose_a":"ADJOINT"}', '{"transpose_a":3}', '"7"'),
}
"""Valid and invalid backend configs of the libraries that programs for GPUs call."""


@pytest.mark.parametrize("target", CONFIGS)
def test_any_operands_and_configs_of_a_library_of_gpus(target: str, rng: np.random.Generator) -> None:
    for _ in range(150):
        given = list(rng.choice(LIBRARY_SHAPES, int(rng.integers(0, 5))))
        if rng.random() < 0.5:
            given = [rng.choice(LIBRARY_SHAPES)] * int(rng.integers(2, 4))
        rows = "".join(f"p{k} = {s} parameter({k})\n" for k, s in enumerate(given))
        names = ", ".join(f"p{k}" for k in range(len(given)))
        result = rng.choice(
            ("f32[3,3]", "(f32[3,3], u8[0])", "(f32[1,4,4,3], s8[9])", "s8[3,3]", "((f32[3,3]), u8[0])")
        )
        call = (
            f"{result} custom-call({names}), window={{size=1x1}}, dim_labels=b01f_01io->b01f, "
            f'custom_call_target="{target}"'
        )
        text = f"HloModule m\nENTRY e {{\n{rows}ROOT r = {call}, backend_config={rng.choice(CONFIGS[target])}\n}}\n"
        module = parse(text)
        arguments = [random_value(p.shape) for p in module.entry_computation.parameters]
        try:
            evaluate(module, *arguments)
        except InternalError as error:
            raise AssertionError(text) from error
        except EvaluationError:
            continue
