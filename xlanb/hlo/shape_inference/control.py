"""Shapes of calls, control flow, side effects and ordering.

Source: xla/service/shape_inference.cc, xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import Site, check_rule, compatible, make, row_major, rule
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape
from xlanb.shape.shape import TOKEN

if TYPE_CHECKING:
    from xlanb.hlo.computation import HloComputation

_O = HloOpcode
_U32 = make(PrimitiveType.U32, ())
_PREDICATE = make(PrimitiveType.PRED, ())
_NOTHING = TupleShape(())


def check_call(site: Site, called: HloComputation, operands: Sequence[Shape]) -> Shape:
    """The result of a computation, after checking that it takes these operands."""
    parameters = called.parameters
    if len(parameters) != len(operands):
        site.fail(f"expected {called.name} to take {len(operands)} parameters, not {len(parameters)}")
    for i, (p, s) in enumerate(zip(parameters, operands, strict=True)):
        if not compatible(p.shape, s):
            site.fail(f"expected parameter {i} of {called.name} to have the operand's shape {s}, not {p.shape}")
    return called.root.shape


@rule(_O.CALL)
def _call(site: Site) -> Shape:
    return check_call(site, site.computation("to_apply"), site.shapes)


@rule(_O.FUSION)
def _fusion(site: Site) -> Shape:
    return check_call(site, site.computation("calls"), site.shapes)


def fused_result(site: Site) -> Shape:
    """The result of a fused computation; the verifier allows unused trailing operands."""
    called = site.computation("calls")
    return check_call(site, called, site.shapes[: len(called.parameters)])


@rule(_O.WHILE)
def _while(site: Site) -> Shape:
    site.count(1)
    result = body_result(site)
    if not compatible(result, site.shapes[0]):
        site.fail(f"expected {site.computation('body').name} to return its parameter's shape, got {result}")
    return site.shapes[0]


def body_result(site: Site) -> Shape:
    """The result of a while's body; the verifier does not compare it to the parameter."""
    site.count(1)
    body, condition = site.computation("body"), site.computation("condition")
    test = check_call(site, condition, site.shapes)
    if not compatible(test, _PREDICATE):
        site.fail(f"expected {condition.name} to return a pred[], got {test}")
    return check_call(site, body, site.shapes)


@rule(_O.CONDITIONAL)
def _conditional(site: Site) -> Shape:
    selector = site.array(0)
    kind = selector.element_type
    if selector.dimensions or kind not in (PrimitiveType.PRED, PrimitiveType.S32):
        site.fail("expected a pred[] or an s32[] as first operand")
    branches: tuple[HloComputation, ...] = tuple(site.attributes.get("branch_computations") or ())
    if not branches:
        branches = (site.computation("true_computation"), site.computation("false_computation"))
    if kind is PrimitiveType.PRED and len(branches) != 2:
        site.fail(f"expected two branches for a predicate, not {len(branches)}")
    if len(site.shapes) != len(branches) + 1:
        site.fail(f"expected an operand for each of {len(branches)} branches, not {len(site.shapes) - 1}")
    results = [check_call(site, b, [s]) for b, s in zip(branches, site.shapes[1:], strict=True)]
    for branch, result in zip(branches, results, strict=True):
        if not compatible(result, results[0]):
            site.fail(f"expected {branch.name} to return {results[0]}, as {branches[0].name} does, got {result}")
    return results[0]


@rule(_O.OPT_BARRIER, _O.DOMAIN)
def _same(site: Site) -> Shape:
    site.count(1)
    return site.shapes[0]


# -- tokens and side effects -----------------------------------------------------------------------


def _check_token(site: Site, index: int) -> None:
    if len(site.shapes) <= index or not site.shapes[index].is_token:
        site.fail(f"expected a token as operand {index}")


@rule(_O.AFTER_ALL)
def _after_all(site: Site) -> Shape:
    return TOKEN


