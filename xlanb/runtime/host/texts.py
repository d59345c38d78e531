"""More string ops: patterns, splits, encodings, formats, printing; optionals.

Based on core/kernels/{regex_*,string_*,unicode_ops,print_v2_op}.cc.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlanb.errors import GraphValueError
from xlanb.graph.operation import Operation
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.fingerprint import fingerprint64
from xlanb.runtime.host.ops import HostState, fault, host
from xlanb.runtime.host.regular_expressions import Re2Pattern, compiled
from xlanb.runtime.host.strings import as_bytes, mapped

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OptionalValue:
    """Tensors, or nothing (None)."""

    values: tuple[Any, ...] | None


def _pattern(op: Operation, text: Any) -> Re2Pattern:
    try:
        return compiled(as_bytes(text))
    except GraphValueError as error:
        raise fault(op, str(error)) from None


def _each(op: Operation, texts: Any, work: Callable[[list[bytes]], Sequence[Any]], dtype: Any) -> Array:
    """Apply `work` to the strings of an array; return an array of the results."""
    given = np.asarray(texts)
    made = np.empty(given.size, dtype)
    try:
        made[:] = work([as_bytes(t) for t in given.flat])
    except GraphValueError as error:
        raise fault(op, str(error)) from None
    return made.reshape(given.shape)


@host("RegexReplace", "StaticRegexReplace")
def _regex_replace(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    given = [np.asarray(v).item() for v in inputs[1:]] or [op.attrs["pattern"], op.attrs["rewrite"]]
    pattern, rewrite = _pattern(op, given[0]), as_bytes(given[1])
    everywhere = bool(op.attrs.get("replace_global", True))
    return [_each(op, inputs[0], lambda texts: pattern.replaced(texts, rewrite, everywhere=everywhere), object)]


@host("RegexFullMatch", "StaticRegexFullMatch")
def _full_match(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    pattern = _pattern(op, np.asarray(inputs[1]).item() if len(inputs) > 1 else op.attrs["pattern"])
    return [_each(op, inputs[0], pattern.matches_whole, bool)]


def _ragged(rows: list[list[bytes]]) -> list[Array]:
    """Indices, values and shape of a sparse tensor with these rows."""
    where = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = np.empty(len(where), object)
    values[:] = [v for row in rows for v in row]
    shape = np.asarray([len(rows), max(map(len, rows), default=0)], np.int64)
    return [np.asarray(where, np.int64).reshape(-1, 2), values, shape]


@host("StringSplit")
def _split(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Split at any of the delimiter's bytes; at every byte if it is empty."""
    delimiter = as_bytes(np.asarray(inputs[1]).item())
    skip = bool(op.attrs.get("skip_empty", True))

    def parts(text: bytes) -> list[bytes]:
        found = re.split(b"[" + re.escape(delimiter) + b"]", text) if delimiter else [bytes([c]) for c in text]
        return [p for p in found if p or not skip]

    return _ragged([parts(as_bytes(s)) for s in np.asarray(inputs[0], object).ravel()])


