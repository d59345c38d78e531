"""Custom calls with operands and results of any number and shape: a value, or an EvaluationError."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from xlanb.errors import EvaluationError, InternalError
from xlanb.evaluator import evaluate
from xlanb.evaluator.custom_calls import _TARGETS
from xlanb.evaluator.lapack import _ROUTINES
from xlanb.hlo import parse

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
