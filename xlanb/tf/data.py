"""tf.data: data sets as inputs, read by iterators (python/data/ops/{dataset_ops,iterator_ops}.py).

Elements are made on the host, one after the other. Maps run node by node; `prefetch` and
`num_parallel_calls` have no effect. The order of shuffles differs from TensorFlow's.
"""

# ruff: noqa: N802 - TensorFlow's names

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Iterator as Walk
from types import SimpleNamespace
from typing import Any

import numpy as np

from xlanb.errors import GraphError, GraphTypeError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.nest import flatten, is_nested, map_structure, pack_like
from xlanb.graph.builders.random_ops import get_seed
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import needed_by
from xlanb.graph.tensor_shape import TensorShape
from xlanb.tf.defun import ArgumentSpec, Defined, closed_function, define, label_of
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest
from xlanb.tf.scripts import py_func

AUTOTUNE = -1
_UNBOUND = frozenset({"Placeholder", "PlaceholderV2", "VariableV2", "Variable", "VarHandleOp"})


def _int64(value: Any, name: str) -> Tensor:
    return convert_to_tensor(value, dtypes.int64, name)


def _batched(spec: ArgumentSpec, size: int | None) -> ArgumentSpec:
    return ArgumentSpec(spec.dtype, TensorShape([size]).concatenate(spec.shape))


