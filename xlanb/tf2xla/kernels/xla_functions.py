"""XLA's own ops on functions of scalars: reductions, windows, scatters, sorts.

Source: tf2xla/kernels/xla_*_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.hlo import HloComputation, HloInstruction
from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.hlo.proto.schema import SCHEMA
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.compiler import lower_body
from xlanb.tf2xla.context import OpContext, Value
from xlanb.tf2xla.kernels.bodies import body_of
from xlanb.tf2xla.kernels.xla_products import dimension_numbers
from xlanb.tf2xla.registry import register


def _scalar_function(
    ctx: OpContext, attr: str, types: Sequence[PrimitiveType], *, is_tuple: bool = False
) -> HloComputation:
    """A function of the library over scalars of these types, as a computation."""
    name = ctx.attr(attr).name
    inner = ctx.b.sub_computation(name)
    given: list[Value] = [inner.parameter(i, array(t)) for i, t in enumerate(types)]
    results = [v for v in lower_body(body_of(ctx, name), given, inner, ctx.constants) if isinstance(v, HloInstruction)]
    if not results or any(r.array_shape.rank for r in results) or (len(results) > 1 and not is_tuple):
        ctx.fail(f"function {name!r} must return {'scalars' if is_tuple else 'one scalar'}")
    return inner.build_computation(inner.tuple(results) if is_tuple and len(results) > 1 else results[0])


def _reduced(ctx: OpContext, count: int) -> list[HloInstruction]:
    xs, inits = ctx.inputs[:count], ctx.inputs[count:]
    types = [x.array_shape.element_type for x in xs]
    region = _scalar_function(ctx, "reducer", types * 2, is_tuple=count > 1)
    made = ctx.b.reduce(xs, inits, [int(d) for d in ctx.attr("dimensions_to_reduce")], region)
    return [made] if count == 1 else [ctx.b.get_tuple_element(made, i) for i in range(count)]


@register("XlaReduce", "XlaVariadicReduce", "XlaVariadicReduceV2")
def _reduce(ctx: OpContext) -> list[HloInstruction]:
    """Reduce: first the arrays, then as many initial values."""
    if ctx.input_count % 2:
        ctx.fail(f"{ctx.input_count} inputs: expected arrays and one initial value for each")
    return _reduced(ctx, ctx.input_count // 2)


@register("XlaReduceWindow", constants=slice(2, 7))
def _reduce_window(ctx: OpContext) -> HloInstruction:
    """Inputs: array, initial value, sizes, strides, dilations of array and window, paddings [n,
    2].
    """
    columns = zip(*(ctx.per_dimension(i) for i in range(2, 6)), ctx.paddings(6, ctx.shape(0).rank), strict=True)
    window = Window(tuple(WindowDimension(n, s, low, high, d, e) for n, s, e, d, (low, high) in columns))
    kind = ctx.shape(0).element_type
    return ctx.b.reduce_window(ctx.input(0), ctx.input(1), window, _scalar_function(ctx, "computation", [kind, kind]))


@register("XlaSelectAndScatter", constants=slice(1, 4))
def _select_and_scatter(ctx: OpContext) -> HloInstruction:
    """Inputs: array, sizes and strides of the window, paddings [n, 2], source, initial value."""
    columns = zip(ctx.per_dimension(1), ctx.per_dimension(2), ctx.paddings(3, ctx.shape(0).rank), strict=True)
    window = Window(tuple(WindowDimension(n, s, low, high) for n, s, (low, high) in columns))
    kind = ctx.shape(0).element_type
    select, scatter = (_scalar_function(ctx, a, [kind, kind]) for a in ("select", "scatter"))
    return ctx.b.select_and_scatter(ctx.input(0), ctx.input(4), ctx.input(5), window, select, scatter)


@register("XlaScatter")
def _scatter(ctx: OpContext) -> HloInstruction:
    """Inputs: operand, indices, updates."""
    numbers = dimension_numbers(ctx, SCHEMA.ScatterDimensionNumbers())
    kind = ctx.shape(0).element_type
    return ctx.b.scatter(
        ctx.input(0),
        ctx.input(1),
        ctx.input(2),
        _scalar_function(ctx, "update_computation", [kind, kind]),
        update_window_dims=list(numbers.update_window_dims),
        inserted_window_dims=list(numbers.inserted_window_dims),
        scatter_dims_to_operand_dims=list(numbers.scatter_dims_to_operand_dims),
        input_batching_dims=list(numbers.input_batching_dims),
        scatter_indices_batching_dims=list(numbers.scatter_indices_batching_dims),
        index_vector_dim=int(numbers.index_vector_dim),
        indices_are_sorted=bool(ctx.attr("indices_are_sorted", False)),
    )


@register("XlaVariadicSort", constants=(-1,))
def _variadic_sort(ctx: OpContext) -> list[HloInstruction]:
    """Arrays sorted together; the comparator takes two scalars of each in turn."""
    xs, dimension = ctx.inputs[:-1], int(ctx.number(-1))
    types = [x.array_shape.element_type for x in xs for _ in range(2)]
    rank = xs[0].array_shape.rank
    axis = dimension + rank if dimension < 0 else dimension
    comparator = _scalar_function(ctx, "comparator", types)
    made = ctx.b.sort(xs, axis, comparator, stable=bool(ctx.attr("is_stable", False)))
    return [made] if len(xs) == 1 else [ctx.b.get_tuple_element(made, i) for i in range(len(xs))]
