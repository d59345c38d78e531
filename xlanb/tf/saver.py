"""tf.train.Saver: variables of a session in TensorFlow's checkpoint files, and a file "checkpoint"
that lists them.

A checkpoint NAME is NAME.index, NAME.data-00000-of-00001 and NAME.meta, the graph. The .npz files
that earlier versions wrote are read, too.
"""

from __future__ import annotations

import glob
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.errors import FeedError, GraphValueError
from xlanb.files import is_file, is_folder
from xlanb.graph import dtypes
from xlanb.graph.builders.variables import GraphKeys
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.saved_model.bundle_writer import write_bundle
from xlanb.graph.saved_model.tensor_bundle import read_bundle
from xlanb.runtime.npz import read_npz
from xlanb.tf.meta_graphs import add_meta_graph, export_meta_graph, read_meta_graph

_INDEX = ".index"
_NPZ = ".npz"
_FILES = re.compile(r"\.(index|meta|npz|data-\d{5}-of-\d{5})")


@dataclass
class CheckpointState:
    """The content of a file "checkpoint": the latest checkpoint, and all kept ones, oldest
    first.
    """

    model_checkpoint_path: str = ""
    all_model_checkpoint_paths: list[str] = field(default_factory=list)


def get_checkpoint_state(checkpoint_dir: str, latest_filename: str | None = None) -> CheckpointState | None:
    """Read a directory's file "checkpoint", or None."""
    path = Path(checkpoint_dir) / (latest_filename or "checkpoint")
    if not is_file(path):
        return None
    found = CheckpointState()
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(": ")
        name = _resolved(value.strip().strip('"'), checkpoint_dir)
        if key == "model_checkpoint_path":
            found.model_checkpoint_path = name
        elif key == "all_model_checkpoint_paths":
            found.all_model_checkpoint_paths.append(name)
    return found


def _resolved(name: str, directory: str) -> str:
    return name if Path(name).is_absolute() else str(Path(directory) / name)


def latest_checkpoint(checkpoint_dir: str, latest_filename: str | None = None) -> str | None:
    """Return the name of the newest checkpoint in a directory, for `restore`, or None."""
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None or not checkpoint_exists(state.model_checkpoint_path):
        return None
    return state.model_checkpoint_path


def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """Whether there is a checkpoint of that name."""
    return any(is_file(Path(f"{checkpoint_prefix}{ending}")) for ending in (_INDEX, _NPZ))


def remove_checkpoint(checkpoint_prefix: str, *_how: Any, **_named: Any) -> None:
    """Delete a checkpoint's files, if there are any."""
    prefix = Path(checkpoint_prefix)
    for path in prefix.parent.glob(f"{glob.escape(prefix.name)}.*"):
        if _FILES.fullmatch(path.name[len(prefix.name) :]):
            path.unlink(missing_ok=True)


def import_meta_graph(
    meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None, **_ignored: Any
) -> Saver | None:
    """Add the graph of a .meta file (or a MetaGraphDef) to the default graph, with its collections.

    Returns a Saver of its variables under the names that its checkpoints have, None if it has no
    variables.

    Raises:
        GraphError: it cannot be read, or a collection names a node that the graph lacks.
    """
    meta = read_meta_graph(meta_graph_or_file)
    variables = add_meta_graph(meta, clear_devices, import_scope)
    has_saver = bool(meta.saver_def.restore_op_name)
    return Saver(variables, saver_def=meta.saver_def if has_saver else None) if variables else None


