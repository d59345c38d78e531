"""Read the MNIST digits from a directory's IDX files, as TensorFlow 1's contrib.learn does.

Nothing is downloaded. If the directory lacks the four files, generated digits are used, with a
warning. Source: tensorflow/contrib/learn/python/learn/datasets/mnist.py.
"""

from __future__ import annotations

import gzip
import warnings
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.errors import XlanbError

Array = np.ndarray[Any, Any]
Datasets = namedtuple("Datasets", ("train", "validation", "test"))  # noqa: PYI024 - TensorFlow's is one

_FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}
_CLASSES = 10
_SIDE = 28


class DataWarning(UserWarning):
    """Digits are drawn, not read."""


class DataError(XlanbError):
    """A file is not an IDX file, or is truncated."""


class DataSet:
    """Images and their labels, read batch by batch in a new order each epoch.

    Attributes:
        images: float32 [count, 784] in [0, 1], or uint8 [count, 28, 28, 1], by dtype and reshape.
        labels: [count], or one-hot [count, 10].
    """

    def __init__(
        self, images: Array, labels: Array, fake_data: bool = False, one_hot: bool = False, dtype: Any = np.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:  # fmt: skip
        self._fake, self._one_hot = fake_data, one_hot
        self._rng = np.random.default_rng(seed)
        if fake_data:
            self.num_examples = 10000
        else:
            if len(images) != len(labels):
                raise DataError(f"images.shape: {images.shape} labels.shape: {labels.shape}")
            self.num_examples = len(images)
            if reshape:
                images = images.reshape(len(images), -1)
            if np.dtype(getattr(dtype, "as_numpy_dtype", dtype)) == np.float32:
                images = images.astype(np.float32) * np.float32(1.0 / 255.0)
        self.images, self.labels = images, labels
        self.epochs_completed = 0
        self._place = 0

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """Return the next images and labels; a batch may continue into the next epoch."""
        if fake_data or self._fake:
            return self._made_up(batch_size)
        if self._place == 0 and self.epochs_completed == 0 and shuffle:
            self._mix()
        taken: list[tuple[Array, Array]] = []
        left = batch_size
        while left > self.num_examples - self._place:
            taken.append((self.images[self._place :], self.labels[self._place :]))
            left -= self.num_examples - self._place
            self.epochs_completed += 1
            self._place = 0
            if shuffle:
                self._mix()
        taken.append((self.images[self._place : self._place + left], self.labels[self._place : self._place + left]))
        self._place += left
        return np.concatenate([t[0] for t in taken]), np.concatenate([t[1] for t in taken])

    def _mix(self) -> None:
        order = self._rng.permutation(self.num_examples)
        self.images, self.labels = self.images[order], self.labels[order]

    def _made_up(self, batch_size: int) -> tuple[Any, Any]:
        image = [1] * (_SIDE * _SIDE)
        label: Any = [1] + [0] * (_CLASSES - 1) if self._one_hot else 0
        return [image for _ in range(batch_size)], [label for _ in range(batch_size)]


def read_idx(path: str | Path) -> Array:
    """Read an IDX file of unsigned bytes, gzipped or not.

    Raises:
        DataError: it is not an IDX file, or is truncated.
    """
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise DataError(f"{path} is not an IDX file of bytes: it begins with {data[:4].hex(' ') or 'nothing'}")
    rank = data[3]
    if len(data) < 4 + 4 * rank:
        raise DataError(f"{path} is truncated within its header")
    dims = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank)]
    found = np.frombuffer(data, np.uint8, offset=4 + 4 * rank)
    if found.size != int(np.prod(dims, dtype=object)):
        raise DataError(f"{path} has {found.size} elements, but its header specifies {dims}")
    return found.reshape(dims)


def dense_to_one_hot(labels_dense: Array, num_classes: int = _CLASSES) -> Array:
    """[count] numbers of classes as [count, classes] of 0 and 1, float64."""
    return np.eye(num_classes)[labels_dense]


def _find(directory: Path, name: str) -> Path | None:
    return next((p for p in (directory / f"{name}.gz", directory / name) if p.is_file()), None)


def drawn_digits(count: int, seed: int) -> tuple[Array, Array]:
    """Draw seven-segment digits, shifted and blurred a little: uint8 [count, 28, 28], and the
    digits.
    """
    rng = np.random.default_rng(seed)
    segments = {
        0: "abcdef",
        1: "bc",
        2: "abged",
        3: "abgcd",
        4: "fgbc",
        5: "afgcd",
        6: "afgedc",
        7: "abc",
        8: "abcdefg",
        9: "abcdfg",
    }
    boxes = {
        "a": (4, 6, 9, 19),
        "b": (5, 14, 17, 19),
        "c": (14, 23, 17, 19),
        "d": (22, 24, 9, 19),
        "e": (14, 23, 9, 11),
        "f": (5, 14, 9, 11),
        "g": (13, 15, 9, 19),
    }
    shapes = np.zeros((_CLASSES, _SIDE, _SIDE), np.float32)
    for digit, names in segments.items():
        for name in names:
            top, bottom, left, right = boxes[name]
            shapes[digit, top:bottom, left:right] = 200.0
    labels = rng.integers(0, _CLASSES, count).astype(np.uint8)
    moves = rng.integers(-3, 4, (count, 2))
    images = np.stack([np.roll(shapes[d], tuple(m), (0, 1)) for d, m in zip(labels, moves, strict=True)])
    noisy = images + rng.normal(0.0, 25.0, images.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8), labels


def _load(train_dir: str) -> dict[str, Array]:
    found = {key: _find(Path(train_dir), name) for key, name in _FILES.items()}
    if all(found.values()):
        return {key: read_idx(path) for key, path in found.items() if path is not None}
    missing = ", ".join(_FILES[key] for key, path in found.items() if path is None)
    warnings.warn(
        f"no MNIST files in {train_dir!r} ({missing}): generated digits are used instead", DataWarning, stacklevel=3
    )
    images, labels = drawn_digits(12000, 0)
    return {
        "train_images": images[:10000],
        "train_labels": labels[:10000],
        "test_images": images[10000:],
        "test_labels": labels[10000:],
    }


def read_data_sets(
    train_dir: str, fake_data: bool = False, one_hot: bool = False, dtype: Any = np.float32, reshape: bool = True,
    validation_size: int = 5000, seed: int | None = None, source_url: str | None = None,
) -> Any:  # fmt: skip
    """The digits for training, validation and testing; with `fake_data` all of them ones.

    Raises:
        DataError: a file that is no IDX file, or a validation part larger than there are digits.
    """
    if fake_data:
        empty = np.zeros((0,), np.uint8)
        parts = [DataSet(empty, empty, fake_data=True, one_hot=one_hot, dtype=dtype, seed=seed) for _ in range(3)]
        return Datasets(*parts)
    arrays = _load(train_dir)
    images, labels = arrays["train_images"][..., None], arrays["train_labels"]
    test_images, test_labels = arrays["test_images"][..., None], arrays["test_labels"]
    if one_hot:
        labels, test_labels = dense_to_one_hot(labels), dense_to_one_hot(test_labels)
    if not 0 <= validation_size <= len(images):
        raise DataError(f"Validation size should be between 0 and {len(images)}. Received: {validation_size}.")
    how: dict[str, Any] = {"dtype": dtype, "reshape": reshape, "seed": seed}
    return Datasets(
        train=DataSet(images[validation_size:], labels[validation_size:], **how),
        validation=DataSet(images[:validation_size], labels[:validation_size], **how),
        test=DataSet(test_images, test_labels, **how),
    )
