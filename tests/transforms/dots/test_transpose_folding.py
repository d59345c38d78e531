"""Products by transposed operands."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.dots.transpose_folding import TransposeFolding

TEXT = """HloModule m
ENTRY e {
  v = f32[40] parameter(0)
  a = f32[70,40] parameter(1)
  t = f32[40,70] transpose(a), dimensions={1,0}
  ROOT r = f32[70] dot(v, t), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""


@pytest.mark.parametrize("vectors", [False, True])
def test_a_vector_by_a_transposed_matrix(vectors):
    module = xlanb.hlo.parse(TEXT)
    assert TransposeFolding(vectors=vectors).run(module).changed == vectors
    module.verify()
    assert (O.TRANSPOSE in module.opcodes) != vectors
    v, a = np.arange(40, dtype=np.float32), np.arange(2800, dtype=np.float32).reshape(70, 40) % 7
    np.testing.assert_array_equal(xlanb.evaluate(module, v, a), a @ v)


def test_its_rows_are_read_where_they_are():
    exe = xlanb.compile(TEXT)
    assert {i.opcode for i in exe.hlo_module.entry_computation} == {O.PARAMETER, O.DOT}
