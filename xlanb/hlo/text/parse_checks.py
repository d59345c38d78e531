"""Checks and completions in XLA's parser for single opcodes, beyond the opcode table.

Source: CreateInstruction in hlo_parser.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import BY_TEXT, HloOpcode
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_shape import compatible
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape
from xlanb.shape.shape import TOKEN, array

NOT_INFERRED = frozenset(
    BY_TEXT[text]
    for text in (
        "async-start async-update async-done all-gather all-gather-start all-gather-done "
        "all-reduce all-reduce-start all-reduce-done all-to-all "
        "collective-broadcast collective-permute collective-permute-start collective-permute-done "
        "copy-done copy-start dynamic-reshape dynamic-slice "
        "dynamic-update-slice ragged-all-to-all recv recv-done reduce-scatter send send-done slice "
        "bitcast bitcast-convert constant convert custom-call "
        "fusion infeed iota outfeed parameter reduce-precision reshape rng rng-bit-generator "
        "rng-get-and-update-state stochastic-convert"
    ).split()
)
"""Opcodes whose result shape must be in the text."""

_U32 = array(PrimitiveType.U32)
Operands = list[HloInstruction]
Attributes = dict[str, Any]
Check = Callable[[Cursor, int, Shape | None, Operands, Attributes], Shape | None]
refine: dict[HloOpcode, Check] = {}
"""A function per opcode that returns the instruction's shape, or None to infer it.

