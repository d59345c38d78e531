"""Shapes of reductions (InferReduceShape, InferReduceWindowShape, ... in xla/service/shape_inference.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import Site, dynamics, make, rule, same_type
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.shape.shape import same

if TYPE_CHECKING:
    from xlanb.hlo.computation import HloComputation

_O = HloOpcode


def check_reducer(site: Site, computation: HloComputation, values: Sequence[ArrayShape], inits: Sequence[ArrayShape]) -> tuple[ArrayShape, ...]:
    """A reducer takes as many accumulators as values, then the values, and gives the accumulators (VerifyReducerShape).

    Returns the accumulators' shapes, which are scalars but for reducers over vectors.
    """
    parameters, n = computation.parameters, len(values)
    root = computation.root.shape
    if len(parameters) != 2 * n:
        site.fail(f"expected {computation.name} to take {2 * n} parameters, not {len(parameters)}")
    results = root.shapes if isinstance(root, TupleShape) else (root,)
    if n > 1 and not isinstance(root, TupleShape):
        site.fail(f"expected {computation.name} to give a tuple of {n}, not {root}")
    if len(results) != n:
        site.fail(f"expected {computation.name} to give {n} values, not {root}")
    accumulators = []
    for i, (value, init, result) in enumerate(zip(values, inits, results, strict=True)):
        if not isinstance(result, ArrayShape) or not result.is_array:
            site.fail(f"expected {computation.name} to give arrays, not {root}")
        accumulator, element = parameters[i].shape, parameters[n + i].shape
        if not _fits(accumulator, result):
            site.fail(f"expected parameter {i} of {computation.name} to have the result's shape {result}, not {accumulator}")
        if not isinstance(element, ArrayShape) or not same_type(element.element_type, value.element_type):
            site.fail(f"expected parameter {n + i} of {computation.name} to be of type {value.element_type}, not {element}")
        if not same_type(init.element_type, result.element_type):
            site.fail(f"expected initial value {i} of type {result.element_type}, not {init}")
        accumulators.append(result)
    return tuple(accumulators)


def _fits(a: Shape, b: Shape) -> bool:
    if same(a, b):
        return True
    return isinstance(a, ArrayShape) and isinstance(b, ArrayShape) and a.dimensions == b.dimensions and same_type(a.element_type, b.element_type)


@rule(_O.REDUCE)
def _reduce(site: Site) -> Shape:
    if not site.shapes or len(site.shapes) % 2:
        site.fail("expected as many initial values as arrays")
    half = len(site.shapes) // 2
    arrays = site.arrays()
    values, inits = arrays[:half], arrays[half:]
    first = values[0]
    if any(v.dimensions != first.dimensions for v in values):
        site.fail("expected arrays of the same dimensions")
    gone = site.axes("dimensions", first.rank)
    accumulators = check_reducer(site, site.computation("to_apply"), values, inits)
    if any(i.dimensions for i in inits):
        site.fail("expected scalars as initial values")
    kept = [d for d in range(first.rank) if d not in gone]
    flags = dynamics(first)
    shapes = [make(a.element_type, [first.dimensions[d] for d in kept], [flags[d] for d in kept]) for a in accumulators]
    return shapes[0] if half == 1 else TupleShape(tuple(shapes))
