"""Data sets from arrays and files, transformed by functions, combined (core/kernels/data)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.files import read_regular
from xlanb.graph.limits import LARGEST_FILE
from xlanb.graph.operation import Operation
from xlanb.runtime.host.dataset_values import DatasetValue, Element, Walk, dataset_of
from xlanb.runtime.host.ops import HostState, fault, host


@host("TensorDataset")
def _tensor(_op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [DatasetValue(lambda _walk: iter([tuple(inputs)]))]


@host("TensorSliceDataset")
def _slices(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    parts = [np.asarray(v) for v in inputs]
    counts = {p.shape[0] if p.ndim else -1 for p in parts}
    if len(counts) != 1 or -1 in counts:
        raise fault(
            op, f"all components must have the same number of rows, got shapes {[list(p.shape) for p in parts]}"
        )
    count = counts.pop()
    return [DatasetValue(lambda _walk: (tuple(p[i] for p in parts) for i in range(count)))]


@host("RangeDataset")
def _range(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    start, stop, step = (int(v) for v in inputs[:3])
    dtype = op.attrs["output_types"][0].numpy_dtype
    if step == 0:
        raise fault(op, "the step is 0")
    return [DatasetValue(lambda _walk: ((np.asarray(i, dtype),) for i in range(start, stop, step)))]


@host("TextLineDataset")
def _lines(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    names = [bytes(v).decode() for v in np.atleast_1d(np.asarray(inputs[0], object))]
    if bytes(np.asarray(inputs[1], object).item()):
        raise fault(op, "compressed files are not read")

    def lines() -> Iterator[Element]:
        for name in names:
            try:
                text = read_regular(Path(name), LARGEST_FILE)
            except OSError as error:
                raise fault(op, f"cannot read {name}: {error}") from error
            if len(text) > LARGEST_FILE:
                raise fault(op, f"{name} is larger than the limit of {LARGEST_FILE:,} bytes")
            for line in text.splitlines():
                out = np.empty((), object)
                out[()] = line
                yield (out,)

    return [DatasetValue(lambda _walk: lines())]


# ----------------------------------------------------------------------------- by functions


def call_attr(op: Operation, attr: str, walk: Walk, element: Sequence[Any], captured: Sequence[Any]) -> list[Any]:
    """The results of the function that an attribute names, for an element and captured values."""
    name = str(op.attrs[attr])
    function = op.graph.functions.get(name)
    if function is None:
        raise fault(op, f"the graph's library has no function {name!r}")
    return walk.state.call(op, function.body, [*element, *captured])


@host("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2")
def _map(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source = dataset_of(op, inputs[0])
    captured = list(inputs[1:] if op.type == "MapDataset" else inputs[1:-1])
    return [DatasetValue(lambda walk: (tuple(call_attr(op, "f", walk, e, captured)) for e in source.elements(walk)))]


@host("FilterDataset", "ParallelFilterDataset")
def _filter(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source = dataset_of(op, inputs[0])
    captured = list(inputs[1:] if op.type == "FilterDataset" else inputs[1:-1])
    return [
        DatasetValue(
            lambda walk: (
                e for e in source.elements(walk) if bool(np.asarray(call_attr(op, "predicate", walk, e, captured)[0]))
            )
        )
    ]


@host("FlatMapDataset")
def _flat_map(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, captured = dataset_of(op, inputs[0]), list(inputs[1:])

    def elements(walk: Walk) -> Iterator[Element]:
        for e in source.elements(walk):
            yield from dataset_of(op, call_attr(op, "f", walk, e, captured)[0]).elements(walk)

    return [DatasetValue(elements)]


@host("TakeWhileDataset")
def _take_while(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, captured = dataset_of(op, inputs[0]), list(inputs[1:])

    def holds(walk: Walk, element: Element) -> bool:
        return bool(np.asarray(call_attr(op, "predicate", walk, element, captured)[0]))

    return [DatasetValue(lambda walk: itertools.takewhile(lambda e: holds(walk, e), source.elements(walk)))]


def _state_and_captured(op: Operation, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    count = len(op.attrs["Tstate"])
    return list(inputs[1 : 1 + count]), list(inputs[1 + count :])


@host("ScanDataset")
def _scan(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """The function gets the state and an element, and returns the next state and a new element."""
    source = dataset_of(op, inputs[0])
    first, captured = _state_and_captured(op, inputs)

    def elements(walk: Walk) -> Iterator[Element]:
        state = first
        for e in source.elements(walk):
            results = call_attr(op, "f", walk, [*state, *e], captured)
            state = results[: len(state)]
            yield tuple(results[len(state) :])

    return [DatasetValue(elements)]


@host("ReduceDataset")
def _reduce(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    source = dataset_of(op, inputs[0])
    held, captured = _state_and_captured(op, inputs)
    walk = Walk(state)
    for e in source.elements(walk):
        held = call_attr(op, "f", walk, [*held, *e], captured)
    return held


@host("InterleaveDataset", "ParallelInterleaveDatasetV4")
def _interleave(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Interleave `cycle_length` data sets, `block_length` elements of each in turn."""
    sizes = 2 if op.type == "InterleaveDataset" else 5
    source, captured = dataset_of(op, inputs[0]), list(inputs[1:-sizes])
    cycle, block = (int(v) for v in inputs[len(inputs) - sizes :][:2])
    if cycle < 1 or block < 1:
        raise fault(op, f"cycle_length and block_length must be positive, not {cycle} and {block}")

    def elements(walk: Walk) -> Iterator[Element]:
        outer = source.elements(walk)
        slots: list[Iterator[Element] | None] = [None] * cycle
        ended, at = False, 0
        while not ended or any(s is not None for s in slots):
            slot = slots[at]
            if slot is None and not ended:
                following = next(outer, None)
                ended = following is None
                if following is not None:
                    slot = dataset_of(op, call_attr(op, "f", walk, following, captured)[0]).elements(walk)
            for _ in range(block if slot is not None else 0):
                found = next(slot, None) if slot is not None else None
                if found is None:
                    slot = None
                    break
                yield found
            slots[at] = slot
            at = (at + 1) % cycle

    return [DatasetValue(elements)]


