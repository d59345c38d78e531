"""Explicit vectors: statements written for one element become statements for `width` consecutive ones.

Emitters write an element's code as if for one element. Within a region of a width (`Function.region`) the counter of the innermost loop is an `Affine` index: a number that
differs from lane to lane in a known way and costs nothing until it is used. Memory at such an index is loaded as one vector; a statement with a vector among
its operands is widened (`widen`), its other operands repeated; all else stays scalar and is moved out of the loop. What cannot be widened raises
`NotAVectorError`: the loop is then written for one element after the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlanb.errors import XlanbError

if TYPE_CHECKING:
    from xlanb.cpu.codegen.ir import Function, Ix

_NAME = re.compile(r"%[\w.]+")
_SUFFIX = re.compile(r"\.(f16|f32|f64|i\d+)(?=\.|$)")
_BINARY = frozenset(
    "add sub mul udiv sdiv urem srem shl lshr ashr and or xor fadd fsub fmul fdiv frem icmp fcmp".split()
)
_CASTS = frozenset("zext sext trunc fpext fptrunc sitofp uitofp fptosi fptoui bitcast".split())
_UNARY = frozenset(("fneg", "freeze"))
_PURE = _BINARY | _CASTS | _UNARY | {"select"}


MAX_CUTS = 64
"""Places at which a loop over vectors may be cut, its ends included."""


class NotAVectorError(XlanbError):
    """Code that cannot be written for several elements at once: the loop around it goes one by one."""


class SplitError(NotAVectorError):
    """A condition that changes between consecutive elements, at known places: the loop is to be cut there."""

    def __init__(self, cuts: tuple[int, ...]) -> None:
        super().__init__(f"a condition that changes at {cuts}")
        self.cuts = cuts


@dataclass(frozen=True)
class Lane:
    """The counter of a loop over vectors: `origin` is its value for the first lane, between `low` and `high`, both included, for all; `depth` its region."""

    origin: Ix
    low: int
    high: int
    width: int
    depth: int


Atom = tuple[int, int]
"""(a, m): the counter divided by a, modulo m where m is not 0."""


@dataclass(frozen=True)
class Affine:
    """base + the sum of coefficient * atom: an index that differs from lane to lane. The base is the same for all lanes."""

    lane: Lane
    base: Ix
    terms: tuple[tuple[Atom, int], ...]

    @property
    def step(self) -> int | None:
        """What the next lane has more; None where that is not the same for all."""
        if not self.terms:
            return 0
        ((a, m), coefficient), *rest = self.terms
        return coefficient if not rest and (a, m) == (1, 0) else None

    @property
    def span(self) -> tuple[int, int] | None:
        """The lowest and the highest value; None where the base is not known."""
        if not isinstance(self.base, int):
            return None
        low = high = self.base
        for (a, m), k in self.terms:
            ends = (0, m - 1) if m else (self.lane.low // a, self.lane.high // a)
            low, high = low + min(k * v for v in ends), high + max(k * v for v in ends)
        return low, high


# -- indices ------------------------------------------------------------------------------------------------------


def counter(f: Function, origin: Ix, low: int, high: int, width: int) -> str:
    """The index of the lanes from `origin` on, in the present region; low..high is all that it may be in its loop."""
    return str(_named(f, Affine(Lane(origin, low, high, width, len(f.regions)), 0, (((1, 0), 1),))))


def _named(f: Function, x: Affine) -> Ix:
    """The name of an affine index; its base where the lanes do not differ."""
    if not x.terms:
        return x.base
    key = ("affine", x)
    found = f.recall(key)
    if found is None:
        found = f.fresh("lane")
        f.depths[found] = max(x.lane.depth, f.depths.get(str(x.base), 0))
        f.affine[found] = x
        f.remember(key, found)
    return str(found)


def _of(f: Function, a: Ix, lane: Lane) -> Affine | None:
    """An index as an affine one; None where it is a vector already."""
    if a in f.affine:
        return f.affine[str(a)]
    return None if a in f.lanes else Affine(lane, a, ())


def _both(f: Function, a: Ix, b: Ix) -> tuple[Affine | None, Affine | None]:
    lane = f.affine[str(a if a in f.affine else b)].lane
    return _of(f, a, lane), _of(f, b, lane)


def _terms(lane: Lane, terms: Sequence[tuple[Atom, int]]) -> tuple[int, tuple[tuple[Atom, int], ...]]:
    """(a constant, terms): equal atoms added up, k*b * (q / ab mod m) + k * (q / a mod b) joined to k * (q / a mod bm), atoms that are the same for all lanes known."""
    base, found = 0, dict[Atom, int]()
    for (a, modulus), k in terms:
        low, high, m = lane.low // a, lane.high // a, modulus
        if low == high and a > 1:
            base += k * (low % m if m else low)
        else:
            if m and low // m == high // m:
                base, m = base - k * m * (low // m), 0
            found[a, m] = found.get((a, m), 0) + k
    joined = True
    while joined:
        joined = False
        for (a, b), k in list(found.items()):
            for (c, m), n in list(found.items()):
                if b and c == a * b and n == k * b and (a, b) in found and (c, m) in found:
                    del found[a, b], found[c, m]
                    atom = (a, b * m)
                    found[atom] = found.get(atom, 0) + k
                    joined = True
    return base, tuple(sorted((atom, k) for atom, k in found.items() if k))


def _made(f: Function, lane: Lane, base: Ix, terms: Sequence[tuple[Atom, int]]) -> Ix:
    more, kept = _terms(lane, terms)
    return _named(f, Affine(lane, f.add(base, more, wrap=True), kept))


def add(f: Function, a: Ix, b: Ix) -> Ix:
    """a + b, one of them affine."""
    x, y = _both(f, a, b)
    if x is None or y is None:
        return f.let(f"add i64 {a}, {b}")
    return _made(f, x.lane, f.add(x.base, y.base, wrap=True), (*x.terms, *y.terms))


def sub(f: Function, a: Ix, b: Ix) -> Ix:
    """a - b, one of them affine."""
    x, y = _both(f, a, b)
    if x is None or y is None:
        return f.let(f"sub i64 {a}, {b}")
    return _made(f, x.lane, f.sub(x.base, y.base), (*x.terms, *((atom, -k) for atom, k in y.terms)))


def mul(f: Function, a: Ix, b: Ix) -> Ix:
    """a * b, one of them affine."""
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, str):
        return f.let(f"mul i64 {a}, {b}")
    x = f.affine[str(a)]
    return _made(f, x.lane, f.mul(x.base, b, wrap=True), [(atom, k * b) for atom, k in x.terms])


def _parts(x: Affine, b: int) -> tuple[int, list[tuple[Atom, int]], Affine]:
    """(the base, terms) of what b divides, divided; the rest."""
    if not isinstance(x.base, int):
        raise NotAVectorError("an index that is divided")
    whole = [(atom, k // b) for atom, k in x.terms if k % b == 0]
    rest = tuple((atom, k) for atom, k in x.terms if k % b)
    return x.base // b, whole, Affine(x.lane, x.base % b, rest)


def div(f: Function, a: Ix, b: int) -> Ix:
    """An affine a / b, for a >= 0."""
    base, terms, rest = _parts(f.affine[str(a)], b)
    if len(rest.terms) == 1 and rest.base == 0 and rest.terms[0][1] == 1:
        (p, m), _ = rest.terms[0]
        if m and m % b:
            raise NotAVectorError("an index that is divided")
        terms.append(((p * b, m // b), 1))
    elif not _is_below(rest, b):
        raise NotAVectorError("an index that is divided")
    return _made(f, rest.lane, base, terms)


def rem(f: Function, a: Ix, b: int) -> Ix:
    """An affine a modulo b, for a >= 0."""
    _, _, rest = _parts(f.affine[str(a)], b)
    if not _is_below(rest, b):
        if len(rest.terms) != 1 or rest.base != 0 or rest.terms[0][1] != 1:
            raise NotAVectorError("an index that is divided")
        (p, m), _ = rest.terms[0]
        if m and m % b:
            raise NotAVectorError("an index that is divided")
        rest = Affine(rest.lane, 0, (((p, b), 1),))
    return _made(f, rest.lane, rest.base, rest.terms)


def _is_below(x: Affine, b: int) -> bool:
    span = x.span
    return span is not None and span[0] >= 0 and span[1] < b


def within(f: Function, a: Ix, low: int, high: int) -> str:
    """Whether low <= a < high, for an affine a: "true" or "false", or empty where lanes may differ.

    Raises:
        SplitError: it is so for a known part of the loop.
    """
    x = f.affine[str(a)]
    span = x.span
    if span is None:
        return ""
    if low <= span[0] and span[1] < high:
        return "true"
    if span[1] < low or span[0] >= high:
        return "false"
    if x.step not in (1, -1) or not isinstance(x.base, int):
        return ""
    cuts = (low - x.base, high - x.base) if x.step == 1 else (x.base - high + 1, x.base - low + 1)
    raise SplitError(tuple(c for c in cuts if x.lane.low < c <= x.lane.high))


# -- vectors ------------------------------------------------------------------------------------------------------


def kind(type_: str, width: int) -> str:
    """The type of a vector."""
    return f"<{width} x {type_}>"


def known(f: Function, width: int, text: str) -> str:
    """A statement that gives a vector."""
    name = f.plain(text)
    f.lanes[name] = width
    return name


def splat(f: Function, type_: str, value: str, width: int) -> str:
    """A vector of equal elements; where the scalar is known, not in the loop."""
    if not value.startswith("%"):
        return f"splat ({type_} {value})"
    key = ("splat", value, width)
    found = f.recall(key)
    if found is None:
        with f.outside(f.home(value)):
            vector = kind(type_, width)
            one = f.plain(f"insertelement {vector} poison, {type_} {value}, i64 0")
            found = known(f, width, f"shufflevector {vector} {one}, {vector} poison, <{width} x i32> zeroinitializer")
            f.remember(key, found)
    return str(found)


def lane_numbers(width: int, type_: str = "i64", step: int = 1) -> str:
    """The constant <0, step, 2 step, ...>."""
    return "<" + ", ".join(f"{type_} {k * step}" for k in range(width)) + ">"


def materialize(f: Function, name: str) -> str:
    """The vector of an affine index."""
    x = f.affine[name]
    if x.step is None:
        raise NotAVectorError("an index that has to be divided")
    key = ("vector", name)
    found = f.recall(key)
    if found is None:
        width = x.lane.width
        with f.outside(f.home(name)):
            first = splat(f, "i64", str(first_of(f, x)), width)
            found = known(f, width, f"add {kind('i64', width)} {first}, {lane_numbers(width, step=x.step)}")
            f.remember(key, found)
    return str(found)


def first_of(f: Function, x: Affine) -> Ix:
    """The value of the first lane of an index of one step."""
    return f.add(x.base, f.mul(x.lane.origin, x.step or 0, wrap=True), wrap=True)


def operand(f: Function, type_: str, value: str, width: int) -> str:
    """A value as a vector."""
    if value in f.lanes:
        return value
    return materialize(f, value) if value in f.affine else splat(f, type_, value, width)


def as_vector(f: Function, type_: str, value: str) -> tuple[str, str]:
    """(type, value) of a value as a vector of the region's width."""
    if type_.startswith("<"):
        return type_, value if value in f.lanes else splat(f, type_.rsplit(maxsplit=1)[-1][:-1], value, f.width)
    return kind(type_, f.width), operand(f, type_, value, f.width)


