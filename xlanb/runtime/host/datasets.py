"""Data sets and iterators (core/kernels/data).

A data set describes how to produce elements; an iterator traverses it across runs.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.errors import UninitializedError
from xlanb.files import read_regular
from xlanb.graph.limits import LARGEST_FILE
from xlanb.graph.operation import Operation
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.host.ops import HostState, fault, host
from xlanb.runtime.resources import OutOfRangeError, Resources

Element = tuple[Any, ...]


class Walk:
    """One iterator's traversal; its state is that of the run that gets the next element."""

    def __init__(self, state: HostState) -> None:
        self.state = state


@dataclass(frozen=True)
class DatasetValue:
    """A data set; `elements` starts a traversal from the beginning."""

    elements: Callable[[Walk], Iterator[Element]]


class IteratorValue:
    """An iterator of a session; without a data set it is not initialized yet.

    Several threads may get elements from it, one at a time, holding `lock`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.RLock()
        self._walk: Walk | None = None
        self._elements: Iterator[Element] | None = None

    @property
    def is_started(self) -> bool:
        """Whether it has a data set."""
        return self._elements is not None

    def start(self, dataset: DatasetValue, state: HostState) -> None:
        """Start at the first element."""
        with self.lock:
            self._walk = Walk(state)
            self._elements = dataset.elements(self._walk)

    def next(self, op: Operation, state: HostState) -> Element:
        """The next element.

        Raises:
            UninitializedError: There is no data set yet.
            OutOfRangeError: There is no next element.
        """
        if self._elements is None or self._walk is None:
            raise UninitializedError(
                f"node {op.name!r} ({op.type}): GetNext() failed because the iterator {self.name!r} has not been "
                "initialized; "
                "run its initializer before getting the next element"
            )
        self._walk.state = state
        found = next(self._elements, None)
        if found is None:
            raise OutOfRangeError(f"node {op.name!r} ({op.type}): End of sequence")
        return found


def _dataset(op: Operation, value: Any) -> DatasetValue:
    if not isinstance(value, DatasetValue):
        raise fault(op, f"an input is not a data set but {type(value).__name__}")
    return value


# ------------------------------------------------------------------------------------------ sources


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


# ------------------------------------------------------------------------- transformed by functions


def _called(op: Operation, attr: str, walk: Walk, element: Sequence[Any], captured: Sequence[Any]) -> list[Any]:
    name = str(op.attrs[attr])
    function = op.graph.functions.get(name)
    if function is None:
        raise fault(op, f"the graph's library has no function {name!r}")
    return walk.state.call(op, function.body, [*element, *captured])


@host("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2")
def _map(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source = _dataset(op, inputs[0])
    captured = list(inputs[1:] if op.type == "MapDataset" else inputs[1:-1])
    return [DatasetValue(lambda walk: (tuple(_called(op, "f", walk, e, captured)) for e in source.elements(walk)))]


@host("FilterDataset", "ParallelFilterDataset")
def _filter(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source = _dataset(op, inputs[0])
    captured = list(inputs[1:] if op.type == "FilterDataset" else inputs[1:-1])
    return [
        DatasetValue(
            lambda walk: (
                e for e in source.elements(walk) if bool(np.asarray(_called(op, "predicate", walk, e, captured)[0]))
            )
        )
    ]


@host("FlatMapDataset")
def _flat_map(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, captured = _dataset(op, inputs[0]), list(inputs[1:])

    def elements(walk: Walk) -> Iterator[Element]:
        for e in source.elements(walk):
            yield from _dataset(op, _called(op, "f", walk, e, captured)[0]).elements(walk)

    return [DatasetValue(elements)]


@host("TakeWhileDataset")
def _take_while(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, captured = _dataset(op, inputs[0]), list(inputs[1:])

    def holds(walk: Walk, element: Element) -> bool:
        return bool(np.asarray(_called(op, "predicate", walk, element, captured)[0]))

    return [DatasetValue(lambda walk: itertools.takewhile(lambda e: holds(walk, e), source.elements(walk)))]


def _state_and_captured(op: Operation, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    count = len(op.attrs["Tstate"])
    return list(inputs[1 : 1 + count]), list(inputs[1 + count :])


@host("ScanDataset")
def _scan(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """The function gets the state and an element, and returns the next state and a new element."""
    source = _dataset(op, inputs[0])
    first, captured = _state_and_captured(op, inputs)

    def elements(walk: Walk) -> Iterator[Element]:
        state = first
        for e in source.elements(walk):
            results = _called(op, "f", walk, [*state, *e], captured)
            state = results[: len(state)]
            yield tuple(results[len(state) :])

    return [DatasetValue(elements)]


@host("ReduceDataset")
def _reduce(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    source = _dataset(op, inputs[0])
    held, captured = _state_and_captured(op, inputs)
    walk = Walk(state)
    for e in source.elements(walk):
        held = _called(op, "f", walk, [*held, *e], captured)
    return held


@host("InterleaveDataset", "ParallelInterleaveDatasetV4")
def _interleave(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Interleave `cycle_length` data sets, `block_length` elements of each in turn."""
    sizes = 2 if op.type == "InterleaveDataset" else 5
    source, captured = _dataset(op, inputs[0]), list(inputs[1:-sizes])
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
                    slot = _dataset(op, _called(op, "f", walk, following, captured)[0]).elements(walk)
            for _ in range(block if slot is not None else 0):
                found = next(slot, None) if slot is not None else None
                if found is None:
                    slot = None
                    break
                yield found
            slots[at] = slot
            at = (at + 1) % cycle

    return [DatasetValue(elements)]


# ------------------------------------------------------------------------------ combining data sets


