"""Routines that bring lines into the lanes of scratch and out of them (see codegen.matmul.shared); the strides are bytes, `re` and `im` the parts of scratch's first element.

xlanb.fft.in.beside (a, re, im, n, stride, lanes)              lines of complex numbers whose numbers of one place lie side by side
xlanb.fft.out.beside (re, im, b, n, stride, lanes, scale)      the same back, times a number
xlanb.fft.out.turned (re, im, b, n, stride, lanes, high, low, part, step)    times turns: high[j / part] low[j mod part] for each lane
xlanb.fft.in.rows (a, even, odd, count, stride, rows, step)    rows of `count` parts: part c of row r to lane r of scratch, even c at even + (c / 2) step, odd ones at odd + ...
xlanb.fft.out.rows (even, odd, b, count, stride, rows, step, scale)          the same back
xlanb.fft.in.apart (a, re, im, n, inner, first, lines)         lines first, first + 1, ... of `lines` that interleave by `inner`; out.apart: the same back
xlanb.fft.product (are, aim, re, im, table, n)                     elements of scratch times numbers of a table
xlanb.fft.zeros (re, im, n)                                    elements of zeros
xlanb.fft.spectrum (a, re, im, table, h), xlanb.fft.signal (a, re, im, table, h)       spectra of real lines of 2 h numbers of those of complex ones of h, and back
xlanb.fft.conjugates (re, im, n)                               spectra of real lines of n numbers, n odd, of their first halves
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlanb.cpu.codegen.fft.simd import ELEMENT, PART, Pair, Simd, item, lanes_of, moved
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.matmul.shared import routine

Given = Sequence[tuple[str, Ix]]
_KINDS = {"T": "", "p": "ptr", "i": "i64"}


@dataclass(frozen=True)
class Routine:
    """A routine without shapes: its name, its parameters (a letter each: pointer, i64 or T, an element), and what writes it."""

    name: str
    letters: str
    names: tuple[str, ...]
    write: Callable[[Simd], None]

    def call(self, f: Function, element: str, *values: Ix) -> None:
        """Emit a call."""
        kinds = [_KINDS[letter] or element for letter in self.letters]
        parameters = [f"{k} %{n}" for k, n in zip(kinds, self.names, strict=True)]
        name = f"fft.{self.name}.{'f32' if element == 'float' else 'f64'}"

        def emit(g: Function) -> None:
            self.write(Simd(g, element, lanes_of(4 if element == "float" else 8)))

        called = routine(f.module, ("fft", self.name, element), name, emit, parameters)
        f.do(f"call void @{called}({', '.join(f'{k} {v}' for k, v in zip(kinds, values, strict=True))})")


def of(name: str, parameters: str) -> Callable[[Callable[[Simd], None]], Routine]:
    """A routine of a name and of parameters as "p:a i:n"."""
    split = [p.split(":") for p in parameters.split()]

    def made(write: Callable[[Simd], None]) -> Routine:
        return Routine(name, "".join(s[0] for s in split), tuple(s[1] for s in split), write)

    return made


# -- lines side by side -----------------------------------------------------------------------------------------------


def complex_masks(x: Simd, lanes: str) -> Pair:
    """Which of the numbers in two vectors are of the first so many complex numbers."""
    parts = x.f.plain(f"shl i64 {lanes}, 1")
    return x.below(parts), x.below(parts, x.width)


def load_complex(x: Simd, at: str, masks: Pair) -> Pair:
    """Complex numbers of memory as their parts."""
    return x.apart(x.load_some(at, masks[0]), x.load_some(moved(x.f, at, PART), masks[1]))


def store_complex(x: Simd, at: str, value: Pair, masks: Pair) -> None:
    """The same back."""
    low, high = x.together(value)
    x.store_some(at, low, masks[0])
    x.store_some(moved(x.f, at, PART), high, masks[1])


def load_element(x: Simd, re: str, im: str, n: Ix) -> Pair:
    """Element n of scratch whose first has its parts there."""
    return x.load(item(x.f, re, n, ELEMENT), PART), x.load(item(x.f, im, n, ELEMENT), PART)


def store_element(x: Simd, re: str, im: str, n: Ix, value: Pair) -> None:
    """Set it."""
    x.store(item(x.f, re, n, ELEMENT), value[0], PART)
    x.store(item(x.f, im, n, ELEMENT), value[1], PART)


def _in_beside(x: Simd) -> None:
    masks = complex_masks(x, "%lanes")
    with x.f.loop("%n") as j:
        store_element(x, "%re", "%im", j, load_complex(x, item(x.f, "%a", j, "%stride"), masks))


def _out_beside(x: Simd) -> None:
    masks, scale = complex_masks(x, "%lanes"), x.splat("%scale")
    with x.f.loop("%n") as j:
        value = x.scaled(load_element(x, "%re", "%im", j), scale)
        store_complex(x, item(x.f, "%b", j, "%stride"), value, masks)


def _out_turned(x: Simd) -> None:
    f = x.f
    masks = complex_masks(x, "%lanes")
    groups = f.plain(f"udiv i64 {f.sub(f.add('%n', '%part'), 1)}, %part")
    with f.loop(groups) as group:
        high = x.load_pair(item(f, "%high", group, "%step"))
        begin = f.mul(group, "%part")
        count = f.plain_call("i64", "llvm.smin.i64", [("i64", "%part"), ("i64", str(f.sub("%n", begin)))])
        with f.loop(count) as k:
            j = f.add(begin, k)
            turn = x.times(high, x.load_pair(item(f, "%low", k, "%step")))
            value = x.times(load_element(x, "%re", "%im", j), turn)
            store_complex(x, item(f, "%b", j, "%stride"), value, masks)


IN_BESIDE = of("in.beside", "p:a p:re p:im i:n i:stride i:lanes")(_in_beside)
OUT_BESIDE = of("out.beside", "p:re p:im p:b i:n i:stride i:lanes T:scale")(_out_beside)
OUT_TURNED = of("out.turned", "p:re p:im p:b i:n i:stride i:lanes p:high p:low i:part i:step")(_out_turned)


# -- lines one after the other ----------------------------------------------------------------------------------------


def _rows(x: Simd, base: str) -> list[str]:
    """The addresses of as many rows as there are lanes; the last one for those that are not there."""
    f = x.f
    last = f.sub("%rows", 1)
    numbers = [f.plain_call("i64", "llvm.smin.i64", [("i64", str(r)), ("i64", str(last))]) for r in range(x.width)]
    return [item(f, base, r, "%stride") for r in numbers]


def _tiles(x: Simd, tile: Callable[[Ix, str], None]) -> None:
    """tile(offset in bytes, mask) for so many parts at a time of all rows."""
    f = x.f
    count = f.plain(f"udiv i64 {f.add('%count', x.width - 1)}, {x.width}")
    with f.loop(count) as t:
        left = f.sub("%count", f.mul(t, x.width))
        tile(t, x.below(str(left)))


def _places(x: Simd, t: Ix) -> list[str]:
    """Where the parts of a tile are in scratch."""
    f = x.f
    pairs = x.width // 2
    first = f.mul(f.mul(t, pairs), "%step")
    even, odd = moved(f, "%even", first), moved(f, "%odd", first)
    return [item(f, (even, odd)[c % 2], c // 2, "%step") for c in range(x.width)]


def _in_rows(x: Simd) -> None:
    rows = _rows(x, "%a")

    def tile(t: Ix, mask: str) -> None:
        given = [x.load_some(item(x.f, row, t, PART), mask) for row in rows]
        for place, v in zip(_places(x, t), x.transposed(given), strict=True):
            x.store(place, v, PART)

    _tiles(x, tile)


def _out_rows(x: Simd) -> None:
    rows, scale = _rows(x, "%b"), x.splat("%scale")

    def tile(t: Ix, mask: str) -> None:
        given = [x.op("fmul", x.load(place, PART), scale) for place in _places(x, t)]
        for row, v in zip(rows, x.transposed(given), strict=True):
            x.store_some(item(x.f, row, t, PART), v, mask)

    _tiles(x, tile)


IN_ROWS = of("in.rows", "p:a p:even p:odd i:count i:stride i:rows i:step")(_in_rows)
OUT_ROWS = of("out.rows", "p:even p:odd p:b i:count i:stride i:rows i:step T:scale")(_out_rows)


# -- lines that interleave by less than a vector ----------------------------------------------------------------------


def _line_pointers(x: Simd, base: str) -> str:
    """The address of each lane's line; that of the last one for lanes that have none."""
    f, w = x.f, x.width
    kind = f"<{w} x i64>"
    numbers = "<" + ", ".join(f"i64 {k}" for k in range(w)) + ">"
    own = f.plain(f"add {kind} {x.splat('%first', 'i64')}, {numbers}")
    last = x.splat(str(f.sub("%lines", 1)), "i64")
    own = f.plain_call(kind, f"llvm.umin.v{w}i64", [(kind, own), (kind, last)])
    inner = x.splat("%inner", "i64")
    outer = f.plain(f"udiv {kind} {own}, {inner}")
    rest = f.plain(f"urem {kind} {own}, {inner}")
    far = x.splat(str(f.mul("%n", "%inner")), "i64")
    offset = f.plain(f"add {kind} {f.plain(f'mul {kind} {outer}, {far}')}, {rest}")
    return f.plain(f"getelementptr [2 x {x.element}], ptr {base}, {kind} {offset}")


