"""Reduce the columns of a computed array a few rows at a time.

    for each stretch of columns:                             shared by threads
        partial results = initial value
        for every few rows: for each vector of columns:
            partial = step(... step(partial, first row), ..., last row)
        result = f(partial results)

A vector of columns over all rows would read a short piece of each row, which is not prefetched. The
partial results of a stretch are on the stack of the thread that computes them. Each column is
reduced in order. Arrays in memory are reduced by routines (see shared_reductions).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from xlanb.codegen import lanes
from xlanb.codegen.elemental import array_of
from xlanb.codegen.elements import Element, load, memory, store
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, IrArray, order, same_order
from xlanb.codegen.lanes import NotAVectorError
from xlanb.codegen.nest import ENDLESS
from xlanb.codegen.parallel import parallel
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.kernel import Kernel
from xlanb.cpu.emitters.reductions import Reducer, memory_form
from xlanb.cpu.emitters.rows import unshaped
from xlanb.cpu.emitters.vector_plan import costs_in, plan
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

_LEAST_ROWS, _LEAST_COLUMNS = 16, 512
"""The least rows and columns for which pieces of rows are short."""
_LEAST_ELEMENTS = 1 << 16
"""With fewer elements all of them are in the caches."""
_STRETCH = 1024
"""Columns of a stretch, at most."""


def emit_columns(k: Kernel) -> bool:
    """Emit a reduction of long columns, or elementwise functions of one.

    Returns False, and emits nothing, for other kernels.
    """
    if len(k.outputs) != 1 or k.root.shape.is_tuple or not k.f.target.explicit_vectors:
        return False
    root = unshaped(k.root, k.e.bindings)
    i = _reduced(k, root)
    if i is None or len(i.operands) != 2 or k.output.shape.is_dynamic:
        return False
    form = memory_form(i)
    if form is None or array_of(i).element_type.is_complex:
        return False
    outer, rows, columns = form
    if rows < _LEAST_ROWS or columns < _LEAST_COLUMNS or outer * rows * columns < _LEAST_ELEMENTS:
        return False
    made = _Columns(k, i, root, form)
    back = k.f.mark()
    bindings = k.e.bindings
    try:
        with k.f.aside():
            made.emit()
    except NotAVectorError as error:
        back()
        k.e.bindings = bindings
        k.f.decided("vectors", "not of columns a few rows at a time", str(error))
        return False
    k.e.bindings = bindings
    k.e.writes([k.output.pointer])
    k.f.ready = True
    return True


def _reduced(k: Kernel, root: HloInstruction) -> HloInstruction | None:
    """The reduction that is a kernel's result, or that elementwise functions take to its result."""
    bound, found, functions, stack = k.e.bindings, set[HloInstruction](), set[HloInstruction](), [root]
    while stack:
        i = stack.pop()
        if i in bound or i in functions or i.opcode is Op.CONSTANT or _is_repeated(i, bound):
            continue
        if i.opcode is Op.REDUCE and not i.shape.is_tuple:
            found.add(i)
        elif i.opcode.is_elementwise:
            functions.add(i)
            stack += i.operands
        else:
            return None
    if len(found) != 1:
        return None
    (reduce,) = found
    alone = reduce is root or functions.issuperset(reduce.users)
    return reduce if alone and same_order(array_of(reduce), array_of(root)) else None


def _is_repeated(i: HloInstruction, bound: Collection[HloInstruction]) -> bool:
    return i.opcode is Op.BROADCAST and (i.operands[0] in bound or i.operands[0].opcode is Op.CONSTANT)