def varies(f: Function, value: Ix) -> bool:
    """Whether a value differs from lane to lane."""
    return value in f.lanes or value in f.affine


def widen(f: Function, text: str) -> str:
    """A statement; on vectors where an operand is one."""
    width = 0
    for name in _NAME.findall(text):
        width = f.lanes.get(name, 0) or (f.affine[name].lane.width if name in f.affine else 0)
        if width:
            break
    opcode, *words = text.split(" ")
    if not width:
        return _same_for_all(f, text) if opcode in _PURE else f.plain(text)
    if opcode in _BINARY:
        *flags, type_, a, b = words
        made = f"{kind(type_, width)} {operand(f, type_, a[:-1], width)}, {operand(f, type_, b, width)}"
        return known(f, width, " ".join((opcode, *flags, made)))
    if opcode in _UNARY:
        *flags, type_, a = words
        return known(f, width, " ".join((opcode, *flags, kind(type_, width), operand(f, type_, a, width))))
    if opcode in _CASTS:
        *flags, type_, a, _, to = words
        return _cast(f, " ".join((opcode, *flags)), type_, a, to, width)
    if opcode == "select":
        return _select(f, words, width)
    if opcode == "getelementptr":
        return _pointers(f, words, width)
    if opcode == "load" and len(words) == 3 and words[2] in f.lanes:
        return gather(f, words[0][:-1], words[2], width)
    raise NotAVectorError(f"no vector form of: {text}")


