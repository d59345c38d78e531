"""Pooling: the largest element of each window, or its mean."""

# ruff: noqa: N802 - TensorFlow's names

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlanb.graph.builders import array_ops
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor
from xlanb.tf.layers.base import Layer
from xlanb.tf.layers.windows import is_first, layout_of, sizes_of


class _PoolLayer(Layer):
    def __init__(
        self,
        rank: int,
        op_type: str,
        kind: str,
        pool_size: Any,
        strides: Any,
        padding: str,
        data_format: str,
        name: str | None,
    ) -> None:
        super().__init__(kind, name, trainable=False)
        self._rank, self._op_type = rank, op_type
        self._size, self._steps = sizes_of(pool_size, rank, "pool_size"), sizes_of(strides, rank, "strides")
        self._padding = padding.upper()
        self._first = is_first(data_format)

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """The pooled images."""
        sizes, steps = self._size, self._steps
        axis = (2 if self._first else 1) if self._rank == 1 else None
        if axis is not None:
            inputs = array_ops.expand_dims(inputs, axis + 1)
            sizes, steps = [*sizes, 1], [*steps, 1]
        rank = 2 if self._rank == 1 else self._rank
        around = [[1, 1, *v] if self._first else [1, *v, 1] for v in (sizes, steps)]
        result = call(
            self._op_type,
            inputs,
            ksize=around[0],
            strides=around[1],
            padding=self._padding,
            data_format=layout_of(rank, first=self._first),
        )
        return result if axis is None else array_ops.squeeze(result, [axis + 1])


def _pooled(rank: int, kind: str) -> Callable[..., Any]:
    op_type = {"max": "MaxPool", "average": "AvgPool"}[kind] + ("3D" if rank == 3 else "")
    label = f"{kind}_pooling{rank}d"

    def pooling(
        inputs: Any,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
    ) -> Any:
        return _PoolLayer(rank, op_type, label, pool_size, strides, padding, data_format, name)(inputs)

    pooling.__name__ = pooling.__qualname__ = label
    pooling.__doc__ = f"The {kind} of each window, over {rank} spatial dimensions."
    return pooling


max_pooling1d, max_pooling2d, max_pooling3d = (_pooled(rank, "max") for rank in (1, 2, 3))
average_pooling1d, average_pooling2d, average_pooling3d = (_pooled(rank, "average") for rank in (1, 2, 3))


def MaxPooling2D(
    pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last", name: str | None = None
) -> Layer:
    """A layer that takes the largest element of each window."""
    return _PoolLayer(2, "MaxPool", "max_pooling2d", pool_size, strides, padding, data_format, name)


def AveragePooling2D(
    pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last", name: str | None = None
) -> Layer:
    """A layer that takes the mean of each window."""
    return _PoolLayer(2, "AvgPool", "average_pooling2d", pool_size, strides, padding, data_format, name)
