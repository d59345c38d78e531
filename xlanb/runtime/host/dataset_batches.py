"""Shuffle and batch the elements of data sets (core/kernels/data)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xlanb.graph.operation import Operation
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.host.dataset_values import DatasetValue, Element, Walk, dataset_of
from xlanb.runtime.host.datasets import call_attr
from xlanb.runtime.host.ops import HostState, fault, host


@dataclass(frozen=True)
class SeedGenerator:
    """The seeds of a shuffle, and whether each traversal has an order of its own."""

    seeds: tuple[int, int]
    reshuffles: bool


@host("AnonymousSeedGenerator", "AnonymousRandomSeedGenerator")
def _seed_generator(_op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    reshuffles = bool(np.asarray(inputs[2])) if len(inputs) > 2 else True
    return [SeedGenerator((int(inputs[0]), int(inputs[1])), reshuffles), None]


@host("DummySeedGenerator", "DummyMemoryCache")
def _dummy(_op: Operation, _inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [None]


@host("AnonymousMemoryCache")
def _memory_cache(_op: Operation, _inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [None, None]


@host("DeleteMemoryCache", "DeleteSeedGenerator")
def _deleted(_op: Operation, _inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return []


@host("ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDatasetV2")
def _shuffle(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    """Shuffle within a buffer of the given size.

    Uses its own generator (Philox), so that the order differs from TensorFlow's.
    """
    source, size = dataset_of(op, inputs[0]), int(inputs[1])
    if size < 1 and size != -1:
        raise fault(op, f"buffer_size must be positive, not {size}")
    given = _seeds_of(op, inputs)
    seeds = [v % 2**64 for v in given.seeds]
    makers = np.random.SeedSequence(seeds if any(seeds) else None)
    again = given.reshuffles
    rounds = int(inputs[4]) if op.type == "ShuffleAndRepeatDatasetV2" else 1

    def elements(walk: Walk) -> Iterator[Element]:
        for _ in itertools.repeat(None) if rounds < 0 else range(rounds):
            is_empty = True
            for e in shuffled(walk):
                is_empty = False
                yield e
            if is_empty:
                return

    def shuffled(walk: Walk) -> Iterator[Element]:
        sequence = makers.spawn(1)[0] if again else makers
        generator = np.random.Generator(np.random.Philox(sequence))
        buffer: list[Element] = []
        for e in source.elements(walk):
            buffer.append(e)
            if size > 0 and len(buffer) == size:
                yield _drawn(buffer, generator)
        while buffer:
            yield _drawn(buffer, generator)

    return [DatasetValue(elements)]


def _seeds_of(op: Operation, inputs: Sequence[Any]) -> SeedGenerator:
    if op.type != "ShuffleDatasetV2":
        return SeedGenerator((int(inputs[2]), int(inputs[3])), bool(op.attrs.get("reshuffle_each_iteration", True)))
    if inputs[2] is not None and not isinstance(inputs[2], SeedGenerator):
        raise fault(op, f"the seed generator is a {type(inputs[2]).__name__}")
    return inputs[2] or SeedGenerator((0, 0), reshuffles=True)


def _drawn(buffer: list[Element], generator: np.random.Generator) -> Element:
    index = int(generator.integers(len(buffer)))
    buffer[index], buffer[-1] = buffer[-1], buffer[index]
    return buffer.pop()


@host("BatchDataset", "BatchDatasetV2", "ParallelBatchDataset")
def _batch(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, size = dataset_of(op, inputs[0]), int(inputs[1])
    drop = bool(np.asarray(inputs[-1])) if len(inputs) > 2 else False
    return [DatasetValue(lambda walk: _batches(op, source.elements(walk), size, drop, _stacked))]


@host("MapAndBatchDataset")
def _map_and_batch(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, captured, size = dataset_of(op, inputs[0]), list(inputs[1:-3]), int(inputs[-3])
    drop = bool(np.asarray(inputs[-1]))

    def elements(walk: Walk) -> Iterator[Element]:
        mapped = (tuple(call_attr(op, "f", walk, e, captured)) for e in source.elements(walk))
        yield from _batches(op, mapped, size, drop, _stacked)

    return [DatasetValue(elements)]


def _batches(
    op: Operation, source: Iterator[Element], size: int, drop: bool, stack: Callable[[Operation, int, list[Any]], Any]
) -> Iterator[Element]:
    if size < 1:
        raise fault(op, f"batch_size must be greater than zero, not {size}")
    held: list[Element] = []
    for e in source:
        held.append(e)
        if len(held) == size:
            yield tuple(stack(op, i, list(c)) for i, c in enumerate(zip(*held, strict=True)))
            held = []
    if held and not drop:
        yield tuple(stack(op, i, list(c)) for i, c in enumerate(zip(*held, strict=True)))


def _stacked(op: Operation, index: int, parts: list[Any]) -> np.ndarray[Any, Any]:
    arrays = [np.asarray(p) for p in parts]
    if len({a.shape for a in arrays}) > 1:
        raise fault(
            op,
            f"Cannot batch tensors with different shapes in component {index}: {sorted({a.shape for a in arrays})}",
        )
    return np.stack(arrays)


@host("PaddedBatchDatasetV2")
def _padded_batch(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Batches of elements of different sizes, padded to the largest or to given sizes."""
    source, size, count = dataset_of(op, inputs[0]), int(inputs[1]), int(op.attrs["N"])
    shapes = [[int(d) for d in np.asarray(v)] for v in inputs[2 : 2 + count]]
    fills = [np.asarray(v) for v in inputs[2 + count : 2 + 2 * count]]
    drop = bool(np.asarray(inputs[2 + 2 * count]))

    def pad(op: Operation, index: int, parts: list[Any]) -> np.ndarray[Any, Any]:
        arrays, wanted = [np.asarray(p) for p in parts], shapes[index]
        largest = np.max([a.shape for a in arrays], axis=0) if wanted else []
        sizes = [int(n) if w < 0 else w for n, w in zip(largest, wanted, strict=True)]
        if any(n > s for n, s in zip(largest, sizes, strict=True)):
            raise fault(op, f"component {index} has elements larger than the padded shape {sizes}")
        out = np.empty((len(arrays), *sizes), arrays[0].dtype)
        out[...] = fills[index]
        for row, a in enumerate(arrays):
            place: tuple[Any, ...] = (row, *(slice(0, s) for s in a.shape))
            out[place] = a
        return out

    return [DatasetValue(lambda walk: _batches(op, source.elements(walk), size, drop, pad))]