def _same_for_all(f: Function, text: str) -> str:
    """A statement without a vector among its operands: written once, before the loop where its operands are known there."""
    key = ("same", text)
    found = f.recall(key)
    if found is None:
        with f.outside(f.home(*_NAME.findall(text))):
            found = f.plain(text)
            f.remember(key, found)
    return str(found)


def _cast(f: Function, opcode: str, type_: str, a: str, to: str, width: int) -> str:
    if opcode == "trunc" and a in f.affine and f.affine[a].step is not None:
        # An index in a narrower type: the first lane's, and the lanes counted in that type.
        x = f.affine[a]
        with f.outside(f.home(a)):
            first = first_of(f, x)
            low = f.plain(f"trunc i64 {first} to {to}")
            numbers = lane_numbers(width, to, x.step or 0)
            return known(f, width, f"add {kind(to, width)} {splat(f, to, low, width)}, {numbers}")
    return known(f, width, f"{opcode} {kind(type_, width)} {operand(f, type_, a, width)} to {kind(to, width)}")


def _select(f: Function, words: list[str], width: int) -> str:
    *flags, _, condition, type_, a, _, b = words
    chosen = condition[:-1]
    if chosen not in f.lanes and b == "0" and type_.startswith("i") and type_ != "i1":
        # All lanes or none: a mask that is made once costs less than a choice in each round.
        return f.let(f"and {type_} {a[:-1]}, {f.let(f'sext i1 {chosen} to {type_}')}")
    test = f"{kind('i1', width)} {chosen}" if chosen in f.lanes else f"i1 {chosen}"
    a, b = operand(f, type_, a[:-1], width), operand(f, type_, b, width)
    vector = kind(type_, width)
    return known(f, width, " ".join(("select", *flags, f"{test}, {vector} {a}, {vector} {b}")))


