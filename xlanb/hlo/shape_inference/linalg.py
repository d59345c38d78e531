"""Shapes of dot, ragged-dot, convolution, cholesky, triangular-solve and fft.

Source: xla/service/shape_inference.cc.
"""

from __future__ import annotations

from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import (
    Site,
    brackets,
    component_type,
    dynamics,
    group_prefix,
    higher_precision,
    make,
    row_major,
    rule,
)
from xlanb.hlo.shape_inference.windows import check_window, window_count
from xlanb.shape import ArrayShape, PrimitiveType, Shape

_O = HloOpcode
_COMPLEX = {PrimitiveType.F32: PrimitiveType.C64, PrimitiveType.F64: PrimitiveType.C128}


@rule(_O.DOT)
def _dot(site: Site) -> Shape:
    site.count(2)
    return _product(site, site.array(0), site.array(1))


@rule(_O.SCALED_DOT)
def _scaled_dot(site: Site) -> Shape:
    """A dot whose operands have one scale per block: each scale's size divides its operand's."""
    site.count(4)
    a, b, *scales = site.arrays()
    for which, (operand, scale) in enumerate(zip((a, b), scales, strict=True)):
        sizes = zip(operand.dimensions, scale.dimensions, strict=False)
        if scale.dimensions and (scale.rank != operand.rank or any(s < 1 or o % s for o, s in sizes if o)):
            site.fail(f"expected scale {which} to divide its operand {operand} into blocks, not {scale}")
    if not any(scale.dimensions for scale in scales):
        site.fail("expected a scale that is no scalar")
    return _product(site, a, b)


def _product(site: Site, a: ArrayShape, b: ArrayShape, *, groups: tuple[int, ...] = ()) -> ArrayShape:
    """Batch dimensions, then the free ones of `a`, then those of `b` without its `groups`."""
    a_batch, b_batch = site.axes("lhs_batch_dims", a.rank), site.axes("rhs_batch_dims", b.rank)
    a_sum, b_sum = site.axes("lhs_contracting_dims", a.rank), site.axes("rhs_contracting_dims", b.rank)
    if len(a_sum) != len(b_sum):
        site.fail("expected as many contracting dimensions on either side")
    if len(a_batch) != len(b_batch):
        site.fail("expected as many batch dimensions on either side")
    if set(a_batch) & set(a_sum) or set(b_batch) & set(b_sum):
        site.fail("expected no dimension to be both batch and contracting")
    for name, left, right in (("contracting", a_sum, b_sum), ("batch", a_batch, b_batch)):
        for i, j in zip(left, right, strict=True):
            if a.dimensions[i] != b.dimensions[j] and -1 not in (a.dimensions[i], b.dimensions[j]):
                site.fail(f"expected {name} dimensions of equal size, not {a.dimensions[i]} and {b.dimensions[j]}")
    picked = [(a, i) for i in (*a_batch, *(d for d in range(a.rank) if d not in a_batch and d not in a_sum))]
    picked += [(b, j) for j in range(b.rank) if j not in b_batch and j not in b_sum and j not in groups]
    kind = higher_precision(a.element_type, b.element_type)
    return make(kind, [s.dimensions[d] for s, d in picked], [dynamics(s)[d] for s, d in picked])


@rule(_O.RAGGED_DOT)
def _ragged_dot(site: Site) -> Shape:
    """The shape by the kind of the ragged dimension of `a`.

    Free: one matrix of `b` per group. Contracting: one result per group. Or batch.
    """
    site.count(3)
    a, b, sizes = site.arrays()
    ragged = site.axes("lhs_ragged_dims", a.rank)
    groups = site.axes("rhs_group_dims", b.rank)
    if len(ragged) != 1:
        site.fail(f"expected one ragged dimension, not {brackets(ragged)}")
    if not sizes.element_type.is_integral or not sizes.rank:
        site.fail("expected integers as group sizes")
    count = sizes.dimensions[-1]
    batch_dims, contracting_dims = site.axes("lhs_batch_dims", a.rank), site.axes("lhs_contracting_dims", a.rank)
    before = [a.dimensions[d] for d in group_prefix(ragged[0], batch_dims, contracting_dims, a.rank)]
    if sizes.rank > 1 and list(sizes.dimensions[:-1]) != before:
        site.fail(f"expected group sizes in a vector, or in an array of {brackets(before)} vectors")
    summed, batch = ragged[0] in contracting_dims, ragged[0] in batch_dims
    if (summed or batch) and groups:
        site.fail("expected no group dimension where the ragged one is contracting or batch")
    if not summed and not batch:
        if len(groups) != 1 or b.dimensions[groups[0]] != count:
            site.fail(f"expected one group dimension of size {count}, not {brackets(groups)}")
        if set(groups) & {*site.ints("rhs_contracting_dims"), *site.ints("rhs_batch_dims")}:
            site.fail("expected a group dimension that is neither contracting nor batch")
    result = _product(site, a, b, groups=groups)
    return make(result.element_type, (count, *result.dimensions), (False, *dynamics(result))) if summed else result


