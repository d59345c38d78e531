"""The table of op types as people see it."""

from __future__ import annotations

from xlanb import tf


def test_ours_and_tensorflows_side_by_side() -> None:
    table = tf.registered_ops()
    assert len(table) > 1000
    assert list(table.columns) == ["xlanb", "xlanb_dtypes", "tensorflow", "tensorflow_dtypes", "gradient", "doc"]
    matmul = table.loc["MatMul"]
    assert (matmul.xlanb, matmul.tensorflow, matmul.gradient) == ("XLA_CPU_JIT", "XLA_CPU_JIT", "yes")
    assert "f32" in matmul.xlanb_dtypes
    assert "f32" in matmul.tensorflow_dtypes
    assert table.loc["StringJoin"].xlanb == "host"
    assert table.loc["Assign"].xlanb == "op by op"
    assert table.loc["Enter"].xlanb == "host"
    assert table.loc["DecodeJpeg"].xlanb == ""
    assert table.loc["Shape"].gradient == "none"


def test_most_of_what_tensorflow_compiles_is_compiled() -> None:
    table = tf.registered_ops()
    both = (table.tensorflow == "XLA_CPU_JIT") & (table.xlanb == "XLA_CPU_JIT")
    assert both.sum() >= 330
