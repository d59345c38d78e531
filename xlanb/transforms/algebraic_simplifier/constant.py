"""Constants that are computed from a scalar (AlgebraicSimplifierVisitor::HandleConstant)."""

from __future__ import annotations

import numpy as np

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import is_integral
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT, INTEGERS

CONSTANT = RuleSet("constant")
rule = CONSTANT.rule


def _is_array(root: HloInstruction) -> bool:
    return root.shape.is_array and not root.literal.is_elided and root.array_shape.element_count > 1


def _is_uniform(root: HloInstruction) -> bool:
    """Whether all elements are equal, compared by their bits: 0.0 and -0.0 differ."""
    values = root.literal.array.reshape(-1)
    if values[0] != values[-1] or not np.all(values == values[0]):
        return False
    if root.shape.element_type.is_integral:
        return True
    bits = values.view(np.uint8).reshape(values.size, values.itemsize)
    return bool(np.all(bits == bits[0]))


def _stride(root: HloInstruction) -> int:
    """The stride of a vector 0, s, 2s, ...; 0 for any other constant."""
    values = root.literal.array
    if values.ndim != 1 or values.dtype == np.bool_ or np.iscomplexobj(values) or values[0] != 0 or values[1] == 0:
        return 0
    # Exact for integers: u64 as s64 with the same bits gives the same products.
    wide = values.astype(np.int64 if root.shape.element_type.is_integral else np.float64)
    step = wide[1]
    if not np.isfinite(step) or step != int(step) or np.signbit(wide[0]):
        return 0
    return int(values[1]) if np.array_equal(wide, np.arange(values.size) * step) else 0


_array = guard("a non-empty array", _is_array, "root")


@rule(
    "constant of equal elements => broadcast(scalar)",
    m.op(O.CONSTANT),
    _array,
    guard("all elements are equal", _is_uniform, "root"),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.broadcast(b.scalar(root.literal.array.flat[0], root.shape.element_type), (), root.array_shape)


@rule(
    "constant 0, 1, 2, .. => iota",
    m.op(O.CONSTANT),
    _array,
    guard("counts from 0", lambda root: _stride(root) == 1),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.add(O.IOTA, (), root.shape, iota_dimension=0)


@rule(
    "constant 0, C, 2C, .. => iota * C",
    m.op(O.CONSTANT),
    _array,
    guard("integers", is_integral, "root"),
    guard("an arithmetic sequence from 0 with step C", lambda root: _stride(root) != 0),
    keeps=INTEGERS,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    iota = b.add(O.IOTA, (), root.shape, iota_dimension=0)
    return b.binary(O.MULTIPLY, iota, b.full(_stride(root), root.array_shape))
