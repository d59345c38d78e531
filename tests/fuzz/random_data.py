"""Random instructions that compute element by element or move data."""

from __future__ import annotations

from math import prod

from tests.fuzz.random_writer import (
    ANY,
    COMPLEX,
    FLOATS,
    INTS,
    MOST,
    NARROW_FLOATS,
    NUMBERS,
    Value,
    Writer,
    braced,
    is_float,
)

_UNARY_FLOAT = (
    "abs ceil floor negate sign exponential exponential-minus-one log log-plus-one logistic tanh tan sine cosine sqrt rsqrt cbrt "
    "erf round-nearest-afz round-nearest-even"
).split()
_UNARY_INT = "abs negate not sign popcnt count-leading-zeros".split()
_BINARY_FLOAT = "add subtract multiply divide remainder maximum minimum power atan2".split()
_BINARY_INT = (
    "add subtract multiply divide remainder maximum minimum power and or xor "
    "shift-left shift-right-arithmetic shift-right-logical"
).split()
_UNARY_COMPLEX = "negate exponential log tanh sine cosine sqrt rsqrt sign".split()
_WIDTHS = (
    ("f32", "s32", "u32"), ("f64", "s64", "u64"), ("bf16", "f16", "s16", "u16"), ("s8", "u8", *NARROW_FLOATS[:3])
)  # fmt: skip


def unary(w: Writer) -> Value:
    """An elementwise operation of one operand."""
    x = w.any(NUMBERS)
    if x.type in COMPLEX:
        if w.chance(0.3):
            return w.emit(w.pick(("real", "imag", "abs")), "f32" if x.type == "c64" else "f64", x.dims, [x])
        return w.emit(w.pick(_UNARY_COMPLEX), x.type, x.dims, [x])
    if not is_float(x.type):
        unsigned = x.type[0] == "u"
        return w.emit(w.pick(_UNARY_INT[1:3] if unsigned else _UNARY_INT), x.type, x.dims, [x])
    if w.chance(0.1):
        return w.emit("is-finite", "pred", x.dims, [x])
    if w.chance(0.1):
        exponent, mantissa = w.between(2, 8), w.between(1, 10)
        return w.emit("reduce-precision", x.type, x.dims, [x], f"exponent_bits={exponent}, mantissa_bits={mantissa}")
    return w.emit(w.pick(_UNARY_FLOAT), x.type, x.dims, [x])


def binary(w: Writer) -> Value:
    """An elementwise operation of two operands; often one of them is broadcast."""
    x = w.any(ANY)
    y = _other(w, x)
    x, y = (x, y) if w.chance(0.5) else (y, x)
    if x.type == "pred":
        return w.emit(w.pick(("and", "or", "xor")), "pred", x.dims, [x, y])
    if x.type in COMPLEX:
        return w.emit(w.pick(("add", "subtract", "multiply", "divide")), x.type, x.dims, [x, y])
    return w.emit(w.pick(_BINARY_FLOAT if is_float(x.type) else _BINARY_INT), x.type, x.dims, [x, y])


def _other(w: Writer, x: Value) -> Value:
    """A value of the same shape: any, or one of lower rank broadcast."""
    if w.chance(0.6):
        return w.value(x.type, x.dims)
    kept = tuple(d for d in range(x.rank) if w.chance(0.5))
    given = w.value(x.type, [x.dims[d] for d in kept])
    return w.emit("broadcast", x.type, x.dims, [given], f"dimensions={braced(kept)}")


def compare_select(w: Writer) -> Value:
    """Comparison, select, clamp."""
    x = w.any((*FLOATS, *INTS))
    y = w.value(x.type, x.dims)
    if w.chance(0.25):
        scalar = w.chance(0.5)
        low, high = (w.value(x.type, () if scalar else x.dims) for _ in range(2))
        return w.emit("clamp", x.type, x.dims, [low, x, high])
    chosen = w.emit("compare", "pred", x.dims, [x, y], f"direction={w.pick(('EQ', 'NE', 'LT', 'LE', 'GT', 'GE'))}")
    if w.chance(0.2):
        return chosen
    return w.emit("select", x.type, x.dims, [chosen, x, w.value(x.type, x.dims)])


def convert(w: Writer) -> Value:
    """Convert the element type, by value or by bits."""
    if w.chance(0.2):
        same = w.pick(_WIDTHS)
        x = w.any(same)
        return w.emit("bitcast-convert", w.pick([t for t in same if t != x.type]), x.dims, [x])
    if w.chance(0.1):
        x = w.any(("f32", "f64"))
        return w.emit("complex", "c64" if x.type == "f32" else "c128", x.dims, [x, w.value(x.type, x.dims)])
    x = w.any(ANY)
    types = ANY if x.type not in COMPLEX else COMPLEX
    return w.emit("convert", w.pick(types), x.dims, [x])


