"""Shapes of gather and scatter (xla/service/shape_inference.cc).

Source: InferGatherShape, InferScatterShape.
"""

from __future__ import annotations

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.reductions import check_reducer
from xlanb.hlo.shape_inference.registry import Site, brackets, dynamics, make, row_major, rule
from xlanb.shape import ArrayShape, Shape, TupleShape

_O = HloOpcode


def _sorted_axes(site: Site, name: str, rank: int) -> tuple[int, ...]:
    dims = site.axes(name, rank)
    if list(dims) != sorted(dims):
        site.fail(f"expected {name} in ascending order, not {brackets(dims)}")
    return dims


def _index_dims(site: Site, indices: ArrayShape) -> tuple[list[int], list[bool], int]:
    """Sizes of the indices, whether each is dynamic, and the dimension of the index vectors.

    If that dimension is implicit, one of size 1 is added.
    """
    if not indices.element_type.is_integral:
        site.fail("expected indices of an integer type")
    vector = site.get("index_vector_dim")
    if not 0 <= vector <= indices.rank:
        site.fail(f"expected index_vector_dim in [0, {indices.rank}], not {vector}")
    sizes, flags = list(indices.dimensions), list(dynamics(indices))
    if vector == indices.rank:
        sizes.append(1)
        flags.append(False)
    return sizes, flags, vector


def _check_batching(
    site: Site, x: ArrayShape, sizes: list[int], vector: int, names: tuple[str, str], others: tuple[int, ...]
) -> tuple[int, ...]:
    """The operand's batching dimensions.

    They must match those of the indices in number and size, and be disjoint from all others.
    """
    of_x, of_indices = _sorted_axes(site, names[0], x.rank), site.axes(names[1], len(sizes))
    if len(of_x) != len(of_indices):
        site.fail(f"expected as many {names[0]} as {names[1]}")
    if set(of_x) & set(others):
        site.fail(f"expected {names[0]} to be apart from the other dimensions, not {brackets(of_x)}")
    if vector in of_indices:
        site.fail(f"expected {names[1]} without index_vector_dim")
    # XLA requires equal sizes of a scatter, but not of a gather.
    pairs = zip(of_x, of_indices, strict=True) if site.opcode is _O.SCATTER else ()
    for i, j in pairs:
        if x.dimensions[i] != sizes[j] and -1 not in (x.dimensions[i], sizes[j]):
            site.fail(f"expected batching dimensions of equal size, not {x.dimensions[i]} and {sizes[j]}")
    return of_x


@rule(_O.GATHER)
def _gather(site: Site) -> Shape:
    site.count(2)
    x, indices = site.array(0), site.array(1)
    sizes, flags, vector = _index_dims(site, indices)
    slices = site.ints("slice_sizes")
    offsets = _sorted_axes(site, "offset_dims", len(site.ints("offset_dims")) + len(sizes) - 1)
    collapsed = _sorted_axes(site, "collapsed_slice_dims", x.rank)
    index_map = site.axes("start_index_map", x.rank)
    batching = _check_batching(
        site, x, sizes, vector, ("operand_batching_dims", "start_indices_batching_dims"), collapsed
    )
    if len(index_map) != sizes[vector]:
        site.fail(f"expected {sizes[vector]} entries in start_index_map, an index vector's size, not {len(index_map)}")
    if len(slices) != x.rank:
        site.fail(f"expected {x.rank} slice_sizes, not {len(slices)}")
    if len(slices) != len(offsets) + len(collapsed) + len(batching):
        site.fail("expected each dimension to be in offset_dims, or to be collapsed or batching")
    for d, (s, whole) in enumerate(zip(slices, x.dimensions, strict=True)):
        if s < 0 or s > whole >= 0:
            site.fail(f"expected a slice size in [0, {whole}] for dimension {d}, not {s}")
        if s > 1 and (d in collapsed or d in batching):
            site.fail(f"expected a slice size of 1 for dimension {d}, which is collapsed or batching, not {s}")
    window = [
        (slices[d], x.is_dynamic_dimension(d) and slices[d] == x.dimensions[d])
        for d in range(x.rank)
        if d not in collapsed and d not in batching
    ]
    batch = [(s, f) for d, (s, f) in enumerate(zip(sizes, flags, strict=True)) if d != vector]
    merged = _interleave(window, batch, offsets)
    return make(x.element_type, [s for s, _ in merged], [f for _, f in merged])


def _interleave(
    window: list[tuple[int, bool]], batch: list[tuple[int, bool]], places: tuple[int, ...]
) -> list[tuple[int, bool]]:
    """Merge `window`, at the given positions, with `batch`, each in order."""
    of_window, of_batch = iter(window), iter(batch)
    return [next(of_window) if d in places else next(of_batch) for d in range(len(window) + len(batch))]


@rule(_O.SCATTER)
def _scatter(site: Site) -> Shape:
    count = len(site.shapes) // 2
    if not count or len(site.shapes) != 2 * count + 1:
        site.fail("expected arrays, indices, and as many updates as arrays")
    arrays = site.arrays()
    operands, indices, updates = arrays[:count], arrays[count], arrays[count + 1 :]
    sizes, _, vector = _index_dims(site, indices)
    for x, update in zip(operands, updates, strict=True):
        _check_update(site, x, update, sizes, vector)
    check_reducer(
        site,
        site.computation("to_apply"),
        [u.element_type for u in updates],
        [make(x.element_type, ()) for x in operands],
    )
    shapes = tuple(row_major(x) for x in operands)
    return shapes[0] if count == 1 else TupleShape(shapes)


def _check_update(site: Site, x: ArrayShape, update: ArrayShape, sizes: list[int], vector: int) -> None:
    # Unsorted, as layout_normalization leaves them, they mean that windows are transposed.
    places = site.axes("update_window_dims", update.rank)
    inserted = _sorted_axes(site, "inserted_window_dims", x.rank)
    index_map = site.axes("scatter_dims_to_operand_dims", x.rank)
    batching = _check_batching(
        site, x, sizes, vector, ("input_batching_dims", "scatter_indices_batching_dims"), inserted
    )
    if len(places) + len(inserted) + len(batching) != x.rank:
        site.fail(f"expected each of {x.rank} dimensions to be in update_window_dims, inserted or batching")
    if len(index_map) != sizes[vector]:
        site.fail(
            f"expected {sizes[vector]} entries in scatter_dims_to_operand_dims, an index vector's "
            f"size, not {len(index_map)}"
        )
    if update.rank != len(sizes) - 1 + len(places):
        site.fail(f"expected updates of rank {len(sizes) - 1 + len(places)}, not {update.rank}")
    window = [x.dimensions[d] for d in range(x.rank) if d not in inserted and d not in batching]
    for place, whole in zip(places, window, strict=True):
        if update.dimensions[place] > whole >= 0:
            site.fail(f"expected an update of at most {whole} in its dimension {place}, not {update.dimensions[place]}")
    wanted = [s for d, s in enumerate(sizes) if d != vector]
    found = [s for d, s in enumerate(update.dimensions) if d not in places]
    if any(w != f and -1 not in (w, f) for w, f in zip(wanted, found, strict=True)):
        site.fail(
            f"expected updates of sizes {brackets(wanted)} in the dimensions that are the "
            f"indices', not {brackets(found)}"
        )
