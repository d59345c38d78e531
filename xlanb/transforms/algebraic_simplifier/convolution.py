"""Convolutions that are matrix products (AlgebraicSimplifierVisitor::SimplifyConvToDot)."""

from __future__ import annotations

from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape
from xlanb.shape.shape import array
from xlanb.transforms import match as m
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import REAL

CONVOLUTION = RuleSet("convolution")
rule = CONVOLUTION.rule


def _is_pointwise(root: HloInstruction) -> bool:
    """Whether each output position depends only on the input position with the same index."""
    one_group = root.get("feature_group_count") == 1 and root.get("batch_group_count") == 1
    return one_group and all(
        (d.size, d.stride, d.padding_low, d.padding_high, d.base_dilation) == (1, 1, 0, 0, 1)
        for d in root.window.dimensions
    )


def _rows_in_order(shape: ArrayShape, feature: int, batch: int, spatial: tuple[int, ...]) -> tuple[int, ...] | None:
    """Spatial dimensions (-1: batch), minor to major; None if features are not most minor."""
    order = shape.minor_to_major
    if order[0] != feature:
        return None
    return tuple(-1 if d == batch else spatial.index(d) for d in order[1:])


def _fits_matrices(root: HloInstruction) -> bool:
    """Whether input, kernel and output can be read as matrices without moving bytes.

    Features must be most minor, and the other dimensions of input and output in the same order.
    """
    n: ConvolutionDimensionNumbers = root.attributes["dim_labels"]
    x, kernel = (o.array_shape for o in root.operands)
    rows = _rows_in_order(x, n.input_feature, n.input_batch, n.input_spatial)
    if rows is None or rows != _rows_in_order(root.array_shape, n.output_feature, n.output_batch, n.output_spatial):
        return False
    order = kernel.minor_to_major
    return order.index(n.kernel_output_feature) < order.index(n.kernel_input_feature)


@rule(
    "convolution(A, B) => bitcast(dot(bitcast(A), bitcast(B))) for windows of size 1",
    m.op(O.CONVOLUTION, "a", "b2"),
    guard("layouts count", lambda options: options.is_layout_sensitive),
    guard("windows of size 1, one group", _is_pointwise, "root"),
    guard("features are contiguous", _fits_matrices, "root"),
    guard("some element", lambda a, b2: 0 not in (a.array_shape.element_count, b2.array_shape.element_count)),
    keeps=REAL,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    n: ConvolutionDimensionNumbers = root.attributes["dim_labels"]
    inputs = a.array_shape.dimensions[n.input_feature]
    outputs = root.array_shape.dimensions[n.output_feature]
    rows = root.array_shape.element_count // outputs
    left = b.bitcast(a, array(a.shape.element_type, (rows, inputs)))
    right = b.bitcast(b2, array(b2.shape.element_type, (inputs, outputs)))
    made = b.add(
        O.DOT,
        (left, right),
        array(root.shape.element_type, (rows, outputs)),
        lhs_contracting_dims=(1,),
        rhs_contracting_dims=(0,),
        operand_precision=root.attributes.get("operand_precision"),
    )
    return b.bitcast(made, root.shape)
