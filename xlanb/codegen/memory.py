"""Memory: single values, byte ranges, and arrays.

Elements of an array are accessed one by one, or as vectors at indices that differ from lane to
lane, with masks, strides and elements of several parts. An access is aligned to one element, and
touches no byte of an element that its mask excludes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlanb.codegen.lanes import LaneIndex, Mask, NotAVectorError, joined, varies
from xlanb.codegen.types import I1, I32, PTR, VOID, Type
from xlanb.codegen.values import Ix, Value
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from xlanb.codegen.function import Function

_STEPS = 8
"""The largest stride, in elements, that is loaded as shuffled vectors.

A gather takes about 1.5 cycles per element.
"""
_USERS = 4
"""The most lanes of an element whose masks are joined by shuffles; a gather takes one bit each."""


def load(f: Function, type_: Type, address: Value, align: int = 0) -> Value:
    """Load a value; a vector is aligned to its elements only."""
    return f.let(type_, f"load {type_.text}, {address!r}, align {align or type_.bytes}")


def store(f: Function, value: Value, address: Value, align: int = 0) -> None:
    """Store a value."""
    f.write(f"store {value!r}, {address!r}, align {align or value.type.bytes}")


def fill_zero(f: Function, address: Value, size: Ix, align: int = 64) -> None:
    """Set bytes to zero; the address is aligned to a cache line unless `align` is given."""
    fill(f, address, 0, size, align)


def fill(f: Function, address: Value, byte: int, size: Ix, align: int = 1) -> None:
    """Set bytes to a value; 255 gives NaN for floats."""
    name = "llvm.memset.p0.i64"
    f.module.declare("void", name, "ptr, i8, i64, i1")
    given = f"ptr align {align} {address.text}, i8 {byte}, {f.value(size)!r}, i1 false"
    f.write(f"call void {f.symbol(name).text}({given})")


def copy(f: Function, target: Value, source: Value, size: Ix) -> None:
    """Copy bytes between ranges that do not overlap."""
    f.call(VOID, "llvm.memcpy.p0.p0.i64", target, source, f.value(size), f.const(I1, False))


def move(f: Function, target: Value, source: Value, size: Ix) -> None:
    """Copy bytes between ranges that may overlap."""
    f.call(VOID, "llvm.memmove.p0.p0.i64", target, source, f.value(size), f.const(I1, False))


def prefetch(f: Function, address: Value, *, for_write: bool = False, locality: int = 3) -> None:
    """Prefetch the cache line of an address; harmless for invalid addresses.

    `locality` is LLVM's: 3 for the L1 cache, 2 for the L2 cache.
    """
    f.call(VOID, "llvm.prefetch.p0", address, *(f.const(I32, k) for k in (int(for_write), locality, 1)))


def stack_bytes(f: Function, size: Value) -> Value:
    """Stack memory of a run-time size, aligned to a cache line."""
    return f.let(PTR, f"alloca i8, {size!r}, align 64")


@dataclass(frozen=True, slots=True)
class Pointer:
    """Elements of a scalar type at an address: `p[i]` loads one, `p[i] = x` stores it.

    They are vectors if the index differs from lane to lane. Each element has `parts` consecutive
    values of the type (2: a complex number); a vector of elements interleaves them.
    """

    base: Value
    element: Type
    parts: int = 1

    @property
    def _f(self) -> Function:
        return self.base.function

    def address(self, offset: Ix) -> Value:
        """The address of element `offset`, the same in all lanes."""
        f = self.base.function
        if isinstance(offset, int) and offset == 0:
            return self.base
        element = self.element.text if self.parts == 1 else f"[{self.parts} x {self.element.text}]"
        index = f.value(offset)
        return f.pure(PTR, f"getelementptr inbounds {element}, {self.base!r}, {index!r}", self.base, index)

    def by(self, offset: Ix) -> Pointer:
        """The pointer advanced by a number of elements."""
        return Pointer(self.address(offset), self.element, self.parts)

    def __getitem__(self, index: Ix) -> Value:
        if varies(index) and self._f.width:
            return _load_lanes(self, index)  # type: ignore[arg-type]
        type_ = self.element.times(0 if self.parts == 1 else self.parts)
        return self._f.load(type_, self.address(index), self.element.bytes)

    def __setitem__(self, index: Ix, value: Value) -> None:
        f = self._f
        if varies(index) and f.width:
            _store_lanes(self, index, value)  # type: ignore[arg-type]
        else:
            f.store(value, self.address(index), self.element.bytes)

    def load(self, offset: Ix, lanes: int, mask: Mask | None = None) -> Value:
        """Load a vector of `lanes` values from element `offset` on.

        Masked values are zero, and are not read.
        """
        f, type_ = self._f, self.element.times(lanes)
        address = self.address(offset)
        if mask is None or mask.count == lanes:
            return f.load(type_, address, self.element.bytes)
        name, align = f"llvm.masked.load.{type_.mangled}.p0", f.const(I32, self.element.bytes)
        return f.call_as(type_, name, address, align, mask.value(f), f.zero(type_))

    def store(self, offset: Ix, value: Value, mask: Mask | None = None) -> None:
        """Store a vector from element `offset` on; masked elements are not changed."""
        f, address = self._f, self.address(offset)
        if mask is None or mask.count == mask.lanes:
            f.store(value, address, self.element.bytes)
            return
        if mask.count == 1:
            # LLVM 22 turns a narrowing store of one known lane into a store of the wide element,
            # out of bounds.
            f.store(f.extract(value, 0), address, self.element.bytes)
            return
        name, align = f"llvm.masked.store.{value.type.mangled}.p0", f.const(I32, self.element.bytes)
        f.call(VOID, name, value, address, align, mask.value(f))

    def addresses(self, index: Value) -> Value:
        """A vector of addresses for a vector of indices."""
        f = self._f
        (at,) = f.alike(index)
        type_ = PTR.times(at.type.lanes)
        return f.let(type_, f"getelementptr inbounds {self.element.text}, {self.base!r}, {at!r}")


def gather(f: Function, element: Type, addresses: Value) -> Value:
    """Load the elements at a vector of addresses."""
    lanes = addresses.type.lanes
    type_, bits = element.times(lanes), _region_mask(f, lanes).value(f)
    name = f"llvm.masked.gather.{type_.mangled}.v{lanes}p0"
    return f.call_as(type_, name, addresses, f.const(I32, element.bytes), bits, f.zero(type_))


def scatter(f: Function, addresses: Value, value: Value) -> None:
    """Store the elements at a vector of addresses."""
    lanes = addresses.type.lanes
    made = value if value.type.lanes else f.splat(value, lanes)
    name = f"llvm.masked.scatter.{made.type.mangled}.v{lanes}p0"
    f.call(VOID, name, made, addresses, f.const(I32, made.type.bytes), _region_mask(f, lanes).value(f))


def _region_mask(f: Function, lanes: int) -> Mask:
    return f.mask or Mask(lanes)


def _run_mask(f: Function, lanes: int, parts: int) -> Mask | None:
    """The region's mask for elements of several parts."""
    mask = f.mask
    if mask is None or parts == 1:
        return mask
    if mask.count is not None:
        return Mask(lanes * parts, mask.count * parts)
    return Mask(lanes * parts, None, mask.value(f, parts))