@rule(_O.ADD_DEPENDENCY)
def _add_dependency(site: Site) -> Shape:
    site.count(2)
    _check_token(site, 1)
    return site.shapes[0]


@check_rule(_O.INFEED)
def _infeed(site: Site, shape: Shape) -> None:
    _check_token(site, 0)
    if not isinstance(shape, TupleShape) or len(shape.shapes) != 2 or not shape.shapes[1].is_token:
        site.fail(f"expected a tuple of the data and a token as result, not {shape}")


@rule(_O.OUTFEED)
def _outfeed(site: Site) -> Shape:
    _check_token(site, 1)
    shape = site.attributes.get("outfeed_shape")
    if shape is not None and not compatible(shape, site.shapes[0]):
        site.fail(f"expected the operand to have outfeed_shape {shape}")
    return TOKEN


@rule(_O.SEND)
def _send(site: Site) -> Shape:
    site.count(2)
    return TupleShape((site.shapes[0], _U32, TOKEN))


@rule(_O.SEND_DONE)
def _send_done(site: Site) -> Shape:
    site.count(1)
    return TOKEN


@check_rule(_O.RECV)
def _recv(site: Site, shape: Shape) -> None:
    if (
        not isinstance(shape, TupleShape)
        or len(shape.shapes) != 3
        or not compatible(shape.shapes[1], _U32)
        or not shape.shapes[2].is_token
    ):
        site.fail(f"expected a tuple of the data, a u32[] and a token as result, not {shape}")


@rule(_O.RECV_DONE)
def _recv_done(site: Site) -> Shape:
    site.count(1)
    return TupleShape((site.tuple_shape(0).shapes[0], TOKEN))


# -- what runs aside -------------------------------------------------------------------------------


@rule(_O.COPY_START)
def _copy_start(site: Site) -> Shape:
    site.count(1)
    return TupleShape((site.shapes[0], site.shapes[0], _U32))


@rule(_O.COPY_DONE)
def _copy_done(site: Site) -> Shape:
    site.count(1)
    shapes = site.tuple_shape(0).shapes
    if len(shapes) != 3 or not compatible(shapes[0], shapes[1]):
        site.fail("expected the tuple of a copy-start: destination, source and u32[]")
    return shapes[0]


@check_rule(_O.ASYNC_START)
def _async_start(site: Site, shape: Shape) -> None:
    """Check `((operands), result, state)`.

    Operands and results that come with updates are left out.
    """
    called = site.computation("calls")
    operands, output = _check_async(site, shape)
    if len(operands.shapes) != len(site.shapes) or not all(map(compatible, operands.shapes, site.shapes)):
        site.fail(f"expected the first element of {shape} to be the tuple of the operands")
    parameters = TupleShape(tuple(p.shape for p in called.parameters))
    if not is_shape_prefix(operands, parameters):
        site.fail(f"expected operands that are the first of the parameters {parameters} of {called.name}")
    if not is_shape_prefix(output, called.root.shape):
        site.fail(f"expected the second element of {shape} to be the result {called.root.shape}, or its beginning")


def is_shape_prefix(some: Shape, whole: Shape) -> bool:
    """Whether a tuple's elements are the first ones of another's, at every level.

    Arrays must be equal.
    """
    if isinstance(some, TupleShape) and isinstance(whole, TupleShape):
        return len(some.shapes) <= len(whole.shapes) and all(map(is_shape_prefix, some.shapes, whole.shapes))
    return some == _NOTHING or compatible(some, whole)


def _check_async(site: Site, shape: Shape) -> tuple[TupleShape, Shape]:
    """Operands and result in `((operands), result, ...)`, the shape of an async-start."""
    if isinstance(shape, TupleShape) and len(shape.shapes) >= 2 and isinstance(shape.shapes[0], TupleShape):
        return shape.shapes[0], shape.shapes[1]
    return site.fail(f"expected a tuple of the operands' tuple, the result and state, not {shape}")


