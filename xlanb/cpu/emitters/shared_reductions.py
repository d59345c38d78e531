"""Reductions of arrays in memory by one operation, as routines that do not depend on shapes.

They reduce along rows of memory, across rows, or a whole array. A routine is compiled once per
process, so that kernels are a few lines that call it. All keep vectors of partial results. Columns
are reduced a few rows at a time, left to right as they are in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlanb.analysis.dataflow import is_plain_reshape
from xlanb.codegen import costs
from xlanb.codegen.elemental import Elemental, array_of
from xlanb.codegen.elements import array, real
from xlanb.codegen.folds import identity, simple_reducer
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import IrArray, same_order
from xlanb.codegen.parallel import is_shared, parts
from xlanb.codegen.values import Number, Value
from xlanb.cpu.emitters import reductions
from xlanb.cpu.emitters.column_reductions import emit_columns
from xlanb.cpu.emitters.kernel import SCRATCH, Kernel, emitter
from xlanb.cpu.emitters.reduction_routines import OF_ONE, OF_TWO, BandsPart, Fold, RowsPart, reduce_columns, reduce_rows
from xlanb.cpu.emitters.reduction_routines import scale as scale_all
from xlanb.cpu.emitters.reductions import PARTS, memory_form
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

T = PrimitiveType
_TYPES = frozenset({T.F32, T.F64, T.S32, T.U32, T.S64, T.U64})
_BANDS = 4
"""Bands into which rows are divided if they are short; each has a row of partial results.

The number does not depend on the threads, so that results are reproducible.
"""


# -- planning --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """How rows are divided: `bands`, each with a row of partial results.

    `joined` short rows that are contiguous are treated as one long row.
    """

    bands: int
    joined: int

    @staticmethod
    def of(rows: int, columns: int, size: int) -> Cut:
        """The division of `rows` by `columns` elements of `size` bytes."""
        length = columns * size
        bands = _BANDS if length < 2 * costs.COMMON.stretch_bytes and rows * length >= costs.COMMON.banded_bytes else 1
        joined = 2 * costs.COMMON.joined_row_bytes // length if length < costs.COMMON.joined_row_bytes else 1
        return Cut(bands, joined if rows >= bands * joined * costs.COMMON.called_rows else 1)

    def area(self, columns: int) -> int:
        """Elements of a band's partial results, with those of joined rows; in whole cache lines."""
        return _padded(columns) + (_padded((self.joined + 1) * columns) if self.joined > 1 else 0)