def broadcast(w: Writer) -> Value:
    """Broadcast dimensions, in any position."""
    x = w.any(ANY, high=3, most=1000)
    new = [w.pick((1, 2, 3, 4, 7, 16, 17, 33)) for _ in range(w.between(0, 2))]
    kept = sorted(w.shuffled(range(x.rank + len(new)))[: x.rank])
    added = iter(new)
    own = iter(x.dims)
    dims = [next(own) if d in kept else next(added) for d in range(x.rank + len(new))]
    return w.emit("broadcast", x.type, dims, [x], f"dimensions={braced(kept)}")


def iota(w: Writer) -> Value:
    """Counters."""
    dims = w.dims(w.between(1, 3))
    return w.emit("iota", w.pick((*INTS, *FLOATS)), dims, [], f"iota_dimension={w.between(0, len(dims) - 1)}")


def transpose(w: Writer) -> Value:
    """Transpose dimensions."""
    x = w.any(ANY, low=1)
    order = w.shuffled(range(x.rank))
    return w.emit("transpose", x.type, [x.dims[d] for d in order], [x], f"dimensions={braced(order)}")


def copy(w: Writer) -> Value:
    """Copy to another layout."""
    x = w.any(ANY, low=1)
    return w.emit("copy", x.type, x.dims, [x], "", tuple(w.shuffled(range(x.rank))))


