"""Lookup tables (core/kernels/lookup_table_op.cc): a value for each key, kept by the session."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.errors import UninitializedError
from xlanb.files import read_regular
from xlanb.graph.limits import LARGEST_FILE
from xlanb.graph.operation import Operation
from xlanb.runtime.host.ops import HostState, fault, host


class TableValue:
    """One table; `is_filled` is False until it is initialized (not needed for a mutable one)."""

    def __init__(self, op: Operation) -> None:
        self.name = op.name
        self.key_dtype = op.attrs["key_dtype"].numpy_dtype
        self.value_dtype = op.attrs["value_dtype"].numpy_dtype
        self.entries: dict[Any, Any] = {}
        self.lock = threading.Lock()  # one op at a time reads or changes the entries
        self.is_filled = op.type.startswith("Mutable")


@host("HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2")
def _make(op: Operation, _inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    key = f"table/{op.attrs.get('container') or ''}/{op.attrs.get('shared_name') or op.name}"
    return [state.resources.get(key, lambda: TableValue(op))]


def _table(op: Operation, value: Any, *, filled: bool = True) -> TableValue:
    if not isinstance(value, TableValue):
        raise fault(op, f"input 0 is not a lookup table but {type(value).__name__}")
    if filled and not value.is_filled:
        raise UninitializedError(
            f"node {op.name!r} ({op.type}): Table not initialized: {value.name!r}; run tf.tables_initializer() first"
        )
    return value


@host("InitializeTable", "InitializeTableV2")
def _initialize(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    table = _table(op, inputs[0], filled=False)
    _insert(op, table, inputs[1], inputs[2])
    table.is_filled = True
    return []


@host("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
def _initialize_from_file(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Initialize from a file; column index -1 is the whole line, -2 the line number."""
    table = _table(op, inputs[0], filled=False)
    path = Path(bytes(np.asarray(inputs[1]).item()).decode())
    try:
        text = read_regular(path, LARGEST_FILE)
    except OSError as error:
        raise fault(op, f"cannot read {path}: {error}") from error
    if len(text) > LARGEST_FILE:
        raise fault(op, f"{path} is larger than the limit of {LARGEST_FILE:,} bytes")
    lines = text.splitlines()
    size = int(op.attrs.get("vocab_size", -1))
    lines = lines if size < 0 else lines[:size]
    separator = str(op.attrs.get("delimiter", "\t")).encode()

    def column(which: int, dtype: np.dtype[Any]) -> list[Any]:
        cells = [
            n if which == -2 else line if which == -1 else line.split(separator)[which] for n, line in enumerate(lines)
        ]
        return [c if dtype.kind == "O" else dtype.type(c) for c in cells]

    keys = column(int(op.attrs["key_index"]), table.key_dtype)
    values = column(int(op.attrs["value_index"]), table.value_dtype)
    with table.lock:
        table.entries.update(zip(keys, values, strict=True))
        table.is_filled = True
    return []


def _insert(op: Operation, table: TableValue, keys: Any, values: Any) -> None:
    names, found = np.asarray(keys), np.asarray(values)
    if names.size and found.shape[: names.ndim] != names.shape:
        raise fault(op, f"keys have shape {list(names.shape)} but values have shape {list(found.shape)}")
    with table.lock:
        for index in np.ndindex(names.shape):
            table.entries[_key(names[index])] = found[index]


def _key(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


@host("LookupTableInsert", "LookupTableInsertV2", "LookupTableImport", "LookupTableImportV2")
def _insert_into(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    _insert(op, _table(op, inputs[0]), inputs[1], inputs[2])
    return []


@host("LookupTableFind", "LookupTableFindV2")
def _find(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    table, keys, default = _table(op, inputs[0]), np.asarray(inputs[1]), np.asarray(inputs[2])
    out = np.empty((*keys.shape, *default.shape), table.value_dtype)
    missing = default if default.ndim else default.item() if default.dtype.kind == "O" else default
    with table.lock:
        for index in np.ndindex(keys.shape):
            out[index] = table.entries.get(_key(keys[index]), missing)
    return [out]


@host("LookupTableSize", "LookupTableSizeV2")
def _size(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [np.asarray(len(_table(op, inputs[0]).entries), np.int64)]


@host("LookupTableExport", "LookupTableExportV2")
def _export(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    table = _table(op, inputs[0])
    with table.lock:
        names, values = list(table.entries), list(table.entries.values())
    keys = np.empty(len(names), table.key_dtype)
    keys[:] = names
    stacked = np.stack(values) if values and table.value_dtype.kind != "O" else np.asarray(values, table.value_dtype)
    return [keys, stacked]