class _Columns:
    """The loops over columns, of rows in `outer` arrays."""

    def __init__(self, k: Kernel, i: HloInstruction, root: HloInstruction, form: tuple[int, int, int]) -> None:
        self.f, self.e, self.i, self.root = k.f, k.e, i, root
        self.output = IrArray(k.output.pointer, array_of(root))
        self.outer, self.rows, self.columns = form
        self.reducer = Reducer(k.e, i)
        slowest = list(reversed(order(self.reducer.source)))  # without those of one element
        self.reduced = [d for d in slowest if d in i.dimensions]
        first = slowest.index(self.reduced[0])
        self.before, self.kept = slowest[:first], slowest[first + len(self.reduced) :]
        self.plan = plan(self.e.bindings, [(self.reducer.inputs[0], ())], costs_in(self.f))
        width, self.together = self.plan.vectors(self.f.target.vector_bits)
        self.width = width * self.together

    def emit(self) -> None:
        """Emit the loops.

        Raises:
            NotAVectorError: the elements cannot be computed in vectors of columns.
        """
        if self.plan.run < len(self.kept):
            raise NotAVectorError("columns have no common counter")
        f, parts = self.f, 2 * self.f.target.threads
        even = min(_STRETCH, max(-(-self.columns // parts), _LEAST_COLUMNS // 2))
        stretch = -(-even // self.width) * self.width
        count = -(-self.columns // stretch)
        nanoseconds = self.plan.nanoseconds * self.rows * min(stretch, self.columns)
        with parallel(f, self.outer * count, nanoseconds=nanoseconds) as n:
            array, part = lanes.split(f, n, [self.outer, count]) if self.outer > 1 else (0, n)
            first = f.mul(part, stretch)
            size: Ix = stretch if self.columns % stretch == 0 else f.value(f.sub(self.columns, first)).umin(stretch)
            self._stretch(f.alloca(memory(self.reducer.types[0]), stretch), array, first, size)
        f.decided("reduction", f"{self.together} rows of {stretch} columns at a time", "each row is read in order")

    def _stretch(self, partial: Value, array: Ix, first: Ix, size: Ix) -> None:
        """Reduce `size` columns from `first` on."""
        f, reducer = self.f, self.reducer
        (t,) = reducer.types

        def fill(at: Ix, _: Ix) -> None:
            store(t, partial, at, reducer.start()[0])

        self._vectors(first, size, fill)
        whole = self.rows - self.rows % self.together
        for begin, end, together in ((0, whole, self.together), (whole, self.rows, 1)):
            if begin == end:
                continue
            with f.loop((end - begin) // together) as group:
                rows = [f.add(f.mul(group, together), begin + n) for n in range(together)]

                def add(at: Ix, column: Ix, rows: Sequence[Ix] = rows) -> None:
                    value: list[Element] = [load(t, partial, at)]
                    for row in rows:
                        value = reducer.step(value, reducer.elements(self._source_index(array, row, column)))
                    store(t, partial, at, value[0])

                self._vectors(first, size, add)

        def finish(at: Ix, column: Ix) -> None:
            (made,) = reducer.results([load(t, partial, at)])
            self.e.bindings = {**self.e.bindings, self.i: {(): lambda _: made}}
            index = self._result_index(array, column)
            self.output.store(index, self.e.element(self.root, index))

        self._vectors(first, size, finish)

    def _vectors(self, first: Ix, size: Ix, body: Callable[[Ix, Ix], None]) -> None:
        """Emit `body(place in the stretch, column)` for vectors of a stretch, the last masked."""
        f, width = self.f, self.width

        def vector(at: Ix) -> None:
            column = lanes.counter(f, f.add(first, at), 0, self.columns - 1, width)
            body(lanes.counter(f, at, 0, ENDLESS, width), column)

        with f.loop(f.div(size, width), guarded=not isinstance(size, int)) as k, f.vectorized(width):
            vector(f.mul(k, width))
        if self.columns % width:
            left = f.value(f.rem(size, width))
            with f.when(left.differs(0)), f.vectorized(width, lanes.Mask.first(f, width, left)):
                vector(f.sub(size, left))

    def _split(self, array: Ix, row: Ix, column: Ix) -> dict[int, Ix]:
        """The index in each dimension of the reduced array that has more than one element."""
        sizes, found = self.reducer.source.dimensions, dict[int, Ix]()
        for dims, q in ((self.before, array), (self.reduced, row), (self.kept, column)):
            found |= zip(dims, lanes.split(self.f, q, [sizes[d] for d in dims]), strict=True)
        return found

    def _source_index(self, array: Ix, row: Ix, column: Ix) -> list[Ix]:
        found = self._split(array, row, column)
        return [found.get(d, 0) for d in range(self.reducer.source.rank)]

    def _result_index(self, array: Ix, column: Ix) -> Index:
        found = self._split(array, 0, column)
        kept = (d for d in range(self.reducer.source.rank) if d not in self.i.dimensions)
        return Index(self.output.shape, [found.get(d, 0) for d in kept])
