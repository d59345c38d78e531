"""Summaries of numbers, distributions, images, sounds and texts, as serialized messages.

Based on core/kernels/{summary_op,summary_image_op,summary_audio_op,summary_tensor_op}.cc and
core/lib/histogram/histogram.cc.
"""

from __future__ import annotations

import io
import struct
import sys
import wave
import zlib
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np

from xlanb.errors import GraphValueError
from xlanb.graph.operation import Operation
from xlanb.runtime.events import DT_STRING, messages
from xlanb.runtime.host.ops import HostState, host

Array = np.ndarray[Any, Any]
_BAD_COLOR = (255, 0, 0, 255)


def _fail(op: Operation, message: str) -> GraphValueError:
    return GraphValueError(f"node {op.name!r} ({op.type}): {message}")


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _serialized(summary: Any) -> list[Any]:
    return [np.array(summary.SerializeToString(), object)]


@host("ScalarSummary")
def _scalar(op: Operation, inputs: Sequence[Any], _state: HostState) -> list[Any]:
    tags, values = np.asarray(inputs[0], object), np.asarray(inputs[1])
    if tags.shape != values.shape and not (tags.size == values.size == 1):
        raise _fail(op, f"tags have shape {tags.shape} but values have shape {values.shape}")
    made = messages().Summary()
    for tag, value in zip(tags.ravel(), values.ravel(), strict=True):
        made.value.add(tag=_text(tag), simple_value=float(value))
    return _serialized(made)


@host("HistogramSummary")
def _histogram(op: Operation, inputs: Sequence[Any], _state: HostState) -> list[Any]:
    values = np.asarray(inputs[1]).astype(np.float64).ravel()
    if not np.all(np.isfinite(values)):
        raise _fail(op, f"values of histogram {_text(np.asarray(inputs[0]).item())!r} are NaN or infinite")
    made = messages().Summary()
    histo = made.value.add(tag=_text(np.asarray(inputs[0]).item())).histo
    limits = _limits()
    histo.min = float(values.min(initial=sys.float_info.max))
    histo.max = float(values.max(initial=-sys.float_info.max))
    histo.num, histo.sum = float(values.size), float(values.sum())
    histo.sum_squares = float(np.square(values).sum())
    counts = np.bincount(np.searchsorted(limits, values, side="right"), minlength=len(limits))
    # A run of empty buckets is represented by its last one.
    for is_empty, run in groupby(zip(limits, counts, strict=True), lambda pair: not pair[1]):
        for limit, count in [list(run)[-1]] if is_empty else run:
            histo.bucket_limit.append(float(limit))
            histo.bucket.append(float(count))
    return _serialized(made)


@cache
def _limits() -> Array:
    """The upper limits of TensorFlow's buckets: powers of 1.1 on both sides of 0."""
    positive = []
    limit = 1e-12
    while limit < 1e20:
        positive.append(limit)
        limit *= 1.1
    positive.append(sys.float_info.max)
    return np.array([*(-v for v in reversed(positive)), 0.0, *positive])


@host("ImageSummary")
def _image(op: Operation, inputs: Sequence[Any], _state: HostState) -> list[Any]:
    tag, images = _text(np.asarray(inputs[0]).item()), np.asarray(inputs[1])
    if images.ndim != 4 or images.shape[3] not in {1, 3, 4}:
        raise _fail(op, f"images have shape {list(images.shape)}, expected [batch, height, width, 1, 3 or 4]")
    count = min(int(op.attrs.get("max_images", 3)), len(images))
    made = messages().Summary()
    for k, image in enumerate(images[:count]):
        height, width, depth = image.shape
        value = made.value.add(tag=f"{tag}/image" if count == 1 else f"{tag}/image/{k}").image
        value.height, value.width, value.colorspace = height, width, depth
        value.encoded_image_string = _png(image if image.dtype == np.uint8 else _normalized(image))
    return _serialized(made)


def _normalized(image: Array) -> Array:
    """The bytes of a float image: the largest magnitude is white, and 0 black.

    With negative values, 0 is grey.
    """
    x = image.astype(np.float64)
    finite = np.isfinite(x).all(axis=-1, keepdims=True)
    kept = np.where(finite, x, 0.0)
    low, high = float(kept.min(initial=0.0)), float(kept.max(initial=0.0))
    largest = max(abs(low), abs(high))
    scale, offset = (127.0, 128.0) if low < 0 else (255.0, 0.0)
    bytes_ = (kept * (scale / largest if largest else 0.0) + offset).astype(np.uint8)
    return np.where(finite, bytes_, np.array(_BAD_COLOR[: image.shape[-1]], np.uint8))


def _png(image: Array) -> bytes:
    """A PNG file of bytes [height, width, 1 (grey), 3 (RGB) or 4 (RGBA)]."""
    height, width, depth = image.shape
    kind = {1: 0, 3: 2, 4: 6}[depth]
    rows = np.zeros((height, 1 + width * depth), np.uint8)  # no filter
    rows[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


@host("AudioSummaryV2")
def _audio(op: Operation, inputs: Sequence[Any], _state: HostState) -> list[Any]:
    tag, sounds = _text(np.asarray(inputs[0]).item()), np.asarray(inputs[1], np.float32)
    rate = float(np.asarray(inputs[2]))
    sounds = sounds[..., None] if sounds.ndim == 2 else sounds
    if sounds.ndim != 3 or not rate > 0:
        raise _fail(op, f"audio has shape {list(sounds.shape)} at {rate} Hz, expected [batch, frames, channels]")
    count = min(int(op.attrs.get("max_outputs", 3)), len(sounds))
    made = messages().Summary()
    for k, sound in enumerate(sounds[:count]):
        value = made.value.add(tag=f"{tag}/audio" if count == 1 else f"{tag}/audio/{k}").audio
        value.sample_rate, value.content_type = rate, "audio/wav"
        value.length_frames, value.num_channels = sound.shape
        value.encoded_audio_string = _wav(sound, rate)
    return _serialized(made)


def _wav(sound: Array, rate: float) -> bytes:
    """A WAV file of 16-bit samples from floats in [-1, 1]."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(sound.shape[1])
        file.setsampwidth(2)
        file.setframerate(max(1, round(rate)))
        samples = np.rint(np.clip(np.nan_to_num(sound), -1, 1) * 32767)
        file.writeframes(samples.astype("<i2").tobytes())
    return out.getvalue()


@host("TensorSummaryV2")
def _tensor(op: Operation, inputs: Sequence[Any], _state: HostState) -> list[Any]:
    values = np.asarray(inputs[1])
    if values.dtype != object:
        raise _fail(op, f"expected strings, got {values.dtype}")
    made = messages().Summary()
    value = made.value.add(tag=_text(np.asarray(inputs[0]).item()))
    value.metadata.MergeFromString(np.asarray(inputs[2], object).item())
    value.tensor.dtype = DT_STRING
    for size in values.shape:
        value.tensor.tensor_shape.dim.add(size=size)
    value.tensor.string_val.extend(v if isinstance(v, bytes) else str(v).encode() for v in values.ravel())
    return _serialized(made)


@host("MergeSummary")
def _merge(op: Operation, inputs: Sequence[Any], _state: HostState) -> list[Any]:
    made = messages().Summary()
    tags: set[str] = set()
    for serialized in (s for array in inputs for s in np.asarray(array, object).ravel()):
        part = messages().Summary.FromString(serialized)
        for value in part.value:
            if value.tag in tags:
                raise _fail(op, f"two summaries have the tag {value.tag!r}")
            tags.add(value.tag)
        made.value.extend(part.value)
    return _serialized(made)