def reshape(w: Writer) -> Value:
    """Split and merge dimensions."""
    x = w.any(ANY)
    dims = list(x.dims)
    for _ in range(w.between(1, 3)):
        if dims and w.chance(0.5):
            at = w.between(0, len(dims) - 1)
            factor = w.pick([k for k in (1, 2, 3, 4, 5, 7, 8, 11, 13, 16) if dims[at] % k == 0])
            dims[at : at + 1] = w.pick(([factor, dims[at] // factor], [dims[at] // factor, factor]))
        elif len(dims) > 1:
            at = w.between(0, len(dims) - 2)
            dims[at : at + 2] = [dims[at] * dims[at + 1]]
        if len(dims) > 6:
            break
    return w.emit("reshape", x.type, dims, [x])


def reverse(w: Writer) -> Value:
    """Reverse dimensions."""
    x = w.any(ANY, low=1)
    which = [d for d in range(x.rank) if w.chance(0.5)]
    return w.emit("reverse", x.type, x.dims, [x], f"dimensions={braced(which)}")


def slice_(w: Writer) -> Value:
    """A strided box of an array."""
    x = w.any(ANY, low=1)
    bounds, dims = [], []
    for n in x.dims:
        start = w.between(0, n)
        limit = w.between(start, n) if w.chance(0.5) else n
        step = w.pick((1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9))
        bounds.append(f"[{start}:{limit}:{step}]")
        dims.append(-(-(limit - start) // step))
    return w.emit("slice", x.type, dims, [x], f"slice={{{','.join(bounds)}}}")


def pad(w: Writer) -> Value:
    """Padding: edge, interior and negative."""
    x = w.any(ANY, low=1, most=4000)
    texts, dims = [], []
    for n in x.dims:
        low, high, inside = w.pick((0, 0, 1, 2, 5, -1, -2)), w.pick((0, 0, 1, 3, 9, -1, -3)), w.pick((0, 0, 0, 1, 2))
        full = n + max(n - 1, 0) * inside
        if low + high + full < 0:
            low = high = 0
        texts.append(f"{low}_{high}_{inside}")
        dims.append(low + high + full)
    return w.emit("pad", x.type, dims, [x, w.value(x.type, ())], f"padding={'x'.join(texts)}")


def concatenate(w: Writer) -> Value:
    """Concatenate arrays."""
    x = w.any(ANY, low=1, most=5000)
    axis = w.between(0, x.rank - 1)
    parts = [x]
    for _ in range(w.between(0, 3)):
        size = w.pick((x.dims[axis], 1, 0, 2, 5, 17))
        parts.append(w.value(x.type, [size if d == axis else n for d, n in enumerate(x.dims)]))
    parts = w.shuffled(parts)
    dims = [sum(p.dims[axis] for p in parts) if d == axis else n for d, n in enumerate(x.dims)]
    return w.emit("concatenate", x.type, dims, parts, f"dimensions={{{axis}}}")


def dynamic_slice(w: Writer) -> Value:
    """A box at a run-time position."""
    x = w.any(ANY, low=1)
    sizes = [n if w.chance(0.3) else w.between(0 if n == 0 else 1, n) for n in x.dims]
    return w.emit("dynamic-slice", x.type, sizes, [x, *_starts(w, x, sizes)], f"dynamic_slice_sizes={braced(sizes)}")


def _starts(w: Writer, x: Value, sizes: list[int]) -> list[Value]:
    """Start indices, all of one type."""
    first = w.index(x.dims[0], sizes[0])
    rest = [
        w.constant(first.type, w.between(0, min(n, 100))) if w.chance(0.4) else w.value(first.type, ())
        for n in x.dims[1:]
    ]
    return [first, *rest]


def dynamic_update_slice(w: Writer) -> Value:
    """Overwrite a box; the updated array is sometimes fresh, to allow an update in place."""
    x = w.any(ANY, low=1)
    if w.chance(0.4):
        x = w.emit("copy", x.type, x.dims, [x])
    sizes = [n if w.chance(0.4) else w.between(0 if n == 0 else 1, n) for n in x.dims]
    return w.emit("dynamic-update-slice", x.type, x.dims, [x, w.value(x.type, sizes), *_starts(w, x, sizes)])


def gather(w: Writer) -> Value:
    """Boxes at many positions; dimensions of boxes, indices and batch in any order."""
    x = w.any(ANY, low=1, high=4)
    if 0 in x.dims:
        x = w.parameter(x.type, [max(n, 1) for n in x.dims])
    mapped = w.shuffled(range(x.rank))[: w.between(1, x.rank)]
    batching = [d for d in range(x.rank) if d not in mapped and w.chance(0.15)]
    sizes = [1 if d in batching or w.chance(0.4) else w.between(1, n) for d, n in enumerate(x.dims)]
    collapsed = [d for d in range(x.rank) if sizes[d] == 1 and d not in batching and w.chance(0.7)]
    batch = [x.dims[d] for d in batching] + list(w.dims(w.between(0, 2), 60))
    vector = len(batch) if len(mapped) == 1 and w.chance(0.3) else w.between(0, len(batch))
    indices = [*batch[:vector], len(mapped), *batch[vector:]]
    if len(mapped) == 1 and vector == len(batch) and w.chance(0.5):
        indices = batch
    window = [n for d, n in enumerate(sizes) if d not in collapsed and d not in batching]
    rank = len(batch) + len(window)
    offset = sorted(w.shuffled(range(rank))[: len(window)])
    inside, outside = iter(window), iter(batch)
    dims = [next(inside) if d in offset else next(outside) for d in range(rank)]
    if prod(dims) > 20 * MOST:
        return x
    places = [k if k < vector or indices is batch else k + 1 for k in range(len(batching))]
    extra = (
        f", operand_batching_dims={braced(batching)}, start_indices_batching_dims={braced(places)}" if batching else ""
    )
    given = w.value(w.pick(("s32", "s32", "s64", "u32", "s8", "u8")), indices)
    return w.emit(
        "gather", x.type, dims, [x, given],
        f"offset_dims={braced(offset)}, collapsed_slice_dims={braced(collapsed)}, start_index_map={braced(mapped)}, "
        f"index_vector_dim={vector}, slice_sizes={braced(sizes)}{extra}{', indices_are_sorted=false' if w.chance(0.2) else ''}",
    )  # fmt: skip


def scatter(w: Writer) -> Value:
    """Write or fold boxes into many positions."""
    x = w.any((*FLOATS, *INTS, "pred", "c64"), low=1, high=4)
    if 0 in x.dims:
        x = w.parameter(x.type, [max(n, 1) for n in x.dims])
    mapped = w.shuffled(range(x.rank))[: w.between(1, x.rank)]
    inserted = [d for d in range(x.rank) if d in mapped and w.chance(0.6)]
    window = [w.between(1, n) for d, n in enumerate(x.dims) if d not in inserted]
    batch = list(w.dims(w.between(0, 2), 60))
    vector = w.between(0, len(batch))
    indices = [*batch[:vector], len(mapped), *batch[vector:]]
    if len(mapped) == 1 and vector == len(batch) and w.chance(0.5):
        indices = batch
    rank = len(batch) + len(window)
    offset = sorted(w.shuffled(range(rank))[: len(window)])
    inside, outside = iter(window), iter(batch)
    dims = [next(inside) if d in offset else next(outside) for d in range(rank)]
    if prod(dims) > 20 * MOST:
        return x
    opcode = (
        "or"
        if x.type == "pred"
        else w.pick(("add", "multiply") if x.type == "c64" else ("add", "maximum", "minimum", "multiply"))
    )
    region = w.binary(opcode, x.type)
    if w.chance(0.3):
        t = x.type
        region = w.computation(
            f"second_{t}",
            lambda name: f"{name} {{\n  a = {t}[] parameter(0)\n  ROOT b = {t}[] parameter(1)\n}}\n",
        )
    given = w.value(w.pick(("s32", "s32", "s64", "u32", "s8")), indices)
    return w.emit(
        "scatter", x.type, x.dims, [x, given, w.value(x.type, dims)],
        f"update_window_dims={braced(offset)}, inserted_window_dims={braced(inserted)}, "
        f"scatter_dims_to_operand_dims={braced(mapped)}, index_vector_dim={vector}, to_apply={region}",
    )  # fmt: skip


FAMILIES = (
    unary, binary, binary, compare_select, convert, convert, broadcast, iota, transpose, transpose, copy, reshape,
    reverse, slice_,
    slice_, pad, pad, concatenate, concatenate, dynamic_slice, dynamic_slice, dynamic_update_slice,
    dynamic_update_slice, gather,
    gather, scatter, scatter,
)  # fmt: skip
