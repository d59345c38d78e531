"""Strings and Python functions on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb.errors import GraphError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.graph import Graph
from xlanb.runtime.fingerprint import fingerprint64
from xlanb.runtime.host.ops import HostState, host_kernel
from xlanb.runtime.host.strings import register_function
from xlanb.runtime.variables import VariableStore


def run(op_type: str, *inputs: Any, output: Any = dtypes.string, **attrs: Any) -> Any:
    graph = Graph()
    tensors = []
    for value in inputs:
        kind = dtypes.string if np.asarray(value).dtype.kind == "O" else dtypes.as_dtype(np.asarray(value).dtype)
        tensors.append(graph.create_op("Placeholder", (), [kind], {"dtype": kind}, "x").outputs[0])
    op = graph.create_op(op_type, tensors, [output] if output is not None else [], attrs, "node")
    kernel = host_kernel(op_type)
    assert kernel is not None
    results = kernel(op, [np.asarray(v) for v in inputs], HostState(VariableStore().begin(), {}))
    return np.asarray(results[0]).tolist() if results else None


def strings(*texts: bytes) -> Any:
    return np.array(texts, object)


def test_numbers_as_text() -> None:
    assert run("AsString", np.array([1, -20], np.int32)) == [b"1", b"-20"]
    assert run("AsString", np.array([1.5], np.float32)) == [b"1.500000"]
    assert run("AsString", np.array([1.5]), precision=2, width=7, fill="0") == [b"0001.50"]
    assert run("AsString", np.array([1.5]), shortest=True) == [b"1.5"]
    assert run("AsString", np.array([True, False])) == [b"true", b"false"]


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"width": 2**31 - 1}, r"'node' \(AsString\): a text of width 2147483647 .* takes 4,294,967,294 bytes"),
        ({"precision": 2**31 - 1}, "more than the limit of 268,435,456"),
        ({"fill": "*"}, r"fill is '\*', expected one of"),
        ({"fill": "00"}, "fill is '00'"),
    ],
)
def test_a_form_that_no_text_has_is_refused(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphValueError, match=message):
        run("AsString", np.array([1.5, 2.5]), **attrs)


def test_texts_as_numbers() -> None:
    assert run("StringToNumber", strings(b"1.5", b"-2"), output=dtypes.float32) == [1.5, -2]
    with pytest.raises(GraphError, match=r"'node'.*cannot convert .* to int32"):
        run("StringToNumber", strings(b"1.5"), output=dtypes.int32)


def test_joining_cutting_and_measuring() -> None:
    assert run("StringJoin", np.array(b"a", object), strings(b"b", b"c"), separator="_") == [b"a_b", b"a_c"]
    assert run("Substr", strings(b"hello", b"world"), np.int32(1), np.int32(3)) == [b"ell", b"orl"]
    assert run("Substr", strings(b"hello"), np.int32(-2), np.int32(9)) == [b"lo"]
    with pytest.raises(GraphError, match="position 6 is out of range"):
        run("Substr", strings(b"hello"), np.int32(6), np.int32(1))
    assert run("StringLength", strings("é".encode()), output=dtypes.int32, unit="UTF8_CHAR") == [1]


# TensorFlow's StringToHashBucketFast of x * n + "ab", modulo 1000003
KNOWN = {
    0: 834328, 1: 631240, 5: 149597, 9: 275739, 16: 627477, 29: 343127, 40: 88132, 61: 941590, 62: 919796, 70: 387211,
    126: 423276,
    200: 842272,
}  # fmt: skip


@pytest.mark.parametrize("count", KNOWN)
def test_hashes_are_tensorflows(count: int) -> None:
    assert fingerprint64(b"x" * count + b"ab") % 1000003 == KNOWN[count]


def test_python_functions_by_token() -> None:
    with pytest.raises(GraphError, match="no Python function is registered under the token 'unheard'"):
        run("PyFunc", np.ones(2), output=dtypes.float32, token="unheard")
    register_function("doubled", lambda x: 2 * x)
    assert run("PyFunc", np.ones(2), output=dtypes.float32, token="doubled") == [2, 2]
    with pytest.raises(GraphError, match="returned 1 results, expected 0"):
        run("PyFunc", np.ones(2), output=None, token="doubled")


def test_an_assertion_that_fails_shows_its_data() -> None:
    assert run("Assert", np.array(True), np.array([7]), output=None) is None
    with pytest.raises(GraphError, match=r"assertion failed: \[7\]"):
        run("Assert", np.array(False), np.array([7]), output=None)
