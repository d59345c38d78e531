"""A few programs between pages that nobody may touch; tests/cpu/guard_pages.py does it with any number of modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).with_name("guard_pages.py")

GATHER = """HloModule gather

ENTRY main {
  table = f32[37,5]{1,0} parameter(0)
  at = s32[11]{0} parameter(1)
  g = f32[11,5]{1,0} gather(table, at), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}
  x = s32[] parameter(2)
  zero = s32[] constant(0)
  s = f32[7,5]{1,0} dynamic-slice(table, x, zero), dynamic_slice_sizes={7,5}
  ROOT out = (f32[11,5]{1,0}, f32[7,5]{1,0}) tuple(g, s)
}
"""

DOT = """HloModule dot

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY main {
  a = bf16[13,33]{1,0} parameter(0)
  b = bf16[33,17]{1,0} parameter(1)
  d = bf16[13,17]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  w = f32[13,17]{1,0} convert(d)
  zero = f32[] constant(0)
  r = f32[17]{0} reduce(w, zero), dimensions={0}, to_apply=sum
  ROOT out = (bf16[13,17]{1,0}, f32[17]{0}) tuple(d, r)
}
"""

TAIL = """HloModule tail

ENTRY main {
  a = f8e4m3fn[33,33]{1,0} parameter(0)
  b = f8e4m3fn[33,33]{1,0} parameter(1)
  ROOT d = bf16[33,33]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
"""Its last column is one lane of a vector that is narrowed before it is stored."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mprotect and fork")
def test_nothing_outside_of_the_arrays_is_touched(tmp_path):
    paths = []
    for name, text in (("gather", GATHER), ("dot", DOT), ("tail", TAIL)):
        paths.append(tmp_path / f"{name}.hlo")
        paths[-1].write_text(text)
    done = subprocess.run([sys.executable, TOOL, *paths], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["3", "ran"], done.stdout + done.stderr
    assert done.returncode == 0


def test_the_guards_are_there():
    code = (
        f"import ctypes, sys; sys.path.insert(0, {str(TOOL.parent)!r}); import guard_pages as g\n"
        "m = g.Guarded(100, at_end=AT); m.fill(bytes(100)); print('in', flush=True); ctypes.memset(m.address + OFFSET, 0, 1)"
    )
    for at_end, offset in ((True, 100), (False, -1)):
        text = code.replace("AT", str(at_end), 1).replace("OFFSET", str(offset))
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout == "in\n"
        assert done.returncode < 0
