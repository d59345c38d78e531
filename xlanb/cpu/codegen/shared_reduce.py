"""Reductions of arrays in memory by one operation, as routines that do not depend on shapes (see matmul.shared): along rows of memory, across them, or of all of an array.

    xlanb.rows.OP.TYPE (a, rows, length, initial, c)               c[r] = initial op a[r, 0] op ... op a[r, length - 1]
    xlanb.columns.OP.TYPE (a, rows, stride, columns, initial, c)   c[n] = initial op a[0, n] op ... op a[rows - 1, n], rows `stride` elements apart

Both keep vectors of partial results. Columns are gone through a few rows at a time from left to right, as memory has them, whatever their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from xlanb.buffers.values import is_plain_reshape
from xlanb.cpu.codegen import arithmetic, vector_memory, vectors
from xlanb.cpu.codegen.elemental import Elemental, array_of
from xlanb.cpu.codegen.indexing import IrArray, order
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.matmul.shared import routine
from xlanb.cpu.codegen.parallel import is_parallel, parts
from xlanb.cpu.codegen.row_reduce import PARTS, identity
from xlanb.cpu.codegen.types import names, real, register
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType
_TYPES = frozenset({T.F32, T.F64, T.S32, T.U32, T.S64, T.U64})
_NANOSECONDS = 0.05
"""Of a byte that is read."""
_UNROLL = 4
"""Vectors of partial results of a row."""
_LONG = 6
"""Vectors that a row has to have, so that the loops of a routine cost no more than code for its length."""
_WORTH = 1024
"""Elements of an array that is worth a call, where there are several."""
_TOGETHER = 4
"""Rows that are added to a row of results at once: each is a stream of its own for the prefetcher, and streams a multiple of a page apart share few places in the cache."""
_ENOUGH = 8
"""Rows that a routine over columns is worth a call for."""
_STRETCH = 4096
"""Bytes of each row that a thread reads at the least: shorter stretches are not prefetched, so that two threads are slower than one."""
_BANDS = 4
"""Into how many bands rows are cut where they are too short for that: each has a row of results of its own. So many whoever takes which, so that the result is always the same."""
_BANDED = 1 << 19
"""Bytes from which on an array may be cut into bands."""
_SHORT = 256
"""Bytes of a row below which several are taken as one."""


@dataclass(frozen=True)
class _Fold:
    """One operation on vectors of a type, of so many elements each."""

    op: Op
    type: PrimitiveType
    width: int
    columns: bool = False

    @property
    def name(self) -> str:
        """What the routine is called."""
        return f"{'columns' if self.columns else 'rows'}.{self.op}.{str(self.type).lower()}x{self.width}"

    @property
    def kind(self) -> str:
        """LLVM's type of an element."""
        return register(self.type)

    @property
    def neutral(self) -> str:
        """What changes nothing."""
        return names(identity(self.op, self.type))[0]

    def step(self, f: Function, a: str, b: str) -> str:
        """Both values, or vectors, reduced to one."""
        flags = "reassoc" if self.type.is_floating and self.op in (Op.ADD, Op.MULTIPLY) else ""
        with f.vectorized(self.width):
            return arithmetic.binary(f, self.op, self.type, a, b, flags)


def emit_shared_reduce(e: Elemental, i: HloInstruction, op: Op | None, output: IrArray, scratch: str) -> bool:
    """A reduction of an array in memory by a routine; False, and nothing is written, where it is of another form, of another type or too small."""
    pointer, types = _pointer(e, i.operands[0]), {array_of(o).element_type for o in i.operands}
    form = _form(i)
    if op is None or pointer is None or form is None or not e.f.target.explicit_vectors or types - _TYPES:
        return False
    t = array_of(i).element_type
    width = e.f.target.vector_bits // t.bits
    outer, rows, columns = form
    if columns == 1:
        if rows < _LONG * width:
            return False
        _Rows(e, i, _Fold(op, t, width), pointer, output.pointer).emit(outer, rows, scratch)
    else:
        short = columns < width and not scratch
        if rows < _ENOUGH or short or (outer > 1 and rows * columns < _WORTH):
            return False
        _Columns(e, i, _Fold(op, t, width, columns=True), pointer, output.pointer).emit(outer, rows, columns, scratch)
    e.f.ready = e.f.calls_only = True
    return True


