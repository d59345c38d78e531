"""Shapes of opcodes that move data: broadcast, transpose, slice, pad, concatenate, tuples, ...

Source: xla/service/shape_inference.cc.
"""

from __future__ import annotations

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import (
    Site,
    brackets,
    check_rule,
    compatible,
    dynamics,
    higher_precision,
    make,
    row_major,
    rule,
    same_type,
)
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape

_O = HloOpcode


@rule(_O.TUPLE)
def _tuple(site: Site) -> Shape:
    return TupleShape(tuple(site.shapes))


@rule(_O.GET_TUPLE_ELEMENT)
def _get_tuple_element(site: Site) -> Shape:
    site.count(1)
    shapes = site.tuple_shape(0).shapes
    index: int = site.get("index")
    if not 0 <= index < len(shapes):
        site.fail(f"expected an index in [0, {len(shapes)}), not {index}")
    return shapes[index]


@rule(_O.COPY)
def _copy(site: Site) -> Shape:
    site.count(1)
    return row_major(site.shapes[0])


@rule(_O.TRANSPOSE)
def _transpose(site: Site) -> Shape:
    site.count(1)
    x = site.array(0)
    order = site.ints("dimensions")
    if sorted(order) != list(range(x.rank)):
        site.fail(f"expected a permutation of {x.rank} dimensions, not {brackets(order)}")
    flags = dynamics(x)
    return make(x.element_type, [x.dimensions[d] for d in order], [flags[d] for d in order])


@rule(_O.REVERSE)
def _reverse(site: Site) -> Shape:
    site.count(1)
    x = site.array(0)
    site.axes("dimensions", x.rank)
    return make(x.element_type, x.dimensions, x.dynamic)


