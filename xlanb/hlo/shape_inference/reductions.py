"""Shapes of opcodes that call a computation over scalars.

These are reduce, reduce-window, select-and-scatter, map, sort and scan.
Source: xla/service/shape_inference.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import Site, compatible, dynamics, make, row_major, rule
from xlanb.hlo.shape_inference.windows import window_output
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape

if TYPE_CHECKING:
    from xlanb.hlo.computation import HloComputation

_O = HloOpcode
_PREDICATE = make(PrimitiveType.PRED, ())


def check_reducer(
    site: Site, computation: HloComputation, types: Sequence[PrimitiveType], inits: Sequence[ArrayShape]
) -> list[PrimitiveType]:
    """Check a reducer (XLA's VerifyReducerShape); return the types of its accumulators.

    It takes a scalar accumulator per array, then a scalar of each array, and returns the
    accumulators. Floating types may differ in precision.
    """
    name, parameters, n = computation.name, computation.parameters, len(types)
    root = computation.root.shape
    if len(parameters) != 2 * n:
        site.fail(f"expected {name} to take {2 * n} parameters, not {len(parameters)}")
    results = root.shapes if isinstance(root, TupleShape) else (root,)
    if len(results) != n:
        site.fail(f"expected {name} to return {n} scalar{'s' if n > 1 else ''}, not {root}")
    kinds = []
    for i, (kind, init, result) in enumerate(zip(types, inits, results, strict=True)):
        if not isinstance(result, ArrayShape) or result.dimensions or not result.is_array:
            site.fail(f"expected {name} to return {'scalars' if n > 1 else 'a scalar'}, not {root}")
        element = make(kind, ())
        if not compatible(parameters[i].shape, result, mixed_precision=True):
            site.fail(
                f"expected parameter {i} of {name} to have the shape of result {i}, {result}, not {parameters[i].shape}"
            )
        if not compatible(init, result, mixed_precision=True):
            site.fail(f"expected initial value {i} of shape {result}, as {name} returns, not {init}")
        for what, wanted in (("the array's elements", element), ("the accumulator", result)):
            if not compatible(parameters[n + i].shape, wanted, mixed_precision=True):
                site.fail(
                    f"expected parameter {n + i} of {name} to have the shape of {what}, {wanted}, "
                    f"not {parameters[n + i].shape}"
                )
        kinds.append(result.element_type)
    return kinds


def _halves(site: Site) -> tuple[list[ArrayShape], list[ArrayShape]]:
    """The arrays, all with the same dimensions, and as many initial values."""
    if not site.shapes or len(site.shapes) % 2:
        site.fail("expected as many initial values as arrays")
    half = len(site.shapes) // 2
    arrays = site.arrays()
    if any(v.dimensions != arrays[0].dimensions for v in arrays[1:half]):
        site.fail("expected arrays of the same dimensions")
    return arrays[:half], arrays[half:]


def _gathered(computation: HloComputation, shapes: Sequence[Shape]) -> Shape:
    """One shape, or a tuple if the computation returns a tuple."""
    return TupleShape(tuple(shapes)) if isinstance(computation.root.shape, TupleShape) else shapes[0]


@rule(_O.REDUCE)
def _reduce(site: Site) -> Shape:
    values, inits = _halves(site)
    first = values[0]
    gone = site.axes("dimensions", first.rank)
    computation = site.computation("to_apply")
    kinds = check_reducer(site, computation, [v.element_type for v in values], inits)
    kept = [d for d in range(first.rank) if d not in gone]
    flags = dynamics(first)
    sizes, kept_flags = [first.dimensions[d] for d in kept], [flags[d] for d in kept]
    return _gathered(computation, [make(k, sizes, kept_flags) for k in kinds])


@rule(_O.REDUCE_WINDOW)
def _reduce_window(site: Site) -> Shape:
    values, inits = _halves(site)
    computation = site.computation("to_apply")
    check_reducer(site, computation, [v.element_type for v in values], inits)
    window = site.get("window")
    return _gathered(
        computation, [window_output(site, v, window, i.element_type) for v, i in zip(values, inits, strict=True)]
    )


@rule(_O.SELECT_AND_SCATTER)
def _select_and_scatter(site: Site) -> Shape:
    site.count(3)
    x, source, init = site.arrays()
    select = site.computation("select")
    element = make(x.element_type, ())
    parameters = select.parameters
    if len(parameters) != 2 or not all(compatible(p.shape, element, mixed_precision=True) for p in parameters):
        site.fail(f"expected {select.name} to take two scalars {element}")
    if not compatible(select.root.shape, _PREDICATE):
        site.fail(f"expected {select.name} to return a pred[], not {select.root.shape}")
    check_reducer(site, site.computation("scatter"), [source.element_type], [init])
    windows = window_output(site, x, site.get("window"), x.element_type)
    if not compatible(source, windows, mixed_precision=True):
        site.fail(f"expected a source of shape {windows}, an element for each window")
    return row_major(x)


@rule(_O.MAP)
def _map(site: Site) -> Shape:
    if not site.shapes:
        site.fail("expected at least one operand")
    arrays = site.arrays()
    first = arrays[0]
    if any(a.dimensions != first.dimensions for a in arrays):
        site.fail("expected operands of the same dimensions")
    dims = site.attributes.get("dimensions")
    if dims is not None and tuple(dims) != tuple(range(first.rank)):
        site.fail("expected to map over all dimensions in order")
    computation = site.computation("to_apply")
    parameters = computation.parameters
    if len(parameters) != len(arrays):
        site.fail(f"expected {computation.name} to take {len(arrays)} parameters, not {len(parameters)}")
    for i, (p, a) in enumerate(zip(parameters, arrays, strict=True)):
        if not compatible(p.shape, make(a.element_type, ()), mixed_precision=True):
            site.fail(
                f"expected parameter {i} of {computation.name} to be a scalar of type {a.element_type}, not {p.shape}"
            )
    result = computation.root.shape
    if not isinstance(result, ArrayShape) or result.dimensions or not result.is_array:
        site.fail(f"expected {computation.name} to return a scalar, not {result}")
    return make(result.element_type, first.dimensions, first.dynamic)


@rule(_O.SORT)
def _sort(site: Site) -> Shape:
    if not site.shapes:
        site.fail("expected at least one operand")
    arrays = site.arrays()
    if any(a.dimensions != arrays[0].dimensions for a in arrays):
        site.fail("expected operands of the same dimensions")
    if len(site.axes("dimensions", arrays[0].rank)) != 1:
        site.fail("expected one dimension")
    compare = site.computation("to_apply")
    parameters = compare.parameters
    if len(parameters) != 2 * len(arrays):
        site.fail(
            f"expected {compare.name} to take {2 * len(arrays)} parameters, a pair for each "
            f"operand, not {len(parameters)}"
        )
    for i, p in enumerate(parameters):
        if not compatible(p.shape, make(arrays[i // 2].element_type, ()), mixed_precision=True):
            site.fail(
                f"expected parameter {i} of {compare.name} to be a scalar of type "
                f"{arrays[i // 2].element_type}, not {p.shape}"
            )
    if not compatible(compare.root.shape, _PREDICATE):
        site.fail(f"expected {compare.name} to return a pred[], not {compare.root.shape}")
    shapes = tuple(make(a.element_type, a.dimensions, a.dynamic) for a in arrays)
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


@rule(_O.SCAN)
def _scan(site: Site) -> Shape:
    """The outputs, stacked along the dimension, then the last carries; a tuple if several."""
    arrays = site.arrays()
    carries = site.get("num_carries")
    count = len(arrays) - carries
    if not 0 <= carries <= len(arrays) or not count:
        site.fail(f"expected at least one array beside {carries} carries")
    (along,) = site.axes("dimensions", arrays[0].rank) or (-1,)
    if along < 0:
        site.fail("expected one dimension")
    size = arrays[0].dimensions[along]
    if any(along >= a.rank or a.dimensions[along] != size for a in arrays[:count]):
        site.fail(f"expected arrays of the same size in dimension {along}")
    computation = site.computation("to_apply")
    if len(computation.parameters) != len(arrays):
        site.fail(f"expected {computation.name} to take {len(arrays)} parameters, not {len(computation.parameters)}")
    root = computation.root.shape
    results = root.shapes if isinstance(root, TupleShape) else (root,)
    if len(results) < carries:
        site.fail(f"expected {computation.name} to return {carries} carries, not {root}")
    outputs = [_stacked(site, r, arrays[0], along) for r in results[: len(results) - carries]]
    lasts = [make(a.element_type, a.dimensions, a.dynamic) for a in arrays[count:]]
    both = (*outputs, *lasts)
    return both[0] if len(both) == 1 else TupleShape(both)


def _stacked(site: Site, step: Shape, array: ArrayShape, along: int) -> ArrayShape:
    """The stacked outputs of all steps.

    A scalar computation is applied to every element of a slice.
    """
    if not isinstance(step, ArrayShape) or not step.is_array:
        site.fail(f"expected a computation that returns arrays, not {step}")
    if not step.dimensions:
        return make(step.element_type, array.dimensions)
    return make(step.element_type, (*step.dimensions[:along], array.dimensions[along], *step.dimensions[along:]))
