"""Distribution: how a program's whole arguments and results are sharded over its devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xlanb.errors import ArgumentError
from xlanb.evaluator.values import Value
from xlanb.hlo.device_groups import DeviceGrid
from xlanb.hlo.module import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.spmd.devices.split import parts_of, shards, tiling, whole_value


@dataclass(frozen=True)
class Distribution:
    """Shardings of the leaves of all parameters and of the result, in order; "" means replicated.

    Attributes:
        parameters: shapes of the whole arguments, row-major (a layout applies to a device's part).
        local: shapes that each device takes.
        result: shape of the whole result, or None if only the shards' shapes are known. Padded
            shards together may be longer than the whole.
    """

    grid: DeviceGrid
    parameters: tuple[Shape, ...]
    local: tuple[Shape, ...]
    shardings: tuple[tuple[str, ...], ...]
    result: Shape | None
    result_shardings: tuple[str, ...]

    @staticmethod
    def of_whole(module: HloModule, grid: DeviceGrid) -> Distribution:
        """Return the distribution of a whole program whose entry has shardings after propagation.

        `local` are the parameter shapes that partitioning will produce.
        """
        entry = module.entry_computation
        parameters = tuple(row_major(p.shape) for p in entry.parameters)
        parts = tuple(tuple(parts_of(p.sharding, p.shape)) for p in entry.parameters)
        local = tuple(_local(p.shape, iter(t), grid.count) for p, t in zip(entry.parameters, parts, strict=True))
        root = entry.root
        return Distribution(grid, parameters, local, parts, root.shape, tuple(parts_of(root.sharding, root.shape)))

    @staticmethod
    def of_each(module: HloModule, grid: DeviceGrid) -> Distribution:
        """Return the distribution of a partitioned program, whose parameters keep their shardings.

        XLA ignores the shardings of a program for one device.
        """
        entry, is_split = module.entry_computation, grid.count > 1
        local = tuple(p.shape for p in entry.parameters)
        parts = tuple(tuple(parts_of(p.sharding if is_split else None, p.shape)) for p in entry.parameters)
        whole = tuple(row_major(_whole(s, iter(p), grid.count)) for s, p in zip(local, parts, strict=True))
        output = (module.spmd_output_sharding or entry.root.sharding) if is_split else None
        return Distribution(grid, whole, local, parts, None, tuple(parts_of(output, entry.root.shape)))

    @property
    def is_replicated(self) -> bool:
        """Whether every device takes and returns the same arrays."""
        return not any(text for row in (*self.shardings, self.result_shardings) for text in row)

    def split(self, arrays: Sequence[Any], labels: Sequence[str] = ()) -> list[list[Any]]:
        """Split the arguments into those of each device.

        Raises:
            ArgumentError: the number of arrays or their dimensions do not match.
        """
        if len(arrays) != len(self.local):
            expected = ", ".join(s.text(layout=False) for s in self.parameters)
            raise ArgumentError(f"expected {len(self.local)} arguments ({expected}), not {len(arrays)}")
        count = self.grid.count
        columns = [
            _split(a, s, iter(p), count, labels[n] if labels else f"argument {n}")
            for n, (a, s, p) in enumerate(zip(arrays, self.local, self.shardings, strict=True))
        ]
        return [[column[d] for column in columns] for d in range(count)]

    def join(self, results: Sequence[Value]) -> Value:
        """Join the devices' results into the whole result.

        Raises:
            EvaluationError: the results differ and no sharding says how to combine them.
        """
        sizes = None
        if self.result is not None:
            sizes = [s.dimensions if isinstance(s, ArrayShape) else None for _, s in self.result.leaves()]
        return whole_value(results, self.result_shardings, sizes)


def _split(argument: Any, shape: Shape, parts: Iterator[str], devices: int, label: str) -> list[Any]:
    """Return each device's part of an argument."""
    if isinstance(shape, TupleShape):
        if not isinstance(argument, (tuple, list)) or len(argument) != len(shape.shapes):
            raise ArgumentError(f"{label}: expected a tuple {shape.text(layout=False)}")
        rows = [
            _split(a, s, parts, devices, f"{label}[{k}]")
            for k, (a, s) in enumerate(zip(argument, shape.shapes, strict=True))
        ]
        return [tuple(row[d] for row in rows) for d in range(devices)]
    text = next(parts)
    if not isinstance(shape, ArrayShape) or not shape.is_array or not text:
        return [argument] * devices
    return shards(argument, text, shape, devices, label)


def _local(shape: Shape, parts: Iterator[str], devices: int) -> Shape:
    """Return the shape of a device's part of a whole array."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_local(s, parts, devices) for s in shape.shapes))
    text = next(parts)
    lies = tiling(text, shape.rank, devices) if isinstance(shape, ArrayShape) else None
    return shape if lies is None else _resized(shape, lies.tile_dimensions(shape.as_array().dimensions))


def _whole(shape: Shape, parts: Iterator[str], devices: int) -> Shape:
    """Return the shape of the largest whole array for which a device has a part of this shape."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_whole(s, parts, devices) for s in shape.shapes))
    text = next(parts)
    lies = tiling(text, shape.rank, devices) if isinstance(shape, ArrayShape) else None
    if lies is None:
        return shape
    return _resized(shape, [n * t for n, t in zip(shape.as_array().dimensions, lies.tiles, strict=True)])


def row_major(shape: Shape) -> Shape:
    """Return the shape with row-major arrays."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map(row_major, shape.shapes)))
    return shape.with_layout(None).with_default_layout() if isinstance(shape, ArrayShape) else shape


def _resized(shape: Shape, dims: Sequence[int]) -> ArrayShape:
    array = shape.as_array()
    return ArrayShape(array.element_type, tuple(dims)).with_default_layout()
