"""Lookup tables (python/ops/lookup_ops.py): a value for each key, filled by
tf.tables_initializer().
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlanb.graph import dtypes
from xlanb.graph.builders.control_ops import group
from xlanb.graph.builders.variables import GraphKeys
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor


class KeyValueTensorInitializer:
    """Keys and values for a table."""

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None
    ) -> None:
        self.keys = convert_to_tensor(keys, key_dtype, name="keys")
        self.values = convert_to_tensor(values, value_dtype, name="values")
        self.key_dtype, self.value_dtype = self.keys.dtype.base_dtype, self.values.dtype.base_dtype

    def initialize(self, table: HashTable) -> Operation:
        """The operation that fills a table."""
        return _noted(call_op("InitializeTableV2", table.resource_handle, self.keys, self.values))


class TextFileInitializer:
    """Keys and values of a text file: of each line the whole (-1), its number (-2), or a column."""

    def __init__(
        self, filename: Any, key_dtype: Any, key_index: int, value_dtype: Any, value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t", name: str | None = None,
    ) -> None:  # fmt: skip
        self.filename = convert_to_tensor(filename, dtypes.string)
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self._how: dict[str, Any] = {
            "key_index": key_index,
            "value_index": value_index,
            "vocab_size": vocab_size or -1,
            "delimiter": delimiter,
        }

    def initialize(self, table: HashTable) -> Operation:
        """The operation that fills a table."""
        return _noted(call_op("InitializeTableFromTextFileV2", table.resource_handle, self.filename, **self._how))


def _noted(op: Operation) -> Operation:
    get_default_graph().add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
    return op


class HashTable:
    """A table that is filled once.

    Attributes:
        initializer: the operation that fills it. resource_handle: its node's output.
    """

    def __init__(
        self, initializer: Any, default_value: Any, shared_name: str | None = None, name: str | None = None
    ) -> None:
        self.key_dtype, self.value_dtype = initializer.key_dtype, initializer.value_dtype
        self.resource_handle = call(
            "HashTableV2", key_dtype=self.key_dtype, value_dtype=self.value_dtype, shared_name=shared_name or "",
            use_node_name_sharing=True,
            name=name or "hash_table",
        )  # fmt: skip
        self._default = convert_to_tensor(default_value, self.value_dtype)
        self.initializer = initializer.initialize(self)

    init = property(lambda self: self.initializer)

    def lookup(self, keys: Any, name: str | None = None) -> Tensor:
        """Look up keys; missing ones get the default."""
        found = convert_to_tensor(keys, self.key_dtype)
        made = call("LookupTableFindV2", self.resource_handle, found, self._default, name=name)
        made.set_shape(found.shape)
        return made

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of entries."""
        return call("LookupTableSizeV2", self.resource_handle, name=name)


StaticHashTable = HashTable


class MutableHashTable:
    """A table that grows."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
    ) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self.resource_handle = call(
            "MutableHashTableV2", key_dtype=self.key_dtype, value_dtype=self.value_dtype,
            shared_name=shared_name or "", use_node_name_sharing=True,
            name=name,
        )  # fmt: skip
        self._default = convert_to_tensor(default_value, self.value_dtype)

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Set values of keys."""
        return call_op(
            "LookupTableInsertV2", self.resource_handle, convert_to_tensor(keys, self.key_dtype),
            convert_to_tensor(values, self.value_dtype), name=name
        )  # fmt: skip

    def lookup(self, keys: Any, name: str | None = None) -> Tensor:
        """Look up keys; missing ones get the default."""
        return call(
            "LookupTableFindV2", self.resource_handle, convert_to_tensor(keys, self.key_dtype), self._default, name=name
        )

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of entries."""
        return call("LookupTableSizeV2", self.resource_handle, name=name)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys, and all values."""
        keys, values = call_op(
            "LookupTableExportV2", self.resource_handle, Tkeys=self.key_dtype, Tvalues=self.value_dtype, name=name
        ).outputs
        return keys, values


def index_table_from_tensor(
    vocabulary_list: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    dtype: Any = dtypes.string,
    name: str | None = None,
    mapping: Any = None,
) -> HashTable:
    """From texts to their places in a list."""
    words = mapping if vocabulary_list is None else vocabulary_list
    count = len(words) if isinstance(words, Sequence | np.ndarray) else int(words.shape.as_list()[0])
    return HashTable(KeyValueTensorInitializer(words, np.arange(count, dtype=np.int64), as_dtype(dtype)), default_value)


def index_to_string_table_from_tensor(
    vocabulary_list: Any, default_value: str = "UNK", name: str | None = None, mapping: Any = None
) -> HashTable:
    """From places in a list to the texts."""
    words = mapping if vocabulary_list is None else vocabulary_list
    return HashTable(
        KeyValueTensorInitializer(np.arange(len(words), dtype=np.int64), words, None, dtypes.string), default_value
    )


def index_table_from_file(
    vocabulary_file: Any,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    name: str | None = None,
) -> HashTable:
    """From the lines of a file to their numbers."""
    return HashTable(
        TextFileInitializer(vocabulary_file, dtypes.string, -1, dtypes.int64, -2, vocab_size), default_value
    )


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """The operation that fills all tables of the graph."""
    return group(*get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS), name=name)