# -------------------------------------------------------------------------------- combined


@host("ZipDataset")
def _zip(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    sources = [dataset_of(op, v) for v in inputs]

    def elements(walk: Walk) -> Iterator[Element]:
        for parts in zip(*(s.elements(walk) for s in sources), strict=False):
            yield tuple(x for part in parts for x in part)

    return [DatasetValue(elements)]


@host("ConcatenateDataset")
def _concatenate(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    first, second = dataset_of(op, inputs[0]), dataset_of(op, inputs[1])

    def elements(walk: Walk) -> Iterator[Element]:
        yield from first.elements(walk)
        yield from second.elements(walk)

    return [DatasetValue(elements)]


@host("RepeatDataset")
def _repeat(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Repeat a number of times, forever if negative; an empty data set ends in any case."""
    source, count = dataset_of(op, inputs[0]), int(inputs[1])

    def elements(walk: Walk) -> Iterator[Element]:
        done = 0
        while count < 0 or done < count:
            is_empty = True
            for e in source.elements(walk):
                is_empty = False
                yield e
            if is_empty:
                return
            done += 1

    return [DatasetValue(elements)]


@host("TakeDataset")
def _take(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, count = dataset_of(op, inputs[0]), int(inputs[1])
    if count < 0:
        return [source]
    return [DatasetValue(lambda walk: (e for _, e in zip(range(count), source.elements(walk), strict=False)))]


@host("SkipDataset")
def _skip(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, count = dataset_of(op, inputs[0]), int(inputs[1])
    if count < 0:
        return [DatasetValue(lambda _walk: iter(()))]
    return [DatasetValue(lambda walk: (e for i, e in enumerate(source.elements(walk)) if i >= count))]


@host("ShardDataset")
def _shard(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, shards, index = dataset_of(op, inputs[0]), int(inputs[1]), int(inputs[2])
    if not 0 <= index < shards:
        raise fault(op, f"index {index} is out of range for {shards} shards")
    return [DatasetValue(lambda walk: (e for i, e in enumerate(source.elements(walk)) if i % shards == index))]


@host("PrefetchDataset", "CacheDataset", "CacheDatasetV2", "ModelDataset", "OptimizeDataset", "OptionsDataset",
      "FinalizeDataset", "RewriteDataset")  # fmt: skip
def _same(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Return the data set: ops that only affect speed are no-ops here."""
    return [dataset_of(op, inputs[0])]


@host("AssertCardinalityDataset")
def _assert_cardinality(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, wanted = dataset_of(op, inputs[0]), int(inputs[1])

    def elements(walk: Walk) -> Iterator[Element]:
        count = 0
        for count, e in enumerate(source.elements(walk), 1):
            if 0 <= wanted < count:
                raise fault(op, f"Input dataset was expected to contain {wanted} elements but contained more")
            yield e
        if 0 <= wanted != count:
            raise fault(op, f"Input dataset was expected to contain {wanted} elements but contained only {count}")

    return [DatasetValue(elements)]


@host("UniqueDataset")
def _unique(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source = dataset_of(op, inputs[0])

    def elements(walk: Walk) -> Iterator[Element]:
        seen: set[Any] = set()
        for e in source.elements(walk):
            key = tuple((a.dtype.str, a.shape, repr(a.tolist())) for a in map(np.asarray, e))
            if key not in seen:
                seen.add(key)
                yield e

    return [DatasetValue(elements)]


@host("WindowDataset")
def _window(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Return a data set per component: every `stride`th element from each `shift`th one on."""
    source = dataset_of(op, inputs[0])
    size, shift, stride = (int(v) for v in inputs[1:4])
    drops = bool(np.asarray(inputs[4]))
    if min(size, shift, stride) < 1:
        raise fault(op, f"size, shift and stride must be positive, not {size}, {shift} and {stride}")
    reach = (size - 1) * stride + 1

    def elements(walk: Walk) -> Iterator[Element]:
        held: list[Element] = []
        skip = 0
        for e in source.elements(walk):
            if skip:
                skip -= 1
                continue
            held.append(e)
            if len(held) == reach:
                yield _windowed(held, stride)
                skip = max(0, shift - reach)
                held = held[shift:]
        while held and not drops:
            yield _windowed(held, stride)
            held = held[shift:]

    return [DatasetValue(elements)]


def _windowed(held: Sequence[Element], stride: int) -> Element:
    return tuple(_of_parts([e[i] for e in held[::stride]]) for i in range(len(held[0])))


def _of_parts(parts: Sequence[Any]) -> DatasetValue:
    return DatasetValue(lambda _walk: ((p,) for p in parts))
