"""Messages for names that are missing here: the nearest existing one, or the reason."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from xlanb.errors import close_names

_COLUMNS = "feature columns are not in xlanb: compute the features in the model function"
_FILES = (
    "TFRecord files and tf.Example messages are not supported: read the arrays with NumPy and use "
    "tf.data.Dataset.from_tensor_slices"
)
_PICTURES = "decoding images is not supported: read them as arrays with another library and feed them"
_CLUSTER = "xlanb runs in one process, without a cluster of servers: leave it out"
_EAGER = (
    "only graphs are supported: build the graph and run it with tf.Session, or use @xlanb.jit on a function of arrays"
)

REASONS: dict[str, str] = {
    "feature_column": _COLUMNS,
    "python_io": _FILES, "TFRecordReader": _FILES, "TFRecordDataset": _FILES, "parse_example": _FILES,
    "parse_single_example": _FILES,
    "parse_single_sequence_example": _FILES, "FixedLenFeature": _FILES, "VarLenFeature": _FILES, "Example": _FILES,
    "Features": _FILES, "Feature": _FILES,
    "Int64List": _FILES, "BytesList": _FILES, "FloatList": _FILES, "SequenceExample": _FILES,
    "WholeFileReader": _FILES, "TextLineReader": "use tf.data.TextLineDataset",
    "FixedLengthRecordReader": "read the file with numpy.fromfile",
    "decode_jpeg": _PICTURES, "decode_png": _PICTURES, "decode_image": _PICTURES, "decode_gif": _PICTURES,
    "encode_png": _PICTURES, "encode_jpeg": _PICTURES,
    "read_file": _PICTURES, "Server": _CLUSTER, "ClusterSpec": _CLUSTER, "replica_device_setter": _CLUSTER,
    "SyncReplicasOptimizer": _CLUSTER,
    "distribute": _CLUSTER, "tpu": _CLUSTER, "enable_eager_execution": _EAGER,
    "GradientTape": "use tf.gradients(ys, xs): " + _EAGER, "enable_v2_behavior": _EAGER,
    "lite": "TensorFlow Lite is not in xlanb", "saved_model": "a SavedModel is read by "
    "tf.Graph.from_graphdef(directory)",
    "contrib": "tf.contrib has compiler, framework, layers, learn, lookup, rnn and slim",
    "tensorboard": "tf.summary.FileWriter writes event files; TensorBoard is a separate program",
    "RaggedTensor": "ragged tensors are not supported: pad the rows, as tf.data's padded_batch does",
    "ragged": "ragged tensors are not supported: pad the rows",
    "load_op_library": "ops in C++ cannot be loaded: tf.py_func calls a Python function",
}  # fmt: skip


def naming_the_nearest(module_name: str) -> Callable[[str], Any]:
    """A module's `__getattr__` that says why a name is not here, or which ones are near it."""

    def missing(name: str) -> Any:
        raise missing_name(module_name.replace("xlanb.tf", "tf", 1), name, vars(sys.modules[module_name]))

    return missing


def missing_name(namespace: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that a namespace lacks, with the reason or the nearest names."""
    if name.startswith("__"):
        return AttributeError(f"module {namespace!r} has no attribute {name!r}")
    reason = REASONS.get(name)
    if reason is None:
        near = close_names(name, [n for n in known if not n.startswith("_")], cutoff=0.6)
        reason = f"nearest: {', '.join(f'{namespace}.{n}' for n in near)}" if near else "xlanb.tf has nothing similar"
    return AttributeError(f"{namespace}.{name} is not in xlanb: {reason}")