def _pointers(f: Function, words: list[str], width: int) -> str:
    *flags, type_, _, base, _, offset = words
    if base[:-1] in f.lanes:
        raise NotAVectorError("pointers that differ from lane to lane")
    at = operand(f, "i64", offset, width)
    return known(f, width, " ".join(("getelementptr", *flags, f"{type_} ptr {base} {kind('i64', width)} {at}")))


def widen_call(
    f: Function, result: str, name: str, arguments: Sequence[tuple[str, str]], flags: str, attributes: str
) -> str:
    """A call of an intrinsic on vectors; of another function, lane by lane."""
    width = next(f.lanes.get(v, 0) or f.affine[v].lane.width for _, v in arguments if varies(f, v))
    if not name.startswith("llvm."):
        return _lane_by_lane(f, result, name, arguments, attributes, width)
    given = [
        (t, v) if t == "i1" and v in ("true", "false") else (kind(t, width), operand(f, t, v, width))
        for t, v in arguments
    ]
    made = f.plain_call(kind(result, width), _SUFFIX.sub(rf".v{width}\1", name), given, flags)
    f.lanes[made] = width
    return made


def _lane_by_lane(
    f: Function, result: str, name: str, arguments: Sequence[tuple[str, str]], attributes: str, width: int
) -> str:
    """A scalar function of each lane, by way of the stack."""
    places = [_on_stack(f, t, operand(f, t, v, width), width) for t, v in arguments]
    out = f.alloca(result, width)
    with f.loop(width) as k:
        given = [
            (t, f.plain(f"load {t}, ptr {_lane_address(f, t, p, k)}"))
            for (t, _), p in zip(arguments, places, strict=True)
        ]
        one = f.plain_call(result, name, given, attributes=attributes)
        f.do(f"store {result} {one}, ptr {_lane_address(f, result, out, k)}")
    return known(f, width, f"load {kind(result, width)}, ptr {out}, align {alignment(result)}")