class CheckpointReader:
    """tf.train.load_checkpoint and NewCheckpointReader: a checkpoint's arrays by name.

    Raises:
        FeedError: there is no such checkpoint.
        DataLossError: a file is damaged.
    """

    def __init__(self, ckpt_dir_or_file: str) -> None:
        self._arrays = _read(ckpt_dir_or_file)
        self._name = ckpt_dir_or_file

    def get_tensor(self, tensor_str: str) -> np.ndarray[Any, Any]:
        """One array. Raises FeedError if there is none of that name."""
        return _pick(self._arrays, self._name, tensor_str)

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether the checkpoint holds an array of that name."""
        return tensor_str in self._arrays

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Shapes by name."""
        return {name: list(array.shape) for name, array in self._arrays.items()}

    def get_variable_to_dtype_map(self) -> dict[str, dtypes.DType]:
        """Element types by name."""
        return {name: dtypes.as_dtype(array.dtype) for name, array in self._arrays.items()}


def list_variables(ckpt: str) -> list[tuple[str, list[int]]]:
    """List names and shapes of a checkpoint's variables (or of the latest in a directory)."""
    return [(name, list(array.shape)) for name, array in sorted(_read(ckpt).items())]


def load_variable(ckpt: str, name: str) -> np.ndarray[Any, Any]:
    """Read one array of a checkpoint. Raises FeedError if there is none of that name."""
    return _pick(_read(ckpt), ckpt, name)


def _pick(arrays: Mapping[str, np.ndarray[Any, Any]], ckpt: str, name: str) -> np.ndarray[Any, Any]:
    if name not in arrays:
        raise FeedError(f"Key {name} not found in checkpoint {ckpt}; it holds: {', '.join(sorted(arrays))}")
    return arrays[name]


def _read(ckpt: str) -> dict[str, np.ndarray[Any, Any]]:
    name = latest_checkpoint(ckpt) if is_folder(Path(ckpt)) else ckpt
    if name is None or not checkpoint_exists(name):
        raise FeedError(f"The passed save_path is not a valid checkpoint: {ckpt}")
    if is_file(Path(f"{name}{_INDEX}")):
        return read_bundle(name)
    arrays = read_npz(f"{name}{_NPZ}")
    return {key: array for key, array in arrays.items() if not key.startswith("dtype:")} | _typed(name, arrays)


