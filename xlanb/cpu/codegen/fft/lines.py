"""Routines for one line in memory, whose numbers lie one after the other (see codegen.matmul.shared); `begin` and `end` bound a part of the line that one thread takes.

    xlanb.fft.line.product (a, table, b, begin, end, limit)        b[k] = a[k] table[k], a[k] = 0 from `limit` on; `begin` a multiple of the lanes
    xlanb.fft.line.mirror (a, table, b, begin, end, h, c)          b[k] = c (a[k] + conj a[h - k]) + table[k] (a[k] - conj a[h - k])                  0 < k < h
    xlanb.fft.line.ends (a, b, h), xlanb.fft.line.start (a, b, h)      numbers 0 and h of a real line's spectrum of that of the complex line of half its length, and back
    xlanb.fft.line.widen (a, b, n), xlanb.fft.line.narrow (a, b, n)          real numbers as complex ones, and back
    xlanb.fft.line.unfold (a, b, n)                                the spectrum of n real numbers, n odd, of its first half
    xlanb.fft.line.collect (a, b, n, stride), xlanb.fft.line.spread (a, b, n, stride)     complex numbers that are so many bytes apart to those of a line, and back

A table holds its numbers as scratch does: as many real parts as there are lanes, then as many imaginary ones.
"""

from __future__ import annotations

from xlanb.cpu.codegen.fft.copies import complex_masks, load_complex, of, store_complex
from xlanb.cpu.codegen.fft.simd import ELEMENT, Pair, Simd, item, moved
from xlanb.cpu.codegen.ir import Ix


def _at(x: Simd, base: str, k: Ix) -> str:
    """The address of a complex number."""
    return item(x.f, base, k, 2 * x.size)


def _count(x: Simd, elements: Ix) -> str:
    """Vectors that hold so many."""
    return x.f.plain(f"udiv i64 {x.f.add(elements, x.width - 1)}, {x.width}")


def _product(x: Simd) -> None:
    f = x.f
    with f.loop(_count(x, f.sub("%end", "%begin"))) as v:
        k = f.add("%begin", f.mul(v, x.width))
        masks = complex_masks(x, str(f.sub("%limit", k)))
        turn = x.load_pair(item(f, "%table", f.plain(f"udiv i64 {k}, {x.width}"), ELEMENT))
        value = x.times(load_complex(x, _at(x, "%a", k), masks), turn)
        store_complex(x, _at(x, "%b", k), value, complex_masks(x, str(f.sub("%end", k))))


def _mirror(x: Simd) -> None:
    f, w = x.f, x.width
    factor = x.splat("%c")
    with f.loop(_count(x, f.sub("%end", "%begin"))) as v:
        k = f.add("%begin", f.mul(v, w))
        left = f.sub("%end", k)
        masks = complex_masks(x, str(left))
        one = load_complex(x, _at(x, "%a", k), masks)
        two = _backwards(x, "%a", str(f.sub("%h", k)), str(left))
        turn = x.load_pair(item(f, "%table", f.plain(f"udiv i64 {f.sub(k, 1)}, {w}"), ELEMENT))
        plus = x.op("fadd", one[0], two[0]), x.op("fsub", one[1], two[1])
        minus = x.op("fsub", one[0], two[0]), x.op("fadd", one[1], two[1])
        re, im = x.times(minus, turn)
        value = x.fma(plus[0], factor, re), x.fma(plus[1], factor, im)
        store_complex(x, _at(x, "%b", k), value, masks)


def _backwards(x: Simd, base: str, last: str, left: str) -> Pair:
    """Numbers last, last - 1, ... of a line: as many as there are lanes, or are left."""
    at, masks = _behind(x, base, last, left)
    re, im = load_complex(x, at, masks)
    order = range(x.width - 1, -1, -1)
    return x.shuffle(re, re, order), x.shuffle(im, im, order)


def _behind(x: Simd, base: str, last: str, left: str) -> tuple[str, Pair]:
    """The address of a vector of numbers that ends with `last`, and the masks of those that there are."""
    f, w = x.f, x.width
    skipped = f.plain(f"shl i64 {f.plain(f'sub i64 {w}, {left}')}, 1")
    masks = [f.plain(f"xor <{w} x i1> {x.below(skipped, part * w)}, splat (i1 true)") for part in (0, 1)]
    return _at(x, base, f.plain(f"sub i64 {last}, {w - 1}")), (masks[0], masks[1])


