"""Fusions of one target only, on handwritten modules."""

from __future__ import annotations

import pandas as pd

from xlanb.hlo import parse
from xlanb.hlo.records import ModuleRecord
from xlanb.peers.targets.compare import edges, holders, together

PROGRAM = """HloModule m

ENTRY e {
  x = f32[4,4] parameter(0)
  d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot"}
  t = f32[4,4] tanh(d), metadata={op_name="jit(f)/tanh"}
  ROOT n = f32[4,4] negate(t), metadata={op_name="jit(f)/neg"}
}
"""
FUSED = """HloModule m

both {
  p = f32[4,4] parameter(0)
  t = f32[4,4] tanh(p), metadata={op_name="jit(f)/tanh"}
  ROOT n = f32[4,4] negate(t), metadata={op_name="jit(f)/neg"}
}

body {
  s = f32[4,4] parameter(0)
  ROOT f = f32[4,4] fusion(s), kind=kLoop, calls=both
}

less {
  s = f32[4,4] parameter(0)
  ROOT c = pred[] constant(false)
}

ENTRY e {
  x = f32[4,4] parameter(0)
  d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot"}
  ROOT w = f32[4,4] while(d), condition=less, body=body
}
"""


def record(text: str) -> ModuleRecord:
    return parse(text).record()


def test_pairs_are_those_of_the_program() -> None:
    assert edges(record(PROGRAM)) == [("jit(f)/dot", "jit(f)/tanh"), ("jit(f)/tanh", "jit(f)/neg")]


def test_an_operation_is_held_by_its_kernel_in_loops_too() -> None:
    held = holders(record(FUSED))
    assert held == {"jit(f)/dot": ("d",), "jit(f)/tanh": ("f",), "jit(f)/neg": ("f",)}
    assert together(held, "jit(f)/tanh", "jit(f)/neg") == "fused"
    assert together(held, "jit(f)/dot", "jit(f)/tanh") == "apart"
    assert together(held, "jit(f)/dot", "jit(f)/gone") == ""


def test_without_fusions_every_operation_stands_alone() -> None:
    held = holders(record(PROGRAM))
    assert pd.Series(held).map(len).tolist() == [1, 1, 1]
    assert together(held, "jit(f)/tanh", "jit(f)/neg") == "apart"