def _each_apart(x: Simd, base: str, body: Callable[[Ix, Pair], None]) -> None:
    """body(place, the addresses of real and imaginary parts) of each place of the lines."""
    f, w = x.f, x.width
    lines = _line_pointers(x, base)
    with f.loop("%n") as j:
        offset = f.mul(j, f.mul("%inner", 2 * x.size))
        parts = [f.plain(f"getelementptr i8, <{w} x ptr> {lines}, i64 {f.add(offset, k)}") for k in (0, x.size)]
        body(j, (parts[0], parts[1]))


def _in_apart(x: Simd) -> None:
    w = x.width

    def body(j: Ix, parts: Pair) -> None:
        value = [
            x.f.plain_call(
                x.kind,
                f"llvm.masked.gather.{x.suffix}.v{w}p0",
                [
                    (f"<{w} x ptr>", p),
                    ("i32", str(x.size)),
                    (f"<{w} x i1>", "splat (i1 true)"),
                    (x.kind, "zeroinitializer"),
                ],
            )
            for p in parts
        ]
        store_element(x, "%re", "%im", j, (value[0], value[1]))

    _each_apart(x, "%a", body)


def _out_apart(x: Simd) -> None:
    f, w = x.f, x.width
    scale, name = x.splat("%scale"), f"llvm.masked.scatter.{x.suffix}.v{w}p0"
    f.module.declare("void", name, f"{x.kind}, <{w} x ptr>, i32, <{w} x i1>")

    def body(j: Ix, parts: Pair) -> None:
        for p, v in zip(parts, x.scaled(load_element(x, "%re", "%im", j), scale), strict=True):
            f.do(f"call void @{name}({x.kind} {v}, <{w} x ptr> {p}, i32 {x.size}, <{w} x i1> splat (i1 true))")

    _each_apart(x, "%b", body)