class Dataset:
    """A data set: a variant tensor with its recipe, and the specs of its elements' components.

    Attributes:
        element_spec: a Spec for each component, in the structure of the elements.
    """

    def __init__(self, variant: Tensor, element_spec: Any) -> None:
        self.variant = variant
        self.element_spec = element_spec

    # -------------------------------------------------------------------------------------- sources

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """The rows of arrays, tensors, or a tuple or dictionary of these; all have as many rows.

        Raises:
            GraphValueError: a component without rows.
        """
        structure = _normalized(tensors)
        parts = flatten(structure)
        for part in parts:
            if part.shape.rank == 0:
                raise GraphValueError(f"from_tensor_slices: {part.name!r} is a scalar: it has no rows")
        specs = [ArgumentSpec(t.dtype.base_dtype, TensorShape(t.shape[1:])) for t in parts]
        made = call_op(
            "TensorSliceDataset", parts, output_shapes=[s.shape for s in specs], Toutput_types=[s.dtype for s in specs]
        )
        return Dataset(made.outputs[0], pack_like(structure, specs))

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """One element."""
        structure = _normalized(tensors)
        parts = flatten(structure)
        specs = [ArgumentSpec(t.dtype.base_dtype, t.shape) for t in parts]
        made = call("TensorDataset", parts, output_shapes=[s.shape for s in specs])
        return Dataset(made, pack_like(structure, specs))

    @staticmethod
    def from_generator(
        generator: Callable[..., Any], output_types: Any, output_shapes: Any = None, args: Sequence[Any] = ()
    ) -> Dataset:
        """Make a data set of a Python generator function, called anew for each iteration.

        It is run to its end, or for its first 2**20 elements, when an iteration begins.
        """
        types = [as_dtype(t) for t in flatten(output_types)]
        shapes = (
            [TensorShape(None)] * len(types) if output_shapes is None else _shapes_like(output_types, output_shapes)
        )

        def gathered(*given: Any) -> list[np.ndarray[Any, Any]]:
            rows = []
            for row, _ in zip(generator(*given), range(_MOST), strict=False):
                rows.append(flatten(row) if is_nested(output_types) else [row])
            columns: list[np.ndarray[Any, Any]] = []
            for index, t in enumerate(types):
                column = np.empty(len(rows), object)
                column[:] = [np.asarray(row[index], t.numpy_dtype).tobytes() for row in rows]
                sizes = np.empty(len(rows), object)
                sizes[:] = [np.asarray(np.shape(row[index]), np.int64).tobytes() for row in rows]
                columns += [column, sizes]
            return columns

        found = py_func(gathered, list(args), [dtypes.string] * (2 * len(types)), name="generator")
        for tensor in found:
            tensor.set_shape([None])

        def decoded(*parts: Any) -> Any:
            out = []
            for index, (dtype, shape) in enumerate(zip(types, shapes, strict=True)):
                flat = py_func(_decoder(dtype), [parts[2 * index], parts[2 * index + 1]], dtype, stateful=False)
                flat.set_shape(shape)
                out.append(flat)
            return pack_like(output_types, out) if is_nested(output_types) else out[0]

        return Dataset.from_tensor_slices(tuple(found)).map(decoded)

    @staticmethod
    def range(*args: Any) -> Dataset:
        """Integers (int64) with the arguments of Python's range."""
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
        spec = ArgumentSpec(dtypes.int64, TensorShape([]))
        parts = [_int64(start, "start"), _int64(stop, "stop"), _int64(step, "step")]
        made = call("RangeDataset", *parts, output_types=[spec.dtype], output_shapes=[spec.shape])
        return Dataset(made, spec)

    @staticmethod
    def zip(datasets: Any) -> Dataset:
        """Elements of several data sets side by side, in the structure that these are given in."""
        parts = flatten(datasets)
        spec = map_structure(lambda d: d.element_spec, datasets)
        specs = flatten(spec)
        made = call(
            "ZipDataset", [d.variant for d in parts], output_types=[s.dtype for s in specs],
            output_shapes=[s.shape for s in specs]
        )  # fmt: skip
        return Dataset(made, spec)

    # ---------------------------------------------------------------------------------- transformed

    def map(self, map_func: Callable[..., Any], num_parallel_calls: Any = None, **_options: Any) -> Dataset:
        """`map_func` of each element; of tuples, of their parts."""
        made = self._function(map_func, "map")
        return self._by_function("MapDataset", made, _structure(made), f=made.ref)

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """Keep the elements for which `predicate` is True.

        Raises:
            GraphTypeError: it does not return a bool scalar.
        """
        made = self._function(predicate, "filter")
        if len(made.results) != 1 or made.results[0].dtype is not dtypes.bool_:
            raise GraphTypeError(
                f"filter: `predicate` must return one bool, got {[s.dtype.name for s in made.results]}"
            )
        return self._by_function("FilterDataset", made, self.element_spec, predicate=made.ref)

    def flat_map(self, map_func: Callable[..., Any]) -> Dataset:
        """Concatenate the data sets that `map_func` returns for the elements."""
        made, spec = self._nested(map_func, "flat_map")
        return self._by_function("FlatMapDataset", made, spec, f=made.ref)

    def interleave(
        self, map_func: Callable[..., Any], cycle_length: Any = 1, block_length: Any = 1, num_parallel_calls: Any = None
    ) -> Dataset:
        """Interleave elements of several of the data sets that `map_func` returns."""
        made, spec = self._nested(map_func, "interleave")
        sizes = (_int64(cycle_length, "cycle_length"), _int64(block_length, "block_length"))
        return self._by_function("InterleaveDataset", made, spec, *sizes, f=made.ref)

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Return `transformation_func` of this data set."""
        return transformation_func(self)

    def batch(self, batch_size: Any, drop_remainder: Any = False) -> Dataset:
        """Elements stacked, `batch_size` at a time; the last may have fewer."""
        size = _int64(batch_size, "batch_size")
        drop = convert_to_tensor(drop_remainder, dtypes.bool_, "drop_remainder")
        rows = int(batch_size) if drop_remainder is True else None
        spec = map_structure(lambda s: _batched(s, rows), self.element_spec)
        return self._made("BatchDatasetV2", spec, size, drop)

    def padded_batch(
        self, batch_size: Any, padded_shapes: Any = None, padding_values: Any = None, drop_remainder: Any = False
    ) -> Dataset:
        """Batch elements of different sizes, padded to the largest, or to `padded_shapes` if
        known.
        """
        specs = flatten(self.element_spec)
        shapes = [s.shape for s in specs] if padded_shapes is None else _shapes_like(self.element_spec, padded_shapes)
        with name_scope("padded_shapes"):
            wanted = [
                _int64([-1 if d is None else d for d in s.as_list()], f"component_{i}") for i, s in enumerate(shapes)
            ]
        given = (
            flatten(padding_values)
            if padding_values is not None
            else [b"" if s.dtype is dtypes.string else 0 for s in specs]
        )
        fills = [convert_to_tensor(v, s.dtype, "padding_value") for v, s in zip(given, specs, strict=True)]
        rows = int(batch_size) if drop_remainder is True else None
        out = [_batched(ArgumentSpec(s.dtype, TensorShape(d)), rows) for s, d in zip(specs, shapes, strict=True)]
        made = call(
            "PaddedBatchDatasetV2", self.variant, _int64(batch_size, "batch_size"), wanted, fills,
            convert_to_tensor(drop_remainder, dtypes.bool_, "drop_remainder"), output_shapes=[s.shape for s in out],
        )  # fmt: skip
        return Dataset(made, pack_like(self.element_spec, out))

    def shuffle(
        self, buffer_size: Any, seed: int | None = None, reshuffle_each_iteration: bool | None = None
    ) -> Dataset:
        """Elements in a random order, drawn from a buffer of `buffer_size`."""
        size = _int64(buffer_size, "buffer_size")
        first, second = get_seed(seed)
        again = reshuffle_each_iteration is not False
        seeds = (_int64(first or 0, "seed"), _int64(second or 0, "seed2"))
        return self._made("ShuffleDataset", self.element_spec, size, *seeds, reshuffle_each_iteration=again)

    def repeat(self, count: Any = None) -> Dataset:
        """So many times; for ever without a number."""
        return self._made("RepeatDataset", self.element_spec, _int64(-1 if count is None else count, "count"))

    def take(self, count: Any) -> Dataset:
        """The first `count` elements."""
        return self._made("TakeDataset", self.element_spec, _int64(count, "count"))

    def skip(self, count: Any) -> Dataset:
        """All but the first `count` elements."""
        return self._made("SkipDataset", self.element_spec, _int64(count, "count"))

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Every num_shards-th element, from `index` on."""
        return self._made("ShardDataset", self.element_spec, _int64(num_shards, "num_shards"), _int64(index, "index"))

    def prefetch(self, buffer_size: Any) -> Dataset:
        """The same elements."""
        return self._made(
            "PrefetchDataset", self.element_spec, _int64(buffer_size, "buffer_size"), legacy_autotune=False
        )

    def cache(self, filename: Any = "") -> Dataset:
        """The same elements."""
        return self._made("CacheDataset", self.element_spec, convert_to_tensor(filename, dtypes.string, "filename"))

    def concatenate(self, dataset: Dataset) -> Dataset:
        """These elements, then those."""
        return self._made("ConcatenateDataset", self.element_spec, dataset.variant)

    # ------------------------------------------------------------------------------------ iterators

    @property
    def output_types(self) -> Any:
        """Element types of the components."""
        return map_structure(lambda s: s.dtype, self.element_spec)

    @property
    def output_shapes(self) -> Any:
        """Shapes of the components."""
        return map_structure(lambda s: s.shape, self.element_spec)

    @property
    def output_classes(self) -> Any:
        """Tensors, all of them."""
        return map_structure(lambda _s: Tensor, self.element_spec)

    def make_one_shot_iterator(self) -> Iterator:
        """An iterator that needs no initialiser.

        Raises:
            GraphValueError: the data set depends on placeholders or variables.
        """
        bound = _outside(self.variant)
        if bound is not None:
            raise GraphValueError(
                f"Cannot capture {bound.describe()} by value: a data set that uses placeholders or variables "
                "needs make_initializable_iterator() instead"
            )
        specs = flatten(self.element_spec)
        ref = closed_function("_make_dataset", self.variant)
        handle = call(
            "OneShotIterator", dataset_factory=ref, output_types=[s.dtype for s in specs],
            output_shapes=[s.shape for s in specs]
        )  # fmt: skip
        return Iterator(handle, None, self.element_spec)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """Make an iterator; its `initializer` must be run first."""
        specs = flatten(self.element_spec)
        handle = call(
            "IteratorV2", shared_name=shared_name or "", container="", output_types=[s.dtype for s in specs],
            output_shapes=[s.shape for s in specs]
        )  # fmt: skip
        return Iterator(handle, call_op("MakeIterator", self.variant, handle), self.element_spec)

    def __iter__(self) -> Walk[Any]:
        raise GraphError(
            "a data set cannot be iterated over in Python: run make_one_shot_iterator().get_next() in a session"
        )

    def __repr__(self) -> str:
        return f"<Dataset shapes: {self.output_shapes}, types: {map_structure(lambda t: t.name, self.output_types)}>"

    # --------------------------------------------------------------------------------------- pieces

    def _made(self, op_type: str, spec: Any, *inputs: Any, **attrs: Any) -> Dataset:
        specs = flatten(spec)
        types, shapes = [s.dtype for s in specs], [s.shape for s in specs]
        return Dataset(call(op_type, self.variant, *inputs, output_types=types, output_shapes=shapes, **attrs), spec)

    def _function(self, function: Callable[..., Any], kind: str) -> Defined:
        spec = self.element_spec
        arguments = tuple(spec) if isinstance(spec, tuple) else (spec,)

        def normal(*given: Any) -> Any:
            found = function(*given)
            if isinstance(found, Dataset):
                return found
            return tuple(found) if isinstance(found, list) else found

        return define(f"Dataset_{kind}_{label_of(function)}", normal, arguments)

    def _nested(self, function: Callable[..., Any], kind: str) -> tuple[Defined, Any]:
        specs: list[Any] = []

        def variant(*given: Any) -> Tensor:
            made = function(*given)
            if not isinstance(made, Dataset):
                raise GraphTypeError(f"{kind}: `map_func` must return a Dataset, got {type(made).__name__}")
            specs.append(made.element_spec)
            return made.variant

        made = self._function(variant, kind)
        return made, specs[-1]

    def _by_function(self, op_type: str, made: Defined, spec: Any, *inputs: Any, **attrs: Any) -> Dataset:
        return self._made(op_type, spec, list(made.captures), *inputs, **attrs)


