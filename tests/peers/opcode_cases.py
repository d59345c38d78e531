"""One small program for each HLO opcode and element type, over difficult values.

Types that the verifier rejects are cases too: all compilers must reject them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.numeric_values import NUMERIC, is_float, values_of
from xlanb.shape import PrimitiveType
from xlanb.shape.primitive_type import BY_TEXT

Array = NDArray[Any]
_COUNT = 24


@dataclass(frozen=True)
class Case:
    """A program, and arrays for its parameters."""

    opcode: str
    type: str
    variant: str
    text: str
    arrays: tuple[Array, ...]

    @property
    def name(self) -> str:
        """`OPCODE TYPE VARIANT`."""
        return f"{self.opcode} {self.type} {self.variant}".rstrip()


def cases() -> Iterator[Case]:
    """All cases, by opcode and type."""
    for opcode, make in MAKERS.items():
        for name in NUMERIC:
            seed = zlib.crc32(f"{opcode} {name}".encode())
            for variant, text, arrays in make(opcode, name, np.random.default_rng(seed)):
                yield Case(opcode, name, variant, text, tuple(arrays))


Made = tuple[str, str, list[Array]]
Maker = Callable[[str, str, np.random.Generator], Iterator[Made]]


# -- values ----------------------------------------------------------------------------------------


@np.errstate(all="ignore")
def edges(name: str, rng: np.random.Generator, count: int = _COUNT) -> Array:
    """Return limits of a type, zeros, ones, infinities, NaN, and others.

    There are no subnormals, which XLA:CPU treats as zero.
    """
    t = BY_TEXT[name]
    if t is PrimitiveType.PRED or t.bits < 8:
        return values_of(name, rng)
    if t.is_complex:
        parts = edges("f32" if t is PrimitiveType.C64 else "f64", rng, count)
        made = np.empty(parts.shape, t.dtype)
        made.real, made.imag = parts, rng.permutation(parts)
        return made
    facts: Any = (ml_dtypes.iinfo if t.is_integral else ml_dtypes.finfo)(t.dtype)
    if t.is_integral:
        known = np.array([0, 1, 2, 3, 5, 7, t.bits - 1, t.bits], np.int64).astype(t.dtype)
        ends = np.array([facts.min, facts.max, facts.max - 1, facts.min + 1], t.dtype)
        signed = np.array([-1, -2, -3, -7], np.int64).astype(t.dtype)
    else:
        known = np.array([0.0, 1, 2, 3, 0.5, 1.5, 100, 0.3, 7.25], np.float64).astype(np.float32).astype(t.dtype)
        ends = _usual(np.array([facts.min, facts.max, facts.smallest_normal], t.dtype))
        signed = np.array([-0.0, -1, -0.5, -2.5, np.inf, -np.inf, np.nan], np.float32).astype(t.dtype)
    drawn = rng.choice(_usual(values_of(name, rng)), max(0, count - known.size - ends.size - signed.size))
    return np.concatenate([known, ends, signed, drawn])


def _usual(values: Array) -> Array:
    """Replace values that are subnormal in the type in which XLA:CPU computes."""
    if np.iscomplexobj(values):
        parts = [p[np.resize(np.flatnonzero(_is_usual(p)), p.size)] for p in (values.real, values.imag)]
        made = np.empty_like(values)
        made.real, made.imag = parts
        return made
    return values[_is_usual(values)] if is_float(values) else values


def _is_usual(values: Array) -> Array:
    tiny = np.finfo(values.dtype if values.dtype == np.float64 else np.float32).tiny
    with np.errstate(all="ignore"):
        size = np.abs(values.astype(np.float64))
    return (size == 0) | ~(size < tiny)


def small(name: str, rng: np.random.Generator, *dims: int) -> Array:
    """Return small integers, whose sums and products are exact in most types."""
    t = BY_TEXT[name]
    if t is PrimitiveType.PRED:
        return rng.integers(0, 2, dims).astype(np.bool_)
    low = 0 if t.is_integral and not t.is_signed else -1 if t.bits < 8 else -2
    drawn = rng.integers(low, 2 if t.bits < 8 else 4, dims)
    with np.errstate(all="ignore"):
        made = drawn.astype(np.float32).astype(t.dtype) if not t.is_integral else drawn.astype(t.dtype)
    if t.is_complex:
        made.imag = rng.integers(-2, 3, dims)
    return made


def part_of(name: str) -> str:
    """The type of a complex number's parts; of others the type itself."""
    return {"c64": "f32", "c128": "f64"}.get(name, name)


