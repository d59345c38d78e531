"""Calls of LAPACK routines as in JAX, for several vector widths that the host supports."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import strategies as st

from xlanb.cpu import CompileOptions, Executable, compile_module
from xlanb.hlo import parse
from xlanb.transforms.pipeline import HloPassPipeline

Dims = Sequence[int | str]
Lapack = Callable[..., Executable]


def shape_text(dtype: str, batch: Sequence[int], dims: Dims) -> str:
    """An array of a batch, column-major matrices; dimensions after an "s" are of integers."""
    if dims[:1] == ("s",):
        dtype, dims = "s32", dims[1:]
    slowest = [*range(len(batch)), *reversed(range(len(batch), len(batch) + len(dims)))]
    layout = f"{{{','.join(map(str, slowest[::-1]))}}}" if slowest else ""
    return f"{dtype}[{','.join(map(str, (*batch, *dims)))}]{layout}"


def call(
    routine: str, letter: str, batch: Sequence[int], operands: Sequence[Dims], results: Sequence[Dims], options: str
) -> Executable:
    """A module that consists of one call."""
    dtype = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}[letter]
    given = [shape_text(dtype, batch, d) for d in operands]
    made = [shape_text(dtype, batch, d) for d in results]
    parameters = "\n".join(f"  p{k} = {s} parameter({k})" for k, s in enumerate(given))
    names = ", ".join(f"p{k}" for k in range(len(given)))
    result = made[0] if len(made) == 1 else "(" + ", ".join(made) + ")"
    return compile_module(
        parse(
            f"HloModule m\n\nENTRY e {{\n{parameters}\n"
            f"  ROOT r = {result} custom-call({names}), "
            f'custom_call_target="lapack_{letter}{routine}_ffi", operand_layout_constraints={{{", ".join(given)}}}, '
            f"api_version=API_VERSION_TYPED_FFI, backend_config={{{options}}}\n}}\n"
        ),
        CompileOptions(pipeline=HloPassPipeline("none")),
    )


@pytest.fixture
def lapack(width: int) -> Lapack:
    """lapack(routine, letter, batch, operands, results, options) -> Executable of a single call."""
    del width
    return call


@pytest.fixture(scope="session")
def compiled_once() -> Callable[..., Executable]:
    """compiled_once(build, *arguments) -> build(lapack, *arguments), cached by arguments."""

    @cache
    def once(build: Callable[..., Executable], *arguments: Hashable) -> Executable:
        return build(call, *arguments)

    return once


@pytest.fixture
def positive(rng: np.random.Generator) -> Callable[..., np.ndarray]:
    """positive(batch, n, dtype) -> positive definite matrices."""

    def make(batch: Sequence[int], n: int, dtype: type) -> np.ndarray:
        x = rng.standard_normal((*batch, n, n))
        return (x @ x.swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)

    return make


@pytest.fixture(scope="session")
def matrix_of_any_rank() -> Callable[[st.DataObject], tuple[str, np.ndarray]]:
    """matrix_of_any_rank(data) -> (type letter, a random matrix of whole numbers)."""

    def draw(data: st.DataObject) -> tuple[str, np.ndarray]:
        m, n = data.draw(st.sampled_from([(1, 3), (5, 2), (6, 6), (4, 9), (18, 11)]))
        letter = data.draw(st.sampled_from("sd"))
        rank = data.draw(st.integers(0, min(m, n)))
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        product = rng.integers(-3, 4, (m, rank)) @ rng.integers(-3, 4, (rank, n))
        return letter, product.astype({"s": np.float32, "d": np.float64}[letter])

    return draw