@host("StringSplitV2")
def _split_v2(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Split like Python's str.split: at a separator, or at whitespace if it is empty."""
    separator, most = as_bytes(np.asarray(inputs[1]).item()), int(op.attrs.get("maxsplit", -1))
    return _ragged([as_bytes(s).split(separator or None, most) for s in np.asarray(inputs[0], object).ravel()])


@host("ReduceJoin")
def _reduce_join(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    texts, separator = np.asarray(inputs[0], object), as_bytes(op.attrs.get("separator", ""))
    keep = bool(op.attrs.get("keep_dims"))
    axes = [int(a) % max(1, texts.ndim) for a in np.asarray(inputs[1]).ravel()]
    left = [i for i in range(texts.ndim) if i not in axes]
    moved = texts.transpose([*left, *axes]).reshape(*(texts.shape[i] for i in left), -1)
    out = np.empty(moved.shape[:-1], object)
    for index in np.ndindex(out.shape):
        out[index] = separator.join(as_bytes(s) for s in moved[index])
    return [out.reshape([1 if i in axes else n for i, n in enumerate(texts.shape)]) if keep else out]


@host("EncodeBase64")
def _encode(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    pad = bool(op.attrs.get("pad"))
    encoded = mapped(lambda s: base64.urlsafe_b64encode(as_bytes(s)), inputs[0])
    return [encoded if pad else mapped(lambda s: s.rstrip(b"="), encoded)]


@host("DecodeBase64")
def _decode(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    def decoded(text: Any) -> bytes:
        whole = as_bytes(text).rstrip(b"=")
        if not re.fullmatch(rb"[A-Za-z0-9_-]*", whole):
            raise fault(op, f"{text!r} is not web-safe base64")
        return base64.urlsafe_b64decode(whole + b"=" * (-len(whole) % 4))

    return [mapped(decoded, inputs[0])]


@host("DecodeRaw")
def _raw(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    dtype = op.outputs[0].dtype.numpy_dtype
    texts = [as_bytes(s) for s in np.asarray(inputs[0], object).ravel()]
    sizes = {len(t) for t in texts}
    if len(sizes) > 1 or (sizes and next(iter(sizes)) % dtype.itemsize):
        raise fault(op, f"strings of {sorted(sizes)} bytes cannot be decoded to the same number of {dtype.name} values")
    rows = np.frombuffer(b"".join(texts), dtype).reshape(*np.shape(inputs[0]), -1)
    return [rows if op.attrs.get("little_endian", True) else rows.byteswap()]


@host("StringToHashBucketStrong")
def _strong(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    key, count = [int(k) % 2**64 for k in op.attrs["key"]], int(op.attrs["num_buckets"])
    return [mapped(lambda s: sip_hash(as_bytes(s), key[0], key[1]) % count, inputs[0]).astype(np.int64)]


def sip_hash(data: bytes, first: int, second: int) -> int:
    """SipHash-2-4 (Aumasson and Bernstein, 2012), 64 bits, of a key of two words."""
    mask = 2**64 - 1
    constants = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [c ^ k for c, k in zip(constants, (first, second, first, second), strict=True)]

    def turn(x: int, by: int) -> int:
        return ((x << by) | (x >> (64 - by))) & mask

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[2] = (v[2] + v[3]) & mask
            v[1], v[3] = turn(v[1], 13) ^ v[0], turn(v[3], 16) ^ v[2]
            v[0] = turn(v[0], 32)
            v[2] = (v[2] + v[1]) & mask
            v[0] = (v[0] + v[3]) & mask
            v[1], v[3] = turn(v[1], 17) ^ v[2], turn(v[3], 21) ^ v[0]
            v[2] = turn(v[2], 32)

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 255])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 255
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@host("StringToHashBucket")
def _bucket(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    count = int(op.attrs["num_buckets"])
    return [mapped(lambda s: murmur_hash(as_bytes(s)) % count, inputs[0]).astype(np.int64)]


def murmur_hash(data: bytes, seed: int = 0xDECAFCAFFE) -> int:
    """MurmurHash64A (Appleby), with the seed of TensorFlow's Hash64."""
    mask, by = 2**64 - 1, 0xC6A4A7935BD1E995
    found = seed ^ (len(data) * by & mask)
    whole = len(data) & ~7
    for at in range(0, whole, 8):
        word = int.from_bytes(data[at : at + 8], "little") * by & mask
        found = (found ^ ((word ^ (word >> 47)) * by & mask)) * by & mask
    if len(data) > whole:
        found = (found ^ int.from_bytes(data[whole:], "little")) * by & mask
    found = (found ^ (found >> 47)) * by & mask
    return found ^ (found >> 47)


@host("Fingerprint")
def _fingerprint(_op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    data = np.asarray(inputs[0])
    rows = [as_bytes(r) for r in data] if data.dtype.kind == "O" else [r.tobytes() for r in data]
    return [np.asarray([list(fingerprint64(r).to_bytes(8, "little")) for r in rows], np.uint8)]


_UNICODE = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}


@host("UnicodeDecode")
def _unicode(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    errors = {"strict": "strict", "ignore": "ignore", "replace": "replace"}[str(op.attrs.get("errors", "replace"))]
    encoding = _UNICODE.get(str(op.attrs.get("input_encoding", "UTF-8")))
    if encoding is None:
        raise fault(
            op, f"unknown input_encoding {op.attrs.get('input_encoding')!r}: expected one of {', '.join(_UNICODE)}"
        )
    try:
        rows = [as_bytes(s).decode(encoding, errors) for s in np.asarray(inputs[0], object).ravel()]
    except UnicodeDecodeError as error:
        raise fault(op, str(error)) from None
    splits = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(op.outputs[0].dtype.numpy_dtype)
    other = int(op.attrs.get("replacement_char", 0xFFFD))
    return [splits, np.asarray([other if c == "\ufffd" else ord(c) for r in rows for c in r], np.int32)]


# ----------------------------------------------------------------------------------------- printing


def shown(value: Any, edge: int) -> str:
    """A tensor as tf.print shows it.

    At most `edge` elements at either end of each dimension; all if negative.
    """
    array = np.asarray(value)
    if not array.ndim:
        item = array.item()
        if isinstance(item, bytes | str):
            return f'"{as_bytes(item).decode(errors="replace")}"'
        return _number(array) if array.dtype.kind in "fc" else str(int(item))
    count = len(array)
    whole = edge < 0 or count <= 2 * edge
    rows = [*array] if whole else [*array[:edge], None, *array[-edge:]]
    between = " " if array.ndim == 1 else "\n" * (array.ndim - 1) + " "
    texts = ["..." if r is None else shown(r, edge) for r in rows]
    return "[" + between.join(t.replace("\n", "\n ") for t in texts) + "]"


def _number(value: Array) -> str:
    """A float with the fewer digits of two choices if they read back equal; "?" if complex."""
    if value.dtype.kind == "c":
        return "?"
    is_double = value.dtype == np.float64
    few = f"{float(value):.{15 if is_double else 6}g}"
    kept = np.float64(few) if is_double else np.float32(few)
    return few if kept == value or np.isnan(kept) else f"{float(value):.{17 if is_double else 9}g}"


@host("StringFormat")
def _format(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    template, mark = as_bytes(op.attrs.get("template", "%s")), as_bytes(op.attrs.get("placeholder", "%s"))
    edge = int(op.attrs.get("summarize", 3))
    pieces = template.split(mark)
    if len(pieces) != len(inputs) + 1:
        raise fault(op, f"{len(inputs)} tensors do not match the {len(pieces) - 1} placeholders in {template!r}")
    texts = [shown(v, edge).encode() for v in inputs]
    out = pieces[0] + b"".join(t + p for t, p in zip(texts, pieces[1:], strict=True))
    found = np.empty((), object)
    found[()] = out
    return [found]


@host("PrintV2")
def _print_v2(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    text = as_bytes(np.asarray(inputs[0]).item()).decode(errors="replace") + str(op.attrs.get("end", "\n"))
    target = str(op.attrs.get("output_stream", "stderr"))
    if target.startswith("file://"):
        raise fault(op, f"writing to files from a graph is not supported: {target!r}")
    (sys.stdout if target == "stdout" else sys.stderr).write(text)
    return []


# ---------------------------------------------------------------------------------------- optionals


@host("OptionalFromValue")
def _optional(_op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [OptionalValue(tuple(inputs))]


@host("OptionalNone")
def _nothing(_op: Operation, _inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [OptionalValue(None)]


@host("OptionalHasValue")
def _has_value(_op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [np.asarray(inputs[0].values is not None)]


@host("OptionalGetValue")
def _get_value(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    if inputs[0].values is None:
        raise fault(op, "the optional has no value")
    return list(inputs[0].values)
