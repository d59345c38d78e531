"""Strings, Python functions and printing: ops that only a host can run.

Based on core/kernels/{as_string_op,string_join_op,substr_op,...}.cc. A string tensor is a NumPy
array of bytes objects.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlanb.boundary import let_pass
from xlanb.errors import GraphValueError
from xlanb.graph.limits import LARGEST_EXPANSION, check_bytes
from xlanb.graph.operation import Operation
from xlanb.graph.texts import encoded
from xlanb.runtime.fingerprint import fingerprint64
from xlanb.runtime.host.ops import HostState, fault, host

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register_function(token: str, function: Callable[..., Any]) -> None:
    """Register the function that PyFunc nodes with this token call.

    It takes arrays and returns an array or a sequence of arrays.
    """
    _FUNCTIONS[token] = function


def as_bytes(value: Any) -> bytes:
    """A string as bytes."""
    return value if isinstance(value, bytes) else encoded(str(value))


def mapped(function: Callable[..., Any], *arrays: Any) -> np.ndarray[Any, Any]:
    """Apply `function` to the broadcast arrays' elements; return an array of objects."""
    wide = np.broadcast_arrays(*(np.asarray(a, object) for a in arrays))
    out = np.empty(wide[0].shape, object)
    for index in np.ndindex(out.shape):
        out[index] = function(*(w[index] for w in wide))
    return out


@host("PyFunc", "PyFuncStateless", "EagerPyFunc")
def _py_func(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    token = str(op.attrs.get("token", ""))
    function = _FUNCTIONS.get(token)
    if function is None:
        raise fault(
            op,
            f"no Python function is registered under the token {token!r}: a GraphDef refers to Python functions by "
            "token, it does not contain them",
        )
    try:
        result = function(*inputs)
    except Exception as error:
        let_pass(error)  # the user's own exception
        raise
    listed = list(result) if isinstance(result, list | tuple) else [] if result is None else [result]
    if len(listed) != len(op.outputs):
        raise fault(op, f"the function returned {len(listed)} results, expected {len(op.outputs)}")
    return [np.asarray(value, t.dtype.numpy_dtype) for value, t in zip(listed, op.outputs, strict=True)]


@host("AsString")
def _as_string(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Format numbers as printf does: %f, %e if scientific, %g if shortest; width, fill, precision.

    Raises:
        GraphValueError: `fill` is not a printf flag, or the texts take too many bytes.
    """
    values = np.asarray(inputs[0])
    width, precision = int(op.attrs.get("width", -1)), int(op.attrs.get("precision", -1))
    fill = op.attrs.get("fill") or ""
    if fill not in ("", " ", "+", "-", "0", "#"):
        raise GraphValueError(f"node {op.name!r} (AsString): fill is {fill!r}, expected one of ' ', '+', '-', '0', '#'")
    what = f"node {op.name!r} (AsString): a text of width {width} and precision {precision} for each value"
    check_bytes(what, values.shape, max(width, precision, 1), LARGEST_EXPANSION)
    head = "%" + fill + (str(width) if width > -1 else "")
    if values.dtype.kind == "O":
        return [values]
    if values.dtype.kind == "b":
        return [mapped(lambda v: b"true" if v else b"false", values)]
    if values.dtype.kind in "iu":
        return [mapped(lambda v: (head + "d").encode() % int(v), values)]
    letter = "e" if op.attrs.get("scientific") else "g" if op.attrs.get("shortest") else "f"
    form = (head + (f".{precision}" if precision > -1 else "") + letter).encode()
    if values.dtype.kind == "c":
        return [mapped(lambda v: b"(" + form % v.real + b"," + form % v.imag + b")", values)]
    return [mapped(lambda v: form % float(v), values)]


@host("StringJoin")
def _string_join(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    separator = as_bytes(op.attrs.get("separator", ""))
    return [mapped(lambda *parts: separator.join(as_bytes(p) for p in parts), *inputs)]


@host("StringLength")
def _string_length(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    is_bytes = op.attrs.get("unit", "BYTE") == "BYTE"
    return [
        mapped(lambda s: len(as_bytes(s)) if is_bytes else len(as_bytes(s).decode(errors="replace")), inputs[0]).astype(
            np.int32
        )
    ]


_CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "StringLower": lambda s: s.lower(),
    "StringUpper": lambda s: s.upper(),
    "StringStrip": lambda s: s.strip(),
}


@host("StringLower", "StringUpper", "StringStrip")
def _string_changed(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return [mapped(lambda s: _CHANGES[op.type](as_bytes(s)), inputs[0])]


@host("StringToHashBucketFast")
def _hash_bucket(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    count = int(op.attrs["num_buckets"])
    return [mapped(lambda s: fingerprint64(as_bytes(s)) % count, inputs[0]).astype(np.int64)]


@host("StringToNumber")
def _string_to_number(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    dtype = op.outputs[0].dtype.numpy_dtype

    def number(text: Any) -> float | int:
        try:
            return float(as_bytes(text)) if dtype.kind == "f" else int(as_bytes(text))
        except ValueError:
            raise fault(op, f"cannot convert {text!r} to {dtype.name}") from None

    return [mapped(number, inputs[0]).astype(dtype)]


@host("Substr")
def _substr(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """A number of bytes (or characters) from a position, counted from the end if negative."""
    by_byte = op.attrs.get("unit", "BYTE") == "BYTE"

    def cut(text: Any, position: Any, length: Any) -> bytes:
        whole: bytes | str = as_bytes(text) if by_byte else as_bytes(text).decode(errors="replace")
        at, size = int(position), len(whole)
        if not -size <= at <= size:
            raise fault(op, f"position {at} is out of range for a string of {size} bytes")
        at = at + size if at < 0 else at
        return as_bytes(whole[at : at + max(int(length), 0)])

    return [mapped(cut, *inputs)]


@host("Assert")
def _assert(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    if not bool(np.all(inputs[0])):
        count = int(op.attrs.get("summarize", 3))
        data = " ".join(str(np.asarray(v).flat[: max(count, 0)].tolist()) for v in inputs[1:])
        raise fault(op, f"assertion failed: {data}")
    return []


@host("Print")
def _print(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    count = int(op.attrs.get("summarize", 3))
    shown = "".join(f"[{' '.join(map(str, np.asarray(v).ravel()[:count]))}]" for v in inputs[1:])
    sys.stderr.write(f"{as_bytes(op.attrs.get('message', '')).decode(errors='replace')}{shown}\n")
    return [inputs[0]]
