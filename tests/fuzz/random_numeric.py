"""Random instructions that reduce, multiply, sort or solve."""

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
    shape,
)

_WIDER = {"f32": "f64", "bf16": "f32", "f16": "f32", "s8": "s32", "u8": "s32", "s4": "s32", "s16": "s32"}


def _fold(w: Writer, type_: str) -> str:
    """The opcode of a reduction of a type."""
    if type_ == "pred":
        return w.pick(("and", "or", "xor"))
    if type_ in COMPLEX:
        return w.pick(("add", "multiply"))
    common = ("add", "add", "maximum", "minimum", "multiply")
    return w.pick(common if is_float(type_) else (*common, "and", "or", "xor"))


# -- folds -----------------------------------------------------------------------------------------


def reduce_(w: Writer) -> Value:
    """Reduce some dimensions."""
    x = w.any((*NUMBERS, "pred"), low=1)
    folded = [d for d in range(x.rank) if w.chance(0.5)]
    dims = [n for d, n in enumerate(x.dims) if d not in folded]
    region = w.binary(_fold(w, x.type), x.type)
    return w.emit("reduce", x.type, dims, [x, w.value(x.type, ())], f"dimensions={braced(folded)}, to_apply={region}")


def rows(w: Writer) -> Value:
    """Reduce the minor dimensions and use the value of each row for all its elements: normalize."""
    x = w.any(FLOATS, low=1)
    rank = w.between(0, x.rank - 1)
    region, kept = w.binary(_fold(w, x.type), x.type), x.dims[:rank]
    folded = f"dimensions={braced(range(rank, x.rank))}, to_apply={region}"
    value, named = w.emit("reduce", x.type, kept, [x, w.value(x.type, ())], folded), list(range(rank))
    if w.chance(0.5):
        named = [d for d in named if kept[d] != 1]
        value = w.emit("reshape", x.type, [kept[d] for d in named], [value])
    spread = w.emit("broadcast", x.type, x.dims, [value], f"dimensions={braced(named)}")
    return w.emit(w.pick(("add", "subtract", "multiply", "divide")), x.type, x.dims, [x, spread])


def reduce_pair(w: Writer) -> Value:
    """Argmax, or two reductions at once."""
    x = w.any(("f32", "f64", "bf16", "s32", "u8", "s64"), low=1)
    folded = [d for d in range(x.rank) if w.chance(0.5)] or [w.between(0, x.rank - 1)]
    t, it = x.type, w.pick(("s32", "s32", "s64"))
    dims = tuple(n for d, n in enumerate(x.dims) if d not in folded)
    where = w.emit("iota", it, x.dims, [], f"iota_dimension={folded[0]}") if w.chance(0.7) else w.value(it, x.dims)
    way = w.pick(("GT", "GE", "LT", "LE"))

    def text(name: str) -> str:
        return (
            f"{name} {{\n  a = {t}[] parameter(0)\n  i = {it}[] parameter(1)\n  b = {t}[] parameter(2)\n  j = {it}[] parameter(3)\n"
            f"  c = pred[] compare(a, b), direction={way}\n  v = {t}[] select(c, a, b)\n  k = {it}[] select(c, i, j)\n"
            f"  ROOT r = ({t}[], {it}[]) tuple(v, k)\n}}\n"
        )

    region = w.computation(f"arg_{way}_{t}_{it}", text)
    given = [x, where, w.value(t, ()), w.value(it, ())]
    made = w.tuple_of("reduce", [(t, dims), (it, dims)], given, f"dimensions={braced(folded)}, to_apply={region}")
    return w.pick(made)


def reduce_window(w: Writer) -> Value:
    """Windows of every size: smaller than the array, as large, larger."""
    x = w.any((*FLOATS, *INTS, "pred", *NARROW_FLOATS), low=1, high=4, most=4000)
    wide = w.shuffled(range(x.rank))[: w.pick((1, 1, 2))]
    parts = [_window(w, n) if d in wide and n else (1, 1, 0, 0, 1, 1, n) for d, n in enumerate(x.dims)]
    dims = [p[-1] for p in parts]
    if prod(dims) > 5 * MOST or prod(dims) * prod(p[0] for p in parts) > 40 * MOST:
        return x
    region = w.binary(_fold(w, x.type), x.type)
    return w.emit(
        "reduce-window", x.type, dims, [x, w.value(x.type, ())], f"window={_window_text(parts)}, to_apply={region}"
    )