@rule(_O.CONVOLUTION)
def _convolution(site: Site) -> Shape:
    site.count(2)
    x, kernel = site.array(0), site.array(1)
    n: ConvolutionDimensionNumbers = site.get("dim_labels")
    spatial = len(n.input_spatial)
    _check_labels(site, n, x, kernel)
    window = check_window(site, site.get("window"), spatial)
    _check_features(site, n, x, kernel)
    if any(w.size != kernel.dimensions[d] for w, d in zip(window.dimensions, n.kernel_spatial, strict=True)):
        site.fail("expected a window of the kernel's spatial sizes")
    dims, flags = [0] * (spatial + 2), [False] * (spatial + 2)
    batch = x.dimensions[n.input_batch]
    dims[n.output_batch] = batch if batch < 0 else batch // site.get("batch_group_count")
    flags[n.output_batch] = x.is_dynamic_dimension(n.input_batch)
    dims[n.output_feature] = kernel.dimensions[n.kernel_output_feature]
    for i, (w, d) in enumerate(zip(window.dimensions, n.output_spatial, strict=True)):
        size = x.dimensions[n.input_spatial[i]]
        dims[d] = window_count(size, w) if size >= 0 else size
        flags[d] = x.is_dynamic_dimension(n.input_spatial[i]) or kernel.is_dynamic_dimension(n.kernel_spatial[i])
    return make(higher_precision(x.element_type, kernel.element_type), dims, flags)


def _check_labels(site: Site, n: ConvolutionDimensionNumbers, x: ArrayShape, kernel: ArrayShape) -> None:
    rank = len(n.input_spatial) + 2
    if len(n.kernel_spatial) != rank - 2 or len(n.output_spatial) != rank - 2:
        site.fail("expected as many spatial dimensions in input, kernel and output")
    if x.rank != rank or kernel.rank != rank:
        site.fail(f"expected operands of rank {rank}")
    for name, dims in (
        ("input", (n.input_batch, n.input_feature, *n.input_spatial)),
        ("kernel", (n.kernel_input_feature, n.kernel_output_feature, *n.kernel_spatial)),
        ("output", (n.output_batch, n.output_feature, *n.output_spatial)),
    ):
        if sorted(dims) != list(range(rank)):
            site.fail(f"expected the {name}'s labels to name each of {rank} dimensions once")


def _check_features(site: Site, n: ConvolutionDimensionNumbers, x: ArrayShape, kernel: ArrayShape) -> None:
    groups, batches = site.get("feature_group_count"), site.get("batch_group_count")
    if groups < 1 or batches < 1 or (groups > 1 and batches > 1):
        site.fail(f"expected positive group counts, one of them 1, not {groups} and {batches}")
    features, batch = x.dimensions[n.input_feature], x.dimensions[n.input_batch]
    k_in, k_out = kernel.dimensions[n.kernel_input_feature], kernel.dimensions[n.kernel_output_feature]
    if features >= 0 and k_in >= 0 and features != k_in * groups:
        site.fail(f"expected {k_in * groups} input features, {groups} groups of the kernel's {k_in}, not {features}")
    if k_out % groups or k_out % batches:
        site.fail(f"expected {k_out} output features to be a multiple of the group count {max(groups, batches)}")
    if batch >= 0 and batch % batches:
        site.fail(f"expected a batch of {batch} to be a multiple of the group count {batches}")


@rule(_O.CHOLESKY)
def _cholesky(site: Site) -> Shape:
    site.count(1)
    a = site.array(0)
    _check_square(site, a)
    return row_major(a)


@rule(_O.TRIANGULAR_SOLVE)
def _triangular_solve(site: Site) -> Shape:
    site.count(2)
    a, b = site.array(0), site.array(1)
    _check_square(site, a)
    if a.element_type is not b.element_type:
        site.fail("expected operands of the same element type")
    if b.rank != a.rank or b.dimensions[:-2] != a.dimensions[:-2]:
        site.fail("expected operands of the same rank and batch dimensions")
    shared = b.dimensions[-2 if site.get("left_side") else -1]
    if a.dimensions[-1] != shared:
        site.fail(f"expected the shared dimension to have equal sizes, not {a.dimensions[-1]} and {shared}")
    if site.get("transpose_a") == "TRANSPOSE_INVALID":
        site.fail("expected transpose_a to be NO_TRANSPOSE, TRANSPOSE or ADJOINT")
    return row_major(b)


def _check_square(site: Site, a: ArrayShape) -> None:
    if not (a.element_type.is_floating or a.element_type.is_complex):
        site.fail("expected a floating or complex type")
    if a.rank < 2 or a.dimensions[-1] != a.dimensions[-2]:
        site.fail(f"expected square matrices in the last two dimensions, not {a}")


@rule(_O.FFT)
def _fft(site: Site) -> Shape:
    site.count(1)
    x = site.array(0)
    kind, lengths = site.get("fft_type"), site.ints("fft_length")
    rank = len(lengths)
    if not 1 <= rank <= 3 or x.rank < rank:
        site.fail(f"expected 1 to 3 lengths and an operand of that rank at least, not {brackets(lengths)}")
    inner, last = x.dimensions[x.rank - rank :], lengths[-1]
    if kind == "RFFT":
        if x.element_type not in _COMPLEX:
            site.fail("expected f32 or f64")
        if inner != lengths:
            site.fail(f"expected the last dimensions to be {brackets(lengths)}")
        # An empty dimension stays empty.
        return make(_COMPLEX[x.element_type], (*x.dimensions[:-1], last // 2 + 1 if last else 0), x.dynamic)
    if not x.element_type.is_complex:
        site.fail("expected a complex type")
    if kind != "IRFFT":
        return row_major(x)
    if inner[:-1] != lengths[:-1] or (inner[-1] != last // 2 + 1 and (inner[-1] or last)):
        site.fail(f"expected the last dimensions to be {brackets((*lengths[:-1], last // 2 + 1))}")
    return make(component_type(x.element_type), (*x.dimensions[:-1], last), x.dynamic)
