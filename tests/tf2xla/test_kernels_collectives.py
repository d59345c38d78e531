"""Collectives, calls by name, determinants, numbers between bounds."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import GraphError, UnknownOpError, XlanbError
from xlanb.graph import dtypes
from xlanb.graph.op_library import call_n
from xlanb.runtime.graph_program import extract_module


def test_collectives_of_one_device(run_op: Any) -> None:
    x, alone = np.float32([[1, 2], [3, 4]]), np.zeros((1, 1), np.int32)
    got = run_op("XlaAllReduce", x, alone, reduce_op="Add", mode="CrossReplica")
    np.testing.assert_array_equal(got, x)
    got = run_op("XlaReduceScatter", x, alone, np.int32(1), reduce_op="Mean")
    np.testing.assert_array_equal(got, x)
    groups = np.array([[0, 1], [2, 3]], np.int32)
    with pytest.raises(GraphError, match="cannot be scattered over 3"):
        run_op("XlaReduceScatter", x, np.zeros((1, 3), np.int32), np.int32(1), reduce_op="Add")
    with pytest.raises(GraphError, match="mode must be CrossReplica"):
        run_op("XlaAllReduce", x, groups, reduce_op="Add", mode="Other")
    types = {"outputs": [np.int32, np.int32]}
    assert run_op("CollectiveAssignGroupV2", groups, np.int32(2), np.int32(7), **types) == [4, 0]


def test_all_reduce_says_its_groups() -> None:
    groups = np.array([[0, 1], [2, 3]], np.int32)

    def mean(x: Any) -> Any:
        return call_n("XlaAllReduce", x, groups, reduce_op="Mean", mode="CrossReplica")[0]

    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3], name="x")
        module = extract_module([mean(x)])
    (reduce,) = [i for i in module.entry_computation if i.opcode.text == "all-reduce"]
    assert "replica_groups={{0,1},{2,3}}" in str(reduce)
    assert any(i.opcode.text == "divide" for i in module.entry_computation)


def test_what_xla_refuses_on_cpus_is_refused_with_its_reason(run_op: Any) -> None:
    x = np.float32([1, 2])
    with pytest.raises(GraphError, match="`send` is not supported by XLA:CPU"):
        run_op("XlaSend", x, outputs=[], tensor_name="t")
    with pytest.raises(GraphError, match="not yet implemented for CPU devices"):
        run_op("CollectiveReduceV2", x, np.int32(1), np.int32(1), np.int32(1))
    with pytest.raises(XlanbError, match='target "nope" is unknown'):
        run_op(
            "XlaCustomCall",
            x,
            target_name="nope",
            backend_config="",
            dtype=dtypes.float32,
            shape=tf.TensorShape([2]),
        )


def test_bytes_to_numbers(run_op: Any) -> None:
    words = np.array([[0x01020304, 0xFF000000]], np.uint32)
    types = {"outputs": [ml_dtypes.bfloat16], "min_range": -1.0, "max_range": 1.0}
    given = {**types, "mode": "MIN_COMBINED"}
    got = run_op("XlaDequantize", words, **given, transpose_output=False)
    wanted = np.array([[1, 2, 3, 4, 255, 0, 0, 0]]) * 2 / 255 - 1
    np.testing.assert_allclose(got.astype(np.float64), wanted, atol=2**-8)
    turned = run_op("XlaDequantize", words, **given, transpose_output=True)
    np.testing.assert_array_equal(turned, got.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_determinants(run_op: Any, rng: np.random.Generator, dtype: Any) -> None:
    x = rng.standard_normal((2, 3, 5, 5))
    x = (x + 1j * rng.standard_normal(x.shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)
    tolerance = 1e-4 if np.finfo(dtype).bits == 32 else 1e-10
    np.testing.assert_allclose(run_op("MatrixDeterminant", x), np.linalg.det(x), rtol=tolerance)
    sign, log = run_op("LogMatrixDeterminant", x, outputs=[dtype, dtype])
    wanted_sign, wanted_log = np.linalg.slogdet(x)
    np.testing.assert_allclose(sign, wanted_sign, rtol=tolerance)
    np.testing.assert_allclose(log, wanted_log, atol=10 * tolerance)
    np.testing.assert_array_equal(run_op("MatrixDeterminant", x[:, :, :0, :0]), np.ones((2, 3)))
    with pytest.raises(GraphError, match="expected square matrices"):
        run_op("MatrixDeterminant", x[..., :3])


def test_compiled_determinants(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 6, 6)).astype(np.float32)
    x[1, 2] = x[1, 3]  # singular
    got = xlanb.compile(lambda x: call_n("MatrixDeterminant", x)[0], x)(x)[0]
    np.testing.assert_allclose(got, np.linalg.det(x), rtol=1e-4, atol=1e-4)


def test_normal_numbers_between_bounds(run_op: Any) -> None:
    given = (np.array([20000]), np.array([1, 2]), np.float32(1), np.float32(2), np.float32(-1))
    types = {"outputs": [np.float32], "dtype": dtypes.float32}
    x = run_op("StatelessParameterizedTruncatedNormal", *given, np.float32(2), **types)
    assert -1 <= x.min() < -0.99
    assert 1.99 < x.max() <= 2
    # mean and deviation of this normal distribution between its bounds
    assert x.mean() == pytest.approx(0.5945, abs=0.02)
    assert x.std() == pytest.approx(0.8306, abs=0.02)
    whole = [np.asarray(v)[None] if i > 1 else v for i, v in enumerate(given)]
    same = run_op("StatelessParameterizedTruncatedNormal", *whole, np.float32([2]), **types)
    np.testing.assert_array_equal(x, same)


def test_asserts_and_their_strings_vanish_and_other_strings_are_refused() -> None:
    def checked(x: Any) -> Any:
        with tf.control_dependencies([tf.Assert(x[0] > 5, ["too small", x])]):
            return x * 2

    x = np.float32([1, 2])
    np.testing.assert_array_equal(xlanb.compile(checked, x)(x)[0], [2, 4])
    with pytest.raises(UnknownOpError, match=r"'AsString'; it runs on the host .*A session runs it"):
        xlanb.compile(lambda x: call_n("AsString", x)[0], x)
    with pytest.raises(GraphError, match="a string, which compiled code cannot hold"):
        xlanb.compile(lambda _: tf.identity(tf.constant("a")), x)
