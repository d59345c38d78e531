"""Programs compiled for a GPU without passes, emulated, and compared with the evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.gpu.compiler import GpuCompileOptions, compile_module
from xlanb.gpu.executable import GpuExecutable
from xlanb.hlo.module import HloModule
from xlanb.transforms.pipeline import HloPassPipeline


def build(text: str | HloModule) -> GpuExecutable:
    """Compile without changes, and PTX of every kernel."""
    module = xlanb.hlo.parse(text) if isinstance(text, str) else text
    module.verify()
    exe = compile_module(module, GpuCompileOptions(passes=HloPassPipeline("none", [])))
    for name, ptx in exe.ptx.items():
        assert f".entry {name}(" in ptx
        assert ".extern" not in ptx
    return exe


def flat(value: Any) -> list[np.ndarray]:
    return [a for v in value for a in flat(v)] if isinstance(value, tuple) else [np.asarray(value)]


@pytest.fixture
def check() -> Callable[..., GpuExecutable]:
    """Compile a program without passes, run it, and compare with the evaluator."""

    def compare(text: str, *arrays: Any, rtol: float = 0.0, atol: float = 0.0) -> GpuExecutable:
        exe = build(text)
        for got, want in zip(
            flat(exe.emulate(*arrays)), flat(xlanb.evaluate(xlanb.hlo.parse(text), *arrays)), strict=True
        ):
            assert got.dtype == want.dtype
            if rtol or atol:
                wide = np.complex128 if want.dtype.kind == "c" else np.float64
                np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol)
            else:
                np.testing.assert_array_equal(got, want)
        return exe

    return compare