def _typed(ckpt: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays of types that .npz does not support (bfloat16, ...): stored as bytes with the type's
    name.
    """
    found = {}
    for key, kind in arrays.items():
        if not key.startswith("dtype:"):
            continue
        name, dtype = key.removeprefix("dtype:"), dtypes.BY_NAME.get(str(kind))
        bits = arrays.get(name)
        if dtype is None or bits is None or bits.dtype.itemsize != dtype.numpy_dtype.itemsize:
            raise GraphValueError(f"checkpoint {ckpt}: {name!r} has values of the unsupported type {str(kind)!r}")
        found[name] = bits.view(dtype.numpy_dtype)
    return found


class Saver:
    """Write and read variables: those of `var_list` (a list, or a dictionary by name), by default
    all, in TensorFlow's checkpoint format.

    The last `max_to_keep` checkpoints are kept (None or 0: all), and another one every
    `keep_checkpoint_every_n_hours`.
    """

    def __init__(
        self, var_list: Any = None, reshape: bool = False, sharded: bool = False, max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0, name: str | None = None, restore_sequentially: bool = False,
        saver_def: Any = None, builder: Any = None, defer_build: bool = False, allow_empty: bool = False,
        write_version: Any = None,
        pad_step_number: bool = False, save_relative_paths: bool = False, filename: str | None = None,
    ) -> None:  # fmt: skip
        if builder is not None:
            raise GraphValueError("Saver: builder is not supported: the variables of var_list are written")
        if saver_def is not None:
            max_to_keep = saver_def.max_to_keep
            keep_checkpoint_every_n_hours = saver_def.keep_checkpoint_every_n_hours or keep_checkpoint_every_n_hours
        self._reshape, self._max_to_keep, self._pad = reshape, max_to_keep, pad_step_number
        self._seconds = keep_checkpoint_every_n_hours * 3600
        self._next_spared = time.time() + self._seconds
        self._kept: list[str] = []
        self._variables = None if defer_build and var_list is None else _by_name(var_list)
        if self._variables is not None and not self._variables and not allow_empty:
            raise GraphValueError("No variables to save")

    def _named(self) -> dict[str, Any]:
        if self._variables is None:
            self._variables = _by_name(None)
        return self._variables

    @property
    def last_checkpoints(self) -> list[str]:
        """Names of the checkpoints that are kept, oldest first."""
        return list(self._kept)

    def set_last_checkpoints(self, last_checkpoints: Sequence[str]) -> None:
        """Take over these as kept."""
        self._kept = list(last_checkpoints)

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[str]) -> None:
        """Take over those of these that exist."""
        self._kept = [p for p in checkpoint_paths if checkpoint_exists(p)]

    def save(
        self, sess: Any, save_path: str, global_step: Any = None, latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True, write_state: bool = True,
    ) -> str:  # fmt: skip
        """Write a checkpoint and return its name: `save_path`, followed by "-STEP" if there is a
        step.

        Raises:
            UninitializedError: a variable has no value.
            ArgumentError: the file name is invalid.
        """
        if global_step is not None:
            step = int(
                global_step if isinstance(global_step, int | np.integer) else sess.run(_step_tensor(global_step))
            )
            save_path = f"{save_path}-{step:08d}" if self._pad else f"{save_path}-{step}"
        write_bundle(save_path, {name: sess.read_variable(v.op.name) for name, v in self._named().items()})
        if write_meta_graph:
            export_meta_graph(f"{save_path}.{meta_graph_suffix}", graph=sess.graph)
        self._rotate(save_path)
        if write_state:
            self._write_state(save_path, latest_filename or "checkpoint")
        return save_path

    def restore(self, sess: Any, save_path: str) -> None:
        """Set the variables to a checkpoint's values.

        Raises:
            FeedError: no such checkpoint, or a variable is missing in it or does not fit.
            DataLossError: the file is damaged.
        """
        if save_path is None:
            raise GraphValueError("Can't load save_path when it is None.")
        if not checkpoint_exists(str(save_path)):
            raise FeedError(f"The passed save_path is not a valid checkpoint: {save_path}")
        arrays = _read(str(save_path))
        missing = [name for name in self._named() if name not in arrays]
        if missing:
            raise FeedError(
                f"Key {missing[0]} not found in checkpoint {save_path}; it holds: {', '.join(sorted(arrays))}"
            )
        for name, v in self._named().items():
            value = arrays[name]
            if self._reshape and v.shape.num_elements() == value.size:
                value = value.reshape(v.shape.as_list())
            sess.load_variables({v.op.name: value})

    def _rotate(self, name: str) -> None:
        if name in self._kept:
            self._kept.remove(name)
        self._kept.append(name)
        while self._max_to_keep and len(self._kept) > self._max_to_keep:
            oldest = self._kept.pop(0)
            if time.time() > self._next_spared:
                self._next_spared += self._seconds
                continue
            remove_checkpoint(oldest)

    def _write_state(self, name: str, filename: str) -> None:
        lines = [f'model_checkpoint_path: "{Path(name).name}"']
        lines += [f'all_model_checkpoint_paths: "{Path(kept).name}"' for kept in self._kept]
        (Path(name).parent / filename).write_text("\n".join([*lines, ""]), encoding="utf-8", errors="surrogateescape")


def _step_tensor(step: Any) -> Any:
    return step.value() if hasattr(step, "value") else step


def _by_name(var_list: Any) -> dict[str, Any]:
    if isinstance(var_list, Mapping):
        return dict(var_list)
    graph = get_default_graph()
    variables = var_list
    if variables is None:
        variables = [*graph.get_collection(GraphKeys.GLOBAL_VARIABLES), *graph.get_collection("saveable_objects")]
    found: dict[str, Any] = {}
    for v in variables:
        if v.op.name in found:
            raise GraphValueError(f"At least two variables have the same name: {v.op.name}")
        found[v.op.name] = v
    return found