IN_APART = of("in.apart", "p:a p:re p:im i:n i:inner i:first i:lines")(_in_apart)
OUT_APART = of("out.apart", "p:re p:im p:b i:n i:inner i:first i:lines T:scale")(_out_apart)


# -- within scratch ---------------------------------------------------------------------------------------------------


def _product(x: Simd) -> None:
    f = x.f
    with f.loop("%n") as j:
        factor = item(f, "%table", j, 2 * x.size)
        w = [x.splat(f.plain(f"load {x.element}, ptr {moved(f, factor, k * x.size)}")) for k in (0, 1)]
        value = x.times(load_element(x, "%are", "%aim", j), (w[0], w[1]))
        store_element(x, "%re", "%im", j, value)


def _zeros(x: Simd) -> None:
    with x.f.loop("%n") as j:
        store_element(x, "%re", "%im", j, ("zeroinitializer", "zeroinitializer"))


def _mirrored(x: Simd, scale: float) -> None:
    """Number k of the result: scale (a[k] + conj a[h - k]) + table[k] (a[k] - conj a[h - k]), 0 < k < h."""
    f, factor = x.f, x.number(scale)
    with f.loop("%h", 1, guarded=True) as k:
        turn = item(f, "%table", f.sub(k, 1), 2 * x.size)
        w = [x.splat(f.plain(f"load {x.element}, ptr {moved(f, turn, n * x.size)}")) for n in (0, 1)]
        one, two = x.load_pair(item(f, "%a", k, ELEMENT)), x.load_pair(item(f, "%a", f.sub("%h", k), ELEMENT))
        plus = x.op("fadd", one[0], two[0]), x.op("fsub", one[1], two[1])
        minus = x.op("fsub", one[0], two[0]), x.op("fadd", one[1], two[1])
        re, im = x.times(minus, (w[0], w[1]))
        store_element(x, "%re", "%im", k, (x.fma(plus[0], factor, re), x.fma(plus[1], factor, im)))


def _spectrum(x: Simd) -> None:
    """The first and the last number are real."""
    re, im = x.load_pair("%a")
    for k, op in (("0", "fadd"), ("%h", "fsub")):
        store_element(x, "%re", "%im", k, (x.op(op, re, im), "zeroinitializer"))
    _mirrored(x, 0.5)


def _signal(x: Simd) -> None:
    """The imaginary parts of the first and the last number count for nothing."""
    first, last = x.load("%a", PART), x.load(item(x.f, "%a", "%h", ELEMENT), PART)
    store_element(x, "%re", "%im", "0", (x.op("fadd", first, last), x.op("fsub", first, last)))
    _mirrored(x, 1.0)


def _conjugates(x: Simd) -> None:
    """The imaginary part of the first number counts for nothing."""
    f = x.f
    x.store("%im", "zeroinitializer", PART)
    half = f.plain(f"lshr i64 {f.add('%n', 1)}, 1")
    with f.loop(half, 1, guarded=True) as k:
        re, im = load_element(x, "%re", "%im", k)
        store_element(x, "%re", "%im", f.sub("%n", k), (re, x.neg(im)))


PRODUCT = of("product", "p:are p:aim p:re p:im p:table i:n")(_product)
ZEROS = of("zeros", "p:re p:im i:n")(_zeros)
SPECTRUM = of("spectrum", "p:a p:re p:im p:table i:h")(_spectrum)
SIGNAL = of("signal", "p:a p:re p:im p:table i:h")(_signal)
CONJUGATES = of("conjugates", "p:re p:im i:n")(_conjugates)
