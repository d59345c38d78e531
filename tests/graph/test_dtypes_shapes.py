"""Element types, static shapes, constants."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlanb.errors import GraphError, GraphTypeError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.convert import constant, convert_to_tensor, make_array
from xlanb.graph.dtypes import BY_NUMBER, as_dtype
from xlanb.graph.graph import Graph
from xlanb.graph.limits import is_splat
from xlanb.graph.shapes import set_shape_function
from xlanb.graph.tensor_shape import Dimension, TensorShape


@pytest.mark.parametrize(
    ("value", "name"),
    [(np.float32, "float32"), ("half", "float16"), (float, "float32"), (int, "int32"), (9, "int64"), (109, "int64_ref"), (np.dtype("U3"), "string"),
     (ml_dtypes.bfloat16, "bfloat16"), (bool, "bool"), (np.dtype(">f8"), "float64")],
)  # fmt: skip
def test_as_dtype(value, name):
    assert as_dtype(value).name == name


@pytest.mark.parametrize("value", ["float31", 99, None, dict, object()])
def test_no_such_dtype(value):
    with pytest.raises(GraphError, match="no TensorFlow dtype"):
        as_dtype(value)


def test_reference_types():
    ref = dtypes.float32.ref_dtype
    assert (ref.name, ref.base_dtype, ref.is_ref_dtype) == ("float32_ref", dtypes.float32, True)
    assert dtypes.float32.is_compatible_with(ref)
    assert dtypes.float32 == np.float32
    assert dtypes.float32 != np.float64
    assert {t.as_datatype_enum for t in BY_NUMBER.values()} == set(BY_NUMBER)


def test_limits():
    assert (dtypes.int8.min, dtypes.int8.max) == (-128, 127)
    assert float(dtypes.bfloat16.max) > 3e38
    with pytest.raises(GraphError, match="maximum"):
        _ = dtypes.string.max


def test_shapes_merge_and_concatenate():
    a = TensorShape([None, 3])
    assert a.merge_with([2, None]).as_list() == [2, 3]
    assert a.concatenate([4]) == [None, 3, 4]
    assert str(TensorShape([None])) == "(?,)"
    assert TensorShape(None).rank is None
    assert a[1].value == 3
    assert a[1:] == [3]
    assert not a.is_compatible_with([2, 4])
    with pytest.raises(GraphError, match=r"\(\?, 3\) and \(2,\)"):
        a.merge_with([2])
    with pytest.raises(GraphError, match="unknown rank"):
        TensorShape(None).as_list()
    with pytest.raises(GraphError):
        TensorShape([-2])


@given(st.lists(st.none() | st.integers(0, 5), max_size=4), st.lists(st.none() | st.integers(0, 5), max_size=4))
def test_merging_agrees_with_compatibility(a, b):
    left, right = TensorShape(a), TensorShape(b)
    if left.is_compatible_with(right):
        merged = left.merge_with(right)
        assert merged == right.merge_with(left)
        assert all(m == x or x is None for m, x in zip(merged.as_list(), a, strict=True))
    else:
        with pytest.raises(GraphError):
            left.merge_with(right)


def test_dimensions():
    assert Dimension(2) + 3 == 5
    assert (Dimension(None) * 2).value is None
    assert Dimension(7) // 2 == 3
    with pytest.raises(GraphError, match="unknown"):
        int(Dimension(None))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1, "int32"), (1.5, "float32"), (2**40, "int64"), ([[1.0], [2.0]], "float32"), (np.float64(1), "float64"), (np.arange(2), "int64"), (True, "bool"),
     ("ab", "string"), (1j, "complex128"), ([], "float32"), (np.float16(1), "float16"), (TensorShape([2, 3]), "int32")],
)  # fmt: skip
def test_default_types_of_constants(value, dtype):
    assert make_array(value)[1].name == dtype


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1.5, "int32"), (300, "uint8"), ("a", "float32"), (1j, "float32"), (1, "string"), (True, "int32")],
)
def test_constants_that_do_not_fit(value, dtype):
    with pytest.raises(GraphTypeError):
        make_array(value, as_dtype(dtype))


def test_ragged_lists_are_refused():
    with pytest.raises(GraphValueError, match="cannot convert"):
        make_array([[1, 2], [3]])


def test_constants_are_spread_over_a_shape():
    with Graph().as_default():
        assert constant(3, shape=[2, 2]).op.attrs["value"].tolist() == [[3, 3], [3, 3]]
        assert constant([1, 2, 3, 4], shape=[2, 2]).op.attrs["value"].tolist() == [[1, 2], [3, 4]]
        with pytest.raises(GraphValueError, match="3 elements cannot fill"):
            constant([1, 2, 3], shape=[2, 2])
        assert constant(["a", b"b\0"]).op.attrs["value"].tolist() == [b"a", b"b\0"]


def test_lists_with_tensors_are_packed():
    graph = Graph()
    with graph.as_default():
        packed = convert_to_tensor([constant(1, name="a"), 2], name="both")
    assert packed.op.node_inputs == ("a", "both/1")
    assert packed.op.type == "Pack"


def test_a_constant_of_one_value_takes_no_memory_of_its_own():
    graph = Graph()
    with graph.as_default():
        assert is_splat(constant(1.5, shape=[1 << 30]).op.attrs["value"])
    assert len(graph.to_graphdef()) < 1000


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([1 << 39], "constant 'c' of shape .* takes 2,199,023,255,552 bytes, more than"),
        ([1 << 20] * 4, "takes .* bytes, more than"),
        ([0, 1 << 70], "overflow 64 bits"),
    ],
)
def test_constants_beyond_the_limit_are_refused(sizes, said):
    with Graph().as_default(), pytest.raises(GraphValueError, match=said):
        constant(1.5, shape=sizes, name="c")


def test_a_shape_that_cannot_be_is_tried_once_for_all_outputs():
    graph = Graph()
    x = graph.create_op("Placeholder", dtypes=[dtypes.float32], attrs={"shape": TensorShape([2, 3])})
    many = graph.create_op("Unpack", x.outputs, [dtypes.float32] * 5, {"num": 5, "axis": 0})
    tried = []

    def refuse(op):
        tried.append(op.name)
        raise GraphError("does not fit")

    previous = set_shape_function(refuse)
    try:
        for output in many.outputs:
            assert output.describe() == "f32[*]"
            with pytest.raises(GraphError, match="does not fit"):
                _ = output.shape
        assert tried == [many.name]
        many.outputs[0].forget_shape()
        assert many.outputs[0].describe() == "f32[*]"
        assert tried == [many.name] * 2
    finally:
        set_shape_function(previous)
