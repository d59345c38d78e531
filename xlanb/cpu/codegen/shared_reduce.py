"""Reductions of arrays in memory by one operation, as routines that do not depend on shapes (see matmul.shared): along rows of memory, across them, or of all of an array.

    xlanb.rows.OP.TYPE (a, rows, length, initial, c)               c[r] = initial op a[r, 0] op ... op a[r, length - 1]
    xlanb.rows.OP.of.F.TYPE (a, b, rows, length, initial, c)       the same of f(a) or f(a, b), one operation on each element
    xlanb.rows.OP.pieces.TYPE (a, rows, length, initial, c, pieces, jump)   of rows in so many pieces, each `jump` elements behind the one before
    xlanb.columns.OP.TYPE (a, rows, stride, columns, initial, c)   c[n] = initial op a[0, n] op ... op a[rows - 1, n], rows `stride` elements apart

    xlanb.scaled.TYPE (c, count, scale)                            c[n] = c[n] * scale

Both reductions keep vectors of partial results. Columns are gone through a few rows at a time from left to right, as memory has them, whatever their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from xlanb.buffers.values import is_plain_reshape
from xlanb.cpu.codegen import arithmetic, vector_memory, vectors
from xlanb.cpu.codegen.elemental import Elemental, array_of
from xlanb.cpu.codegen.indexing import IrArray, order, same_order
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.matmul.shared import routine
from xlanb.cpu.codegen.parallel import is_parallel, parts
from xlanb.cpu.codegen.row_reduce import LARGE, PARTS, identity
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
_FEW = 32
"""How many elements at the least go into each result that is multiplied when all of them are there."""
_OF_ONE = frozenset({Op.ABS, Op.NEGATE, Op.EXPONENTIAL})
_OF_TWO = frozenset({Op.ADD, Op.SUBTRACT, Op.MULTIPLY})
"""What a routine does with each element before it is reduced: sums of squares and products, of magnitudes, of exponentials."""


@dataclass(frozen=True)
class _Fold:
    """One operation on vectors of a type, of so many elements each."""

    op: Op
    type: PrimitiveType
    width: int
    columns: bool = False
    of: Op | None = None
    sources: int = 1
    pieces: bool = False

    @property
    def name(self) -> str:
        """What the routine is called."""
        given = f".of.{self.of}{'.two' if self.sources > 1 else ''}" if self.of else ""
        form = f"{'columns' if self.columns else 'rows'}.{self.op}{given}{'.pieces' if self.pieces else ''}"
        return f"{form}.{str(self.type).lower()}x{self.width}"

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

    def value(self, f: Function, elements: Sequence[str]) -> str:
        """What is reduced, of elements or vectors of the arrays."""
        if self.of is None:
            return elements[0]
        with f.vectorized(self.width):
            if self.of in _OF_ONE:
                return arithmetic.unary(f, self.of, self.type, elements[0])
            return arithmetic.binary(f, self.of, self.type, elements[0], elements[-1])


def emit_shared_reduce(e: Elemental, i: HloInstruction, op: Op | None, output: IrArray, scratch: str) -> bool:
    """A reduction of arrays in memory by a routine; False, and nothing is written, where it is of another form, of another type or too small."""
    of, pointers = _sources(e, i.operands[0])
    types = {array_of(o).element_type for o in i.operands}
    if op is None or not pointers or not e.f.target.explicit_vectors or types - _TYPES:
        return False
    t = array_of(i).element_type
    width = e.f.target.vector_bits // t.bits
    pieces, (outer, rows, columns) = _pieces(i), _form(i) or (0, 0, 0)
    fold = _Fold(op, t, width, of=of, sources=len(pointers), pieces=pieces is not None)
    if pieces is not None:
        count, outer, rows = pieces
        if rows < _UNROLL * width or of is not None:
            return False
        _Rows(e, i, fold, pointers[0], output.pointer).emit(outer, rows, "", count)
    elif columns == 1:
        if rows < _LONG * width:
            return False
        _Rows(e, i, fold, pointers[0], output.pointer, pointers[1:]).emit(outer, rows, scratch)
    else:
        pointer = pointers[0]
        if of is not None:
            return False
        short = columns < width and not scratch
        if rows < _ENOUGH or short or (outer > 1 and rows * columns < _WORTH):
            return False
        _Columns(e, i, _Fold(op, t, width, columns=True), pointer, output.pointer).emit(outer, rows, columns, scratch)
    e.f.ready = e.f.calls_only = True
    return True


def emit_scaled_reduce(e: Elemental, i: HloInstruction, op: Op | None, scale: HloInstruction, output: IrArray) -> bool:
    """A reduction whose few results are multiplied by one number, as in a mean; False, and nothing is written, of another."""
    t, count, given = array_of(i).element_type, array_of(i).element_count, array_of(i.operands[0]).element_count
    if t not in (T.F32, T.F64) or count * _FEW > given or (count == 1 and given >= LARGE):
        return False
    if not emit_shared_reduce(e, i, op, output, ""):
        return False
    f, width = e.f, e.f.target.vector_bits // t.bits
    parameters = ("ptr noalias %c", "i64 %count", f"{register(t)} %scale")
    name = f"scaled.{str(t).lower()}x{width}"
    called = routine(f.module, name, name, lambda g: _write_scaled(g, _Fold(Op.MULTIPLY, t, width)), parameters)
    f.do(f"call void @{called}(ptr {output.pointer}, i64 {count}, {register(t)} {real(e.scalar(scale))})")
    return True


def _write_scaled(f: Function, fold: _Fold) -> None:
    """The routine: vector by vector, then what is less than one."""
    steps, lanes = (f.let(f"{o} i64 %count, {fold.width}") for o in ("udiv", "urem"))
    mask, end = vector_memory.first_lanes(f, fold.width, lanes), f.let(f"mul i64 {steps}, {fold.width}")
    factor = vectors.splat(f, fold.kind, "%scale", fold.width)
    with f.loop(steps, guarded=True) as k:
        place = _at(f, fold.kind, "%c", f.let(f"mul i64 {k}, {fold.width}"))
        _store(f, fold, place, fold.step(f, _load(f, fold, place, 0), factor))
    place = _at(f, fold.kind, "%c", end)
    _store(f, fold, place, fold.step(f, _load(f, fold, place, 0, mask), factor), mask)


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


def _sources(e: Elemental, i: HloInstruction) -> tuple[Op | None, tuple[str, ...]]:
    """(an operation on each element, where its operands lie in memory); no operation where the array itself lies there, and no places of others."""
    pointer = _pointer(e, i)
    if pointer is not None:
        return None, (pointer,)
    exact = i.opcode is not Op.EXPONENTIAL or array_of(i).element_type is T.F32
    if i in e.bindings or i.opcode not in _OF_ONE | _OF_TWO or not exact:
        return None, ()
    alike = all(same_order(array_of(o), array_of(i)) for o in i.operands)
    places = [_pointer(e, o) for o in dict.fromkeys(i.operands)]
    return i.opcode, tuple(p for p in places if p is not None) if alike and None not in places else ()


def _pieces(i: HloInstruction) -> tuple[int, int, int] | None:
    """(pieces, rows, elements of a piece) where what is kept lies between two runs of dimensions that are reduced; None of other forms."""
    source, result = array_of(i.operands[0]), array_of(i)
    slowest = list(reversed(order(source)))
    kept = [d for d in range(source.rank) if d not in i.dimensions]
    runs = [(reduced, list(dims)) for reduced, dims in groupby(slowest, lambda d: d in i.dimensions)]
    in_order = [d for d in slowest if d in kept] == [kept[d] for d in reversed(order(result))]
    if not source.element_count or not in_order or [reduced for reduced, _ in runs] != [True, False, True]:
        return None
    first, rows, last = (math.prod(source.dimensions[d] for d in dims) for _, dims in runs)
    return first, rows, last


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
    others: tuple[str, ...] = ()

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

    def emit(self, rows: int, length: int, scratch: str, pieces: int = 1) -> None:
        e = self.e
        if rows == 1 and scratch and is_parallel(e, PARTS, self.nanoseconds(length // PARTS)):
            self._in_parts(length, scratch)
            return
        layout: tuple[Ix, ...] = (pieces, rows * length) if self.fold.pieces else ()
        with parts(e, rows, nanoseconds=self.nanoseconds(length * pieces)) as (low, high):
            sources = self._sources(e.f.mul(low, length))
            result = self.at(self.result, low)
            self._rows(self.fold, sources, e.f.sub(high, low), length, self.initial(), result, layout)

    def _sources(self, offset: Ix) -> list[str]:
        """The arrays from an element on."""
        return [self.at(s, offset) for s in (self.source, *self.others)]

    def _rows(
        self,
        fold: _Fold,
        sources: Sequence[str],
        rows: Ix,
        length: int,
        initial: str,
        result: str,
        layout: Sequence[Ix] = (),
    ) -> None:
        parameters = list(_parameters(fold.kind, "length"))
        parameters += ["i64 %pieces", "i64 %jump"] if fold.pieces else []
        parameters[1:1] = ["ptr noalias readonly %b"] if fold.sources > 1 else []
        called = routine(self.e.f.module, fold, fold.name, lambda f: _write_rows(f, fold), parameters)
        places: list[tuple[str, Ix]] = [("ptr", s) for s in sources]
        sizes: list[tuple[str, Ix]] = [("i64", rows), ("i64", length)]
        self.call(called, *places, *sizes, (fold.kind, initial), ("ptr", result), *(("i64", n) for n in layout))

    def _in_parts(self, length: int, scratch: str) -> None:
        """One row in so many parts, whoever takes which, then the parts, then what is left over."""
        e, each, fold = self.e, length // PARTS, self.fold
        with parts(e, PARTS, nanoseconds=self.nanoseconds(each)) as (low, high):
            sources = self._sources(e.f.mul(low, each))
            self._rows(fold, sources, e.f.sub(high, low), each, fold.neutral, self.at(scratch, low))
        self._rows(_Fold(fold.op, fold.type, fold.width), [scratch], 1, PARTS, self.initial(), self.result)
        if each * PARTS < length:
            so_far = e.f.let(f"load {fold.kind}, ptr {self.result}")
            self._rows(fold, self._sources(each * PARTS), 1, length - each * PARTS, so_far, self.result)


def _write_rows(f: Function, fold: _Fold) -> None:
    """The routine along rows: in each row, or piece of one, vectors by the handful, then one by one, then what is less than one."""
    width, vector = fold.width, vectors.kind(fold.kind, fold.width)
    steps, lanes = (f.let(f"{o} i64 %length, {width}") for o in ("udiv", "urem"))
    handfuls, singles = (f.let(f"{o} i64 {steps}, {_UNROLL}") for o in ("udiv", "urem"))
    counts = handfuls, singles, _if_any(f, lanes)
    mask = vector_memory.first_lanes(f, width, lanes)
    neutral = vectors.operand(f, fold.kind, fold.neutral, width)
    with f.loop("%rows") as r:
        first = f.let(f"mul i64 {r}, %length")
        here = [_at(f, fold.kind, f"%{name}", first) for name in "ab"[: fold.sources]]
        totals = [neutral] * _UNROLL
        if fold.pieces:
            with f.carried("%pieces", [("ptr", here[0]), *[(vector, v) for v in totals]]) as loop:
                beginning, *totals = loop.values
                _known(f, totals, width)
                loop.next = [
                    _at(f, fold.kind, beginning, "%jump"),
                    *_write_row(f, fold, [beginning], totals, counts, mask),
                ]
            totals = loop.values[1:]
        else:
            totals = _write_row(f, fold, here, totals, counts, mask)
        _known(f, totals, width)
        total = fold.step(f, fold.step(f, totals[0], totals[1]), fold.step(f, totals[2], totals[3]))
        while width > 1:
            low, high = vector_memory.halves(f, fold.kind, total, width)
            width //= 2
            total = _Fold(fold.op, fold.type, width).step(f, low, high)
        width = fold.width
        made, place = fold.step(f, "%initial", total), _at(f, fold.kind, "%c", r)
        f.do(f"store {fold.kind} {made}, ptr {place}, align {fold.type.byte_size}")


def _write_row(
    f: Function, fold: _Fold, here: list[str], totals: list[str], counts: tuple[str, str, str], mask: str
) -> list[str]:
    """The totals of vectors with one more row, or piece of one, that begins `here`."""
    width, n = fold.width, fold.sources
    vector = vectors.kind(fold.kind, width)

    def loaded(places: Sequence[str], offset: int = 0, mask: str = "") -> str:
        return fold.value(f, [_load(f, fold, p, offset, mask) for p in places])

    places = [("ptr", p) for p in here]
    with f.carried(counts[0], [*places, *[(vector, v) for v in totals]], guarded=True) as loop:
        here, totals = loop.values[:n], loop.values[n:]
        _known(f, totals, width)
        totals = [fold.step(f, v, loaded(here, k * width)) for k, v in enumerate(totals)]
        loop.next = [*(_at(f, fold.kind, p, _UNROLL * width) for p in here), *totals]
    here, totals = loop.values[:n], loop.values[n:]
    _known(f, totals, width)
    with f.carried(counts[1], [*(("ptr", p) for p in here), (vector, totals[0])], guarded=True) as loop:
        here = loop.values[:n]
        _known(f, loop.values[n:], width)
        total = fold.step(f, loop.values[n], loaded(here))
        loop.next = [*(_at(f, fold.kind, p, width) for p in here), total]
    here = loop.values[:n]
    with f.carried(counts[2], [(vector, loop.values[n])], guarded=True) as loop:
        _known(f, loop.values, width)
        value = loaded(here, 0, mask)
        if fold.of is not None:
            rest = vectors.operand(f, fold.kind, fold.neutral, width)
            value = f.plain(f"select {vectors.kind('i1', width)} {mask}, {vector} {value}, {vector} {rest}")
            _known(f, [value], width)
        loop.next = [fold.step(f, loop.values[0], value)]
    return [loop.values[0], *totals[1:]]


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
