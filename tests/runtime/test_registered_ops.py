"""The table of op types as users see it."""

from __future__ import annotations

from xlanb import tf
from xlanb.clustering.xla_kernels import missing_kernel


def test_ours_and_tensorflows_side_by_side() -> None:
    table = tf.registered_ops()
    assert len(table) > 1000
    theirs = ["tensorflow", "tensorflow_dtypes", "tensorflow_gpu", "tensorflow_gpu_dtypes"]
    assert list(table.columns) == ["xlanb", "xlanb_dtypes", *theirs, "gradient", "doc"]
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


def test_kernels_for_gpus_take_no_convolution_of_integers() -> None:
    table = tf.registered_ops()
    assert (table.tensorflow_gpu == "XLA_GPU_JIT").equals(table.tensorflow == "XLA_CPU_JIT")
    differ = table[table.tensorflow_dtypes != table.tensorflow_gpu_dtypes]
    assert sorted(differ.index) == ["Conv", "Conv2D", "Conv2DBackpropInput", "ExtractImagePatches"]
    assert "s32" in differ.loc["Conv2D"].tensorflow_dtypes
    assert "s32" not in differ.loc["Conv2D"].tensorflow_gpu_dtypes


def test_a_convolution_of_integers_is_in_no_cluster_of_a_gpu() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.int32, [1, 8, 8, 2])
        w = tf.placeholder(tf.int32, [3, 3, 2, 4])
        conv = tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME")
    assert missing_kernel(conv.op, "XLA_CPU_JIT") == ""
    assert "XLA_GPU_JIT" in missing_kernel(conv.op, "XLA_GPU_JIT")