def _decoder(dtype: DType) -> Callable[[Any, Any], Any]:
    def decode(data: Any, size: Any) -> Any:
        sizes = np.frombuffer(np.asarray(size, object).item(), np.int64)
        return np.frombuffer(np.asarray(data, object).item(), dtype.numpy_dtype).reshape(sizes)

    return decode


_MOST = 2**20


def _normalized(tensors: Any) -> Any:
    """Lists become tensors, tuples and dictionaries structures, as data sets have it."""
    structure = _listed(tensors)
    with name_scope("normalize_element"):
        parts = [convert_to_tensor(v, name=f"component_{i}") for i, v in enumerate(flatten(structure))]
    return pack_like(structure, parts)


def _listed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _listed(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return tuple(_listed(v) for v in value)
    return (
        convert_to_tensor(value)
        if isinstance(value, list) and _has_tensors(value)
        else np.asarray(value)
        if isinstance(value, list)
        else value
    )


def _has_tensors(value: list[Any]) -> bool:
    return any(isinstance(v, Tensor) for v in flatten(value))


def _shapes_like(structure: Any, shapes: Any) -> list[TensorShape]:
    """A shape for each component; `shapes` has the structure of the elements.

    Raises:
        GraphValueError: it has another.
    """
    if not is_nested(structure):
        return [TensorShape(shapes)]
    if isinstance(structure, Mapping) and isinstance(shapes, Mapping) and set(structure) == set(shapes):
        return [s for k in sorted(structure) for s in _shapes_like(structure[k], shapes[k])]
    if not isinstance(structure, Mapping) and isinstance(shapes, list | tuple) and len(shapes) == len(structure):
        return [s for part, shape in zip(structure, shapes, strict=True) for s in _shapes_like(part, shape)]
    raise GraphValueError(f"shapes {shapes!r} do not match elements of the structure {structure!r}")


def _structure(made: Defined) -> Any:
    given = made.given
    return pack_like(given, list(made.results)) if is_nested(given) else made.results[0]


def _outside(variant: Tensor) -> Operation | None:
    """A placeholder or variable that a data set depends on."""
    return next((op for op in needed_by([variant.op]) if op.type in _UNBOUND), None)


class Iterator:
    """An iterator of a data set: each run of `get_next`'s result takes one element."""

    def __init__(self, handle: Tensor, initializer: Operation | None, element_spec: Any) -> None:
        self._handle = handle
        self._initializer = initializer
        self.element_spec = element_spec

    @staticmethod
    def from_structure(output_types: Any, output_shapes: Any = None, shared_name: str | None = None) -> Iterator:
        """An iterator for any data set with such elements: see `make_initializer`."""
        types = [as_dtype(t) for t in flatten(output_types)]
        shapes = (
            [TensorShape(None)] * len(types) if output_shapes is None else _shapes_like(output_types, output_shapes)
        )
        specs = [ArgumentSpec(t, s) for t, s in zip(types, shapes, strict=True)]
        handle = call(
            "IteratorV2", shared_name=shared_name or "", container="", output_types=types, output_shapes=shapes
        )
        return Iterator(handle, None, pack_like(output_types, list(specs)))

    @staticmethod
    def from_string_handle(string_handle: Any, output_types: Any, output_shapes: Any = None) -> Iterator:
        """Make an iterator for a fed `string_handle` of another one."""
        types = [as_dtype(t) for t in flatten(output_types)]
        shapes = (
            [TensorShape(None)] * len(types) if output_shapes is None else _shapes_like(output_types, output_shapes)
        )
        text = convert_to_tensor(string_handle, dtypes.string)
        handle = call("IteratorFromStringHandleV2", text, output_types=types, output_shapes=shapes)
        return Iterator(
            handle, None, pack_like(output_types, [ArgumentSpec(t, s) for t, s in zip(types, shapes, strict=True)])
        )

    @property
    def initializer(self) -> Operation:
        """The operation that starts it.

        Raises GraphValueError if the iterator has no own data set.
        """
        if self._initializer is None:
            raise GraphValueError("Iterator does not have an initializer.")
        return self._initializer

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Operation:
        """An operation that begins a walk through `dataset`."""
        return call_op("MakeIterator", dataset.variant, self._handle, name=name)

    def get_next(self, name: str | None = None) -> Any:
        """The next element's tensors."""
        specs = flatten(self.element_spec)
        types, shapes = [s.dtype for s in specs], [s.shape for s in specs]
        made = call_op("IteratorGetNext", self._handle, output_types=types, output_shapes=shapes, name=name)
        return pack_like(self.element_spec, list(made.outputs))

    def string_handle(self, name: str | None = None) -> Tensor:
        """A text that names it, to be fed where `from_string_handle` is used."""
        return call("IteratorToStringHandle", self._handle, name=name)

    @property
    def output_types(self) -> Any:
        """Element types of the components."""
        return map_structure(lambda s: s.dtype, self.element_spec)

    @property
    def output_shapes(self) -> Any:
        """Shapes of the components."""
        return map_structure(lambda s: s.shape, self.element_spec)


def TextLineDataset(filenames: Any, compression_type: Any = None, buffer_size: Any = None) -> Dataset:
    """The lines of text files."""
    parts = (
        convert_to_tensor(filenames, dtypes.string, "filenames"),
        constant(compression_type or "", dtypes.string, name="compression_type"),
        _int64(buffer_size or 0, "buffer_size"),
    )
    return Dataset(call("TextLineDataset", *parts), ArgumentSpec(dtypes.string, TensorShape([])))


def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    """As the method."""
    return dataset.make_one_shot_iterator()


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    """As the method."""
    return dataset.make_initializable_iterator(shared_name)


def get_output_types(dataset_or_iterator: Any) -> Any:
    """Element types of the components."""
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """Shapes of the components."""
    return dataset_or_iterator.output_shapes


def _shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: int | None = None) -> Callable[[Dataset], Dataset]:
    return lambda d: d.shuffle(buffer_size, seed).repeat(count)


def _map_and_batch(
    map_func: Any, batch_size: Any, *_parallel: Any, drop_remainder: bool = False, **_options: Any
) -> Any:
    return lambda d: d.map(map_func).batch(batch_size, drop_remainder)


def _batch_and_drop(batch_size: Any) -> Callable[[Dataset], Dataset]:
    return lambda d: d.batch(batch_size, drop_remainder=True)


experimental = SimpleNamespace(
    AUTOTUNE=AUTOTUNE, shuffle_and_repeat=_shuffle_and_repeat, map_and_batch=_map_and_batch,
    batch_and_drop_remainder=_batch_and_drop
)  # fmt: skip


__getattr__ = _naming_the_nearest(__name__)
