"""HloSnapshots: written, read, and opened as modules."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import ArgumentError, HloParseError
from xlanb.hlo import HloModule, parse
from xlanb.hlo.proto import HloSnapshot
from xlanb.runtime.extract import extraction

TEXT = """HloModule twice

ENTRY main {
  x = f32[2,3] parameter(0)
  p = (s8[2], f32[2,3]) parameter(1)
  y = f32[2,3] get-tuple-element(p), index=1
  s = f32[2,3] add(x, y)
  ROOT r = (f32[2,3], f32[2,3]) tuple(s, x)
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
PAIR = (np.array([1, -2], np.int8), 2 * X)


def test_a_snapshot_keeps_program_arguments_result_and_platform() -> None:
    module = parse(TEXT)
    written = HloSnapshot(module, (X, PAIR), (3 * X, X), "cpu").to_proto()
    read = HloSnapshot.from_proto(written)
    assert str(read.module) == str(module)
    assert read.platform == "cpu"
    for found, wanted in zip([*read.arguments[1], read.arguments[0], *read.result], [*PAIR, X, 3 * X, X], strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    results = xlanb.evaluate(read.module, *read.arguments)
    np.testing.assert_array_equal(results[0], read.result[0])


def test_a_snapshot_opens_as_its_module() -> None:
    module = parse(TEXT)
    assert str(HloModule.from_proto(HloSnapshot(module, (X, PAIR)).to_proto())) == str(module)


def test_a_snapshot_may_have_no_result() -> None:
    assert HloSnapshot.from_proto(HloSnapshot(parse(TEXT), (X, PAIR)).to_proto()).result is None


@pytest.mark.parametrize(
    ("arguments", "result", "message"),
    [
        ((X,), None, "twice takes 2 arguments, not 1"),
        ((X.astype(np.float64), PAIR), None, r"argument 0: expected f32\[2,3\].*, not float64\[2, 3\]"),
        ((X, X[0]), None, "argument 1: expected a tuple of 2"),
        ((X, PAIR), (X,), "the result: expected a tuple of 2"),
    ],
)
def test_values_that_do_not_match_are_refused(arguments, result, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        HloSnapshot(parse(TEXT), arguments, result).to_proto()


def test_other_and_damaged_bytes_are_refused() -> None:
    data = HloSnapshot(parse(TEXT), (X, PAIR)).to_proto()
    for wrong in (b"", b"\x00" * 8, data[: len(data) // 2], parse(TEXT).to_proto()):
        with pytest.raises(HloParseError):
            HloSnapshot.from_proto(wrong)


def test_a_session_becomes_a_snapshot() -> None:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        w = tf.Variable(2 * np.ones((3, 1), np.float32), name="w")
        y = tf.matmul(x, w)
        session.run(tf.global_variables_initializer())
        found = HloSnapshot.from_proto(extraction(session, y).snapshot({"x": X}).to_proto())
        expected = session.run(y, {x: X})
    np.testing.assert_allclose(np.ravel(xlanb.evaluate(found.module, *found.arguments)[0]), np.ravel(expected))