def scratch_bytes(i: HloInstruction) -> int:
    """Bytes of the partial results of a reduction across rows."""
    form, source = _form(i), i.operands[0]
    while source.opcode is Op.BITCAST or is_plain_reshape(source):
        source = source.operands[0]
    in_memory = source.opcode is Op.PARAMETER or i.parent.is_entry
    if form is None or not in_memory or not {array_of(o).element_type for o in i.operands} <= _TYPES:
        return 0
    outer, rows, columns = form
    if outer > 1 or columns == 1:
        return 0
    size = array_of(i).element_type.byte_size
    plan = _Cut.of(rows, columns, size)
    return 0 if plan == _Cut(1, 1) else plan.bands * plan.area(columns) * size


@dataclass(frozen=True)
class _Cut:
    """How rows are cut: into so many bands, each with a row of results of its own; and how many short rows, side by side, are taken as a long one."""

    bands: int
    joined: int

    @staticmethod
    def of(rows: int, columns: int, size: int) -> _Cut:
        """Of so many rows and columns of elements of `size` bytes."""
        length = columns * size
        bands = _BANDS if length < 2 * _STRETCH and rows * length >= _BANDED else 1
        joined = 2 * _SHORT // length if length < _SHORT else 1
        return _Cut(bands, joined if rows >= bands * joined * _ENOUGH else 1)

    def area(self, columns: int) -> int:
        """Elements of the partial results of a band: its row of results and, where rows are joined, theirs; no two bands share a cache line."""
        return _padded(columns) + (_padded((self.joined + 1) * columns) if self.joined > 1 else 0)


