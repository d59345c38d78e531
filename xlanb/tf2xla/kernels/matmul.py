"""Products of matrices (tf2xla/kernels/{matmul_op,batch_matmul_op}.cc)."""

from __future__ import annotations

from xlanb.hlo import HloInstruction
from xlanb.shape import PrimitiveType
from xlanb.shape.primitive_type import from_dtype
from xlanb.tf2xla.broadcasting import broadcast_dimensions, broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.activations import conjugate
from xlanb.tf2xla.registry import register


@register("MatMul", "SparseMatMul")
def _matmul(ctx: OpContext) -> HloInstruction:
    a, b = ctx.inputs
    if ctx.op.type == "SparseMatMul":  # takes bf16 too, gives f32
        a, b = (ctx.b.convert(x, PrimitiveType.F32) for x in (a, b))
    return product(ctx, a, b)


def product(ctx: OpContext, a: HloInstruction, b: HloInstruction) -> HloInstruction:
    """The product of two matrices, transposed as the attributes say."""
    if a.array_shape.rank != 2 or b.array_shape.rank != 2:
        ctx.fail(f"operands must be matrices, not {a.shape} and {b.shape}")
    lhs, rhs = int(not ctx.attr("transpose_a", False)), int(ctx.attr("transpose_b", False))
    if a.array_shape.dimensions[lhs] != b.array_shape.dimensions[rhs]:
        ctx.fail(f"inner dimensions {a.array_shape.dimensions[lhs]} and {b.array_shape.dimensions[rhs]} differ")
    return ctx.b.dot_general(a, b, lhs_contracting_dims=[lhs], rhs_contracting_dims=[rhs])


@register("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(ctx: OpContext) -> HloInstruction:
    """Multiply batches of matrices; adj_x and adj_y take the conjugate transpose.

    Batch dimensions broadcast; in the first version they must be equal.
    """
    x, y = ctx.inputs
    ranks = x.array_shape.rank, y.array_shape.rank
    if min(ranks) < 2:
        ctx.fail(f"operands must be matrices, not {x.shape} and {y.shape}")
    adjoint = [bool(ctx.attr(a, False)) for a in ("adj_x", "adj_y")]
    x, y = (conjugate(ctx, v) if adj else v for v, adj in zip((x, y), adjoint, strict=True))
    heads = [v.array_shape.dimensions[:-2] for v in (x, y)]
    if ctx.op.type == "BatchMatMul" and heads[0] != heads[1]:
        ctx.fail(f"batch dimensions {list(heads[0])} and {list(heads[1])} differ")
    batch = broadcast_dimensions(*heads)
    x, y = (broadcast_to(ctx.b, v, [*batch, *v.array_shape.dimensions[-2:]]) for v in (x, y))
    n = len(batch)
    lhs, rhs = n + int(not adjoint[0]), n + int(adjoint[1])
    if x.array_shape.dimensions[lhs] != y.array_shape.dimensions[rhs]:
        ctx.fail(f"inner dimensions {x.array_shape.dimensions[lhs]} and {y.array_shape.dimensions[rhs]} differ")
    wanted = ctx.attr("Tout")
    target = None if wanted is None else from_dtype(wanted.as_numpy_dtype)
    # sums of floats become integers in the end, not before
    is_rounded = (
        target is not None and not (target.is_floating or target.is_complex) and x.array_shape.element_type.is_floating
    )
    product = ctx.b.dot_general(
        x,
        y,
        lhs_batch_dims=range(n),
        rhs_batch_dims=range(n),
        lhs_contracting_dims=[lhs],
        rhs_contracting_dims=[rhs],
        element_type=None if is_rounded else target,
    )
    return ctx.b.convert(product, target) if is_rounded and target is not None else product