def _on_stack(f: Function, type_: str, value: str, width: int) -> str:
    place = f.alloca(type_, width)
    f.do(f"store {kind(type_, width)} {value}, ptr {place}, align {alignment(type_)}")
    return place


def _lane_address(f: Function, type_: str, place: str, lane: Ix) -> str:
    return f.plain(f"getelementptr inbounds {type_}, ptr {place}, i64 {lane}")


def rarely(f: Function, condition: str, value: str, otherwise: Callable[[], str]) -> str:
    """A float; where the condition holds, which is rare, another. What gives that is left out as long as the condition holds in no lane."""
    width = f.lanes[condition]
    vector = kind("float", width)
    made = operand(f, "float", value, width)
    bits = f.plain(f"bitcast {kind('i1', width)} {condition} to i{width}")
    rare, end = f.fresh("rare"), f.fresh("usual")
    before = f.block
    f.branch_if(f.plain(f"icmp ne i{width} {bits}, 0"), rare, end)
    f.begin(rare)
    with f.aside():
        other = f.plain(f"select {kind('i1', width)} {condition}, {vector} {otherwise()}, {vector} {made}")
        last = f.block
        f.branch(end)
    f.begin(end)
    return known(f, width, f"phi {vector} [ {made}, %{before} ], [ {other}, %{last} ]")


# -- memory -------------------------------------------------------------------------------------------------------

_BYTES = {"half": 2, "float": 4, "double": 8, "ptr": 8}


def alignment(type_: str) -> int:
    """Bytes that an element of an LLVM type is aligned to."""
    return _BYTES.get(type_) or int(type_[1:]) // 8


def overload(type_: str, width: int) -> str:
    """How an intrinsic on a vector is called."""
    return f"v{width}{ {'half': 'f16', 'float': 'f32', 'double': 'f64'}.get(type_, type_) }"


def region_mask(f: Function, width: int, repeat: int = 1) -> str:
    """The mask of the present region, each bit `repeat` times; all where there is none."""
    if not f.mask:
        return "splat (i1 true)"
    if repeat == 1:
        return f.mask
    if f.mask.startswith("<i1"):
        return reordered_mask(f.mask, [k // repeat for k in range(width)])
    order = ", ".join(f"i32 {k // repeat}" for k in range(width))
    return f.plain(
        f"shufflevector <{width // repeat} x i1> {f.mask}, <{width // repeat} x i1> poison, <{width} x i32> <{order}>"
    )


def reordered_mask(mask: str, order: Sequence[int]) -> str:
    """The lanes of a constant mask in another order, as a constant: of a shuffle of constants LLVM 22 loads lanes on AVX2 that its mask leaves out."""
    lanes = mask[1:-1].split(", ")
    return f"<{', '.join(lanes[k] for k in order)}>"


def gather(f: Function, type_: str, pointers: str, width: int) -> str:
    """The elements at a vector of pointers."""
    vector, bits = kind(type_, width), kind("i1", width)
    name = f"llvm.masked.gather.{overload(type_, width)}.v{width}p0"
    f.module.declare(vector, name, f"{kind('ptr', width)}, i32, {bits}, {vector}")
    where = f"{kind('ptr', width)} {pointers}, i32 {alignment(type_)}"
    given = f"{where}, {bits} {region_mask(f, width)}, {vector} zeroinitializer"
    return known(f, width, f"call {vector} @{name}({given})")
