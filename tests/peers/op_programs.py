"""XLA's own ops on functions or messages, called through TensorFlow's wrappers.

`PROGRAMS[op type](raw_ops, tf, x)` with x [2, 3] returns the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Program = Callable[[Any, Any, Any], Any]


def _scalars(tf: Any, x: Any, body: Callable[..., Any], count: int = 2) -> Any:
    """A function of so many scalars of the element type of x, traced."""
    return tf.function(body, autograph=False).get_concrete_function(*[tf.TensorSpec([], x.dtype)] * count)


def _dot_numbers() -> Any:
    from tensorflow.compiler.xla import xla_data_pb2

    numbers = xla_data_pb2.DotDimensionNumbers()
    numbers.lhs_contracting_dimensions.append(1)
    numbers.rhs_contracting_dimensions.append(1)
    return numbers


def _dot(r: Any, _tf: Any, x: Any) -> Any:
    return [r.XlaDot(lhs=x, rhs=x, dimension_numbers=_dot_numbers().SerializeToString(), precision_config="")]


def _dot_v2(r: Any, _tf: Any, x: Any) -> Any:
    return [r.XlaDotV2(lhs=x, rhs=x, dimension_numbers=_dot_numbers().SerializeToString(), precision_config="", preferred_element_type=x.dtype)]  # fmt: skip


def _conv_numbers() -> Any:
    from tensorflow.compiler.xla import xla_data_pb2

    n = xla_data_pb2.ConvolutionDimensionNumbers()
    n.input_batch_dimension, n.input_feature_dimension = 0, 2
    n.kernel_input_feature_dimension, n.kernel_output_feature_dimension = 1, 2
    n.output_batch_dimension, n.output_feature_dimension = 0, 2
    for dims in (n.input_spatial_dimensions, n.output_spatial_dimensions):
        dims.append(1)
    n.kernel_spatial_dimensions.append(0)
    return n


def _conv_args(tf: Any, x: Any) -> dict[str, Any]:
    return {
        "lhs": tf.reshape(x, [1, 6, 1]), "rhs": tf.reshape(x[0], [3, 1, 1]), "window_strides": [1], "padding": [[1, 2]], "lhs_dilation": [2],
        "rhs_dilation": [2], "feature_group_count": 1, "dimension_numbers": _conv_numbers().SerializeToString(), "precision_config": "",
    }  # fmt: skip


def _conv(r: Any, tf: Any, x: Any) -> Any:
    return [r.XlaConv(**_conv_args(tf, x))]


def _conv_v2(r: Any, tf: Any, x: Any) -> Any:
    return [r.XlaConvV2(**_conv_args(tf, x), preferred_element_type=x.dtype, batch_group_count=1)]


def _gather(r: Any, _tf: Any, x: Any) -> Any:
    from tensorflow.compiler.xla import xla_data_pb2

    n = xla_data_pb2.GatherDimensionNumbers(
        offset_dims=[1], collapsed_slice_dims=[1], start_index_map=[0, 1], index_vector_dim=1
    )
    return [r.XlaGather(operand=x, start_indices=[[0, 2], [1, 1]], slice_sizes=[1, 1], dimension_numbers=n.SerializeToString(), indices_are_sorted=False)]  # fmt: skip


def _combined(tf: Any, x: Any) -> Any:
    """A function that every element type has."""
    if x.dtype == tf.bool:
        return _scalars(tf, x, tf.logical_or)
    if x.dtype.is_quantized:
        return _scalars(tf, x, lambda a, _: a)
    return _scalars(tf, x, lambda a, b: a + b)


def _scatter(r: Any, tf: Any, x: Any) -> Any:
    from tensorflow.compiler.xla import xla_data_pb2

    n = xla_data_pb2.ScatterDimensionNumbers(
        update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1
    )
    return [r.XlaScatter(operand=x, scatter_indices=[[1], [1]], updates=x, update_computation=_combined(tf, x), dimension_numbers=n.SerializeToString(),
                         indices_are_sorted=False)]  # fmt: skip


def _zero(tf: Any, x: Any) -> Any:
    return x[0, 0] if x.dtype.is_quantized else tf.zeros([], x.dtype)


def _reduce(r: Any, tf: Any, x: Any) -> Any:
    return [r.XlaReduce(input=x, init_value=_zero(tf, x), dimensions_to_reduce=[1], reducer=_combined(tf, x))]


def _variadic(r: Any, tf: Any, x: Any) -> Any:
    return r.XlaVariadicReduce(
        input=[x, x], init_value=[_zero(tf, x)] * 2, dimensions_to_reduce=[0], reducer=_pairs_summed(tf, x)
    )


def _variadic_v2(r: Any, tf: Any, x: Any) -> Any:
    return r.XlaVariadicReduceV2(
        inputs=[x, x], init_values=[_zero(tf, x)] * 2, dimensions_to_reduce=[0], reducer=_pairs_summed(tf, x)
    )


def _pairs_summed(tf: Any, x: Any) -> Any:
    one = _combined(tf, x)
    return _scalars(tf, x, lambda a, b, c, d: (one(a, c), one(b, d)), 4)


def _reduce_window(r: Any, tf: Any, x: Any) -> Any:
    return [r.XlaReduceWindow(input=x, init_value=_zero(tf, x), window_dimensions=[2, 2], window_strides=[1, 1], base_dilations=[1, 2], window_dilations=[1, 1],
                              padding=[[1, 0], [0, 1]], computation=_combined(tf, x))]  # fmt: skip


def _select_and_scatter(r: Any, tf: Any, x: Any) -> Any:
    return [r.XlaSelectAndScatter(operand=x, window_dimensions=[2, 1], window_strides=[2, 1], padding=[[0, 0], [0, 0]], source=x[:1], init_value=_zero(tf, x),
                                  scatter=_combined(tf, x), select=_scalars(tf, x, lambda a, b: a >= b))]  # fmt: skip


def _variadic_sort(r: Any, tf: Any, x: Any) -> Any:
    kind = x.dtype
    compare = tf.function(lambda a, b, _c, _d: a > b, autograph=False).get_concrete_function(
        *[tf.TensorSpec([], kind)] * 2, *[tf.TensorSpec([], tf.int32)] * 2
    )
    places = tf.constant([[0, 1, 2], [3, 4, 5]])
    return r.XlaVariadicSort(inputs=[x, places], dimension=1, comparator=compare, is_stable=True)


def _if(r: Any, tf: Any, x: Any) -> Any:
    spec = tf.TensorSpec([2, 3], x.dtype)
    first, second = (
        tf.function(f, autograph=False).get_concrete_function(spec)
        for f in (lambda a: tf.reverse(a, [1]), lambda a: tf.reverse(a, [0]))
    )
    return r.XlaIf(cond=tf.constant(True), inputs=[x], then_branch=first, else_branch=second, Tout=[x.dtype])


def _while(r: Any, tf: Any, x: Any) -> Any:
    specs = [tf.TensorSpec([], tf.int32), tf.TensorSpec([2, 3], x.dtype)]
    cond = tf.function(lambda i, _: i < 3, autograph=False).get_concrete_function(*specs)
    body = tf.function(lambda i, a: (i + 1, tf.reverse(a, [1])), autograph=False).get_concrete_function(*specs)
    return r.XlaWhile(input=[tf.constant(0), x], cond=cond, body=body)


PROGRAMS: dict[str, Program] = {
    "XlaDot": _dot, "XlaDotV2": _dot_v2, "XlaConv": _conv, "XlaConvV2": _conv_v2, "XlaGather": _gather, "XlaScatter": _scatter, "XlaReduce": _reduce,
    "XlaVariadicReduce": _variadic, "XlaVariadicReduceV2": _variadic_v2, "XlaReduceWindow": _reduce_window, "XlaSelectAndScatter": _select_and_scatter,
    "XlaVariadicSort": _variadic_sort, "XlaIf": _if, "XlaWhile": _while,
}  # fmt: skip
