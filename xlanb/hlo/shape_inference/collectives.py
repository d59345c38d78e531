"""Shapes of collectives (InferAllReduceShape and others in xla/service/shape_inference.cc).

The number of devices is in the module, not in the operands. If the result depends on it, the shape
must be given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import Site, check_rule, compatible, rule
from xlanb.shape import ArrayShape, Shape, TupleShape

_O = HloOpcode


def _one_or_all(shapes: Sequence[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))


@rule(_O.ALL_REDUCE, _O.ALL_REDUCE_START, _O.COLLECTIVE_REDUCE)
def _all_reduce(site: Site) -> Shape:
    if not site.shapes:
        site.fail("expected at least one operand")
    return _one_or_all(_data(site, site.arrays()))


def _data(site: Site, shapes: Sequence[Shape]) -> Sequence[Shape]:
    """The shapes of the data operands; with a dynamic root, the last operand is its number."""
    if not site.attributes.get("has_dynamic_root"):
        return shapes
    if len(shapes) < 2:
        site.fail("expected an operand and the index of the root")
    return shapes[:-1]


@rule(_O.ALL_REDUCE_DONE)
def _all_reduce_done(site: Site) -> Shape:
    site.count(1)
    return site.shapes[0]


@rule(_O.COLLECTIVE_BROADCAST)
def _broadcast(site: Site) -> Shape:
    if not site.shapes:
        site.fail("expected at least one operand")
    return _one_or_all(_data(site, site.shapes))


@rule(_O.RAGGED_ALL_TO_ALL)
def _ragged_all_to_all(site: Site) -> Shape:
    site.count(6)
    return site.array(1)


@rule(_O.ALL_GATHER_DONE, _O.COLLECTIVE_PERMUTE_DONE)
def _second(site: Site) -> Shape:
    site.count(1)
    shapes = site.tuple_shape(0).shapes
    if len(shapes) < 2:
        site.fail("expected the tuple of the start: operand, result, ...")
    return shapes[1]


@rule(_O.COLLECTIVE_PERMUTE)
def _permute(site: Site) -> Shape:
    if not site.shapes:
        site.fail("expected at least one operand")
    _check_boxes(site)
    return site.shapes[1] if _in_place(site) else _one_or_all(site.shapes)


def _check_boxes(site: Site) -> None:
    """Check that the slices have the source's rank: a proto stores their sizes in one list."""
    boxes = site.get("slice_sizes") or ()
    source = site.shapes[0]
    if isinstance(source, TupleShape) and source.shapes:
        source = source.shapes[0]
    rank = source.rank if isinstance(source, ArrayShape) else 0
    if any(len(box) != rank or not rank for box in boxes):
        site.fail(f"expected slice_sizes of {rank or 'at least one'} dimensions, those of the source, not {boxes}")


def _in_place(site: Site) -> bool:
    """Whether slices are written to another buffer.

    The operands are then source, destination, and the tuples of their offsets.
    """
    return len(site.shapes) == 4 and site.shapes[2].is_tuple


@check_rule(_O.COLLECTIVE_PERMUTE_START)
def _permute_start(site: Site, shape: Shape) -> None:
    source = site.shapes[0] if _in_place(site) else _one_or_all(site.shapes)
    if (
        not isinstance(shape, TupleShape)
        or len(shape.shapes) < 2
        or not compatible(shape.shapes[0], source)
        or not compatible(shape.shapes[1], _permute(site))
    ):
        site.fail(f"expected a tuple of operand, result and context as result, not {shape}")


_Fits = Callable[[int, int], bool]


def _check_along(site: Site, operands: Sequence[Shape], results: Shape, fits: _Fits, expected: str) -> None:
    """Check that each result has its operand's dimensions except for one.

    That one must satisfy `fits(operand's size, result's size)`.
    """
    parts = (
        results.shapes
        if isinstance(results, TupleShape) and (len(operands) > 1 or len(results.shapes) == 1)
        else (results,)
    )
    if not operands or len(parts) != len(operands):
        site.fail(f"expected a result for each operand, not {results}")
    for x, y in zip(operands, parts, strict=True):
        if (
            not isinstance(x, ArrayShape)
            or not isinstance(y, ArrayShape)
            or x.rank != y.rank
            or x.element_type is not y.element_type
        ):
            site.fail(f"expected arrays of the operands' rank and element type, not {results}")
        dims = site.axes("dimensions", x.rank)
        if len(dims) != 1:
            site.fail("expected one dimension")
        for d, (a, b) in enumerate(zip(x.dimensions, y.dimensions, strict=True)):
            if not fits(a, b) if d in dims else a != b:
                site.fail(
                    f"expected {expected} in dimension {dims[0]} and the operand's size in all others, not {results}"
                )


def _divides(a: int, b: int) -> bool:
    return b % a == 0 if a > 0 else a == b or a < 0


@check_rule(_O.ALL_GATHER)
def _all_gather(site: Site, shape: Shape) -> None:
    _check_along(site, site.shapes, shape, _divides, "a multiple of the operand's size")


@check_rule(_O.ALL_GATHER_START)
def _all_gather_start(site: Site, shape: Shape) -> None:
    if (
        not isinstance(shape, TupleShape)
        or len(shape.shapes) < 2
        or not compatible(shape.shapes[0], _one_or_all(site.shapes))
    ):
        site.fail(f"expected a tuple of operand and result as result, not {shape}")
    _check_along(site, site.shapes, shape.shapes[1], _divides, "a multiple of the operand's size")


@check_rule(_O.REDUCE_SCATTER)
def _reduce_scatter(site: Site, shape: Shape) -> None:
    _check_along(site, site.shapes, shape, lambda a, b: _divides(b, a), "a divisor of the operand's size")


@check_rule(_O.ALL_TO_ALL)
def _all_to_all(site: Site, shape: Shape) -> None:
    if not compatible(shape, _one_or_all(site.shapes)) and not compatible(shape, TupleShape(tuple(site.shapes))):
        site.fail(f"expected the operands' shapes as result, not {shape}")
    if site.attributes.get("dimensions"):
        site.count(1)
        site.axes("dimensions", site.array(0).rank)
