"""Gathers with the same indices in many rows, and of rows: clamped, for any counts."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

_TYPES = {"f32": np.float32, "u8": np.uint8, "bf16": ml_dtypes.bfloat16, "c64": np.complex64}


@pytest.mark.parametrize("t", _TYPES)
@pytest.mark.parametrize("index", ["s32", "u32", "s64"])
@pytest.mark.parametrize(("rows", "columns", "places"), [(4, 9, 5), (7, 70, 33), (3, 20, 100), (301, 64, 600)])
def test_columns_of_all_rows(backend, t: str, index: str, rows: int, columns: int, places: int) -> None:
    exe = backend(f"""HloModule m
    ENTRY e {{
      x = {t}[{rows},{columns}] parameter(0)
      i = {index}[{places}] parameter(1)
      ROOT g = {t}[{rows},{places}] gather(x, i), offset_dims={{0}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, index_vector_dim=1, slice_sizes={{{rows},1}}
    }}""")
    rng = np.random.default_rng(rows)
    x = rng.integers(0, 100, (rows, columns)).astype(_TYPES[t])
    at = rng.integers(-5 if index[0] == "s" else 0, columns + 9, places)
    got = exe(x, at.astype({"s32": np.int32, "u32": np.uint32, "s64": np.int64}[index]))
    np.testing.assert_array_equal(got, x[:, np.clip(at, 0, columns - 1)])


def test_the_greatest_unsigned_index_is_the_last_place(backend) -> None:
    exe = backend("""HloModule m
    ENTRY e {
      x = f32[100] parameter(0)
      i = u32[40] parameter(1)
      ROOT g = f32[40] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
    }""")
    x, at = np.arange(100, dtype=np.float32), np.full(40, 2**32 - 1, np.uint32)
    at[::3] = 7
    np.testing.assert_array_equal(exe(x, at), x[np.minimum(at, 99)])


@pytest.mark.parametrize("outer", [5, 8])
def test_slices_between_dimensions(backend, outer: int) -> None:
    exe = backend(f"""HloModule m
    ENTRY e {{
      x = f32[3,{outer},50] parameter(0)
      i = s32[37] parameter(1)
      ROOT g = f32[3,{outer},37] gather(x, i), offset_dims={{0,1}}, collapsed_slice_dims={{2}}, start_index_map={{2}}, index_vector_dim=1, slice_sizes={{3,{outer},1}}
    }}""")
    x = np.random.default_rng(0).standard_normal((3, outer, 50)).astype(np.float32)
    at = np.random.default_rng(1).integers(-3, 60, 37).astype(np.int32)
    np.testing.assert_array_equal(exe(x, at), x[:, :, np.clip(at, 0, 49)])
