"""Inferred shapes, by hand for every family, and against NumPy where it has the operation."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlanb.errors import ShapeError
from xlanb.hlo import HloOpcode, parse, shape_inference
from xlanb.hlo.attributes import (
    ConvolutionDimensionNumbers,
    PaddingDimension,
    SliceDimension,
    Window,
    WindowDimension,
)
from xlanb.hlo.builder import HloBuilder
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.shape_inference.registry import CHECKS, RULES
from xlanb.shape import ArrayShape, Layout, Literal, PrimitiveType, Shape
from xlanb.shape.primitive_type import BY_TEXT
from xlanb.shape.shape import TOKEN, array, tuple_of

O = HloOpcode  # noqa: E741 - a table of opcodes


def shape(text: str) -> Shape:
    """`f32[2,<=3]`, `(f32[2], token[])` without nesting, row-major."""
    if text.startswith("("):
        return tuple_of(shape(part.strip()) for part in re.findall(r"\w+\[[^]]*\]", text))
    if text == "token[]":
        return TOKEN
    kind, inner = re.fullmatch(r"(\w+)\[(.*)\]", text).groups()  # type: ignore[union-attr]
    parts = [p for p in inner.split(",") if p]
    dims = [int(p.removeprefix("<=").replace("?", "-1")) for p in parts]
    return ArrayShape(BY_TEXT[kind], tuple(dims), Layout.default(len(dims)), tuple(p[0] in "<?" for p in parts))


def infer(opcode: HloOpcode, *operands: str, **attributes: Any) -> str:
    return shape_inference.infer(opcode, [shape(o) for o in operands], attributes).text(layout=False)


_B = HloBuilder("module")


def region(result: str, *parameters: str, root: int = 0) -> HloComputation:
    """A computation of this signature.

    It returns parameter `root`, or a constant if that has another shape.
    """
    b = _B.sub_computation("region")
    xs = [b.parameter(i, shape(p)) for i, p in enumerate(parameters)]
    want = shape(result)
    if xs and xs[root].shape == want:
        return b.build_computation(xs[root])
    made = [b.instruction(O.CUSTOM_CALL, xs, want, custom_call_target="any")]
    return b.build_computation(made[0])


def add(kind: str = "f32") -> HloComputation:
    return region(f"{kind}[]", f"{kind}[]", f"{kind}[]")


def test_every_opcode_has_a_rule_or_its_shape_is_given() -> None:
    assert not RULES.keys() & shape_inference.GIVEN
    assert set(O) == RULES.keys() | shape_inference.GIVEN
    assert CHECKS.keys() <= shape_inference.GIVEN


@pytest.mark.parametrize("opcode", [O.PARAMETER, O.IOTA, O.BROADCAST, O.RESHAPE, O.CONVERT, O.CUSTOM_CALL], ids=str)
def test_a_shape_that_does_not_follow_must_be_given(opcode: HloOpcode) -> None:
    with pytest.raises(ShapeError, match=f"{opcode}: .* must be given"):
        shape_inference.infer(opcode, [], {})


def test_a_constant_has_the_shape_of_its_literal() -> None:
    assert shape_inference.infer(O.CONSTANT, [], {"literal": Literal.of(np.zeros((2, 3), np.int8))}) == shape("s8[2,3]")


def test_results_are_row_major_whatever_the_operands_are() -> None:
    x = array(PrimitiveType.F32, [2, 3]).with_layout([0, 1])
    for opcode in (O.ADD, O.COPY, O.EXPONENTIAL):
        operands = [x, x] if opcode.arity == 2 else [x]
        assert shape_inference.infer(opcode, operands, {}) == array(PrimitiveType.F32, [2, 3])


WINDOW = Window((WindowDimension(2, stride=2), WindowDimension(3, padding_low=1, padding_high=1)))
NHWC = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
GATHER = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
    "slice_sizes": (1, 4),
}
SCATTER = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}
BATCHED = {
    "offset_dims": (2,), "collapsed_slice_dims": (1,), "operand_batching_dims": (0,), "start_indices_batching_dims": (0,),
    "start_index_map": (1,), "index_vector_dim": 2, "slice_sizes": (1, 1, 4),
}  # fmt: skip

GOOD: list[tuple[HloOpcode, tuple[str, ...], dict[str, Any], str]] = [
    # elementwise
    (O.ADD, ("f32[2,3]", "f32[2,3]"), {}, "f32[2,3]"),
    (O.ADD, ("pred[2]", "pred[2]"), {}, "pred[2]"),
    (O.ADD, ("f32[2]", "bf16[2]"), {}, "f32[2]"),
    (O.ADD, ("f16[2]", "bf16[2]"), {}, "bf16[2]"),
    (O.ADD, ("f32[<=2]", "f32[2]"), {}, "f32[<=2]"),
    (O.ADD, ("f32[?]", "f32[2]"), {}, "f32[2]"),
    (O.SHIFT_LEFT, ("u8[4]", "u8[4]"), {}, "u8[4]"),
    (O.COMPARE, ("s32[3]", "s32[3]"), {"direction": "LT"}, "pred[3]"),
    (O.COMPLEX, ("f32[3]", "f32[3]"), {}, "c64[3]"),
    (O.ABS, ("c128[2]",), {}, "f64[2]"),
    (O.ABS, ("s8[2]",), {}, "s8[2]"),
    (O.REAL, ("c64[2]",), {}, "f32[2]"),
    (O.IMAG, ("f16[2]",), {}, "f16[2]"),
    (O.IS_FINITE, ("f8e5m2[2]",), {}, "pred[2]"),
    (O.NOT, ("pred[]",), {}, "pred[]"),
    (O.POPCNT, ("u4[5]",), {}, "u4[5]"),
    (O.REDUCE_PRECISION, ("f32[2]",), {"exponent_bits": 5, "mantissa_bits": 10}, "f32[2]"),
    (O.SELECT, ("pred[2]", "f32[2]", "f32[2]"), {}, "f32[2]"),
    (O.SELECT, ("pred[]", "f32[2]", "f32[2]"), {}, "f32[2]"),
    (O.CLAMP, ("s32[2]", "s32[2]", "s32[2]"), {}, "s32[2]"),
    (O.CLAMP, ("f32[]", "f32[2]", "f32[]"), {}, "f32[2]"),
    (O.CLAMP, ("f32[2]", "f32[2]", "f32[]"), {}, "f32[2]"),
    (O.ALL_REDUCE_START, ("f32[8]",), {"to_apply": add()}, "f32[8]"),
    (O.ALL_REDUCE_DONE, ("f32[2]",), {}, "f32[2]"),
    (O.GATHER, ("f32[6,10,4]", "s32[5,7,1]"), BATCHED, "f32[5,7,4]"),
    # data
    (O.TUPLE, (), {}, "()"),
    (O.TUPLE, ("f32[2]", "token[]"), {}, "(f32[2], token[])"),
    (O.GET_TUPLE_ELEMENT, ("(f32[2], s32[])",), {"index": 1}, "s32[]"),
    (O.TRANSPOSE, ("f32[2,<=3,4]",), {"dimensions": (1, 2, 0)}, "f32[<=3,4,2]"),
    (O.REVERSE, ("f32[2,3]",), {"dimensions": (1,)}, "f32[2,3]"),
    (O.SLICE, ("f32[10]",), {"slice": (SliceDimension(1, 8, 3),)}, "f32[3]"),
    (O.SLICE, ("f32[<=10]",), {"slice": (SliceDimension(0, 1),)}, "f32[1]"),
    (O.PAD, ("f32[3]", "f32[]"), {"padding": (PaddingDimension(1, -1, 2),)}, "f32[7]"),
    (O.PAD, ("f32[0]", "f32[]"), {"padding": (PaddingDimension(2, 0, 5),)}, "f32[2]"),
    (O.CONCATENATE, ("f32[2,3]", "f32[4,3]"), {"dimensions": (0,)}, "f32[6,3]"),
    (O.CONCATENATE, ("bf16[2]", "f32[<=4]"), {"dimensions": (0,)}, "f32[<=6]"),
    (O.DYNAMIC_SLICE, ("f32[4,5]", "s32[]", "s32[]"), {"dynamic_slice_sizes": (2, 5)}, "f32[2,5]"),
    (O.DYNAMIC_SLICE, ("f32[4,5]", "u32[2]"), {"dynamic_slice_sizes": (2, 5)}, "f32[2,5]"),
    (O.DYNAMIC_UPDATE_SLICE, ("f32[4]", "f32[2]", "s64[]"), {}, "f32[4]"),
    (O.DYNAMIC_UPDATE_SLICE, ("f32[<=4,4]", "f32[2,<=4]", "s64[]", "s64[]"), {}, "f32[<=4,<=4]"),
    (O.DYNAMIC_UPDATE_SLICE, ("f32[4]", "f32[<=2]", "s64[]"), {}, "f32[4]"),
    (O.GET_DIMENSION_SIZE, ("f32[4,<=5]",), {"dimensions": (1,)}, "s32[]"),
    (O.SET_DIMENSION_SIZE, ("f32[4,5]", "s32[]"), {"dimensions": (1,)}, "f32[4,<=5]"),
    (O.TOPK, ("f32[3,10]",), {"k": 4}, "(f32[3,4], s32[3,4])"),
    # reductions
    (O.REDUCE, ("f32[2,3,<=4]", "f32[]"), {"dimensions": (1,), "to_apply": add()}, "f32[2,<=4]"),
    (O.REDUCE, ("bf16[2,3]", "f32[]"), {"dimensions": (0, 1), "to_apply": add()}, "f32[]"),
    (
        O.REDUCE, ("f32[5]", "s32[5]", "f32[]", "s32[]"),
        {"dimensions": (0,), "to_apply": region("(f32[], s32[])", "f32[]", "s32[]", "f32[]", "s32[]")}, "(f32[], s32[])",
    ),
    (O.REDUCE_WINDOW, ("f32[6,7]", "f32[]"), {"window": WINDOW, "to_apply": add()}, "f32[3,7]"),
    (
        O.SELECT_AND_SCATTER, ("f32[6,7]", "f32[3,7]", "f32[]"),
        {"window": WINDOW, "select": region("pred[]", "f32[]", "f32[]"), "scatter": add()}, "f32[6,7]",
    ),
    (O.MAP, ("f32[2,3]", "s32[2,3]"), {"dimensions": (0, 1), "to_apply": region("pred[]", "f32[]", "s32[]")}, "pred[2,3]"),
    (O.SORT, ("f32[2,3]",), {"dimensions": (1,), "to_apply": region("pred[]", "f32[]", "f32[]")}, "f32[2,3]"),
    (
        O.SORT, ("f32[3]", "s32[3]"),
        {"dimensions": (0,), "to_apply": region("pred[]", "f32[]", "f32[]", "s32[]", "s32[]")}, "(f32[3], s32[3])",
    ),
    (O.SCAN, ("f32[9]", "f32[]"), {"dimensions": (0,), "num_carries": 1, "to_apply": region("(f32[], f32[])", "f32[]", "f32[]")}, "(f32[9], f32[])"),
    (O.SCAN, ("f32[9,2]",), {"dimensions": (0,), "num_carries": 0, "to_apply": region("f32[2]", "f32[2]")}, "f32[9,2]"),
    # indexing
    (O.GATHER, ("f32[10,4]", "s32[7,1]"), GATHER, "f32[7,4]"),
    (O.GATHER, ("f32[10,4]", "s32[7]"), GATHER, "f32[7,4]"),
    (O.GATHER, ("f32[5,10,4]", "s32[5,7,1]"), BATCHED, "f32[5,7,4]"),
    (O.GATHER, ("f32[10,<=4]", "s32[<=7,1]"), GATHER, "f32[<=7,<=4]"),
    (O.GATHER, ("f32[10,<=5]", "s32[7]"), GATHER, "f32[7,4]"),
    (O.SCATTER, ("f32[10,4]", "s32[7,1]", "f32[7,4]"), {**SCATTER, "to_apply": add()}, "f32[10,4]"),
    # linear algebra
    (O.DOT, ("f32[2,3]", "f32[3,4]"), {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}, "f32[2,4]"),
    (
        O.DOT, ("f32[5,2,3]", "bf16[3,5,4]"),
        {"lhs_contracting_dims": (2,), "rhs_contracting_dims": (0,), "lhs_batch_dims": (0,), "rhs_batch_dims": (1,)}, "f32[5,2,4]",
    ),
    (
        O.RAGGED_DOT, ("f32[11,5]", "f32[3,5,7]", "s32[3]"),
        {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (1,), "lhs_ragged_dims": (0,), "rhs_group_dims": (0,)}, "f32[11,7]",
    ),
    (
        O.RAGGED_DOT, ("f32[11,5]", "f32[5,7]", "s32[3]"),
        {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,), "lhs_ragged_dims": (1,)}, "f32[3,11,7]",
    ),
    (
        O.RAGGED_DOT, ("f32[11,2,5]", "f32[2,5,7]", "s32[2,3]"),
        {"lhs_contracting_dims": (1, 2), "rhs_contracting_dims": (0, 1), "lhs_ragged_dims": (2,)}, "f32[3,11,7]",
    ),
    (O.CONVOLUTION, ("f32[8,6,7,4]", "f32[2,3,4,16]"), {"window": WINDOW, "dim_labels": NHWC}, "f32[8,3,7,16]"),
    (O.CONVOLUTION, ("f32[8,6,7,4]", "f32[2,3,2,16]"), {"window": WINDOW, "dim_labels": NHWC, "feature_group_count": 2}, "f32[8,3,7,16]"),
    (O.CONVOLUTION, ("f32[8,6,7,4]", "f32[2,3,4,16]"), {"window": WINDOW, "dim_labels": NHWC, "batch_group_count": 4}, "f32[2,3,7,16]"),
    (O.CHOLESKY, ("f64[2,3,3]",), {}, "f64[2,3,3]"),
    (O.TRIANGULAR_SOLVE, ("f32[3,3]", "f32[3,5]"), {"left_side": True, "transpose_a": "NO_TRANSPOSE"}, "f32[3,5]"),
    (O.FFT, ("c64[2,8]",), {"fft_type": "FFT", "fft_length": (8,)}, "c64[2,8]"),
    (O.FFT, ("f32[2,8]",), {"fft_type": "RFFT", "fft_length": (8,)}, "c64[2,5]"),
    (O.FFT, ("c128[2,5]",), {"fft_type": "IRFFT", "fft_length": (9,)}, "f64[2,9]"),
    (O.BATCH_NORM_TRAINING, ("f32[2,3,4]", "f32[3]", "f32[3]"), {"feature_index": 1, "epsilon": 0.1}, "(f32[2,3,4], f32[3], f32[3])"),
    (O.BATCH_NORM_INFERENCE, ("f32[2,3]", *["f32[3]"] * 4), {"feature_index": 1, "epsilon": 0.1}, "f32[2,3]"),
    (O.BATCH_NORM_GRAD, ("f32[2,3]", *["f32[3]"] * 3, "f32[2,3]"), {"feature_index": 1, "epsilon": 0.1}, "(f32[2,3], f32[3], f32[3])"),
    # control
    (O.CALL, ("f32[2]",), {"to_apply": region("s32[]", "f32[2]")}, "s32[]"),
    (O.FUSION, ("f32[2]",), {"calls": region("f32[2]", "f32[2]")}, "f32[2]"),
    (O.WHILE, ("(s32[], f32[2])",), {"body": region("(s32[], f32[2])", "(s32[], f32[2])"), "condition": region("pred[]", "(s32[], f32[2])")}, "(s32[], f32[2])"),
    (O.CONDITIONAL, ("pred[]", "f32[2]", "f32[3]"), {"true_computation": region("f32[]", "f32[2]"), "false_computation": region("f32[]", "f32[3]")}, "f32[]"),
    (O.CONDITIONAL, ("s32[]", "f32[2]"), {"branch_computations": (region("f32[]", "f32[2]"),)}, "f32[]"),
    (O.AFTER_ALL, (), {}, "token[]"),
    (O.ADD_DEPENDENCY, ("f32[2]", "token[]"), {}, "f32[2]"),
    (O.SEND, ("f32[2]", "token[]"), {}, "(f32[2], u32[], token[])"),
    (O.RECV_DONE, ("(f32[2], u32[], token[])",), {}, "(f32[2], token[])"),
    (O.COPY_START, ("f32[2]",), {}, "(f32[2], f32[2], u32[])"),
    (O.COPY_DONE, ("(f32[2], f32[2], u32[])",), {}, "f32[2]"),
    (O.OPT_BARRIER, ("(f32[2], s32[])",), {}, "(f32[2], s32[])"),
    (O.REPLICA_ID, (), {}, "u32[]"),
    # collectives
    (O.ALL_REDUCE, ("f32[2]",), {"to_apply": add()}, "f32[2]"),
    (O.ALL_REDUCE, ("f32[2]", "s32[3]"), {"to_apply": add()}, "(f32[2], s32[3])"),
    (O.COLLECTIVE_PERMUTE, ("f32[2]",), {"source_target_pairs": ((0, 1),)}, "f32[2]"),
    (O.ALL_GATHER_DONE, ("(f32[2], f32[8])",), {}, "f32[8]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("opcode", "operands", "attributes", "expected"), GOOD, ids=lambda v: str(v) if isinstance(v, HloOpcode) else ""
)
def test_inferred_shape(
    opcode: HloOpcode, operands: tuple[str, ...], attributes: dict[str, Any], expected: str
) -> None:
    assert infer(opcode, *operands, **attributes) == expected


CONTRACT = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}
RAGGED = {**CONTRACT, "lhs_ragged_dims": (1,)}
BAD: list[tuple[HloOpcode, tuple[str, ...], dict[str, Any], str]] = [
    (O.RAGGED_DOT, ("f32[11,5]", "f32[5,7]", "s32[3]"), {**RAGGED, "lhs_batch_dims": (2,)}, r"lhs_batch_dims in \[0, 2\)"),
    (O.ADD, ("f32[2]", "f32[3]"), {}, "same dimensions"),
    (O.ADD, ("f32[1,3]", "f32[2,3]"), {}, "same dimensions"),
    (O.ADD, ("f32[2]", "f32[]"), {}, "same dimensions"),
    (O.ADD, ("f32[2]", "s32[2]"), {}, "same element type"),
    (O.ADD, ("f32[2]",), {}, "2 operands"),
    (O.ADD, ("(f32[2])", "f32[2]"), {}, "an array"),
    (O.SUBTRACT, ("pred[2]", "pred[2]"), {}, "not pred"),
    (O.AND, ("f32[2]", "f32[2]"), {}, "pred or an integer"),
    (O.COMPLEX, ("f16[2]", "f16[2]"), {}, "f32 or f64"),
    (O.EXPONENTIAL, ("s32[2]",), {}, "floating or complex"),
    (O.FLOOR, ("c64[2]",), {}, "floating"),
    (O.ABS, ("u32[2]",), {}, "signed"),
    (O.NEGATE, ("pred[2]",), {}, "integer, floating or complex"),
    (O.REDUCE_PRECISION, ("f32[]",), {"exponent_bits": 0, "mantissa_bits": 3}, "exponent bit"),
    (O.SELECT, ("s32[2]", "f32[2]", "f32[2]"), {}, "type pred"),
    (O.SELECT, ("pred[3]", "f32[2]", "f32[2]"), {}, "scalar or has the dimensions"),
    (O.SELECT, ("pred[2]", "f32[2]", "s32[2]"), {}, "same element type"),
    (O.CLAMP, ("f32[3]", "f32[2]", "f32[]"), {}, "same dimensions"),
    (O.CLAMP, ("f32[2]", "f32[]", "f32[2]"), {}, "same dimensions"),
    (O.CLAMP, ("s32[2]", "f32[2]", "f32[2]"), {}, "same element type"),
    (O.CLAMP, ("f32[2]", "f32[2]", "s32[2]"), {}, "same element type"),
    (O.SELECT_AND_SCATTER, ("f32[6,7]", "f32[3,7]", "f32[]"), {"window": WINDOW, "select": region("pred[]", "f32[]"), "scatter": add()}, "two scalars"),
    (O.SELECT_AND_SCATTER, ("f32[6,7]", "f32[3,7]", "f32[]"), {"window": WINDOW, "select": region("pred[]", "f32[]", "s32[]"), "scatter": add()}, "two scalars"),
    (O.SELECT_AND_SCATTER, ("f32[6,7]", "f32[4,7]", "f32[]"), {"window": WINDOW, "select": region("pred[]", "f32[]", "f32[]"), "scatter": add()}, "for each window"),
    (O.COPY_DONE, ("(f32[2], f32[2])",), {}, "tuple of a copy-start"),
    (O.COPY_DONE, ("(f32[2], f32[3], u32[])",), {}, "tuple of a copy-start"),
    (O.TRIANGULAR_SOLVE, ("f32[2,3,3]", "f32[4,3,5]"), {"left_side": True, "transpose_a": "NO_TRANSPOSE"}, "batch dimensions"),
    (O.GET_TUPLE_ELEMENT, ("(f32[2])",), {"index": 1}, r"\[0, 1\), not 1"),
    (O.GET_TUPLE_ELEMENT, ("f32[2]",), {"index": 0}, "a tuple"),
    (O.TRANSPOSE, ("f32[2,3]",), {"dimensions": (0, 0)}, "permutation"),
    (O.TRANSPOSE, ("f32[2,3]",), {}, "attribute dimensions"),
    (O.REVERSE, ("f32[2,3]",), {"dimensions": (2,)}, r"\[0, 2\)"),
    (O.REVERSE, ("f32[2,3]",), {"dimensions": (1, 1)}, "repetition"),
    (O.SLICE, ("f32[4]",), {"slice": (SliceDimension(0, 5),)}, "limit <= 4"),
    (O.SLICE, ("f32[4]",), {"slice": (SliceDimension(3, 2),)}, "start <= limit"),
    (O.SLICE, ("f32[4]",), {"slice": (SliceDimension(0, 2, 0),)}, "positive stride"),
    (O.SLICE, ("f32[4]",), {"slice": ()}, "1 ranges"),
    (O.PAD, ("f32[4]", "f32[1]"), {"padding": (PaddingDimension(),)}, "scalar"),
    (O.PAD, ("f32[4]", "f32[]"), {"padding": (PaddingDimension(-5),)}, "at least 0"),
    (O.PAD, ("f32[4]", "f32[]"), {"padding": (PaddingDimension(interior=-1),)}, "negative interior"),
    (O.PAD, ("f32[4]", "f32[]"), {"padding": (PaddingDimension(2**63 - 1),)}, "too large"),
    (O.PAD, ("f32[4,0,4]", "f32[]"), {"padding": (PaddingDimension(2**61), PaddingDimension(), PaddingDimension())}, "too large"),
    (O.CONCATENATE, ("f32[4611686018427387904]", "f32[4611686018427387904]"), {"dimensions": (0,)}, "too large"),
    (O.COLLECTIVE_PERMUTE, ("opaque[]", "f32[4,4]", "(s32[], s32[])", "(s32[], s32[])"), {"slice_sizes": ((2, 2),)}, "slice_sizes of at least one dim"),
    (O.COLLECTIVE_PERMUTE, ("f32[4,4]", "f32[4,4]", "(s32[], s32[])", "(s32[], s32[])"), {"slice_sizes": ((2,),)}, "slice_sizes of 2 dim"),
    (O.CONCATENATE, (), {"dimensions": (0,)}, "at least one"),
    (O.CONCATENATE, ("f32[2,3]", "f32[2,4]"), {"dimensions": (0,)}, "differ only in dimension 0"),
    (O.CONCATENATE, ("f32[2]", "s32[2]"), {"dimensions": (0,)}, "element type"),
    (O.DYNAMIC_SLICE, ("f32[4]", "s32[]"), {"dynamic_slice_sizes": (5,)}, r"\[0, 4\]"),
    (O.DYNAMIC_SLICE, ("f32[4,4]", "s32[]"), {"dynamic_slice_sizes": (1, 1)}, "2 start indices"),
    (O.DYNAMIC_SLICE, ("f32[4]", "f32[]"), {"dynamic_slice_sizes": (1,)}, "integer type"),
    (O.DYNAMIC_UPDATE_SLICE, ("f32[4]", "f32[5]", "s32[]"), {}, "at most 4"),
    (O.REDUCE, ("f32[2]",), {"dimensions": (0,), "to_apply": add()}, "as many initial values"),
    (O.REDUCE, ("f32[2]", "f32[]"), {"dimensions": (1,), "to_apply": add()}, r"\[0, 1\)"),
    (O.REDUCE, ("f32[2]", "f32[]"), {"dimensions": (0,), "to_apply": region("f32[]", "f32[]")}, "2 parameters"),
    (O.REDUCE, ("f32[2]", "f32[]"), {"dimensions": (0,), "to_apply": add("s32")}, "initial value 0"),
    (O.REDUCE, ("s32[2]", "f32[]"), {"dimensions": (0,), "to_apply": add()}, "the array's elements"),
    (O.REDUCE, ("f32[2]", "f32[2]"), {"dimensions": (0,), "to_apply": region("f32[2]", "f32[2]", "f32[]")}, "a scalar"),
    (O.REDUCE_WINDOW, ("f32[6]", "f32[]"), {"window": WINDOW, "to_apply": add()}, "window of 1 dimensions"),
    (O.REDUCE_WINDOW, ("f32[6]", "f32[]"), {"window": Window((WindowDimension(0),)), "to_apply": add()}, "positive size"),
    (O.MAP, ("f32[2]",), {"to_apply": region("f32[2]", "f32[]")}, "return a scalar"),
    (O.SORT, ("f32[3]", "s32[4]"), {"dimensions": (0,), "to_apply": add()}, "same dimensions"),
    (O.SORT, ("f32[3]",), {"dimensions": (0,), "to_apply": add()}, r"pred\[\]"),
    (O.GATHER, ("f32[10,4]", "f32[7]"), GATHER, "integer type"),
    (O.GATHER, ("f32[10,4]", "s32[7,2]"), GATHER, "start_index_map"),
    (O.GATHER, ("f32[10,4]", "s32[7]"), {**GATHER, "slice_sizes": (2, 4)}, "slice size of 1"),
    (O.GATHER, ("f32[10,4]", "s32[7]"), {**GATHER, "slice_sizes": (1, 5)}, r"\[0, 4\]"),
    (O.GATHER, ("f32[10,4]", "s32[7]"), {**GATHER, "index_vector_dim": 2}, "index_vector_dim"),
    (O.SCATTER, ("f32[10,4]", "s32[7]", "f32[6,4]"), {**SCATTER, "to_apply": add()}, "indices'"),
    (O.SCATTER, ("f32[10,4]", "s32[7]", "f32[7,5]"), {**SCATTER, "to_apply": add()}, "at most 4"),
    (O.SCATTER, ("f32[10,4]", "s32[7]"), {**SCATTER, "to_apply": add()}, "as many updates"),
    (O.DOT, ("f32[2,3]", "f32[4,5]"), CONTRACT, "contracting dimensions of equal size"),
    (O.DOT, ("f32[2,3]", "f32[3,5]"), {"lhs_contracting_dims": (1,)}, "as many contracting"),
    (O.DOT, ("f32[2,3]", "f32[3,5]"), {**CONTRACT, "lhs_batch_dims": (1,), "rhs_batch_dims": (0,)}, "both batch and contracting"),
    (O.CONVOLUTION, ("f32[8,6,7,4]", "f32[2,3,5,16]"), {"window": WINDOW, "dim_labels": NHWC}, "input features"),
    (O.CONVOLUTION, ("f32[8,6,7,4]", "f32[3,3,4,16]"), {"window": WINDOW, "dim_labels": NHWC}, "kernel's spatial"),
    (O.CHOLESKY, ("f32[2,3]",), {}, "square"),
    (O.TRIANGULAR_SOLVE, ("f32[3,3]", "f32[3,5]"), {"left_side": True}, "transpose_a"),
    (O.FFT, ("f32[8]",), {"fft_type": "FFT", "fft_length": (8,)}, "complex"),
    (O.FFT, ("f32[8]",), {"fft_type": "RFFT", "fft_length": (9,)}, "last dimensions"),
    (O.BATCH_NORM_TRAINING, ("f32[2,3]", "f32[2]", "f32[3]"), {"feature_index": 1}, "3 elements"),
    (O.CALL, ("f32[3]",), {"to_apply": region("s32[]", "f32[2]")}, "operand's shape"),
    (O.CALL, (), {"to_apply": region("s32[]", "f32[2]")}, "0 parameters"),
    (O.WHILE, ("s32[]",), {"body": region("f32[]", "s32[]"), "condition": region("pred[]", "s32[]")}, "return its parameter's shape"),
    (O.WHILE, ("s32[]",), {"body": region("s32[]", "s32[]"), "condition": region("s32[]", "s32[]")}, r"return a pred\[\]"),
    (O.CONDITIONAL, ("f32[]", "f32[]"), {"branch_computations": (region("f32[]", "f32[]"),)}, r"pred\[\] or an s32\[\]"),
    (O.CONDITIONAL, ("s32[]", "f32[]", "f32[]"), {"branch_computations": (region("f32[]", "f32[]"), region("s32[]", "f32[]"))}, "as .* does"),
    (O.ADD_DEPENDENCY, ("f32[]", "f32[]"), {}, "a token"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("opcode", "operands", "attributes", "message"), BAD, ids=lambda v: str(v) if isinstance(v, HloOpcode) else ""
)
def test_refused_operands(
    opcode: HloOpcode, operands: tuple[str, ...], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ShapeError, match=message) as caught:
        infer(opcode, *operands, **attributes)
    assert str(caught.value).startswith(f"{opcode}(")


CHECKED: list[tuple[HloOpcode, tuple[str, ...], dict[str, Any], str, str]] = [
    (O.RESHAPE, ("f32[2,3]",), {}, "f32[6]", "f32[7]"),
    (O.RESHAPE, ("f32[2,3]",), {}, "f32[3,2]", "s32[3,2]"),
    (O.BROADCAST, ("f32[3]",), {"dimensions": (1,)}, "f32[2,3]", "f32[3,2]"),
    (O.BROADCAST, ("f32[]",), {"dimensions": ()}, "f32[2,3]", "s32[2,3]"),
    (O.CONVERT, ("f32[2]",), {}, "s8[2]", "s8[3]"),
    (O.BITCAST_CONVERT, ("f32[2]",), {}, "s32[2]", "s16[2]"),
    (O.BITCAST_CONVERT, ("f32[2]",), {}, "u8[2,4]", "u8[8]"),
    (O.BITCAST_CONVERT, ("u8[2,4]",), {}, "f32[2]", "f64[2]"),
    (O.BITCAST_CONVERT, ("c64[2]",), {}, "c64[2]", "f64[2]"),
    (O.STOCHASTIC_CONVERT, ("f32[2]", "u32[2]"), {}, "s8[2]", "s8[3]"),
    (O.IOTA, (), {"iota_dimension": 1}, "s32[2,3]", "s32[2]"),
    (O.IOTA, (), {"iota_dimension": 0}, "f32[2]", "pred[2]"),
    (O.RNG, ("f32[]", "f32[]"), {"distribution": "rng_uniform"}, "f32[5]", "s32[5]"),
    (O.RNG_BIT_GENERATOR, ("u64[2]",), {"algorithm": "rng_default"}, "(u64[2], u32[5])", "(u64[3], u32[5])"),
    (O.INFEED, ("token[]",), {}, "(f32[2], token[])", "f32[2]"),
    (O.ALL_GATHER, ("f32[2,3]",), {"dimensions": (0,)}, "f32[8,3]", "f32[7,3]"),
    (O.ALL_GATHER, ("f32[2,3]",), {"dimensions": (0,)}, "f32[8,3]", "f32[8,6]"),
    (O.ALL_GATHER, ("f32[2,3]",), {"dimensions": (0,)}, "f32[2,3]", "s32[2,3]"),
    (O.RECV, ("token[]",), {}, "(f32[2], u32[], token[])", "(f32[2], s32[], token[])"),
    (O.RECV, ("token[]",), {}, "(f32[2], u32[], token[])", "(f32[2], u32[], u32[])"),
    (O.REDUCE_SCATTER, ("f32[8,3]",), {"dimensions": (0,), "to_apply": add()}, "f32[2,3]", "f32[3,3]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("opcode", "operands", "attributes", "right", "wrong"),
    CHECKED,
    ids=lambda v: str(v) if isinstance(v, HloOpcode) else "",
)
def test_given_shapes_are_checked(
    opcode: HloOpcode, operands: tuple[str, ...], attributes: dict[str, Any], right: str, wrong: str
) -> None:
    shapes = [shape(o) for o in operands]
    shape_inference.check(opcode, shapes, attributes, shape(right))
    with pytest.raises(ShapeError, match=re.escape(f"{opcode}(")):
        shape_inference.check(opcode, shapes, attributes, shape(wrong))


def test_compatible_ignores_layouts_and_dynamic_dimensions_but_not_types() -> None:
    x = shape("f32[2,<=3]")
    other = shape("f32[2,3]").as_array().with_layout([0, 1])
    assert shape_inference.compatible(x, other)
    assert not shape_inference.compatible(x, shape("bf16[2,3]"))
    assert shape_inference.compatible(x, shape("bf16[2,3]"), mixed_precision=True)
    assert not shape_inference.compatible(tuple_of([x]), x)


# -- against NumPy ---------------------------------------------------------------------------------

SIZES = st.integers(0, 7)


@given(st.data())
def test_slices_have_numpys_sizes(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(SIZES, max_size=3))
    parts = []
    for size in sizes:
        start = data.draw(st.integers(0, size))
        parts.append(SliceDimension(start, data.draw(st.integers(start, size)), data.draw(st.integers(1, 4))))
    want = np.zeros(sizes, np.float32)[tuple(slice(p.start, p.limit, p.stride) for p in parts)].shape
    found = shape_inference.infer(O.SLICE, [array(PrimitiveType.F32, sizes)], {"slice": tuple(parts)})
    assert found == array(PrimitiveType.F32, want)


@given(st.lists(SIZES, max_size=4).flatmap(lambda d: st.tuples(st.just(d), st.permutations(range(len(d))))))
def test_transposes_have_numpys_sizes(case: tuple[list[int], list[int]]) -> None:
    sizes, order = case
    found = shape_inference.infer(O.TRANSPOSE, [array(PrimitiveType.S8, sizes)], {"dimensions": tuple(order)})
    assert found == array(PrimitiveType.S8, np.zeros(sizes, np.int8).transpose(order).shape)


@given(st.data())
def test_dots_have_einsums_sizes(data: st.DataObject) -> None:
    """Letters name dimensions: shared and kept are batch, shared and dropped contracting."""
    batch, summed, left, right = (
        "ab"[: data.draw(st.integers(0, 2))],
        "cd"[: data.draw(st.integers(0, 2))],
        "ef",
        "gh",
    )
    size = {letter: data.draw(st.integers(1, 4)) for letter in "abcdefgh"}
    lhs = data.draw(st.permutations(batch + summed + left))
    rhs = data.draw(st.permutations(batch + summed + right))
    free = "".join(c for c in lhs if c in left) + "".join(c for c in rhs if c in right)
    want = np.einsum(
        f"{''.join(lhs)},{''.join(rhs)}->{batch}{free}",
        np.zeros([size[c] for c in lhs]),
        np.zeros([size[c] for c in rhs]),
    ).shape
    attributes = {
        "lhs_batch_dims": tuple(map(lhs.index, batch)), "rhs_batch_dims": tuple(map(rhs.index, batch)),
        "lhs_contracting_dims": tuple(map(lhs.index, summed)), "rhs_contracting_dims": tuple(map(rhs.index, summed)),
    }  # fmt: skip
    shapes = [array(PrimitiveType.F64, [size[c] for c in letters]) for letters in (lhs, rhs)]
    assert shape_inference.infer(O.DOT, shapes, attributes) == array(PrimitiveType.F64, want)


@given(
    st.integers(0, 9),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(-2, 3),
    st.integers(-2, 3),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_windows_are_as_many_as_fit(
    size: int, width: int, stride: int, low: int, high: int, holes: int, base: int
) -> None:
    """Counted individually over the padded, dilated array."""
    window = Window((WindowDimension(width, stride, low, high, holes, base),))
    padded = max(0, (size - 1) * base + 1 if size else 0) + low + high
    reach = (width - 1) * holes + 1
    want = sum(1 for start in range(0, max(padded, 0), stride) if start + reach <= padded)
    found = shape_inference.infer(
        O.REDUCE_WINDOW,
        [array(PrimitiveType.F32, [size]), array(PrimitiveType.F32)],
        {"window": window, "to_apply": add()},
    )
    assert found == array(PrimitiveType.F32, [want])


@pytest.mark.parametrize("integer", ["s2", "u2", "s4", "u4", "s8", "u8"])
def test_any_integer_holds_more_than_a_predicate(integer: str) -> None:
    for a, b in ((integer, "pred"), ("pred", integer)):
        text = f"HloModule m\nENTRY e {{\n  x = {a}[2] parameter(0)\n  y = {b}[2] parameter(1)\n  ROOT d = dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n}}\n"
        assert parse(text).entry_computation.root.array_shape.element_type.text == integer