def _load_lanes(p: Pointer, index: Value) -> Value:
    """Load the elements at a lane-varying index: one vector of width * parts."""
    f = p.base.function
    width, mask = f.width, f.mask
    x = index if isinstance(index, LaneIndex) else None
    if x is not None and x.step == 1:
        return p.by(x.first).load(0, width * p.parts, _run_mask(f, width, p.parts))
    if x is not None and x.step == -1:
        return _load_backwards(p, x.first, width, mask)
    if p.parts != 1:
        raise NotAVectorError("parts of elements are not contiguous")
    if x is not None and x.step is not None and 1 < x.step <= _STEPS and mask is None and width >= 4:
        return _load_strided_pieces(p, x.first, x.step, width)
    if x is not None and x.step in (2, 3, 4) and mask is not None and mask.count and width >= 4:
        return _load_strided(p, x.first, x.step, width, mask.count)
    if x is not None and x.step is None:
        found = _load_near(p, x, mask)
        if found is not None:
            return found
    if f.across_rows and mask is None:
        raise NotAVectorError("elements are far apart")
    return gather(f, p.element, p.addresses(index))


def _load_near(p: Pointer, x: LaneIndex, mask: Mask | None) -> Value | None:
    """Load elements that lie close together, in any order, by shuffling one or two vectors.

    None if many lanes with an unknown mask have the same element.

    Raises:
        NotAVectorError: they are far apart, or lie differently in each vector.
    """
    f, width, offsets = p.base.function, x.lane.width, x.offsets
    used = offsets[: mask.count if mask is not None else None]
    low, high = min(used), max(used)
    if high - low >= 2 * width:
        raise NotAVectorError("elements are far apart")
    lanes = min(1 << (high - low).bit_length(), width)
    runs = [low] if high - low < lanes else [low, high + 1 - lanes]
    masks: list[Mask | None] = [Mask(lanes, min(lanes, high + 1 - low)) for _ in runs]
    if mask is not None and mask.count is None:
        masks = [_mask_of_elements(f, mask, [k - begin for k in used], lanes) for begin in runs]
        if None in masks:
            return None
    loads = [p.load(f.add(x.first, begin, wrap=True), lanes, m) for begin, m in zip(runs, masks, strict=True)]
    places = [k - low if k < low + lanes else lanes + k - runs[-1] for k in used]
    return f.shuffle(loads[0], loads[1] if loads[1:] else None, [*places, *[-1] * (width - len(used))])


