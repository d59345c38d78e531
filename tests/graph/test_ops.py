"""The op table: every row parses, and says what TensorFlow's OpDef says."""

import pytest

from xlanb.errors import GraphError, UnknownOpError
from xlanb.graph import dtypes
from xlanb.graph.gradients import differentiable_ops
from xlanb.graph.ops import find_op, get_op, op_names
from xlanb.graph.ops.op_def import parse_row


def test_every_row_parses_and_refers_only_to_its_own_attributes():
    assert len(op_names()) >= 330
    for name in op_names():
        op = get_op(name)
        assert op.name == name
        assert not op.doc or (op.doc.endswith(".") and not op.doc.startswith(("stateful", "commutative", "["))), name
        for arg in (*op.inputs, *op.outputs):
            assert arg.type is not None or arg.type_attr or arg.type_list_attr, (name, arg)
            for attr in (arg.type_attr, arg.number_attr, arg.type_list_attr):
                assert not attr or attr in op.attr_defs, (name, arg)
        for attr in op.attrs:
            if attr.allowed and attr.has_default and not isinstance(attr.default, tuple):
                assert attr.default in attr.allowed, (name, attr)


def test_a_row_in_detail():
    op = get_op("Conv2D")
    assert [a.name for a in op.inputs] == ["input", "filter"]
    assert op.attr_defs["padding"].allowed == ("SAME", "VALID", "EXPLICIT")
    assert op.attr_defs["dilations"].default == (1, 1, 1, 1)
    assert op.attr_defs["T"].allowed == (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.int32)
    assert get_op("RandomUniform").is_stateful
    assert get_op("AddN").is_commutative
    assert get_op("Assign").outputs[0].is_ref
    assert get_op("Pack").inputs[0].number_attr == "N"
    assert get_op("Sum").inferred_attrs == {"T", "Tidx"}


def test_unknown_ops():
    assert find_op("NoSuchOp") is None
    with pytest.raises(UnknownOpError, match="did you mean 'Conv2D'"):
        get_op("Conv2d")


@pytest.mark.parametrize("row", ["MatMul", "A(x: T) ->", "A(x: T) -> (y: T) [T type]"])
def test_malformed_rows(row):
    with pytest.raises(GraphError, match="malformed"):
        parse_row(row, "")


def test_gradients_are_of_ops_that_exist():
    unknown = [name for name in differentiable_ops() if find_op(name) is None]
    # Forms of ops that only graphs of long ago have.
    assert set(unknown) <= {
        "Concat",
        "TopK",
        "BatchMatMul",
        "BiasAddV1",
        "InvGrad",
        "Inv",
        "FusedBatchNorm",
        "FusedBatchNormV2",
    }