def _window(w: Writer, n: int) -> tuple[int, int, int, int, int, int, int]:
    """(size, stride, padding low, high, window dilation, base dilation, result size).

    They describe a window over n elements.
    """
    roll = w.rng.random()
    if roll < 0.2:  # a cumulative fold of its elements, or of one less or more
        size = max(n + w.pick((0, 0, -1, 1, 5)), 1)
        low, high = w.pick(((size - 1, 0), (0, size - 1), (size, -1), (size - 1, size - 1), (size // 2, size // 2)))
        parts = (size, 1, low, high, 1, 1)
    elif roll < 0.35:  # each window holds all of it
        parts = (2 * n - 1, 1, n - 1, n - 1, 1, 1)
    elif roll < 0.45:
        parts = (w.between(n, 2 * n + 3), w.pick((1, 2)), w.between(0, n), w.between(n, 2 * n + 3), 1, 1)
    else:
        size = w.pick((1, 2, 2, 3, 3, 4, 5, 7))
        low, high = w.pick((0, 0, 1, 2, size, -1)), w.pick((0, 0, 1, 2, size, -1))
        parts = (size, w.pick((1, 1, 2, 3)), low, high, w.pick((1, 1, 1, 2, 3)), w.pick((1, 1, 1, 1, 2)))
    size, stride, low, high, dilation, base = parts
    full = (n - 1) * base + 1 + low + high
    made = max((full - ((size - 1) * dilation + 1)) // stride + 1, 0) if full > 0 else 0
    return (*parts, made) if full >= 0 else (1, 1, 0, 0, 1, 1, n)


def _window_text(parts: list[tuple[int, int, int, int, int, int, int]]) -> str:
    def join(values: list[str]) -> str:
        return "x".join(values)

    text = f"size={join([str(p[0]) for p in parts])} stride={join([str(p[1]) for p in parts])} "
    text += f"pad={join([f'{p[2]}_{p[3]}' for p in parts])} lhs_dilate={join([str(p[5]) for p in parts])} "
    return "{" + text + f"rhs_dilate={join([str(p[4]) for p in parts])}" + "}"


def select_and_scatter(w: Writer) -> Value:
    """The gradient of a pooling."""
    x = w.any(("f32", "f64", "bf16", "s32"), low=1, high=4, most=4000)
    if 0 in x.dims:
        x = w.parameter(x.type, [max(n, 1) for n in x.dims])
    wide = w.shuffled(range(x.rank))[: w.pick((1, 2))]
    parts = []
    for d, n in enumerate(x.dims):
        size = min(w.pick((2, 3)), n) if d in wide else 1
        stride = w.pick((1, 2, 3)) if d in wide else 1
        parts.append((size, stride, 0, 0, 1, 1, (n - size) // stride + 1))
    t = x.type
    select = w.computation(
        f"ge_{t}",
        lambda name: (
            f"{name} {{\n  a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=GE\n}}\n"
        ),
    )
    source = w.value(t, [p[-1] for p in parts])
    window = _window_text(parts).split(" pad")[0] + "}"
    return w.emit(
        "select-and-scatter", t, x.dims, [x, source, w.value(t, ())],
        f"window={window}, select={select}, scatter={w.binary('add', t)}",
    )  # fmt: skip


# -- products --------------------------------------------------------------------------------------


def dot(w: Writer) -> Value:
    """Batch, contracting and free dimensions in any order."""
    x = w.any((*FLOATS, *INTS, *COMPLEX, *NARROW_FLOATS[:4]), low=1, high=4, most=10_000)
    order = w.shuffled(range(x.rank))
    contracted = order[: w.pick((0, 1, 1, 1, 1, 2))]
    batch = [d for d in order if d not in contracted][: w.pick((0, 0, 0, 1, 2))]
    free = list(w.dims(w.pick((0, 1, 1, 1, 2)), 200))
    roles = w.shuffled(
        [("c", d) for d in contracted] + [("b", d) for d in batch] + [("f", k) for k in range(len(free))]
    )
    other = [free[k] if role == "f" else x.dims[k] for role, k in roles]
    y = w.value(x.type, other)
    place = {r: n for n, r in enumerate(roles)}
    kept = [d for d in range(x.rank) if d not in contracted and d not in batch]
    dims = [x.dims[d] for d in batch] + [x.dims[d] for d in kept] + [free[k] for role, k in roles if role == "f"]
    work = prod(dims) * prod(x.dims[d] for d in contracted)
    if prod(dims) > 10 * MOST or work > 3_000_000:
        return x
    type_ = _WIDER.get(x.type, "f32" if is_float(x.type) else x.type) if w.chance(0.2) else x.type
    numbers = (
        f"lhs_batch_dims={braced(batch)}, rhs_batch_dims={braced([place['b', d] for d in batch])}, "
        f"lhs_contracting_dims={braced(contracted)}, rhs_contracting_dims={braced([place['c', d] for d in contracted])}"
    )
    return w.emit("dot", type_, dims, [x, y], numbers)


def convolution(w: Writer) -> Value:
    """One or two spatial dimensions, groups, strides, padding, dilation; any dimension order."""
    spatial = w.pick((1, 2, 2))
    t = w.pick(("f32", "f32", "f64", "bf16", "f16", "s32", "s8", "c64"))
    groups = w.pick((1, 1, 1, 2, 3))
    by_batch = groups > 1 and w.chance(0.3)
    batch = w.pick((1, 1, 2, 3)) * (groups if by_batch else 1)
    inputs, outputs = w.pick((1, 2, 3, 4, 8, 17)), w.pick((1, 2, 3, 8, 16, 17)) * groups
    sizes = [w.pick((1, 3, 5, 8, 11, 16, 17)) for _ in range(spatial)]
    windows = []
    for n in sizes:
        size, stride = w.pick((1, 2, 3, 3, 5)), w.pick((1, 1, 2, 3))
        low, high, dilation, base = (
            w.pick((0, 1, 2, size, -1)),
            w.pick((0, 1, 2, size)),
            w.pick((1, 1, 2)),
            w.pick((1, 1, 1, 2)),
        )
        full = (n - 1) * base + 1 + low + high
        reach = (size - 1) * dilation + 1
        windows.append((size, stride, low, high, dilation, base, (full - reach) // stride + 1 if full >= reach else 0))
    names = [str(k) for k in range(spatial)]
    left, right, out = (w.shuffled([*pair, *names]) for pair in (("b", "f"), ("i", "o"), ("b", "f")))
    extent = {"b": batch, "f": inputs if by_batch else inputs * groups, **dict(zip(names, sizes, strict=True))}
    kernel = {"i": inputs, "o": outputs, **{k: p[0] for k, p in zip(names, windows, strict=True)}}
    made = {
        "b": batch // groups if by_batch else batch,
        "f": outputs,
        **{k: p[-1] for k, p in zip(names, windows, strict=True)},
    }
    x, k = w.value(t, [extent[c] for c in left]), w.value(t, [kernel[c] for c in right])
    text = _window_text(windows)
    if w.chance(0.2):
        text = f"{text[:-1]} rhs_reversal={'x'.join(str(w.between(0, 1)) for _ in names)}}}"
    count = f", {'batch' if by_batch else 'feature'}_group_count={groups}" if groups > 1 else ""
    labels = f"{''.join(left)}_{''.join(right)}->{''.join(out)}"
    return w.emit("convolution", t, [made[c] for c in out], [x, k], f"window={text}, dim_labels={labels}{count}")


# -- order -----------------------------------------------------------------------------------------


def sort(w: Writer) -> Value:
    """One to three arrays, sorted by the first."""
    x = w.any((*FLOATS, *INTS, "pred"), low=1, high=4)
    axis = w.between(0, x.rank - 1)
    others = [w.value(w.pick(("s32", "f32", "u8", "bf16", "s64")), x.dims) for _ in range(w.pick((0, 0, 1, 2)))]
    way = w.pick(("LT", "GT")) if x.type != "pred" else "LT"
    kinds = [x.type, *(o.type for o in others)]

    def text(name: str) -> str:
        lines = [f"  p{2 * k + n} = {t}[] parameter({2 * k + n})" for k, t in enumerate(kinds) for n in (0, 1)]
        total = ", type=TOTALORDER" if is_float(x.type) else ""
        return "\n".join([f"{name} {{", *lines, f"  ROOT r = pred[] compare(p0, p1), direction={way}{total}", "}\n"])

    region = w.computation(f"sort_{way}_{'_'.join(kinds)}", text)
    flags = f"dimensions={{{axis}}}, is_stable={'true' if others or w.chance(0.5) else 'false'}, to_apply={region}"
    if not others:
        return w.emit("sort", x.type, x.dims, [x], flags)
    return w.pick(w.tuple_of("sort", [(o.type, o.dims) for o in (x, *others)], [x, *others], flags))


def topk(w: Writer) -> Value:
    """The largest or smallest along the last dimension."""
    x = w.any(("f32", "f32", "bf16", "s32", "f64"), low=1, high=3)
    k = w.between(0 if x.dims[-1] == 0 else 1, min(x.dims[-1], w.pick((1, 3, 8, 40, 5000))))
    dims = (*x.dims[:-1], k)
    flags = f"k={k}, largest={'true' if w.chance(0.7) else 'false'}"
    return w.pick(w.tuple_of("topk", [(x.type, dims), ("s32", dims)], [x], flags))


# -- linear algebra --------------------------------------------------------------------------------


def fft(w: Writer) -> Value:
    """Transforms of one to three dimensions, including lengths with large prime factors."""
    count = w.pick((1, 1, 1, 2, 3))
    lengths = [w.pick((1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 30, 32, 37, 64, 97)) for _ in range(count)]
    lengths = [n if prod(lengths) <= MOST else min(n, 9) for n in lengths]
    batch = list(w.dims(w.between(0, 2), 30))
    single = w.chance(0.7)
    real, complex_ = ("f32", "c64") if single else ("f64", "c128")
    kind = w.pick(("FFT", "IFFT", "RFFT", "IRFFT"))
    half = [*lengths[:-1], lengths[-1] // 2 + 1]
    before = (complex_, half) if kind == "IRFFT" else (real if kind == "RFFT" else complex_, lengths)
    after = (real, lengths) if kind == "IRFFT" else (complex_, half if kind == "RFFT" else lengths)
    x = w.value(before[0], [*batch, *before[1]])
    return w.emit("fft", after[0], [*batch, *after[1]], [x], f"fft_type={kind}, fft_length={braced(lengths)}")


def solve(w: Writer) -> Value:
    """Cholesky factors and triangular systems."""
    t = w.pick(("f32", "f32", "f64", "c64", "c128"))
    batch, n = list(w.dims(w.between(0, 2), 12)), w.pick((0, 1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 33, 50))
    a = w.value(t, [*batch, n, n])
    lower = w.pick(("true", "false"))
    if w.chance(0.4):
        return w.emit("cholesky", t, a.dims, [a], f"lower={lower}")
    left, m = w.chance(0.5), w.pick((1, 2, 3, 5, 8, 9, 16, 17, 33))
    b = w.value(t, [*batch, *((n, m) if left else (m, n))])
    flags = f"left_side={str(left).lower()}, lower={lower}, unit_diagonal={w.pick(('true', 'false'))}"
    turned = w.pick(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    return w.emit("triangular-solve", t, b.dims, [a, b], f"{flags}, transpose_a={turned}")


def lapack(w: Writer) -> Value:
    """Calls of LAPACK routines as JAX emits them."""
    letter = w.pick("sdcz")
    t = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}[letter]
    real = {"c64": "f32", "c128": "f64"}.get(t, t)
    batch = tuple(w.dims(w.between(0, 1), 6))
    m, n = w.pick((1, 2, 3, 4, 7, 8, 15, 16, 17, 33)), w.pick((1, 2, 3, 5, 8, 9, 16, 17, 40))
    k = min(m, n)
    tall = (max(m, n), k)
    hermitian = "he" if t in COMPLEX else "sy"
    unitary = "un" if t in COMPLEX else "or"
    routine, operands, results, options = w.pick(
        (
            ("getrf", [(t, (m, n))], [(t, (m, n)), ("s32", (k,)), ("s32", ())], ""),
            ("geqrf", [(t, (m, n))], [(t, (m, n)), (t, (k,))], ""),
            (f"{unitary}gqr", [(t, tall), (t, (k,))], [(t, tall)], ""),
            ("potrf", [(t, (n, n))], [(t, (n, n)), ("s32", ())], f"uplo = {ord(w.pick('LU'))} : ui8"),
            ("trsm", [(t, (m, m)), (t, (m, n))], [(t, (m, n))],
             f"side = 76 : ui8, uplo = {ord(w.pick('LU'))} : ui8, trans_x = {ord(w.pick('NT'))} : ui8, diag = 78 : ui8"),
            (f"{hermitian}evd", [(t, (n, n))], [(t, (n, n)), (real, (n,)), ("s32", ())],
             f"mode = 86 : ui8, uplo = {ord(w.pick('LU'))} : ui8"),
            ("gesdd", [(t, (m, n))], [(t, (m, n)), (real, (k,)), (t, (m, k)), (t, (k, n)), ("s32", ())],
                "mode = 83 : ui8"),
        )
    )  # fmt: skip

    def placed(type_: str, dims: tuple[int, ...]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """Column-major matrices."""
        whole = (*batch, *dims)
        order = list(range(len(whole)))[::-1]
        if len(dims) == 2:
            order[:2] = order[1::-1]
        return type_, whole, tuple(order)

    given = []
    for type_, dims, order in (placed(*o) for o in operands):
        x = w.value(type_, dims)
        given.append(x if x.layout == order else w.emit("copy", type_, dims, [x], "", order))
    constraints = ", ".join(x.text for x in given)
    attributes = (
        f'custom_call_target="lapack_{letter}{routine}_ffi", operand_layout_constraints={{{constraints}}}, '
        f"api_version=API_VERSION_TYPED_FFI, backend_config={{{options}}}"
    )
    made = [placed(*r) for r in results]
    if len(made) == 1:
        return w.emit("custom-call", made[0][0], made[0][1], given, attributes, made[0][2])
    name = f"{w.prefix}lapack.{len(w.lines)}"
    w.line(name, f"({', '.join(shape(*r) for r in made)})", "custom-call", given, attributes)
    values = [w.emit("get-tuple-element", *r[:2], [name], f"index={n}", r[2]) for n, r in enumerate(made)]
    return w.pick(values)


def batch_norm(w: Writer) -> Value:
    """Normalization over all dimensions but one."""
    x = w.any(("f32", "f64"), low=2, high=4, most=4000)
    feature = w.between(0, x.rank - 1)
    one = (x.dims[feature],)
    flags = f"epsilon=0.001, feature_index={feature}"
    scale, offset = w.value(x.type, one), w.value(x.type, one)
    if w.chance(0.5):
        made = [(x.type, x.dims), (x.type, one), (x.type, one)]
        return w.pick(w.tuple_of("batch-norm-training", made, [x, scale, offset], flags))
    mean, variance = w.value(x.type, one), w.value(x.type, one)
    return w.emit("batch-norm-inference", x.type, x.dims, [x, scale, offset, mean, variance], flags)


FAMILIES = (
    reduce_, reduce_, reduce_, rows, rows, reduce_pair, reduce_window, reduce_window, select_and_scatter, dot, dot, dot,
    convolution, convolution,
    sort, topk, fft, solve, lapack, batch_norm,
)  # fmt: skip
__all__ = ["ANY", "FAMILIES"]