def _scalar(x: Simd, base: str, k: Ix, part: int) -> str:
    return x.f.plain(f"load {x.element}, ptr {moved(x.f, _at(x, base, k), part * x.size)}")


def _set(x: Simd, base: str, k: Ix, part: int, value: str) -> None:
    x.f.do(f"store {x.element} {value}, ptr {moved(x.f, _at(x, base, k), part * x.size)}")


def _sum(x: Simd, op: str, a: str, b: str) -> str:
    return x.f.plain(f"{op} {x.element} {a}, {b}")


def _ends(x: Simd) -> None:
    re, im = (_scalar(x, "%a", 0, part) for part in (0, 1))
    for k, op in (("0", "fadd"), ("%h", "fsub")):
        _set(x, "%b", k, 0, _sum(x, op, re, im))
        _set(x, "%b", k, 1, "0.0")


def _start(x: Simd) -> None:
    first, last = _scalar(x, "%a", "0", 0), _scalar(x, "%a", "%h", 0)
    _set(x, "%b", "0", 0, _sum(x, "fadd", first, last))
    _set(x, "%b", "0", 1, _sum(x, "fsub", first, last))


def _widen(x: Simd) -> None:
    f = x.f
    with f.loop(_count(x, "%n")) as v:
        k = f.mul(v, x.width)
        left = str(f.sub("%n", k))
        value = x.load_some(item(f, "%a", k, x.size), x.below(left))
        store_complex(x, _at(x, "%b", k), (value, "zeroinitializer"), complex_masks(x, left))


def _narrow(x: Simd) -> None:
    f = x.f
    with f.loop(_count(x, "%n")) as v:
        k = f.mul(v, x.width)
        left = str(f.sub("%n", k))
        value = load_complex(x, _at(x, "%a", k), complex_masks(x, left))
        x.store_some(item(f, "%b", k, x.size), value[0], x.below(left))


def _unfold(x: Simd) -> None:
    """The imaginary part of the first number counts for nothing."""
    f = x.f
    _set(x, "%b", "0", 0, _scalar(x, "%a", "0", 0))
    _set(x, "%b", "0", 1, "0.0")
    half = f.plain(f"lshr i64 {f.sub('%n', 1)}, 1")
    order = range(x.width - 1, -1, -1)
    with f.loop(_count(x, half), guarded=True) as v:
        k = f.add(f.mul(v, x.width), 1)
        left = str(f.sub(f.add(half, 1), k))
        masks = complex_masks(x, left)
        re, im = load_complex(x, _at(x, "%a", k), masks)
        store_complex(x, _at(x, "%b", k), (re, im), masks)
        at, masks = _behind(x, "%b", str(f.sub("%n", k)), left)
        back = x.neg(im)
        store_complex(x, at, (x.shuffle(re, re, order), x.shuffle(back, back, order)), masks)


def _collect(x: Simd) -> None:
    f = x.f
    with f.loop("%n") as k:
        at = item(f, "%a", k, "%stride")
        for part in (0, 1):
            value = f.plain(f"load {x.element}, ptr {moved(f, at, part * x.size)}")
            _set(x, "%b", k, part, value)


def _spread(x: Simd) -> None:
    f = x.f
    with f.loop("%n") as k:
        at = item(f, "%b", k, "%stride")
        for part in (0, 1):
            f.do(f"store {x.element} {_scalar(x, '%a', k, part)}, ptr {moved(f, at, part * x.size)}")


PRODUCT = of("line.product", "p:a p:table p:b i:begin i:end i:limit")(_product)
MIRROR = of("line.mirror", "p:a p:table p:b i:begin i:end i:h T:c")(_mirror)
ENDS = of("line.ends", "p:a p:b i:h")(_ends)
START = of("line.start", "p:a p:b i:h")(_start)
WIDEN = of("line.widen", "p:a p:b i:n")(_widen)
NARROW = of("line.narrow", "p:a p:b i:n")(_narrow)
UNFOLD = of("line.unfold", "p:a p:b i:n")(_unfold)
COLLECT = of("line.collect", "p:a p:b i:n i:stride")(_collect)
SPREAD = of("line.spread", "p:a p:b i:n i:stride")(_spread)