# -- texts -----------------------------------------------------------------------------------------


def shape(name: str, *dims: int) -> str:
    """The text of an array's shape, row by row."""
    return f"{name}[{','.join(map(str, dims))}]{{{','.join(str(d) for d in reversed(range(len(dims))))}}}"


def program(root: str, *parameters: str, before: str = "", lines: str = "") -> str:
    """Return a module with root `root`, over parameters a, b, c, ... of these shapes."""
    given = "".join(
        f"  {v} = {s} parameter({k})\n" for k, (v, s) in enumerate(zip("abcdefgh", parameters, strict=False))
    )
    return f"HloModule m\n\n{before}ENTRY e {{\n{given}{lines}  ROOT r = {root}\n}}\n"


def scalars(name: str, op: str) -> str:
    """A computation of two scalars."""
    return f"fold {{\n  x = {name}[] parameter(0)\n  y = {name}[] parameter(1)\n  ROOT z = {name}[] {op}(x, y)\n}}\n\n"


def sizes(values: Array) -> Iterator[tuple[str, Array]]:
    """All values, one of them, and none."""
    yield "", values
    yield "one", values[:1]
    yield "none", values[:0]


# -- elementwise -----------------------------------------------------------------------------------


def _unary(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    result = {"is-finite": "pred", "abs": part_of(name), "real": part_of(name), "imag": part_of(name)}.get(opcode, name)
    for variant, x in sizes(
        np.concatenate([edges(name, rng), _usual(values_of(name, rng))[:: 1 + _SKIP.get(name, 0)]])
    ):
        yield variant, program(f"{shape(result, x.size)} {opcode}(a)", shape(name, x.size)), [x]


_SKIP = {"bf16": 97, "f16": 97, "s16": 97, "u16": 97, "f32": 3, "f64": 3, "c64": 3, "c128": 3}


def _binary(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    result = {"compare": "pred", "complex": {"f32": "c64", "f64": "c128"}.get(name, "c64")}.get(opcode, name)
    x, y = (v.ravel() for v in np.meshgrid(edges(name, rng), edges(name, rng)))
    for (variant, a), (_, b) in zip(sizes(x), sizes(y), strict=True):
        yield variant, program(f"{shape(result, a.size)} {opcode}(a, b)", *[shape(name, a.size)] * 2), [a, b]


def _compare(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x, y = (v.ravel() for v in np.meshgrid(edges(name, rng), edges(name, rng)))
    orders = ["", ", type=TOTALORDER"] if BY_TEXT[name].is_floating else [""]
    for direction in "EQ NE LT LE GT GE".split():
        for order in orders:
            root = f"{shape('pred', x.size)} {opcode}(a, b), direction={direction}{order}"
            yield direction + order[-10:], program(root, *[shape(name, x.size)] * 2), [x, y]


def _select(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x, y = (v.ravel() for v in np.meshgrid(edges(name, rng), edges(name, rng)))
    root = f"{shape(name, x.size)} {opcode}(a, b, c)"
    yield "", program(root, shape("pred", x.size), *[shape(name, x.size)] * 2), [rng.random(x.size) < 0.5, x, y]


def _clamp(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    low, x, high = (v.ravel() for v in np.meshgrid(*[edges(name, rng)[:18]] * 3))
    yield "", program(f"{shape(name, x.size)} {opcode}(a, b, c)", *[shape(name, x.size)] * 3), [low, x, high]


def _reduce_precision(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x = np.concatenate([edges(name, rng), _usual(values_of(name, rng))[:600]])
    for exponent, mantissa in ((8, 7), (5, 10), (4, 3), (5, 2), (1, 0), (11, 52), (8, 23)):
        root = f"{shape(name, x.size)} {opcode}(a), exponent_bits={exponent}, mantissa_bits={mantissa}"
        yield f"e{exponent}m{mantissa}", program(root, shape(name, x.size)), [x]


def _convert(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x = np.concatenate([edges(name, rng), _usual(values_of(name, rng))[:: 1 + _SKIP.get(name, 0)]])
    for target in NUMERIC:
        if target != name:
            yield target, program(f"{shape(target, x.size)} {opcode}(a)", shape(name, x.size)), [x]


def _bitcast_convert(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    bits = BY_TEXT[name].bits
    for target in NUMERIC:
        other = BY_TEXT[target].bits
        given = (4,) if bits >= other else (4, other // bits)
        dims = (4,) if bits <= other else (4, bits // other)
        if target != name:
            x = np.resize(edges(name, rng), given)
            yield target, program(f"{shape(target, *dims)} {opcode}(a)", shape(name, *given)), [x]


def _stochastic(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x = np.resize(edges(name, rng), 200)
    bits = {8: "u8", 16: "u16", 32: "u32", 64: "u64"}.get(BY_TEXT[name].bits, "u32")
    drawn = rng.integers(0, 2 ** BY_TEXT[bits].bits, 200, dtype=np.uint64).astype(BY_TEXT[bits].dtype)
    for target in ("bf16", "s8", "f16", "s32"):
        yield target, program(f"{shape(target, 200)} {opcode}(a, b)", shape(name, 200), shape(bits, 200)), [x, drawn]


# -- data ------------------------------------------------------------------------------------------


def _rows(name: str, rng: np.random.Generator) -> Array:
    return np.resize(edges(name, rng), 24).reshape(4, 6)


def _moved(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x = _rows(name, rng)
    dims, attributes = {
        "transpose": ((6, 4), ", dimensions={1,0}"),
        "reverse": ((4, 6), ", dimensions={0,1}"),
        "reshape": ((2, 12), ""),
        "broadcast": ((4, 3, 6), ", dimensions={0,2}"),
        "slice": ((2, 3), ", slice={[1:3], [0:6:2]}"),
        "copy": ((4, 6), ""),
        "opt-barrier": ((4, 6), ""),
    }[opcode]
    yield "", program(f"{shape(name, *dims)} {opcode}(a){attributes}", shape(name, 4, 6)), [x]
    if opcode not in ("slice", "reshape"):
        none = tuple(0 if d == 6 else d for d in dims)
        yield "none", program(f"{shape(name, *none)} {opcode}(a){attributes}", shape(name, 4, 0)), [x[:, :0]]


def _concatenate(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x = _rows(name, rng)
    root = f"{shape(name, 4, 9)} {opcode}(a, b, c), dimensions={{1}}"
    yield "", program(root, shape(name, 4, 6), shape(name, 4, 3), shape(name, 4, 0)), [x, x[:, :3].copy(), x[:, :0]]


def _pad(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x, fill = _rows(name, rng), edges(name, rng)[1].reshape(())
    for padding, dims in (("1_2_0x0_1_2", (7, 18)), ("-1_-2_0x-1_0_0", (1, 5)), ("-5_5_0x-2_-9_1", (4, 0))):
        root = f"{shape(name, *dims)} {opcode}(a, b), padding={padding}"
        yield padding, program(root, shape(name, 4, 6), shape(name)), [x, fill]


def _dynamic(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    """Start indices of all integer types, in range and out of it on both sides."""
    x, box = _rows(name, rng), np.resize(edges(name, rng)[::-1], 6).reshape(2, 3)
    for index in ("s32", "u8", "s8", "u32", "s64", "u64", "s16"):
        facts = np.iinfo(BY_TEXT[index].dtype)
        for start in (0, 1, 3, facts.min, facts.max):
            at = [np.array(v, BY_TEXT[index].dtype) for v in (start, 1)]
            variant = f"{index} {start}"
            if opcode == "dynamic-slice":
                root = f"{shape(name, 2, 3)} {opcode}(a, b, c), dynamic_slice_sizes={{2,3}}"
                yield variant, program(root, shape(name, 4, 6), *[shape(index)] * 2), [x, *at]
            else:
                root = f"{shape(name, 4, 6)} {opcode}(a, b, c, d)"
                yield variant, program(root, shape(name, 4, 6), shape(name, 2, 3), *[shape(index)] * 2), [x, box, *at]
        if name not in ("f32", "s8", "pred"):
            return


def _gather(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x = _rows(name, rng)
    for index in ("s32", "s8", "u8", "u64"):
        facts = np.iinfo(BY_TEXT[index].dtype)
        at = np.array([0, 1, 3, 4, facts.min, facts.max, 2], BY_TEXT[index].dtype).reshape(7, 1)
        root = (
            f"{shape(name, 7, 6)} {opcode}(a, b), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
            "index_vector_dim=1, slice_sizes={1,6}"
        )
        yield index, program(root, shape(name, 4, 6), shape(index, 7, 1)), [x, at]


def _scatter(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x = small(name, rng, 4, 6)
    update = small(name, rng, 7, 6)
    for fold in ("add", "maximum", "multiply"):
        for index in ("s32", "u8"):
            facts = np.iinfo(BY_TEXT[index].dtype)
            at = np.array([0, 1, 3, 4, facts.min, facts.max, 1], BY_TEXT[index].dtype).reshape(7, 1)
            root = (
                f"{shape(name, 4, 6)} {opcode}(a, b, c), update_window_dims={{1}}, inserted_window_dims={{0}}, "
                "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=fold"
            )
            shapes = shape(name, 4, 6), shape(index, 7, 1), shape(name, 7, 6)
            yield f"{fold} {index}", program(root, *shapes, before=scalars(name, fold)), [x, at, update]


def _iota(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    del rng
    for dims in ((5,), (300,), (0,)):
        yield str(dims[0]), program(f"{shape(name, *dims)} {opcode}(), iota_dimension=0"), []


def _sort(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x = np.resize(rng.permutation(edges(name, rng)), 30)
    orders = ["", ", type=TOTALORDER"] if BY_TEXT[name].is_floating else [""]
    for order in orders:
        for direction in ("LT", "GT"):
            before = scalars(name, "add").replace(
                f"{name}[] add(x, y)", f"pred[] compare(x, y), direction={direction}{order}"
            )
            if not order:
                x = x[np.isfinite(x.astype(np.float64))] if is_float(x) else x
            root = f"{shape(name, x.size)} {opcode}(a), dimensions={{0}}, is_stable=true, to_apply=fold"
            yield direction + order[-10:], program(root, shape(name, x.size), before=before), [x]


def _topk(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x = np.resize(rng.permutation(edges(name, rng)), 30).reshape(2, 15)
    root = f"({shape(name, 2, 4)}, {shape('s32', 2, 4)}) {opcode}(a), k=4, largest=true"
    yield "", program(root, shape(name, 2, 15)), [x]


# -- reductions ------------------------------------------------------------------------------------

_FOLDS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")


def _fold_values(name: str, fold: str, rng: np.random.Generator, *dims: int) -> Array:
    count = int(np.prod(dims))
    return small(name, rng, *dims) if fold in ("add", "multiply") else np.resize(edges(name, rng), count).reshape(dims)


def _reduce(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    for fold in _FOLDS:
        x, start = _fold_values(name, fold, rng, 4, 6), small(name, rng)
        for dims, left in (("0", (6,)), ("1", (4,)), ("0,1", ())):
            root = f"{shape(name, *left)} {opcode}(a, b), dimensions={{{dims}}}, to_apply=fold"
            yield (
                f"{fold} {dims}",
                program(root, shape(name, 4, 6), shape(name), before=scalars(name, fold)),
                [x, start],
            )
        root = f"{shape(name, 4)} {opcode}(a, b), dimensions={{1}}, to_apply=fold"
        shapes = shape(name, 4, 0), shape(name)
        yield f"{fold} none", program(root, *shapes, before=scalars(name, fold)), [x[:, :0], start]


def _reduce_window(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    for fold in ("add", "maximum", "minimum", "or"):
        x, start = _fold_values(name, fold, rng, 4, 6), small(name, rng)
        windows = ("size=2x3 stride=1x2", (3, 2)), ("size=1x9 pad=0_0x4_4", (4, 6)), ("size=3x2 rhs_dilate=2x1", None)
        for window, dims in windows:
            if dims is None:
                continue
            root = f"{shape(name, *dims)} {opcode}(a, b), window={{{window}}}, to_apply=fold"
            yield (
                f"{fold} {window[:8]}",
                program(root, shape(name, 4, 6), shape(name), before=scalars(name, fold)),
                [x, start],
            )


def _select_and_scatter(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x, source, start = small(name, rng, 4, 6), small(name, rng, 2, 3), small(name, rng)
    choose = (
        scalars(name, "add")
        .replace(f"{name}[] add(x, y)", "pred[] compare(x, y), direction=GE")
        .replace("fold", "choose")
    )
    root = f"{shape(name, 4, 6)} {opcode}(a, b, c), window={{size=2x2 stride=2x2}}, select=choose, scatter=fold"
    shapes = shape(name, 4, 6), shape(name, 2, 3), shape(name)
    yield "", program(root, *shapes, before=choose + scalars(name, "add")), [x, source, start]


def _map(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x, y = _rows(name, rng), _rows(name, rng)[::-1].copy()
    root = f"{shape(name, 4, 6)} {opcode}(a, b), dimensions={{0,1}}, to_apply=fold"
    yield "", program(root, *[shape(name, 4, 6)] * 2, before=scalars(name, "maximum")), [x, y]


# -- products --------------------------------------------------------------------------------------


def _dot(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    for m, k, n in ((3, 5, 2), (1, 1, 1), (2, 0, 3), (0, 4, 2), (17, 33, 9)):
        x, y = small(name, rng, m, k), small(name, rng, k, n)
        root = f"{shape(name, m, n)} {opcode}(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        yield f"{m}x{k}x{n}", program(root, shape(name, m, k), shape(name, k, n)), [x, y]
    x, y = small(name, rng, 2, 7), small(name, rng, 2, 7)
    dims = "lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}"
    yield "batch", program(f"{shape(name, 2)} {opcode}(a, b), {dims}", *[shape(name, 2, 7)] * 2), [x, y]


def _convolution(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x, k = small(name, rng, 2, 5, 4, 3), small(name, rng, 2, 2, 3, 4)
    root = f"{shape(name, 2, 4, 3, 4)} {opcode}(a, b), window={{size=2x2}}, dim_labels=b01f_01io->b01f"
    yield "", program(root, shape(name, *x.shape), shape(name, *k.shape)), [x, k]
    root = f"{shape(name, 2, 5, 4, 4)} {opcode}(a, b), window={{size=2x2 pad=0_1x1_0 rhs_reversal=1x1}}, dim_labels=b01f_01io->b01f"
    yield "padded", program(root, shape(name, *x.shape), shape(name, *k.shape)), [x, k]


def _fft(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x = small(name, rng, 2, 8)
    pairs = (
        ("FFT", name, (2, 8)),
        ("RFFT", {"f32": "c64", "f64": "c128"}.get(name, name), (2, 5)),
        ("IRFFT", part_of(name), (2, 14)),
    )
    for kind, result, dims in pairs:
        root = f"{shape(result, *dims)} {opcode}(a), fft_type={kind}, fft_length={{{14 if kind == 'IRFFT' else 8}}}"
        yield kind, program(root, shape(name, 2, 8)), [x]


def _cholesky(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    good = np.array([[4, 1], [1, 3]], np.float32)
    t = BY_TEXT[name]
    with np.errstate(all="ignore"):
        x = np.stack([good, -good, good * np.float32(np.nan), np.zeros_like(good)]).astype(np.float32).astype(t.dtype)
    for lower in ("true", "false"):
        root = f"{shape(name, 4, 2, 2)} {opcode}(a), lower={lower}"
        yield lower, program(root, shape(name, 4, 2, 2)), [x]


def _triangular(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    t = BY_TEXT[name]
    with np.errstate(all="ignore"):
        a = np.array([[2, 0, 0], [1, 4, 0], [1, 2, 1]], np.float32).astype(t.dtype)
    b = small(name, rng, 3, 2)
    for transpose in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
        root = f"{shape(name, 3, 2)} {opcode}(a, b), left_side=true, lower=true, transpose_a={transpose}"
        yield transpose, program(root, shape(name, 3, 3), shape(name, 3, 2)), [a, b]


def _batch_norm(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x, v = small(name, rng, 6, 2), [np.abs(small(name, rng, 2)) for _ in range(4)]
    attributes = f"{opcode}({{}}), epsilon=0.5, feature_index=1"
    rows, row = shape(name, 6, 2), shape(name, 2)
    if opcode == "batch-norm-training":
        yield "", program(f"({rows}, {row}, {row}) {attributes.format('a, b, c')}", rows, row, row), [x, *v[:2]]
    elif opcode == "batch-norm-inference":
        yield "", program(f"{rows} {attributes.format('a, b, c, d, e')}", rows, *[row] * 4), [x, *v]
    else:
        shapes = rows, row, row, row, rows
        text = program(f"({rows}, {row}, {row}) {attributes.format('a, b, c, d, e')}", *shapes)
        yield "", text, [x, *v[:3], small(name, rng, 6, 2)]


# -- control ---------------------------------------------------------------------------------------


def _call(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x, y = small(name, rng), small(name, rng)
    yield (
        "",
        program(f"{shape(name)} {opcode}(a, b), to_apply=fold", *[shape(name)] * 2, before=scalars(name, "maximum")),
        [x, y],
    )


def _conditional(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    before = "".join(
        f"b{k} {{\n  p{k} = {name}[4]{{0}} parameter(0)\n  ROOT q{k} = {name}[4]{{0}} {op}(p{k})\n}}\n\n"
        for k, op in enumerate(("copy", "reverse", "copy"))
    )
    before = before.replace("reverse(p1)", "reverse(p1), dimensions={0}")
    x = np.resize(edges(name, rng), 4)
    for index in (0, 1, 2, 3, -1, 2**31 - 1):
        root = f"{shape(name, 4)} {opcode}(b, a, a, a), branch_computations={{b0, b1, b2}}"
        text = program(root, shape(name, 4), "s32[]", before=before)
        yield str(index), text, [x, np.array(index, np.int32)]


def _while(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    state = f"(s32[], {name}[4]{{0}})"
    before = (
        f"cond {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(3)\n"
        f"  ROOT c = pred[] compare(i, n), direction=LT\n}}\n\nbody {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        f"  x = {name}[4]{{0}} get-tuple-element(s), index=1\n  k = s32[] constant(1)\n  j = s32[] add(i, k)\n"
        f"  y = {name}[4]{{0}} reverse(x), dimensions={{0}}\n  ROOT t = {state} tuple(j, y)\n}}\n\n"
    )
    x = np.resize(edges(name, rng), 4)
    text = program(
        f"{state} {opcode}(t), condition=cond, body=body",
        "s32[]",
        shape(name, 4),
        before=before,
        lines=f"  t = {state} tuple(a, b)\n",
    )
    for start in (0, 2, 3, 5):
        yield str(start), text, [np.array(start, np.int32), x]


def _dynamic_size(opcode: str, name: str, rng: np.random.Generator) -> Iterator[Made]:
    x, start = small(name, rng, 6), small(name, rng)
    lines = f"  d = {name}[<=6]{{0}} set-dimension-size(a, b), dimensions={{0}}\n"
    if opcode == "get-dimension-size":
        root = f"s32[] {opcode}(d), dimensions={{0}}"
        text = program(root, shape(name, 6), "s32[]", lines=lines)
    else:
        root = f"{name}[] reduce(d, c), dimensions={{0}}, to_apply=fold"
        text = program(root, shape(name, 6), "s32[]", shape(name), before=scalars(name, "maximum"), lines=lines)
    for size in (0, 1, 4, 6):
        yield str(size), text, [x, np.array(size, np.int32), *([] if opcode == "get-dimension-size" else [start])]


_UNARY = (
    "abs acos acosh asin asinh atan atanh cbrt ceil cosine cosh count-leading-zeros erf exponential exponential-minus-one floor imag is-finite log log-plus-one "
    "logistic negate not popcnt real round-nearest-afz round-nearest-even rsqrt sign sine sinh sqrt tan tanh"
)
_BINARY = "add and atan2 complex divide maximum minimum mulhi multiply or power remainder shift-left shift-right-arithmetic shift-right-logical subtract xor"
MAKERS: dict[str, Maker] = {
    **dict.fromkeys(_UNARY.split(), _unary),
    **dict.fromkeys(_BINARY.split(), _binary),
    **dict.fromkeys("broadcast copy opt-barrier reshape reverse slice transpose".split(), _moved),
    **dict.fromkeys("batch-norm-grad batch-norm-inference batch-norm-training".split(), _batch_norm),
    **dict.fromkeys("dynamic-slice dynamic-update-slice".split(), _dynamic),
    **dict.fromkeys("get-dimension-size set-dimension-size".split(), _dynamic_size),
    "bitcast-convert": _bitcast_convert,
    "call": _call,
    "cholesky": _cholesky,
    "clamp": _clamp,
    "compare": _compare,
    "concatenate": _concatenate,
    "conditional": _conditional,
    "convert": _convert,
    "convolution": _convolution,
    "dot": _dot,
    "fft": _fft,
    "gather": _gather,
    "iota": _iota,
    "map": _map,
    "pad": _pad,
    "reduce": _reduce,
    "reduce-precision": _reduce_precision,
    "reduce-window": _reduce_window,
    "scatter": _scatter,
    "select": _select,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
    "stochastic-convert": _stochastic,
    "topk": _topk,
    "triangular-solve": _triangular,
    "while": _while,
}
