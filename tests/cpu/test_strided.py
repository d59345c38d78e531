"""Strided slices: whole vectors and their ends, never out of bounds."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from xlanb.codegen import signature
from xlanb.cpu import Executable

TYPES = {"f32": "f4", "u8": "u1", "bf16": ml_dtypes.bfloat16, "f64": "f8"}


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("step", [2, 3, 4, 5, 7, 8, 9])
def test_every_so_many_elements(backend: Callable[[str], Executable], t: str, step: int) -> None:
    x = np.random.default_rng(step).integers(0, 100, (7, 515)).astype(TYPES[t])
    for begin, end in ((0, 515), (5, 500), (3, 3 + 128 * step + 1), (510, 515)):
        stop = min(end, 515)
        count = -(-(stop - begin) // step)
        exe = backend(f"""HloModule m
        ENTRY e {{
          x = {t}[7,515] parameter(0)
          ROOT r = {t}[7,{count}] slice(x), slice={{[0:7],[{begin}:{stop}:{step}]}}
        }}""")
        np.testing.assert_array_equal(exe(x), x[:, begin:stop:step])


def test_a_narrow_element_at_the_end_is_stored_alone(
    backend: Callable[[str], Executable], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """HloModule m
    inner {
      x = bf16[3,515] parameter(0)
      s = bf16[3,129] slice(x), slice={[0:3],[0:515:4]}
      ROOT r = bf16[3,129] add(s, s)
    }
    ENTRY e {
      x = bf16[3,515] parameter(0)
      ROOT a = bf16[3,129] fusion(x), kind=kLoop, calls=inner
    }"""
    exe = backend(text)
    # LLVM turns the masked store of one i16 into a store of 32 bits: the bytes after the result
    # would be lost.
    memory = np.full(3 * 129 + 8, 7, ml_dtypes.bfloat16)
    monkeypatch.setattr(signature.ArraySpec, "fresh", lambda _: memory[: 3 * 129].reshape(3, 129))
    got = exe.calls.unusual(np.ones((3, 515), ml_dtypes.bfloat16))
    np.testing.assert_array_equal(got, np.full((3, 129), 2, ml_dtypes.bfloat16))
    np.testing.assert_array_equal(memory[3 * 129 :], np.full(8, 7, ml_dtypes.bfloat16))
