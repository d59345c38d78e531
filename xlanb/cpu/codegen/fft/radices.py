"""Passes of Stockham's algorithm over the lanes of scratch, a routine for each radix (see codegen.matmul.shared).

    xlanb.fft.pass.R.TYPE (a, b, turns, m, s, R)     b[q + s (R p + k)] = w^(p k) sum over j of a[q + s (p + j m)] e^(-2 pi i j k / R)      p < m, q < s, k < R

w^(p k), k > 0, stand in `turns` for p > 0 (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, section 1.7). Primes without a butterfly of their own share
xlanb.fft.pass.prime.TYPE, whose cosines and sines stand before the turns.

    xlanb.fft.passes.TYPE (list, count, a, b, turns)     the passes of a list, from a to b, from b to a, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from xlanb.cpu.codegen.fft.simd import ELEMENT, PART, Pair, Simd, item, lanes_of, moved
from xlanb.cpu.codegen.ir import Function, Ix, ModuleBuilder
from xlanb.cpu.codegen.matmul.shared import routine

BUTTERFLIES = (2, 3, 4, 5, 7, 8, 11, 13)
"""Radices that have a routine of their own."""
LARGEST = 61
"""The largest prime that is worth a pass."""
_PASS = ("ptr %a", "ptr %b", "ptr %turns", "i64 %m", "i64 %s", "i64 %r")
_LISTS: WeakKeyDictionary[ModuleBuilder, dict[object, str]] = WeakKeyDictionary()


def call_passes(
    f: Function, element: str, passes: Sequence[tuple[int, int, int, int]], turns: str, a: str, b: str
) -> None:
    """Emit passes of (radix, offset of its turns, m, s), from a to b, from b to a, ...; their list is a constant of the module."""
    name = f"fft.passes.{_suffix(element)}"
    called = routine(f.module, ("fft.passes", element), name, _passes, _LIST)
    made = _LISTS.setdefault(f.module, {})
    key = (element, *passes)
    if key not in made:
        made[key] = "@" + f.module.unique("passes")
        entries = [
            f"{_ENTRY} {{ ptr @{_routine(f.module, element, r)}, i64 {at}, i64 {m}, i64 {s}, i64 {r} }}"
            for r, at, m, s in passes
        ]
        f.module.globals[made[key][1:]] = (
            f"{made[key]} = private constant [{len(passes)} x {_ENTRY}] [{', '.join(entries)}], align 8"
        )
    f.do(f"call void @{called}(ptr {made[key]}, i64 {len(passes)}, ptr {a}, ptr {b}, ptr {turns})")


_LIST = ("ptr %list", "i64 %count", "ptr %a", "ptr %b", "ptr %turns")
_ENTRY = "{ ptr, i64, i64, i64, i64 }"


def _passes(f: Function) -> None:
    """One pass after the other, back and forth."""
    with f.carried("%count", [("ptr", "%a"), ("ptr", "%b")]) as loop:
        a, b = loop.values
        entry = item(f, "%list", loop.index, 40)
        called = f.plain(f"load ptr, ptr {entry}")
        offset, *sizes = (f.plain(f"load i64, ptr {moved(f, entry, 8 * k)}") for k in (1, 2, 3, 4))
        given = [f"ptr {a}", f"ptr {b}", f"ptr {moved(f, '%turns', offset)}", *(f"i64 {v}" for v in sizes)]
        f.do(f"call void {called}({', '.join(given)})")
        loop.next = [b, a]


def _suffix(element: str) -> str:
    return "f32" if element == "float" else "f64"


def _routine(module: ModuleBuilder, element: str, radix: int) -> str:
    """The name of a pass's routine."""
    radix = radix if radix in BUTTERFLIES else 0
    name = f"fft.pass.{radix or 'prime'}.{_suffix(element)}"

    def emit(f: Function) -> None:
        lanes = lanes_of(4 if element == "float" else 8)
        width = min(lanes, f.target.vector_bits // (32 if element == "float" else 64))
        x = Simd(f, element, width)
        if radix:
            _Pass(x, radix, lanes // width).emit()
        else:
            _PrimePass(x, lanes // width).emit()

    return routine(module, ("fft.pass", element, radix), name, emit, _PASS)


@dataclass(frozen=True)
class _Pass:
    """A pass whose butterfly is written out. An element of scratch has as many vectors as `parts` says."""

    x: Simd
    radix: int
    parts: int

    def emit(self) -> None:
        """The first p, whose turns are ones, and the others."""
        f, x, r = self.x.f, self.x, self.radix
        self._butterflies("%a", "%b", [])
        row = f.mul("%s", ELEMENT)
        with f.loop("%m", 1, guarded=True) as p:
            turns = item(f, "%turns", f.sub(p, 1), 2 * (r - 1) * x.size)
            w = [(self._turn(turns, 2 * k), self._turn(turns, 2 * k + 1)) for k in range(r - 1)]
            a, b = moved(f, "%a", f.mul(p, row)), moved(f, "%b", f.mul(f.mul(p, r), row))
            self._butterflies(a, b, w)

    def _turn(self, turns: str, k: int) -> str:
        x = self.x
        return x.splat(x.f.plain(f"load {x.element}, ptr {moved(x.f, turns, k * x.size)}"))

    def _butterflies(self, a: str, b: str, w: Sequence[Pair]) -> None:
        """All q of one p."""
        f, x, r = self.x.f, self.x, self.radix
        row = f.mul("%s", ELEMENT)
        far = f.mul("%m", row)
        with f.loop("%s") as q:
            at = f.mul(q, ELEMENT)
            for part in range(self.parts):
                here = f.add(at, part * PART // self.parts)
                given = [_load(x, moved(f, a, f.add(here, f.mul(far, j)))) for j in range(r)]
                made = butterfly(x, given)
                for k, value in enumerate(made):
                    turned = x.times(value, w[k - 1]) if w and k else value
                    _store(x, moved(f, b, f.add(here, f.mul(row, k))), turned)


def _load(x: Simd, at: str) -> Pair:
    return x.load(at, min(PART, x.width * x.size)), x.load(moved(x.f, at, PART), min(PART, x.width * x.size))


def _store(x: Simd, at: str, value: Pair) -> None:
    for place, v in zip((at, moved(x.f, at, PART)), value, strict=True):
        x.store(place, v, min(PART, x.width * x.size))


# -- butterflies ------------------------------------------------------------------------------------------------------


def butterfly(x: Simd, a: Sequence[Pair]) -> list[Pair]:
    """The transform of a few numbers."""
    return _WRITTEN.get(len(a), _odd)(x, a)


def _two(x: Simd, a: Sequence[Pair]) -> list[Pair]:
    return [x.add(a[0], a[1]), x.sub(a[0], a[1])]


def _four(x: Simd, a: Sequence[Pair]) -> list[Pair]:
    even, odd = _two(x, a[::2]), _two(x, a[1::2])
    (re, im), (ore, oim) = even[1], odd[1]
    low = x.op("fadd", re, oim), x.op("fsub", im, ore)
    high = x.op("fsub", re, oim), x.op("fadd", im, ore)
    return [x.add(even[0], odd[0]), low, x.sub(even[0], odd[0]), high]


def _eight(x: Simd, a: Sequence[Pair]) -> list[Pair]:
    even, odd = _four(x, a[::2]), _four(x, a[1::2])
    root, less = x.number(math.sqrt(0.5)), x.number(-math.sqrt(0.5))
    out: list[Pair] = [("", "")] * 8
    out[0], out[4] = x.add(even[0], odd[0]), x.sub(even[0], odd[0])
    # By e^(-pi i / 4) and e^(-3 pi i / 4): the sums and differences times a root, which goes into the additions.
    for k, sign in ((1, (root, root)), (3, (less, less))):
        re, im = odd[k]
        plus, minus = x.op("fadd", re, im), x.op("fsub", im, re)
        one, two = (plus, minus) if k == 1 else (x.op("fsub", re, im), plus)
        out[k] = x.fma(one, sign[0], even[k][0]), x.fma(two, sign[1], even[k][1])
        back = less if k == 1 else root
        out[k + 4] = x.fma(one, back, even[k][0]), x.fma(two, back, even[k][1])
    re, im = odd[2]
    out[2] = x.op("fadd", even[2][0], im), x.op("fsub", even[2][1], re)
    out[6] = x.op("fsub", even[2][0], im), x.op("fadd", even[2][1], re)
    return out


def _odd(x: Simd, a: Sequence[Pair]) -> list[Pair]:
    """An odd radix by sums and differences of what lies opposite."""
    r = len(a)
    half = range(1, r // 2 + 1)
    sums = {j: x.add(a[j], a[r - j]) for j in half}
    differences = {j: x.sub(a[j], a[r - j]) for j in half}
    first = a[0]
    for j in half:
        first = x.add(first, sums[j])
    made = [first] * r
    for k in half:
        even, turned = a[0], ("", "")
        for j in half:
            angle = 2 * math.pi * (j * k % r) / r
            c, s = x.number(math.cos(angle)), x.number(math.sin(angle))
            even = x.fma(sums[j][0], c, even[0]), x.fma(sums[j][1], c, even[1])
            re, im = differences[j]
            turned = x.scaled((im, re), s) if j == 1 else (x.fma(im, s, turned[0]), x.fma(re, s, turned[1]))
        made[k] = x.op("fadd", even[0], turned[0]), x.op("fsub", even[1], turned[1])
        made[r - k] = x.op("fsub", even[0], turned[0]), x.op("fadd", even[1], turned[1])
    return made


_WRITTEN: dict[int, Callable[[Simd, Sequence[Pair]], list[Pair]]] = {2: _two, 4: _four, 8: _eight}


# -- other primes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PrimePass:
    """A pass of any odd radix r, as `_odd`, by loops: cosines and sines of j k, for 0 < k, j <= r / 2, stand before the turns, those of p = 0 among them."""

    x: Simd
    parts: int

    def emit(self) -> None:
        """All butterflies, one after the other."""
        f, x = self.x.f, self.x
        half = f.plain("lshr i64 %r, 1")
        folded = f.alloca(x.kind, 4 * (LARGEST // 2))
        angles = f.mul(f.mul(half, half), 2 * x.size)
        turned = moved(f, "%turns", angles)
        row = f.mul("%s", ELEMENT)
        far = f.mul("%m", row)
        with f.loop("%m") as p:
            w = item(f, turned, p, f.mul(half, 4 * x.size))
            a, b = moved(f, "%a", f.mul(p, row)), moved(f, "%b", f.mul(f.mul(p, "%r"), row))
            with f.loop("%s") as q:
                for part in range(self.parts):
                    here = f.add(f.mul(q, ELEMENT), part * PART // self.parts)
                    first = self._fold(moved(f, a, here), far, half, folded, moved(f, b, here))
                    self._outputs(moved(f, b, here), row, half, folded, first, w)

    def _fold(self, a: str, far: Ix, half: str, folded: str, b: str) -> Pair:
        """Sums and differences of what lies opposite into `folded`, the sum of all into b; gives the first."""
        f, x = self.x.f, self.x
        first = _load(x, a)
        with f.carried(half, [(x.kind, v) for v in first]) as loop:
            j = f.add(loop.index, 1)
            one, two = (_load(x, moved(f, a, f.mul(far, at))) for at in (j, f.sub("%r", j)))
            plus, minus = x.add(one, two), x.sub(one, two)
            place = item(f, folded, loop.index, 4 * x.width * x.size)
            for k, v in enumerate((*plus, *minus)):
                x.store(moved(f, place, k * x.width * x.size), v, x.size)
            loop.next = list(x.add((loop.values[0], loop.values[1]), plus))
        _store(x, b, (loop.values[0], loop.values[1]))
        return first

    def _outputs(self, b: str, row: Ix, half: str, folded: str, first: Pair, w: str) -> None:
        """Results k and r - k of all k."""
        f, x = self.x.f, self.x
        with f.loop(half) as k:
            angles = item(f, "%turns", k, f.mul(half, 2 * x.size))
            zero = "zeroinitializer"
            with f.carried(half, [(x.kind, v) for v in (*first, zero, zero)]) as loop:
                angle = item(f, angles, loop.index, 2 * x.size)
                c, s = (x.splat(f.plain(f"load {x.element}, ptr {moved(f, angle, n * x.size)}")) for n in (0, 1))
                place = item(f, folded, loop.index, 4 * x.width * x.size)
                given = [x.load(moved(f, place, n * x.width * x.size)) for n in range(4)]
                even, turned = loop.values[:2], loop.values[2:]
                loop.next = [x.fma(given[n], c, even[n]) for n in (0, 1)]
                loop.next += [x.fma(given[3 - n], s, turned[n]) for n in (0, 1)]
            even, turned = loop.values[:2], loop.values[2:]
            low = x.op("fadd", even[0], turned[0]), x.op("fsub", even[1], turned[1])
            high = x.op("fsub", even[0], turned[0]), x.op("fadd", even[1], turned[1])
            j = f.add(k, 1)
            for at, value in ((j, low), (f.sub("%r", j), high)):
                turns = item(f, w, f.sub(at, 1), 2 * x.size)
                pair = [x.splat(f.plain(f"load {x.element}, ptr {moved(f, turns, n * x.size)}")) for n in (0, 1)]
                _store(x, moved(f, b, f.mul(row, at)), x.times(value, (pair[0], pair[1])))
