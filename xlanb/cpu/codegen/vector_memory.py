"""Vectors in memory: loads and stores at indices that differ from lane to lane, with masks, strides and values of several parts; lanes taken apart and put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.cpu.codegen.vectors import (
    NotAVectorError,
    alignment,
    first_of,
    gather,
    kind,
    known,
    lane_numbers,
    operand,
    overload,
    region_mask,
    reordered_mask,
    splat,
)

if TYPE_CHECKING:
    from xlanb.cpu.codegen.ir import Function, Ix


_STEPS = 8
"""Elements up to which a step over memory is vectors put together: gathering takes some 1.5 cycles for each element."""


def scatter(f: Function, type_: str, pointers: str, value: str, width: int) -> None:
    """Set the elements at a vector of pointers."""
    vector, bits = kind(type_, width), kind("i1", width)
    name = f"llvm.masked.scatter.{overload(type_, width)}.v{width}p0"
    f.module.declare("void", name, f"{vector}, {kind('ptr', width)}, i32, {bits}")
    where = f"{kind('ptr', width)} {pointers}, i32 {alignment(type_)}"
    given = f"{vector} {operand(f, type_, value, width)}, {where}, {bits} {region_mask(f, width)}"
    f.do(f"call void @{name}({given})")


def load(f: Function, type_: str, pointer: str, offset: str, parts: int = 1) -> str:
    """`parts` consecutive values of each lane's element, at an index that differs from lane to lane: one vector of width * parts."""
    width = f.width
    x = f.affine.get(offset)
    if x is not None and x.step == 1:
        return _load_run(f, type_, _address(f, type_, pointer, first_of(f, x), parts), width * parts, parts)
    if x is not None and x.step == -1 and parts == 1:
        begin = f.add(first_of(f, x), 1 - width, wrap=True)
        mask = _reversed(f, "i1", f.mask, width) if f.mask else ""
        found = _load_run(f, type_, _address(f, type_, pointer, begin, 1), width, 1, mask)
        return _reversed(f, type_, found, width)
    if parts != 1:
        raise NotAVectorError("parts of elements apart from each other")
    if x is not None and x.step is not None and 1 < x.step <= _STEPS and not f.mask and width >= 4:
        return _load_strided_pieces(f, type_, pointer, first_of(f, x), x.step, width)
    if x is not None and x.step in (2, 3, 4) and f.mask.startswith("<i1 true") and width >= 4:
        return _load_strided(f, type_, pointer, first_of(f, x), x.step, width)
    at = operand(f, "i64", offset, width)
    return gather(
        f, type_, known(f, width, f"getelementptr inbounds {type_}, ptr {pointer}, {kind('i64', width)} {at}"), width
    )


def _address(f: Function, type_: str, pointer: str, offset: Ix, parts: int) -> str:
    if offset == 0:
        return pointer
    return f.plain(f"getelementptr inbounds [{parts} x {type_}], ptr {pointer}, i64 {offset}")


def _reversed(f: Function, type_: str, value: str, width: int) -> str:
    if value.startswith("<i1"):
        return reordered_mask(value, range(width - 1, -1, -1))
    order = ", ".join(f"i32 {width - 1 - k}" for k in range(width))
    vector = kind(type_, width)
    return known(f, width, f"shufflevector {vector} {value}, {vector} poison, <{width} x i32> <{order}>")