@rule(_O.SLICE)
def _slice(site: Site) -> Shape:
    site.count(1)
    x = site.array(0)
    parts = site.get("slice")
    if len(parts) != x.rank:
        site.fail(f"expected {x.rank} ranges, not {len(parts)}")
    dims, flags = [], []
    for d, (part, size, dynamic) in enumerate(zip(parts, x.dimensions, dynamics(x), strict=True)):
        if part.stride <= 0:
            site.fail(f"expected a positive stride in dimension {d}, not {part.stride}")
        if part.start < 0 or part.start > part.limit or (part.limit > size >= 0):
            site.fail(f"expected 0 <= start <= limit <= {size} in dimension {d}, not [{part.start}:{part.limit}]")
        dims.append(-(-(part.limit - part.start) // part.stride))
        flags.append(dynamic and dims[-1] != 1)
    return make(x.element_type, dims, flags)


@rule(_O.PAD)
def _pad(site: Site) -> Shape:
    site.count(2)
    x, value = site.array(0), site.array(1)
    padding = site.get("padding")
    if value.dimensions:
        site.fail("expected a scalar as padding value")
    if not same_type(x.element_type, value.element_type):
        site.fail("expected a padding value of the operand's element type")
    if len(padding) != x.rank:
        site.fail(f"expected padding for {x.rank} dimensions, not {len(padding)}")
    dims = []
    for d, (p, size) in enumerate(zip(padding, x.dimensions, strict=True)):
        if p.interior < 0:
            site.fail(f"expected no negative interior padding, as in dimension {d}")
        dims.append(size if size < 0 else size + p.low + p.high + max(size - 1, 0) * p.interior)
        if dims[-1] < 0 <= size:
            site.fail(f"expected padding that leaves dimension {d} a size of at least 0, not {dims[-1]}")
    return make(higher_precision(x.element_type, value.element_type), dims, x.dynamic)


@rule(_O.CONCATENATE)
def _concatenate(site: Site) -> Shape:
    if not site.shapes:
        site.fail("expected at least one operand")
    parts = site.arrays()
    first = parts[0]
    dims = site.axes("dimensions", first.rank)
    if len(dims) != 1:
        site.fail("expected one dimension")
    along = dims[0]
    kind, sizes, flags = first.element_type, list(first.dimensions), list(dynamics(first))
    for p in parts[1:]:
        if p.rank != first.rank:
            site.fail("expected operands of the same rank")
        if not same_type(p.element_type, first.element_type):
            site.fail("expected operands of the same element type")
        kind = higher_precision(kind, p.element_type)
        for d, (size, dynamic) in enumerate(zip(p.dimensions, dynamics(p), strict=True)):
            if d == along:
                sizes[d] = -1 if -1 in (size, sizes[d]) else sizes[d] + size
            elif sizes[d] == -1:
                sizes[d] = size
            elif size not in (sizes[d], -1):
                site.fail(f"expected operands that differ only in dimension {along}")
            flags[d] = flags[d] or dynamic
    return make(kind, sizes, flags)


def _may_hold(result: ArrayShape, x: ArrayShape) -> bool:
    """Whether element types are equal or both floating, XLA's rule for mixed precision.

    Source: ShapeVerifier::SameElementType.
    """
    kinds = (result.element_type, x.element_type)
    return kinds[0] is kinds[1] or (kinds[0].is_floating and kinds[1].is_floating)


@check_rule(_O.BROADCAST)
def _broadcast(site: Site, shape: Shape) -> None:
    site.count(1)
    x, result = site.array(0), shape
    if not isinstance(result, ArrayShape) or not _may_hold(result, x):
        site.fail(f"expected a result of the operand's element type, not {shape}")
    dims = site.axes("dimensions", result.rank)
    if len(dims) != x.rank:
        site.fail(f"expected {x.rank} dimensions, one for each of the operand's, not {len(dims)}")
    for i, d in enumerate(dims):
        if x.dimensions[i] != result.dimensions[d]:
            site.fail(f"expected dimension {d} of the result {shape} to have the size of the operand's dimension {i}")


@check_rule(_O.DYNAMIC_RESHAPE)
def _dynamic_reshape(site: Site, shape: Shape) -> None:
    x, sizes = site.array(0), [site.array(i) for i in range(1, len(site.shapes))]
    if (
        not isinstance(shape, ArrayShape)
        or shape.element_type is not x.element_type
        or x.element_count != shape.element_count
    ):
        site.fail(f"expected a result of the operand's element type and number of elements, not {shape}")
    if len(sizes) != shape.rank or any(s.element_type is not PrimitiveType.S32 or s.dimensions for s in sizes):
        site.fail(f"expected an s32 for each of the {shape.rank} dimensions")


@check_rule(_O.RESHAPE)
def _reshape(site: Site, shape: Shape) -> None:
    site.count(1)
    x = site.array(0)
    if not isinstance(shape, ArrayShape) or not _may_hold(shape, x):
        site.fail(f"expected a result of the operand's element type, not {shape}")
    unbounded = -1 in x.dimensions or -1 in shape.dimensions
    if x.element_count != shape.element_count and not unbounded:
        site.fail(f"expected a result of {x.element_count} elements, not {shape}")


@check_rule(_O.BITCAST_CONVERT)
def _bitcast_convert(site: Site, shape: Shape) -> None:
    site.count(1)
    x = site.array(0)
    if not isinstance(shape, ArrayShape) or not shape.element_type.is_array:
        site.fail(f"expected an array as result, not {shape}")
    if x.element_type.is_complex != shape.element_type.is_complex:
        site.fail(f"expected operand and result to be complex both or neither, not {shape}")
    old, new = x.element_type.bits, shape.element_type.bits
    want = list(x.dimensions)
    if new < old:
        want.append(old // new)
    elif new > old and (not want or want.pop() * old != new):
        site.fail(f"expected a last dimension of {new // old} elements for {shape}")
    if tuple(want) != shape.dimensions:
        site.fail(f"expected a result of dimensions [{','.join(map(str, want))}], not {shape}")


@rule(_O.DYNAMIC_SLICE)
def _dynamic_slice(site: Site) -> Shape:
    x = site.array(0)
    sizes = site.ints("dynamic_slice_sizes")
    _check_starts(site, 1, x.rank)
    if len(sizes) != x.rank:
        site.fail(f"expected {x.rank} slice sizes, not {len(sizes)}")
    for d, (size, whole) in enumerate(zip(sizes, x.dimensions, strict=True)):
        if size < 0 or (size > whole >= 0):
            site.fail(f"expected a slice size in [0, {whole}] for dimension {d}, not {size}")
    return make(x.element_type, sizes)


@rule(_O.DYNAMIC_UPDATE_SLICE)
def _dynamic_update_slice(site: Site) -> Shape:
    x, update = site.array(0), site.array(1)
    _check_starts(site, 2, x.rank)
    if update.rank != x.rank:
        site.fail("expected an update of the operand's rank")
    if not same_type(x.element_type, update.element_type):
        site.fail("expected an update of the operand's element type")
    for d, (size, whole) in enumerate(zip(update.dimensions, x.dimensions, strict=True)):
        if size > whole >= 0:
            site.fail(f"expected an update of at most {whole} in dimension {d}, not {size}")
    # An update of the whole dimension determines its size.
    sizes = zip(dynamics(x), dynamics(update), x.dimensions, update.dimensions, strict=True)
    return make(x.element_type, x.dimensions, [f or (u and a == b) for f, u, a, b in sizes])


def _check_starts(site: Site, first: int, rank: int) -> None:
    """Check start indices: a scalar each, or (XLA's old form) one vector of them."""
    starts = [site.array(i) for i in range(first, len(site.shapes))]
    if len(starts) == 1 and starts[0].rank == 1:
        if starts[0].dimensions[0] != rank:
            site.fail(f"expected {rank} start indices, not {starts[0].dimensions[0]}")
    elif len(starts) != rank:
        site.fail(f"expected {rank} start indices, not {len(starts)}")
    elif any(s.dimensions for s in starts):
        site.fail("expected scalars as start indices")
    for s in starts:
        if not s.element_type.is_integral:
            site.fail("expected start indices of an integer type")
        if s.element_type is not starts[0].element_type:
            site.fail("expected start indices of one type")


@rule(_O.GET_DIMENSION_SIZE)
def _get_dimension_size(site: Site) -> Shape:
    site.count(1)
    _sized_dimension(site)
    return make(PrimitiveType.S32, ())


@rule(_O.SET_DIMENSION_SIZE)
def _set_dimension_size(site: Site) -> Shape:
    site.count(2)
    x, size = site.array(0), site.array(1)
    along = _sized_dimension(site)
    if size.element_type is not PrimitiveType.S32 or size.dimensions:
        site.fail("expected an s32 as size")
    return make(x.element_type, x.dimensions, [f or d == along for d, f in enumerate(dynamics(x))])


def _sized_dimension(site: Site) -> int:
    x = site.array(0)
    dims = site.axes("dimensions", x.rank)
    if len(dims) != 1:
        site.fail("expected one dimension")
    if x.dimensions[dims[0]] > 2**31 - 1:
        site.fail("expected a dimension whose size fits an s32")
    return dims[0]


@check_rule(_O.IOTA)
def _iota(site: Site, shape: Shape) -> None:
    site.count(0)
    kind = shape.element_type
    if not isinstance(shape, ArrayShape) or not (kind.is_integral or kind.is_floating or kind.is_complex):
        site.fail(f"expected a result of an integer, floating or complex type, not {shape}")
    if not 0 <= site.get("iota_dimension") < shape.rank:
        site.fail(f"expected iota_dimension in [0, {shape.rank}), not {site.get('iota_dimension')}")


@check_rule(_O.CONSTANT)
def _constant(site: Site, shape: Shape) -> None:
    literal = site.get("literal")
    sizes = [[getattr(s, "dynamic", ()) for _, s in x.leaves()] for x in (literal.shape, shape)]
    if not compatible(literal.shape, shape) or sizes[0] != sizes[1]:
        site.fail(f"expected the literal's shape {literal.shape}, not {shape}")


@rule(_O.SHUFFLE)
def _shuffle(site: Site) -> Shape:
    site.count(1)
    dims, shifts = site.get("dimensions") or (), site.get("shifts") or ()
    if len(dims) != len(shifts) or len(set(dims)) != len(dims) or any(not 0 <= d < site.array(0).rank for d in dims):
        site.fail(f"expected one shift per distinct dimension, got {shifts} for {dims}")
    return row_major(site.array(0))


@rule(_O.TOPK)
def _topk(site: Site) -> Shape:
    site.count(1)
    x = site.array(0)
    k = site.get("k")
    if not x.rank or not 0 <= k <= x.dimensions[-1]:
        site.fail(f"expected k within the last dimension, not {k}")
    dims = (*x.dimensions[:-1], k)
    return TupleShape((make(x.element_type, dims), make(PrimitiveType.S32, dims)))