@check_rule(_O.ASYNC_UPDATE)
def _async_update(site: Site, shape: Shape) -> None:
    """Check that the state extends the previous one by the update's operands and results."""
    if not site.shapes:
        site.fail("expected the state of an async-start or async-update as first operand")
    before, begun = _check_async(site, site.shapes[0])
    operands, output = _check_async(site, shape)
    if not is_shape_prefix(before, operands) or not is_shape_prefix(begun, output):
        site.fail(f"expected a state that begins as its operand's, {site.shapes[0]}, not {shape}")
    new = operands.shapes[len(before.shapes) :]
    if len(new) != len(site.shapes) - 1 or not all(map(compatible, new, site.shapes[1:])):
        site.fail(f"expected the first element of {shape} to end in the shapes of the operands behind the first")


@check_rule(_O.ASYNC_DONE)
def _async_done(site: Site, shape: Shape) -> None:
    site.count(1)
    output = _check_async(site, site.shapes[0])[1]
    if not is_shape_prefix(output, shape):
        site.fail(f"expected the result {output} of the state, not {shape}")


# -- random numbers --------------------------------------------------------------------------------


@check_rule(_O.RNG)
def _rng(site: Site, shape: Shape) -> None:
    site.count(2)
    low, high = site.array(0), site.array(1)
    kind = low.element_type
    if low.dimensions or high.dimensions:
        site.fail("expected scalars as operands")
    if high.element_type is not kind or not isinstance(shape, ArrayShape):
        site.fail("expected operands of the same element type, and an array as result")
    if shape.element_type is not kind and not (kind.is_floating and shape.element_type.is_floating):
        site.fail(f"expected a result of the operands' element type, not {shape}")
    if kind.is_complex or (site.get("distribution") == "rng_normal" and not kind.is_floating):
        site.fail(f"expected a type that {site.get('distribution')} is defined for, not {kind}")


@check_rule(_O.RNG_BIT_GENERATOR)
def _rng_bit_generator(site: Site, shape: Shape) -> None:
    site.count(1)
    if not isinstance(shape, TupleShape):
        return
    if len(shape.shapes) != 2 or not compatible(shape.shapes[0], site.shapes[0]):
        site.fail(f"expected a tuple of the operand's shape and the bits' as result, not {shape}")


@check_rule(_O.RNG_GET_AND_UPDATE_STATE)
def _rng_state(site: Site, shape: Shape) -> None:
    site.count(0)
    if not compatible(shape, make(PrimitiveType.U64, (2,))):
        site.fail(f"expected u64[2], not {shape}")


@rule(_O.PARTITION_ID, _O.REPLICA_ID)
def _id(site: Site) -> Shape:
    return _U32


# -- batch normalisation ---------------------------------------------------------------------------


@rule(_O.BATCH_NORM_TRAINING, _O.BATCH_NORM_INFERENCE, _O.BATCH_NORM_GRAD)
def _batch_norm(site: Site) -> Shape:
    grad = site.opcode is _O.BATCH_NORM_GRAD
    site.count(site.opcode.arity or 0)
    arrays = site.arrays()
    x, vectors = arrays[0], arrays[1:4] if grad else arrays[1:]
    feature = site.get("feature_index")
    if not 0 <= feature < x.rank:
        site.fail(f"expected feature_index in [0, {x.rank}), not {feature}")
    if not all(a.element_type.is_floating for a in arrays):
        site.fail("expected floating types")
    size = x.dimensions[feature]
    if any(v.dimensions != (size,) for v in vectors):
        site.fail(f"expected vectors of {size} elements, one for each feature")
    if grad and arrays[4].dimensions != x.dimensions:
        site.fail("expected the gradient of the output to have the operand's dimensions")
    result = row_major(x)
    if site.opcode is _O.BATCH_NORM_INFERENCE:
        return result
    vector = make(x.element_type, (size,))
    return TupleShape((result, vector, vector))