def _padded(elements: int) -> int:
    return -(-elements // 64) * 64


def _pointer(e: Elemental, i: HloInstruction) -> str | None:
    """Where an array lies that is in memory; None of others."""
    while i not in e.bindings and i.shape.is_array and (i.opcode is Op.BITCAST or is_plain_reshape(i)):
        if array_of(i.operands[0]).element_type is not array_of(i).element_type:
            return None
        i = i.operands[0]
    source = e.bindings.get(i, {}).get(())
    return source.pointer if isinstance(source, IrArray) else None


def _form(i: HloInstruction) -> tuple[int, int, int] | None:
    """(arrays, rows, columns) where rows are reduced and the rest is kept, in the order of memory in source and result; None of other forms."""
    source, result = array_of(i.operands[0]), array_of(i)
    slowest = list(reversed(order(source)))
    kept = [d for d in range(source.rank) if d not in i.dimensions]
    if [d for d in slowest if d in kept] != [kept[d] for d in reversed(order(result))]:
        return None
    runs = [(reduced, list(dims)) for reduced, dims in groupby(slowest, lambda d: d in i.dimensions)]
    sizes = [math.prod(source.dimensions[d] for d in dims) for _, dims in runs]
    if not source.element_count or sum(reduced for reduced, _ in runs) != 1:
        return None
    at = next(k for k, (reduced, _) in enumerate(runs) if reduced)
    return (sizes[0] if at else 1), sizes[at], (sizes[-1] if at < len(runs) - 1 else 1)


@dataclass(frozen=True)
class _Kernel:
    """A kernel that calls a routine; threads share it."""

    e: Elemental
    instruction: HloInstruction
    fold: _Fold
    source: str
    result: str

    def at(self, pointer: str, offset: Ix) -> str:
        """An element's address."""
        return _at(self.e.f, self.fold.kind, pointer, offset)

    def initial(self) -> str:
        """The initial value."""
        return real(self.e.scalar(self.instruction.operands[1]))

    def call(self, routine_name: str, *arguments: tuple[str, Ix]) -> None:
        """Call the routine."""
        self.e.f.do(f"call void @{routine_name}({', '.join(f'{t} {v}' for t, v in arguments)})")

    def nanoseconds(self, elements: int) -> float:
        """The time of so many elements."""
        return elements * self.fold.type.byte_size * _NANOSECONDS


class _Rows(_Kernel):
    """Along rows."""

    def emit(self, rows: int, length: int, scratch: str) -> None:
        e = self.e
        if rows == 1 and scratch and is_parallel(e, PARTS, self.nanoseconds(length // PARTS)):
            self._in_parts(length, scratch)
            return
        with parts(e, rows, nanoseconds=self.nanoseconds(length)) as (low, high):
            source = self.at(self.source, e.f.mul(low, length))
            self._rows(source, e.f.sub(high, low), length, self.initial(), self.at(self.result, low))

    def _rows(self, source: str, rows: Ix, length: int, initial: str, result: str) -> None:
        kind = self.fold.kind
        called = routine(self.e.f.module, self.fold, self.fold.name, self._write, _parameters(kind, "length"))
        self.call(called, ("ptr", source), ("i64", rows), ("i64", length), (kind, initial), ("ptr", result))

    def _in_parts(self, length: int, scratch: str) -> None:
        """One row in so many parts, whoever takes which, then the parts, then what is left over."""
        e, each = self.e, length // PARTS
        with parts(e, PARTS, nanoseconds=self.nanoseconds(each)) as (low, high):
            source = self.at(self.source, e.f.mul(low, each))
            self._rows(source, e.f.sub(high, low), each, self.fold.neutral, self.at(scratch, low))
        self._rows(scratch, 1, PARTS, self.initial(), self.result)
        if each * PARTS < length:
            so_far = e.f.let(f"load {self.fold.kind}, ptr {self.result}")
            self._rows(self.at(self.source, each * PARTS), 1, length - each * PARTS, so_far, self.result)

    def _write(self, f: Function) -> None:
        """The routine: in each row vectors by the handful, then one by one, then what is less than one."""
        fold, width = self.fold, self.fold.width
        steps, lanes = (f.let(f"{o} i64 %length, {width}") for o in ("udiv", "urem"))
        handfuls, singles = (f.let(f"{o} i64 {steps}, {_UNROLL}") for o in ("udiv", "urem"))
        vector = vectors.kind(fold.kind, width)
        mask, partly = vector_memory.first_lanes(f, width, lanes), _if_any(f, lanes)
        neutral = vectors.operand(f, fold.kind, fold.neutral, width)
        with f.loop("%rows") as r:
            row = _at(f, fold.kind, "%a", f.let(f"mul i64 {r}, %length"))
            with f.carried(handfuls, [("ptr", row), *[(vector, neutral)] * _UNROLL], guarded=True) as loop:
                here, *totals = loop.values
                _known(f, totals, width)
                totals = [fold.step(f, v, _load(f, fold, here, k * width)) for k, v in enumerate(totals)]
                loop.next = [_at(f, fold.kind, here, _UNROLL * width), *totals]
            here, *totals = loop.values
            _known(f, totals, width)
            total = fold.step(f, fold.step(f, totals[0], totals[1]), fold.step(f, totals[2], totals[3]))
            with f.carried(singles, [("ptr", here), (vector, total)], guarded=True) as loop:
                here, total = loop.values
                _known(f, [total], width)
                loop.next = [
                    _at(f, fold.kind, here, width),
                    fold.step(f, total, _load(f, fold, here, 0)),
                ]
            here, total = loop.values
            with f.carried(partly, [(vector, total)], guarded=True) as loop:
                _known(f, loop.values, width)
                loop.next = [fold.step(f, loop.values[0], _load(f, fold, here, 0, mask))]
            (total,) = loop.values
            _known(f, [total], width)
            while width > 1:
                low, high = vector_memory.halves(f, fold.kind, total, width)
                width //= 2
                total = _Fold(fold.op, fold.type, width).step(f, low, high)
            width = fold.width
            f.do(
                f"store {fold.kind} {fold.step(f, '%initial', total)}, ptr {_at(f, fold.kind, '%c', r)}, align {fold.type.byte_size}"
            )


class _Columns(_Kernel):
    """Across rows."""

    def emit(self, arrays: int, rows: int, columns: int, scratch: str) -> None:
        e = self.e
        if arrays > 1:
            with parts(e, arrays, nanoseconds=self.nanoseconds(rows * columns)) as (low, high), e.loop(high, low) as k:
                source = self.at(self.source, e.f.mul(k, rows * columns))
                self._columns(source, rows, columns, columns, self.at(self.result, e.f.mul(k, columns)))
        elif scratch:
            self._in_bands(rows, columns, _Cut.of(rows, columns, self.fold.type.byte_size), scratch)
        else:
            self._in_stretches(rows, columns)

    def _in_stretches(self, rows: int, columns: int) -> None:
        """A stretch of columns for each thread, all rows of it."""
        e, stretch = self.e, _STRETCH // self.fold.type.byte_size
        with parts(e, -(-columns // stretch), nanoseconds=self.nanoseconds(rows * stretch)) as (low, high):
            first = e.f.mul(low, stretch)
            last: Ix = columns
            if not isinstance(high, int):
                last = e.f.call("i64", "llvm.umin.i64", ("i64", str(e.f.mul(high, stretch))), ("i64", str(columns)))
            self._columns(self.at(self.source, first), rows, columns, e.f.sub(last, first), self.at(self.result, first))

    def _in_bands(self, rows: int, columns: int, cut: _Cut, scratch: str) -> None:
        """Bands of whole rows, whoever takes which, then their rows of results."""
        e, f, area = self.e, self.e.f, cut.area(columns)
        cost = self.nanoseconds(rows * columns // cut.bands)
        bands = cut.bands if is_parallel(e, cut.bands, cost) else 1
        with parts(e, bands, nanoseconds=cost) as (low, high), e.loop(high, low) as k:
            first, last = f.div(f.mul(k, rows), bands), f.div(f.mul(f.add(k, 1), rows), bands)
            source, result = self.at(self.source, f.mul(first, columns)), self.at(scratch, f.mul(k, area))
            self._band(source, f.sub(last, first), columns, cut.joined, result)
        self._columns(scratch, bands, area, columns, self.result)

    def _band(self, source: str, rows: Ix, columns: int, joined: int, result: str) -> None:
        """The row of results of so many rows; where several are joined, their results stand behind it."""
        neutral = self.fold.neutral
        if joined == 1:
            self._columns(source, rows, columns, columns, result, neutral)
            return
        f, length = self.e.f, joined * columns
        groups, lines = f.div(rows, joined), self.at(result, _padded(columns))
        self._columns(source, groups, length, length, lines, neutral)
        rest, left = self.at(source, f.mul(groups, length)), f.sub(rows, f.mul(groups, joined))
        self._columns(rest, left, columns, columns, self.at(lines, length), neutral)
        self._columns(lines, joined + 1, columns, columns, result, neutral)

    def _columns(self, source: str, rows: Ix, stride: int, columns: Ix, result: str, initial: str = "") -> None:
        kind = self.fold.kind
        parameters = _parameters(kind, "stride", "columns")
        called = routine(self.e.f.module, self.fold, self.fold.name, self._write, parameters)
        sizes: list[tuple[str, Ix]] = [("i64", rows), ("i64", stride), ("i64", columns)]
        self.call(called, ("ptr", source), *sizes, (kind, initial or self.initial()), ("ptr", result))

    def _write(self, f: Function) -> None:
        """The routine: the initial value everywhere, then a few rows after the other, then each that remains."""
        fold, width = self.fold, self.fold.width
        steps, lanes = (f.let(f"{o} i64 %columns, {width}") for o in ("udiv", "urem"))
        mask, partly = vector_memory.first_lanes(f, width, lanes), _if_any(f, lanes)
        end = f.let(f"mul i64 {steps}, {width}")
        initial = vectors.splat(f, fold.kind, "%initial", width)
        with f.loop(steps, guarded=True) as k:
            _store(f, fold, _at(f, fold.kind, "%c", f.let(f"mul i64 {k}, {width}")), initial)
        _store(f, fold, _at(f, fold.kind, "%c", end), initial, mask)
        stride = f.let(f"mul i64 %stride, {fold.type.byte_size}")
        groups, singles = (f.let(f"{o} i64 %rows, {_TOGETHER}") for o in ("udiv", "urem"))
        row = "%a"
        for count, together in ((groups, _TOGETHER), (singles, 1)):
            with f.carried(count, [("ptr", row)], guarded=True) as loop:
                rows = [loop.values[0]]
                while len(rows) <= together:
                    rows.append(f.let(f"getelementptr i8, ptr {rows[-1]}, i64 {stride}"))
                with f.loop(steps, guarded=True) as k:
                    self._added(f, rows[:together], f.let(f"mul i64 {k}, {width}"))
                with f.loop(partly, guarded=True):
                    self._added(f, rows[:together], end, mask)
                loop.next = [rows[-1]]
            row = loop.values[0]

    def _added(self, f: Function, rows: Sequence[str], column: str, mask: str = "") -> None:
        fold = self.fold
        place = _at(f, fold.kind, "%c", column)
        made = [_load(f, fold, _at(f, fold.kind, row, column), 0, mask) for row in rows]
        while len(made) > 1:  # in pairs, so that one step need not wait for the other
            made = [fold.step(f, a, b) for a, b in zip(made[::2], made[1::2], strict=True)]
        _store(f, fold, place, fold.step(f, _load(f, fold, place, 0, mask), made[0]), mask)


def _parameters(kind: str, *sizes: str) -> tuple[str, ...]:
    """The parameters of a routine."""
    return (
        "ptr noalias readonly %a",
        "i64 %rows",
        *(f"i64 %{s}" for s in sizes),
        f"{kind} %initial",
        "ptr noalias %c",
    )


def _if_any(f: Function, count: str) -> str:
    """Rounds of what is done where there is any: 0 or 1."""
    return f.let(f"zext i1 {f.let(f'icmp ne i64 {count}, 0')} to i64")


def _known(f: Function, values: Sequence[str], width: int) -> None:
    f.lanes.update(dict.fromkeys(values, width))


def _at(f: Function, kind: str, pointer: str, offset: Ix) -> str:
    return pointer if offset == 0 else f.plain(f"getelementptr {kind}, ptr {pointer}, i64 {offset}")


def _load(f: Function, fold: _Fold, pointer: str, offset: int, mask: str = "") -> str:
    """A vector from an element on; what the mask leaves out changes nothing."""
    pointer, vector = _at(f, fold.kind, pointer, offset), vectors.kind(fold.kind, fold.width)
    if not mask:
        return vectors.known(f, fold.width, f"load {vector}, ptr {pointer}, align {fold.type.byte_size}")
    bits = vectors.kind("i1", fold.width)
    name = f"llvm.masked.load.{vectors.overload(fold.kind, fold.width)}.p0"
    f.module.declare(vector, name, f"ptr, i32, {bits}, {vector}")
    rest = vectors.operand(f, fold.kind, fold.neutral, fold.width)
    given = f"ptr {pointer}, i32 {fold.type.byte_size}, {bits} {mask}, {vector} {rest}"
    return vectors.known(f, fold.width, f"call {vector} @{name}({given})")


def _store(f: Function, fold: _Fold, pointer: str, value: str, mask: str = "") -> None:
    vector = vectors.kind(fold.kind, fold.width)
    if not mask:
        f.do(f"store {vector} {value}, ptr {pointer}, align {fold.type.byte_size}")
        return
    bits = vectors.kind("i1", fold.width)
    name = f"llvm.masked.store.{vectors.overload(fold.kind, fold.width)}.p0"
    f.module.declare("void", name, f"{vector}, ptr, i32, {bits}")
    f.do(f"call void @{name}({vector} {value}, ptr {pointer}, i32 {fold.type.byte_size}, {bits} {mask})")