@host("ZipDataset")
def _zip(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    sources = [_dataset(op, v) for v in inputs]

    def elements(walk: Walk) -> Iterator[Element]:
        for parts in zip(*(s.elements(walk) for s in sources), strict=False):
            yield tuple(x for part in parts for x in part)

    return [DatasetValue(elements)]


@host("ConcatenateDataset")
def _concatenate(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    first, second = _dataset(op, inputs[0]), _dataset(op, inputs[1])

    def elements(walk: Walk) -> Iterator[Element]:
        yield from first.elements(walk)
        yield from second.elements(walk)

    return [DatasetValue(elements)]


@host("RepeatDataset")
def _repeat(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Repeat a number of times, forever if negative; an empty data set ends in any case."""
    source, count = _dataset(op, inputs[0]), int(inputs[1])

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
    source, count = _dataset(op, inputs[0]), int(inputs[1])
    if count < 0:
        return [source]
    return [DatasetValue(lambda walk: (e for _, e in zip(range(count), source.elements(walk), strict=False)))]


@host("SkipDataset")
def _skip(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, count = _dataset(op, inputs[0]), int(inputs[1])
    if count < 0:
        return [DatasetValue(lambda _walk: iter(()))]
    return [DatasetValue(lambda walk: (e for i, e in enumerate(source.elements(walk)) if i >= count))]


@host("ShardDataset")
def _shard(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, shards, index = _dataset(op, inputs[0]), int(inputs[1]), int(inputs[2])
    if not 0 <= index < shards:
        raise fault(op, f"index {index} is out of range for {shards} shards")
    return [DatasetValue(lambda walk: (e for i, e in enumerate(source.elements(walk)) if i % shards == index))]


@host("PrefetchDataset", "CacheDataset", "CacheDatasetV2", "ModelDataset", "OptimizeDataset", "OptionsDataset",
      "FinalizeDataset", "RewriteDataset")  # fmt: skip
def _same(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Return the data set: ops that only affect speed are no-ops here."""
    return [_dataset(op, inputs[0])]


@host("AssertCardinalityDataset")
def _assert_cardinality(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, wanted = _dataset(op, inputs[0]), int(inputs[1])

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
    source = _dataset(op, inputs[0])

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
    source = _dataset(op, inputs[0])
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
    source, size = _dataset(op, inputs[0]), int(inputs[1])
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
    source, size = _dataset(op, inputs[0]), int(inputs[1])
    drop = bool(np.asarray(inputs[-1])) if len(inputs) > 2 else False
    return [DatasetValue(lambda walk: _batches(op, source.elements(walk), size, drop, _stacked))]


@host("MapAndBatchDataset")
def _map_and_batch(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    source, captured, size = _dataset(op, inputs[0]), list(inputs[1:-3]), int(inputs[-3])
    drop = bool(np.asarray(inputs[-1]))

    def elements(walk: Walk) -> Iterator[Element]:
        mapped = (tuple(_called(op, "f", walk, e, captured)) for e in source.elements(walk))
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
    source, size, count = _dataset(op, inputs[0]), int(inputs[1]), int(op.attrs["N"])
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


# ---------------------------------------------------------------------------------------- iterators


def _held(resources: Resources, op: Operation) -> IteratorValue:
    key = f"iterator/{op.attrs.get('container') or ''}/{op.attrs.get('shared_name') or op.name}"
    found: IteratorValue = resources.get(key, lambda: IteratorValue(op.name))
    return found


@host("Iterator", "IteratorV2", "AnonymousIteratorV2")
def _iterator(op: Operation, _inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    return [_held(state.resources, op)]


@host("AnonymousIteratorV3")
def _anonymous(op: Operation, _inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [IteratorValue(op.name)]


@host("OneShotIterator")
def _one_shot(op: Operation, _inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    """An iterator whose data set is created by its function on first use."""
    held = _held(state.resources, op)
    with held.lock:
        if not held.is_started:
            name = str(op.attrs["dataset_factory"])
            if name not in op.graph.functions:
                raise fault(op, f"the graph's library has no function {name!r}")
            (made,) = state.call(op, op.graph.functions[name].body, [])
            held.start(_dataset(op, made), state)
    return [held]


@host("MakeIterator")
def _start(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    _walked(op, inputs[1]).start(_dataset(op, inputs[0]), state)
    return []


def _walked(op: Operation, value: Any) -> IteratorValue:
    if not isinstance(value, IteratorValue):
        raise fault(op, f"the input is not an iterator but {type(value).__name__}")
    return value


@host("IteratorGetNext", "IteratorGetNextSync")
def _next(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    iterator = _walked(op, inputs[0])
    with iterator.lock:
        found = iterator.next(op, state)
    if len(found) != len(op.outputs):
        raise fault(op, f"the elements of the data set have {len(found)} components, expected {len(op.outputs)}")
    return [_checked(op, i, value) for i, value in enumerate(found)]


def _checked(op: Operation, index: int, value: Any) -> np.ndarray[Any, Any]:
    wanted, array = op.outputs[index].dtype.numpy_dtype, np.asarray(value)
    if array.dtype != wanted:
        raise fault(op, f"component {index} is {array.dtype}, the iterator's type is {wanted}")
    return array


@host("IteratorToStringHandle")
def _to_handle(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    held = _walked(op, inputs[0])
    out = np.empty((), object)
    out[()] = f"handle/{held.name}".encode()
    state.resources.get(f"handle/{held.name}", lambda: held)
    return [out]


@host("IteratorFromStringHandle", "IteratorFromStringHandleV2")
def _from_handle(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    key = bytes(np.asarray(inputs[0], object).item()).decode("utf-8", "replace")

    def missing() -> Any:
        raise fault(op, f"{key!r} is not an iterator handle: run iterator.string_handle() in this session")

    return [state.resources.get(key, missing)]