def _load_strided_pieces(f: Function, type_: str, pointer: str, begin: Ix, step: int, width: int) -> str:
    """Every so many elements, a register of them at a time."""
    each = min(width, f.target.vector_bits // (8 * alignment(type_)))
    origins = [f.add(begin, step * at) for at in range(0, width, each)]
    pieces = [_load_strided(f, type_, pointer, origin, step, each) for origin in origins]
    while len(pieces) > 1:
        vector, lanes = kind(type_, each), ", ".join(f"i32 {k}" for k in range(2 * each))
        both = [f"{vector} {a}, {vector} {b}" for a, b in zip(pieces[::2], pieces[1::2], strict=True)]
        each *= 2
        pieces = [known(f, each, f"shufflevector {two}, <{each} x i32> <{lanes}>") for two in both]
    return pieces[0]


def _load_strided(f: Function, type_: str, pointer: str, begin: Ix, step: int, width: int) -> str:
    """Every so many elements, put together out of vectors that end with the last lane's element or before."""
    begins = _strided_runs(step, width)
    masks = [""] * len(begins)
    if f.mask:
        last = step * (f.mask.count("true") - 1)
        begins = list(range(0, step * width, width))
        masks = [first_lanes(f, width, max(last + 1 - at, 0)) for at in begins]
    runs = [
        _load_run(f, type_, _address(f, type_, pointer, f.add(begin, at), 1), width, 1, m)
        for at, m in zip(begins, masks, strict=True)
    ]
    # the run that holds each lane's element: of those that do the first
    places = [next(r for r, at in enumerate(begins) if at <= step * lane < at + width) for lane in range(width)]
    made, vector = runs[0], kind(type_, width)
    for r in range(1, len(runs)):
        which = [
            step * lane if r == 1 and run == 0 else lane if run < r else width + step * lane - begins[r]
            for lane, run in enumerate(places)
        ]
        order = ", ".join(f"i32 {which[lane] if run <= r else 'poison'}" for lane, run in enumerate(places))
        made = known(f, width, f"shufflevector {vector} {made}, {vector} {runs[r]}, <{width} x i32> <{order}>")
    return made


def _strided_runs(step: int, width: int) -> list[int]:
    """Where vectors begin that hold every lane's element of a step over memory; none reaches beyond the last lane's."""
    last = step * (width - 1) + 1 - width
    aligned, packed = list[int](), list[int]()
    for at in range(0, step * width, step):
        if not aligned or at >= aligned[-1] + width:
            aligned.append(min(at // width * width, last))
        if not packed or at >= packed[-1] + width:
            packed.append(min(at, last))
    return min(aligned, packed, key=len)


def _load_run(f: Function, type_: str, address: str, width: int, parts: int, mask: str = "") -> str:
    vector = kind(type_, width)
    if not f.mask:
        return known(f, width, f"load {vector}, ptr {address}, align {alignment(type_)}")
    name = f"llvm.masked.load.{overload(type_, width)}.p0"
    f.module.declare(vector, name, f"ptr, i32, {kind('i1', width)}, {vector}")
    chosen = f"{kind('i1', width)} {mask or region_mask(f, width, parts)}"
    where = f"ptr {address}, i32 {alignment(type_)}"
    return known(f, width, f"call {vector} @{name}({where}, {chosen}, {vector} zeroinitializer)")


def store(f: Function, type_: str, pointer: str, offset: str, value: str, parts: int = 1) -> None:
    """Set `parts` consecutive values of each lane's element; `value` is a vector of width * parts."""
    width = f.width * parts
    vector = kind(type_, width)
    x = f.affine.get(offset)
    if x is None or x.step != 1:
        if parts != 1:
            raise NotAVectorError("parts of elements apart from each other")
        at = operand(f, "i64", offset, width)
        scatter(
            f,
            type_,
            known(f, width, f"getelementptr inbounds {type_}, ptr {pointer}, {kind('i64', width)} {at}"),
            value,
            width,
        )
        return
    address = _address(f, type_, pointer, first_of(f, x), parts)
    made = operand(f, type_, value, width)
    if not f.mask:
        f.do(f"store {vector} {made}, ptr {address}, align {alignment(type_)}")
        return
    mask = region_mask(f, width, parts)
    if mask.startswith("<i1 true") and mask.count("true") == 1:
        # LLVM 22 makes of a narrowing store of one known lane a store of the wide element: it would write beyond.
        f.do(
            f"store {type_} {f.plain(f'extractelement {vector} {made}, i64 0')}, ptr {address}, align {alignment(type_)}"
        )
        return
    name = f"llvm.masked.store.{overload(type_, width)}.p0"
    f.module.declare("void", name, f"{vector}, ptr, i32, {kind('i1', width)}")
    where = f"ptr {address}, i32 {alignment(type_)}"
    f.do(f"call void @{name}({vector} {made}, {where}, {kind('i1', width)} {mask})")


def apart(f: Function, type_: str, both: str, width: int) -> tuple[str, str]:
    """The even and the odd elements of a vector of twice the width."""
    vector = kind(type_, 2 * width)
    halves = []
    for first in (0, 1):
        order = ", ".join(f"i32 {2 * k + first}" for k in range(width))
        halves.append(known(f, width, f"shufflevector {vector} {both}, {vector} poison, <{width} x i32> <{order}>"))
    return halves[0], halves[1]


def together(f: Function, type_: str, even: str, odd: str, width: int) -> str:
    """A vector of elements of two, in turns."""
    vector = kind(type_, width)
    order = ", ".join(f"i32 {k // 2 + (k % 2) * width}" for k in range(2 * width))
    even, odd = operand(f, type_, even, width), operand(f, type_, odd, width)
    return known(f, 2 * width, f"shufflevector {vector} {even}, {vector} {odd}, <{2 * width} x i32> <{order}>")


def halves(f: Function, type_: str, value: str, width: int) -> tuple[str, str]:
    """The lower and the upper half of a vector; the elements where there are two."""
    vector = kind(type_, width)
    if width == 2:
        low, high = (f.plain(f"extractelement {vector} {value}, i64 {k}") for k in (0, 1))
        return low, high
    made = []
    for first in (0, width // 2):
        order = ", ".join(f"i32 {first + k}" for k in range(width // 2))
        made.append(
            known(f, width // 2, f"shufflevector {vector} {value}, {vector} poison, <{width // 2} x i32> <{order}>")
        )
    return made[0], made[1]


def first_lanes(f: Function, width: int, count: Ix) -> str:
    """The mask of the first `count` lanes."""
    if isinstance(count, int):
        return "<" + ", ".join(f"i1 {str(k < count).lower()}" for k in range(width)) + ">"
    # More than `width` may be left: no lane number reaches that.
    limit = splat(f, "i64", count, width)
    return known(f, width, f"icmp ult {kind('i64', width)} {lane_numbers(width)}, {limit}")
