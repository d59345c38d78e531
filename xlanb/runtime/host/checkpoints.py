"""Nodes that write and read checkpoints, as tf.train.Saver of TensorFlow adds them to a graph.

Based on core/kernels/save_restore_v2_ops.cc.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.errors import FeedError, GraphValueError, nearest
from xlanb.graph.operation import Operation
from xlanb.graph.saved_model.bundle_writer import write_bundle
from xlanb.graph.saved_model.tensor_bundle import read_bundle
from xlanb.runtime.host.ops import HostState, host
from xlanb.runtime.variables import VariableHandle


def _texts(value: Any) -> list[str]:
    return [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in np.asarray(value).ravel()]


def _names(inputs: Sequence[Any], count: int) -> list[str]:
    """The tensors' names. Raises GraphValueError for parts of a partitioned variable."""
    names, slices = _texts(inputs[1]), _texts(inputs[2])
    if not len(names) == len(slices) == count:
        raise GraphValueError(f"{len(names)} tensor_names and {len(slices)} shape_and_slices for {count} tensors")
    parts = [f"{name} ({part})" for name, part in zip(names, slices, strict=True) if part]
    if parts:
        raise GraphValueError(f"cannot save or restore part of a variable: {parts[0]}; name whole variables")
    return names


@host("SaveV2")
def _save(_op: Operation, inputs: Sequence[Any], state: HostState) -> list[Any]:
    names = _names(inputs, len(inputs) - 3)
    values = [state.variables.read(v) if isinstance(v, VariableHandle) else np.asarray(v) for v in inputs[3:]]
    write_bundle(_texts(inputs[0])[0], dict(zip(names, values, strict=True)))
    return []


@host("RestoreV2")
def _restore(op: Operation, inputs: Sequence[Any], _state: HostState) -> list[Any]:
    prefix = _texts(inputs[0])[0]
    names = _names(inputs, len(op.outputs))
    arrays = read_bundle(prefix, names)
    found = []
    for name, output in zip(names, op.outputs, strict=True):
        if name not in arrays:
            raise FeedError(f"Key {name} not found in checkpoint {prefix}{nearest(name, sorted(arrays))}")
        array, wanted = arrays[name], output.dtype.base_dtype
        if wanted.name != "string" and array.dtype != wanted.as_numpy_dtype:
            raise FeedError(f"checkpoint {prefix} holds {name!r} as {array.dtype}, expected {wanted.name}")
        found.append(array)
    return found


@host("ShardedFilename")
def _sharded(_op: Operation, inputs: Sequence[Any], _state: HostState) -> list[Any]:
    shard, count = (int(np.asarray(v)) for v in inputs[1:])
    return [np.array(f"{_texts(inputs[0])[0]}-{shard:05d}-of-{count:05d}".encode(), object)]


@host("MergeV2Checkpoints")
def _merge(op: Operation, inputs: Sequence[Any], _state: HostState) -> list[Any]:
    """Collect checkpoints into one; delete them unless the attribute delete_old_dirs forbids it."""
    prefixes, destination = _texts(inputs[0]), _texts(inputs[1])[0]
    arrays: dict[str, Any] = {}
    for prefix in prefixes:
        arrays.update(read_bundle(prefix))
    write_bundle(destination, arrays)
    if op.attrs.get("delete_old_dirs", True):
        for prefix in prefixes:
            _delete(Path(prefix))
    return []


def _delete(prefix: Path) -> None:
    """Delete a checkpoint's files, and its folder if that leaves it empty."""
    for path in prefix.parent.iterdir():
        if re.fullmatch(r"\.(index|data-\d{5}-of-\d{5})", path.name.removeprefix(prefix.name)):
            path.unlink()
    if not any(prefix.parent.iterdir()):
        prefix.parent.rmdir()