def _mask_of_elements(f: Function, mask: Mask, places: Sequence[int], count: int) -> Mask | None:
    """The elements 0 to `count` - 1 that an active lane has; None if many lanes have the same."""
    users: list[list[int]] = [[] for _ in range(count)]
    for lane, place in enumerate(places):
        if 0 <= place < count:
            users[place].append(lane)
    rounds = max(map(len, users))
    if rounds > _USERS:
        return None
    bits, none = mask.value(f), f.zero(I1.times(mask.lanes))
    some: Value | None = None
    for k in range(rounds):
        chosen = f.shuffle(bits, none, [u[k] if k < len(u) else mask.lanes for u in users])
        some = chosen if some is None else some | chosen
    return Mask(count, None, some)


def _load_backwards(p: Pointer, last: Ix, width: int, mask: Mask | None) -> Value:
    """Load elements last, last - 1, ..., each with its parts in order."""
    f, lanes = p.base.function, width * p.parts
    order = [k for first in range(lanes - p.parts, -1, -p.parts) for k in range(first, first + p.parts)]
    reversed_mask = None
    if mask is not None:
        reversed_mask = Mask(lanes, None, f.shuffle(mask.value(f, p.parts), None, order))
    return f.shuffle(p.load(f.add(last, 1 - width, wrap=True), lanes, reversed_mask), None, order)


def _store_lanes(p: Pointer, index: Value, value: Value) -> None:
    f = p.base.function
    lanes = f.width * p.parts
    if not isinstance(index, LaneIndex) or index.step != 1:
        if p.parts != 1:
            raise NotAVectorError("parts of elements are not contiguous")
        scatter(f, p.addresses(index), value)
        return
    made = f.alike(value)[0] if varies(value) else f.splat(value, lanes)
    p.by(index.first).store(0, made, _run_mask(f, f.width, p.parts))


def _load_strided_pieces(p: Pointer, begin: Ix, step: int, width: int) -> Value:
    """Load elements with a constant stride, one vector register at a time."""
    f = p.base.function
    each = min(width, f.target.vector_bits // (8 * p.element.bytes))
    return joined(f, [_load_strided(p, f.add(begin, step * at), step, each) for at in range(0, width, each)])


def _load_strided(p: Pointer, begin: Ix, step: int, width: int, count: int = 0) -> Value:
    """Load elements with a constant stride by shuffling vectors.

    They do not read past the last lane's element. Only the first `count` elements if it is not 0.
    """
    f = p.base.function
    begins = _strided_runs(step, width)
    masks: list[Mask | None] = [None] * len(begins)
    if count:
        last = step * (count - 1)
        begins = list(range(0, step * width, width))
        masks = [Mask(width, min(max(last + 1 - at, 0), width)) for at in begins]
    runs = [p.load(f.add(begin, at), width, m) for at, m in zip(begins, masks, strict=True)]
    # for each lane, the first run that contains its element
    places = [next(r for r, at in enumerate(begins) if at <= step * lane < at + width) for lane in range(width)]
    made = runs[0]
    for r in range(1, len(runs)):
        which = [
            step * lane if r == 1 and run == 0 else lane if run < r else width + step * lane - begins[r]
            for lane, run in enumerate(places)
        ]
        made = f.shuffle(made, runs[r], [which[lane] if run <= r else -1 for lane, run in enumerate(places)])
    return made


def _strided_runs(step: int, width: int) -> list[int]:
    """Offsets of vectors that cover every lane's element of a stride.

    None extends past the last lane's element.
    """
    last = step * (width - 1) + 1 - width
    aligned, packed = list[int](), list[int]()
    for at in range(0, step * width, step):
        if not aligned or at >= aligned[-1] + width:
            aligned.append(min(at // width * width, last))
        if not packed or at >= packed[-1] + width:
            packed.append(min(at, last))
    return min(aligned, packed, key=len)
