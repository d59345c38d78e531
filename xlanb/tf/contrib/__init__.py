"""The parts of tf.contrib that programs of 2017 use."""

from types import SimpleNamespace as _SimpleNamespace

from xlanb.tf import data as _data
from xlanb.tf import distributions
from xlanb.tf import tables as lookup
from xlanb.tf.contrib import compiler, framework, layers, learn, rnn, slim
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest
from xlanb.tf.sparse import dense_to_sparse as _dense_to_sparse

data = _SimpleNamespace(
    Dataset=_data.Dataset, Iterator=_data.Iterator, shuffle_and_repeat=_data.experimental.shuffle_and_repeat,
    map_and_batch=_data.experimental.map_and_batch,
    batch_and_drop_remainder=_data.experimental.batch_and_drop_remainder,
)  # fmt: skip
layers.dense_to_sparse = _dense_to_sparse  # type: ignore[attr-defined]
__all__ = ["compiler", "data", "distributions", "framework", "layers", "learn", "lookup", "rnn", "slim"]
__getattr__ = _naming_the_nearest(__name__)
