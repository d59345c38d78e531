"""Shapes of linear algebra: dot, convolution, cholesky, triangular-solve, fft (xla/service/shape_inference.cc)."""

from __future__ import annotations

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import Site, dynamics, higher_precision, make, rule, same_type
from xlanb.shape import Shape

_O = HloOpcode


@rule(_O.DOT)
def _dot(site: Site) -> Shape:
    site.count(2)
    a, b = site.array(0), site.array(1)
    if not same_type(a.element_type, b.element_type) and not (a.element_type.is_integral and b.element_type.is_integral):
        site.fail("expected operands of the same element type")
    a_batch, b_batch = site.axes("lhs_batch_dims", a.rank), site.axes("rhs_batch_dims", b.rank)
    a_sum, b_sum = site.axes("lhs_contracting_dims", a.rank), site.axes("rhs_contracting_dims", b.rank)
    if len(a_sum) != len(b_sum):
        site.fail("expected as many contracting dimensions on either side")
    if len(a_batch) != len(b_batch):
        site.fail("expected as many batch dimensions on either side")
    if set(a_batch) & set(a_sum) or set(b_batch) & set(b_sum):
        site.fail("expected no dimension to be both batch and contracting")
    for kind, left, right in (("contracting", a_sum, b_sum), ("batch", a_batch, b_batch)):
        for i, j in zip(left, right, strict=True):
            if a.dimensions[i] != b.dimensions[j] and -1 not in (a.dimensions[i], b.dimensions[j]):
                site.fail(f"expected {kind} dimensions of equal size, not {a.dimensions[i]} and {b.dimensions[j]}")
    picked = [(a, i) for i in (*a_batch, *(d for d in range(a.rank) if d not in a_batch and d not in a_sum))]
    picked += [(b, j) for j in range(b.rank) if j not in b_batch and j not in b_sum]
    kind_ = higher_precision(a.element_type, b.element_type)
    return make(kind_, [s.dimensions[d] for s, d in picked], [dynamics(s)[d] for s, d in picked])