def _padded(elements: int) -> int:
    return -(-elements // 64) * 64


def _scratch_bytes(i: HloInstruction) -> int:
    """Bytes of the partial results of a reduction across rows."""
    form, source = memory_form(i), i.operands[0]
    while source.opcode is Op.BITCAST or is_plain_reshape(source):
        source = source.operands[0]
    in_memory = source.opcode is Op.PARAMETER or i.parent.is_entry
    if form is None or not in_memory or not {array_of(o).element_type for o in i.operands} <= _TYPES:
        return 0
    outer, rows, columns = form
    if outer > 1 or columns == 1:
        return 0
    size = array_of(i).element_type.byte_size
    plan = Cut.of(rows, columns, size)
    return 0 if plan == Cut(1, 1) else plan.bands * plan.area(columns) * size


def _pointer(e: Elemental, i: HloInstruction) -> Value | None:
    """The address of an array that is in memory; None otherwise."""
    while i not in e.bindings and i.shape.is_array and (i.opcode is Op.BITCAST or is_plain_reshape(i)):
        if array_of(i.operands[0]).element_type is not array_of(i).element_type:
            return None
        i = i.operands[0]
    source = e.bindings.get(i, {}).get(())
    return source.pointer if isinstance(source, IrArray) else None


def _sources(e: Elemental, i: HloInstruction) -> tuple[Op | None, tuple[Value, ...]]:
    """(An operation on each element or None, the addresses of its operands).

    There are no addresses if the operands are not in memory.
    """
    pointer = _pointer(e, i)
    if pointer is not None:
        return None, (pointer,)
    exact = i.opcode is not Op.EXPONENTIAL or array_of(i).element_type is T.F32
    if i in e.bindings or i.opcode not in OF_ONE | OF_TWO or not exact:
        return None, ()
    alike = all(same_order(array_of(o), array_of(i)) for o in i.operands)
    places = [_pointer(e, o) for o in dict.fromkeys(i.operands)]
    return i.opcode, tuple(p for p in places if p is not None) if alike and None not in places else ()


def _reduce_scratch(i: HloInstruction) -> int:
    """Bytes of the partial results of a full reduction of a large array, or of its columns."""
    if i.shape.is_tuple or len(i.operands) != 2:
        return 0
    return reductions.scratch_bytes(i) if array_of(i).element_count == 1 else _scratch_bytes(i)


SCRATCH[Op.REDUCE] = _reduce_scratch


# -- kernels that call the routines ----------------------------------------------------------------


@emitter(Op.REDUCE)
def emit_reduce(k: Kernel) -> bool:
    """Emit a reduction of one array as a routine call, or to one number by several threads.

    Returns False for others.
    """
    return len(k.root.operands) == 2 and (
        emit_shared_reduce(k.e, k.root, k.output, k.scratch)
        or reductions.emit_whole_reduce(k.e, k.root, k.output, k.scratch)
        or emit_columns(k)
    )


def emit_shared_reduce(e: Elemental, i: HloInstruction, output: IrArray, scratch: Value | None) -> bool:
    """Emit a reduction of arrays in memory as a routine call.

    Returns False, and emits nothing, for other forms or types and for small arrays.
    """
    op = simple_reducer(i.to_apply)
    of, pointers = _sources(e, i.operands[0])
    types = {array_of(o).element_type for o in i.operands}
    if op is None or not pointers or not e.f.target.explicit_vectors or types - _TYPES:
        return False
    f, t, (outer, rows, columns) = e.f, array_of(i).element_type, memory_form(i) or (0, 0, 0)
    fold = Fold(op, of, t, f.target.vector_bits // t.bits)
    kernel = _SharedKernel(e, i, fold, pointers, output.pointer)
    if columns == 1:
        least = costs.COMMON.row_vectors * fold.width
        if rows < least:
            return False
        f.decided("reduction", "a routine along rows", f"{rows} elements in each row; a call pays off from {least}")
        kernel.along_rows(outer, rows, scratch)
    else:
        least = costs.COMMON.called_rows
        short = columns < fold.width and scratch is None
        few = rows < least or (outer > 1 and rows * columns < costs.COMMON.called_elements)
        if of is not None or short or few:
            return False
        f.decided("reduction", "a routine over columns", f"{rows} rows of {columns}; a call pays off from {least} rows")
        kernel.over_columns(outer, rows, columns, scratch)
    f.ready = f.calls_only = True
    return True


def emit_scaled_reduce(e: Elemental, i: HloInstruction, scale: HloInstruction, output: IrArray) -> bool:
    """Emit a reduction whose few results are multiplied by one number, as in a mean.

    Returns False, and emits nothing, for other reductions.
    """
    t, count, given = array_of(i).element_type, array_of(i).element_count, array_of(i.operands[0]).element_count
    many = count * costs.COMMON.multiplied_elements > given
    if t not in (T.F32, T.F64) or many or (count == 1 and given >= costs.COMMON.shared_sum_elements):
        return False
    if not emit_shared_reduce(e, i, output, None):
        return False
    fold = Fold(Op.MULTIPLY, None, t, e.f.target.vector_bits // t.bits)
    scale_all(e.f, fold, output.pointer, count, real(e.scalar(scale)))
    return True


@dataclass(frozen=True)
class _SharedKernel:
    """A kernel that calls a routine on the arrays at `sources`; threads share it."""

    e: Elemental
    instruction: HloInstruction
    fold: Fold
    sources: tuple[Value, ...]
    result: Value

    @property
    def f(self) -> Function:
        return self.e.f

    @property
    def neutral(self) -> Value:
        """The neutral element."""
        return real(identity(self.f, self.fold.op, self.fold.type))

    @property
    def initial(self) -> Value:
        """The initial value; use it where it is needed, possibly inside a thread's part."""
        return real(self.e.scalar(self.instruction.operands[1]))

    @property
    def initial_number(self) -> Number | None:
        """The initial value if it is a constant; emits nothing."""
        back = self.f.mark()
        number = self.initial.number
        back()
        return number

    def at(self, pointer: Value, offset: Ix) -> Value:
        """The address of an element."""
        return array(self.fold.type, pointer).address(offset)

    def nanoseconds(self, elements: int) -> float:
        """Estimated nanoseconds for this many elements."""
        return elements * self.fold.type.byte_size * self.f.target.costs.byte_ns

    # -- along rows --------------------------------------------------------------------------------

    def along_rows(self, rows: int, length: int, scratch: Value | None) -> None:
        """Reduce rows, shared by threads; a single row in `PARTS` parts if that pays."""
        f = self.f
        if rows == 1 and scratch is not None and is_shared(f, PARTS, self.nanoseconds(length // PARTS)):
            self._in_parts(length, scratch)
            return
        if (number := self.initial_number) is not None:
            self._rows_part(number, (*self.sources, self.result), rows, length)
            return
        with parts(f, rows, nanoseconds=self.nanoseconds(length)) as (low, high):
            self._rows(f.mul(low, length), f.sub(high, low), length, self.initial, self.at(self.result, low))

    def _rows(self, offset: Ix, rows: Ix, length: int, initial: Value, result: Value) -> None:
        """Reduce rows from an element offset on."""
        a, *others = (self.at(s, offset) for s in self.sources)
        reduce_rows(self.f, self.fold, a, others[0] if others else None, rows, length, initial, result)

    def _rows_part(self, initial: Number, places: Sequence[Value], rows: int, length: int) -> None:
        """Reduce rows by a shared routine; initial value and lengths are constants."""
        part = RowsPart(self.fold, len(places) - 1)
        part.call(self.f, length, initial, places, rows, self.nanoseconds(length))

    def _in_parts(self, length: int, scratch: Value) -> None:
        """Reduce one row in parts, then the partial results, then the remainder."""
        f, each = self.f, length // PARTS
        first, then = self.neutral.number, self.initial_number
        if first is not None and then is not None and each * PARTS == length:
            self._rows_part(first, (*self.sources, scratch), PARTS, each)
            RowsPart(replace(self.fold, of=None), 1).call(f, PARTS, then, (scratch, self.result), 1, 0.0)
            return
        with parts(f, PARTS, nanoseconds=self.nanoseconds(each)) as (low, high):
            self._rows(f.mul(low, each), f.sub(high, low), each, self.neutral, self.at(scratch, low))
        reduce_rows(f, replace(self.fold, of=None), scratch, None, 1, PARTS, self.initial, self.result)
        if each * PARTS < length:
            so_far = array(self.fold.type, self.result)[0]
            self._rows(each * PARTS, 1, length - each * PARTS, so_far, self.result)

    # -- over columns ------------------------------------------------------------------------------

    def over_columns(self, arrays: int, rows: int, columns: int, scratch: Value | None) -> None:
        """Reduce arrays, bands of rows, or slices of columns, shared by threads."""
        f, source = self.f, self.sources[0]
        if arrays > 1:
            with parts(f, arrays, nanoseconds=self.nanoseconds(rows * columns)) as (low, high), f.loop(high, low) as k:
                begin, result = self.at(source, f.mul(k, rows * columns)), self.at(self.result, f.mul(k, columns))
                self._columns(begin, rows, columns, columns, result)
        elif scratch is not None:
            self._in_bands(rows, columns, Cut.of(rows, columns, self.fold.type.byte_size), scratch)
        else:
            self._in_stretches(rows, columns)

    def _in_stretches(self, rows: int, columns: int) -> None:
        """Reduce a slice of columns per thread, over all rows."""
        f, stretch = self.f, costs.COMMON.stretch_bytes // self.fold.type.byte_size
        with parts(f, -(-columns // stretch), nanoseconds=self.nanoseconds(rows * stretch)) as (low, high):
            first = f.mul(low, stretch)
            last: Ix = columns if isinstance(high, int) else f.value(f.mul(high, stretch)).umin(columns)
            begin, result = self.at(self.sources[0], first), self.at(self.result, first)
            self._columns(begin, rows, columns, f.sub(last, first), result)

    def _in_bands(self, rows: int, columns: int, cut: Cut, scratch: Value) -> None:
        """Reduce bands of whole rows, then their rows of results."""
        f, area = self.f, cut.area(columns)
        cost = self.nanoseconds(rows * columns // cut.bands)
        bands = cut.bands if is_shared(f, cut.bands, cost) else 1
        neutral, initial = self.neutral.number, self.initial_number
        if cut.joined == 1 and neutral is not None and initial is not None:
            part = BandsPart(self.fold)
            part.call(f, (rows, bands, columns, columns, area), neutral, (self.sources[0], scratch), cost)
            part.call(f, (bands, 1, area, columns, columns), initial, (scratch, self.result), 0.0)
            return
        with parts(f, bands, nanoseconds=cost) as (low, high), f.loop(high, low) as k:
            first, last = f.div(f.mul(k, rows), bands), f.div(f.mul(f.add(k, 1), rows), bands)
            source, result = self.at(self.sources[0], f.mul(first, columns)), self.at(scratch, f.mul(k, area))
            self._band(source, f.sub(last, first), columns, cut.joined, result)
        self._columns(scratch, bands, area, columns, self.result)

    def _band(self, source: Value, rows: Ix, columns: int, joined: int, result: Value) -> None:
        """Reduce rows to one row of results; results of joined rows are stored after it."""
        neutral = self.neutral
        if joined == 1:
            self._columns(source, rows, columns, columns, result, neutral)
            return
        f, length = self.f, joined * columns
        groups, lines = f.div(rows, joined), self.at(result, _padded(columns))
        self._columns(source, groups, length, length, lines, neutral)
        rest, left = self.at(source, f.mul(groups, length)), f.sub(rows, f.mul(groups, joined))
        self._columns(rest, left, columns, columns, self.at(lines, length), neutral)
        self._columns(lines, joined + 1, columns, columns, result, neutral)

    def _columns(
        self, source: Value, rows: Ix, stride: int, columns: Ix, result: Value, initial: Value | None = None
    ) -> None:
        first = self.initial if initial is None else initial
        reduce_columns(self.f, self.fold, source, rows, stride, columns, first, result)