Its arguments: cursor, offset of the instruction, declared shape, operands, attributes.
"""


def _check(*opcodes: HloOpcode) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        refine.update(dict.fromkeys(opcodes, check))
        return check

    return register


def _token_like(*parts: Shape) -> TupleShape:
    return TupleShape((*parts, TOKEN))


@_check(HloOpcode.OUTFEED)
def _outfeed(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    attributes.setdefault("outfeed_shape", operands[0].shape)
    return TOKEN


@_check(HloOpcode.AFTER_ALL, HloOpcode.SEND_DONE)
def _token(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    return TOKEN


@_check(HloOpcode.ADD_DEPENDENCY)
def _add_dependency(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    return operands[0].shape


@_check(HloOpcode.SEND)
def _send(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    return _token_like(operands[0].shape, _U32)


@_check(HloOpcode.RECV)
def _recv(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    if not isinstance(shape, TupleShape) or not shape.shapes:
        cursor.fail("recv must have a non-empty tuple shape", at)
    return _token_like(shape.shapes[0], _U32)


@_check(HloOpcode.RECV_DONE)
def _recv_done(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    sent = operands[0].shape
    if not isinstance(sent, TupleShape) or not sent.shapes:
        cursor.fail("recv-done expects the tuple of a recv", at)
    return _token_like(sent.shapes[0])


@_check(HloOpcode.INFEED)
def _infeed(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    if not isinstance(shape, TupleShape) or not shape.shapes:
        cursor.fail("infeed must have a non-empty tuple shape", at)
    return _token_like(shape.shapes[0])


@_check(HloOpcode.TUPLE)
def _tuple(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    if shape is None:
        return TupleShape(tuple(o.shape for o in operands))
    if not isinstance(shape, TupleShape) or len(shape.shapes) != len(operands):
        cursor.fail(f"a tuple of {len(operands)} operands cannot have the shape {shape}", at)
    return shape


@_check(HloOpcode.DYNAMIC_RESHAPE)
def _dynamic_reshape(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    if not operands:
        cursor.fail("DynamicReshape requires at least one operand.", at)
    _same_count(cursor, at, shape, operands[0].shape)
    rank = len(getattr(shape, "dimensions", ()))
    if len(operands) - 1 != rank:
        cursor.fail(
            f"expects one dim size operand per result dimension; got {len(operands) - 1} for {rank} result dimensions",
            at,
        )
    return shape


@_check(HloOpcode.RESHAPE)
def _reshape(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    if -1 not in getattr(operands[0].shape, "dimensions", ()):
        _same_count(cursor, at, shape, operands[0].shape)
    return shape


def _same_count(cursor: Cursor, at: int, shape: Shape | None, operand: Shape) -> None:
    arrays = [s for s in (shape, operand) if isinstance(s, ArrayShape) and s.is_array]
    if len(arrays) != 2 or math.prod(arrays[0].dimensions) != math.prod(arrays[1].dimensions):
        cursor.fail(f"expects the same number of elements in result shape {shape} and operand shape {operand}", at)


@_check(HloOpcode.SHUFFLE)
def _shuffle(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    if "shifts" not in attributes:
        cursor.fail("expects shifts for a shuffle in rotate mode", at)
    return shape


@_check(HloOpcode.REPLICA_ID, HloOpcode.PARTITION_ID)
def _id(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    return shape or _U32


@_check(HloOpcode.BROADCAST)
def _broadcast(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    if "dimensions" not in attributes:
        if getattr(operands[0].shape, "dimensions", None) != ():
            cursor.fail("attribute dimensions is expected but not seen")
        attributes["dimensions"] = ()
    return shape


@_check(HloOpcode.COMPARE)
def _compare(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    kind = operands[0].shape.element_type
    default = "FLOAT" if kind.is_floating or kind.is_complex else "SIGNED" if kind.is_signed else "UNSIGNED"
    if "order" in attributes:
        if "type" in attributes:
            cursor.fail("expects type or order, not both", at)
        total = attributes.pop("order") == "TOTAL"
        if total and kind.is_floating:  # other types have only one order
            attributes["type"] = "TOTALORDER"
    if attributes.get("type") == default:
        del attributes["type"]
    return shape


@_check(HloOpcode.TOPK)
def _topk(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    attributes.setdefault("largest", True)
    attributes.setdefault("is_stable", True)
    return shape


@_check(HloOpcode.MAP)
def _map(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    if shape is None and not operands:
        cursor.fail("map without operands needs a shape", at)
    rank = len(getattr(shape if shape is not None else operands[0].shape, "dimensions", ()))
    # XLA's map instruction always covers all dimensions, whatever the text.
    attributes["dimensions"] = tuple(range(rank))
    return shape


@_check(HloOpcode.SORT, HloOpcode.CONCATENATE)
def _one_dimension(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    if len(attributes["dimensions"]) != 1:
        cursor.fail("expects exactly one dimension", at)
    return shape


@_check(HloOpcode.GET_DIMENSION_SIZE, HloOpcode.SET_DIMENSION_SIZE)
def _some_dimension(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    if not attributes["dimensions"]:
        cursor.fail("expects a dimension", at)
    attributes["dimensions"] = attributes["dimensions"][:1]
    return shape


@_check(HloOpcode.ALL_GATHER, HloOpcode.ALL_GATHER_START)
def _gather(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    if not attributes["dimensions"]:
        cursor.fail("expects a dimension", at)
    attributes["dimensions"] = attributes["dimensions"][:1]
    return _with_groups(cursor, at, shape, operands, attributes)


@_check(HloOpcode.COLLECTIVE_BROADCAST)
def _with_groups(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    attributes.setdefault("replica_groups", "{}")
    return shape


@_check(HloOpcode.ALL_TO_ALL, HloOpcode.RAGGED_ALL_TO_ALL)
def _all_to_all(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    if len(attributes.get("dimensions", (0,))) != 1:
        cursor.fail("expects exactly one dimension", at)
    return _with_groups(cursor, at, shape, operands, attributes)


@_check(HloOpcode.ALL_REDUCE, HloOpcode.ALL_REDUCE_START, HloOpcode.REDUCE_SCATTER)
def _all_reduce(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    if attributes.get("use_global_device_ids") and attributes.get("channel_id") is None:
        cursor.fail("use_global_device_ids needs a channel_id", at)
    if "dimensions" in attributes:
        return _gather(cursor, at, shape, operands, attributes)
    return _with_groups(cursor, at, shape, operands, attributes)


@_check(HloOpcode.COLLECTIVE_PERMUTE, HloOpcode.COLLECTIVE_PERMUTE_START)
def _permute(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    if any(len(pair) != 2 for pair in attributes["source_target_pairs"]):
        cursor.fail("expects 'source_target_pairs=' to be a list of pairs", at)
    if "slice_sizes" in attributes and len(operands) != 4:
        cursor.fail("collective-permute must have exactly four operands for dynamic-slice and in-place update.", at)
    return shape


@_check(HloOpcode.REDUCE, HloOpcode.REDUCE_WINDOW)
def _even(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    if len(operands) % 2 or not operands:
        cursor.fail(f"expects an even number of operands, but has {len(operands)} operands", at)
    return shape


@_check(HloOpcode.SCATTER)
def _odd(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    if len(operands) % 2 == 0:
        cursor.fail(f"expects an odd number of operands, but has {len(operands)} operands", at)
    return shape


@_check(HloOpcode.SCAN)
def _scan(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    attributes.setdefault("is_associative", False)
    parameters = len(attributes["to_apply"].parameters)
    if len(operands) != parameters:
        cursor.fail(
            f"expects {len(operands)} operands to match the number of parameters of to_apply, but "
            f"to_apply has {parameters} parameters",
            at,
        )
    if len(attributes["dimensions"]) != 1:
        cursor.fail("expects exactly one dimension", at)
    if not 0 <= attributes["num_carries"] <= len(operands):
        cursor.fail(
            f"expects at least {attributes['num_carries']} operands to match the number of "
            f"carries, but has {len(operands)} operands",
            at,
        )
    return shape


@_check(HloOpcode.DYNAMIC_SLICE, HloOpcode.DYNAMIC_UPDATE_SLICE)
def _dynamic_slice(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    first = 1 if "dynamic_slice_sizes" in attributes else 2
    if len(operands) < first:
        cursor.fail(f"Expected at least {first} operands.", at)
    indices = operands[first:]
    rank = len(getattr(operands[0].shape, "dimensions", ()))
    as_vector = len(indices) == 1 and len(getattr(indices[0].shape, "dimensions", ())) == 1
    if not as_vector and len(indices) != rank:
        cursor.fail("Wrong number of operands.", at)
    return shape


@_check(HloOpcode.CONDITIONAL)
def _conditional(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    if not operands or getattr(operands[0].shape, "dimensions", None) != () or not operands[0].shape.is_array:
        cursor.fail("The first operand must be a scalar", at)
    kind = operands[0].shape.element_type
    wanted: tuple[str, ...]
    if kind is PrimitiveType.PRED:
        wanted, branches = ("true_computation", "false_computation"), 2
    elif kind is PrimitiveType.S32:
        wanted, branches = ("branch_computations",), len(attributes.get("branch_computations", ()))
    else:
        cursor.fail("The first operand must be a scalar of PRED or S32", at)
    for name in ("true_computation", "false_computation", "branch_computations"):
        if (name in attributes) != (name in wanted):
            cursor.fail(f"attribute {name} is {'expected but not seen' if name in wanted else 'not allowed here'}", at)
    if not branches or len(operands) != branches + 1:
        cursor.fail(f"{branches} branches do not fit {len(operands)} operands", at)
    for name in wanted:
        attributes[name] = attributes.pop(name)  # the true branch comes first, whatever the text
    return shape


@_check(HloOpcode.CUSTOM_CALL)
def _custom_call(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    to_apply = attributes.pop("to_apply", None)
    if to_apply is not None:
        attributes["called_computations"] = (to_apply,)
    constraints = attributes.get("operand_layout_constraints")
    if constraints is not None:
        if len(constraints) != len(operands):
            cursor.fail(f"Expected {len(operands)} operand layout constraints, {len(constraints)} given", at)
        for constraint, operand in zip(constraints, operands, strict=True):
            if not compatible(constraint, operand.shape):
                cursor.fail(
                    f"Operand layout constraint shape {constraint} is not compatible with operand "
                    f"shape {operand.shape}",
                    at,
                )
    return _precision(cursor, at, shape, operands, attributes)


@_check(HloOpcode.DOT, HloOpcode.RAGGED_DOT, HloOpcode.SCALED_DOT)
def _dot(cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes) -> Shape | None:
    attributes.setdefault("lhs_contracting_dims", ())
    attributes.setdefault("rhs_contracting_dims", ())
    return _precision(cursor, at, shape, operands, attributes)


@_check(HloOpcode.CONVOLUTION)
def _convolution(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    if len(operands) < 2:
        cursor.fail("expects at least 2 operands", at)
    return _precision(cursor, at, shape, operands, attributes)


def _precision(
    cursor: Cursor, at: int, shape: Shape | None, operands: Operands, attributes: Attributes
) -> Shape | None:
    if all(p == "default" for p in attributes.get("operand_precision", ("default",))):
        attributes.pop("operand_precision", None)
    return shape


def inferred_layout(opcode: HloOpcode, shape: Shape, operands: Operands, attributes: Attributes) -> Shape:
    """An inferred shape with the layout that XLA's inference gives it.

    That is the first operand's layout, permuted by a transpose.
    """
    if not operands or not isinstance(shape, ArrayShape):
        return shape
    source = operands[0].shape
    if not isinstance(source, ArrayShape) or source.layout is None or len(source.dimensions) != len(shape.dimensions):
        return shape
    if opcode is HloOpcode.TRANSPOSE:
        target = {old: new for new, old in enumerate(attributes["dimensions"])}
        order = tuple(target[d] for d in source.layout.minor_to_major)
        return shape.with_layout(replace(source.layout, minor_to_major=order))
    return (
        shape.with_layout(source.layout) if opcode.is_elementwise and source.dimensions == shape.dimensions else shape
    )
