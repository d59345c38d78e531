"""Loop kernels: elements of the result in memory order, vectorized if possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlanb.codegen import costs
from xlanb.codegen.elemental import Elemental, Kept, Leaf, array_of
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, IrArray, order, same_order
from xlanb.codegen.lanes import split
from xlanb.codegen.nest import Nest, Tail, Vectors, nested
from xlanb.codegen.parallel import parallel
from xlanb.cpu.emitters.rows import row_index, rows_of, same_elements, unshaped
from xlanb.cpu.emitters.short_rows import LOADED, columns, emitted_across, row_axes, row_nest, store_rows
from xlanb.cpu.emitters.vector_plan import HARD, VectorPlan, costs_in, plan
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape

if TYPE_CHECKING:
    from xlanb.cpu.emitters.kernel import Kernel

_LONGEST_ROW, _ROW_BYTES = 64, 256
"""The most elements of rows that are reduced across, and the most bytes as they are computed."""
_LITTLE = 8
"""The most instructions of an element that is computed one by one for the sake of a gather."""

Output = tuple[HloInstruction, Leaf, IrArray]


def emit_loops(e: Elemental, outputs: Sequence[Output]) -> None:
    """Fill arrays with the elements of instructions; arrays of equal shape share a loop."""
    if len(outputs) == 1:  # several share a loop: a result may alias another's operand
        i, leaf, array = outputs[0]
        inner = i if i.shape.is_tuple else unshaped(i, e.bindings)
        outputs = [(inner, leaf, array if inner is i else IrArray(array.pointer, array_of(inner)))]
    groups: list[list[Output]] = []
    for output in outputs:
        alike = next((g for g in groups if same_order(g[0][2].shape, output[2].shape)), None)
        if alike is None:
            groups.append([output])
        else:
            alike.append(output)
    e.f.ready = e.f.target.explicit_vectors
    for group in groups:
        if group[0][2].shape.element_count:
            with e.f.aside():
                _Loops(e, group).emit()
                e.writes(array.pointer for _, _, array in group)


def emit_after_reduce(k: Kernel) -> bool:
    """Emit functions of reduced rows, as exp of sums: the rows first, then vectors of functions.

    The result's memory holds the reduced rows in between. False for other kernels.
    """
    if len(k.outputs) != 1 or k.root.shape.is_tuple or not k.f.target.explicit_vectors:
        return False
    rows = _reduced_rows(k)
    if rows is None:
        return False
    e, held = k.e, IrArray(k.output.pointer, array_of(rows))
    emit_loops(e, [(rows, (), held)])
    ready = e.f.ready
    e.bindings = {**e.bindings, rows: {(): held}}
    emit_loops(e, [(k.root, (), k.output)])
    e.f.ready = e.f.ready and ready
    return True


def _reduced_rows(k: Kernel) -> HloInstruction | None:
    """The reduced rows of which a kernel's result is an elementwise function of much code.

    They are a reduce, or what it is converted to: their elements are as large as the result's,
    whose memory may hold no operand. Nothing else in the kernel may need them.
    """
    bound, shape = k.e.bindings, k.output.shape
    functions, seen, stack = set[HloInstruction](), {k.root}, [k.root]
    while stack:
        i = stack.pop()
        if i in bound or not i.opcode.is_elementwise:
            continue
        functions.add(i)
        stack += {o: None for o in i.operands if o not in seen}
        seen.update(i.operands)
    if shape.element_count < costs.COMMON.function_elements or not any(i.opcode in HARD for i in functions):
        return None
    found = [i for i in seen if i.opcode is Op.REDUCE and i not in bound and not i.shape.is_tuple]
    if len(found) != 1 or not functions.issuperset(found[0].users):
        return None
    arrays = (a for leaves in bound.values() for a in leaves.values() if isinstance(a, IrArray))
    if shape.is_dynamic or any(a.pointer.text == k.output.pointer.text for a in arrays):
        return None
    rows = found[0]
    while array_of(rows).element_type.byte_size != shape.element_type.byte_size:
        if rows.user_count != 1 or rows.users[0].opcode in HARD or rows.users[0] is k.root:
            return None
        (rows,) = rows.users
    return rows if same_order(array_of(rows), shape) and plan(bound, [(rows, ())]).run == 0 else None


class _Loops:
    """The loops over the elements of arrays of one shape."""

    def __init__(self, e: Elemental, group: Sequence[Output]) -> None:
        self.e, self.f, self.group = e, e.f, group
        self.shape: ArrayShape = group[0][2].shape
        self.order = list(reversed(order(self.shape)))
        self.sizes = tuple(self.shape.dimensions[d] for d in self.order)
        self.plan: VectorPlan = plan(e.bindings, [(i, leaf) for i, leaf, _ in group], costs_in(e.f))
        root = group[0][0]
        self.rows = rows_of(root, self.shape, self.plan.run, e.bindings) if len(group) == 1 else None
        self.pointers = [array.pointer for _, _, array in group]

    def emit(self) -> None:
        """Emit the loops, vectorized or one element at a time."""
        run = min(self.plan.run, len(self.order))
        if self.f.target.explicit_vectors and (run == 0 or self._reduces_rows) and self._across_reduced_rows():
            return
        if not self.f.target.explicit_vectors or run == 0:
            reason = "the code of each element is already a loop along rows" if run == 0 else "left to LLVM"
            self.f.decided("vectors", "none", reason)
            self._one_by_one()
        elif self._gathers_alike(self.sizes[:-run]):
            self._gathered(run)
        elif self._in_short_rows():
            return
        elif self.shape.element_count < 4 or not (self._in_vectors(run) or (run > 1 and self._in_vectors(1))):
            self.f.ready = self.f.ready and self.shape.element_count <= costs.COMMON.plain_loop_elements
            self._one_by_one()

    @property
    def _reduces_rows(self) -> bool:
        """Whether the kernel is a reduction of pairs along the fastest dimension."""
        i = self.group[0][0]
        is_pair = i.opcode is Op.REDUCE and i.shape.is_tuple and i not in self.e.bindings
        return is_pair and order(array_of(i.operands[0]))[0] in i.dimensions

    @property
    def _again(self) -> bool:
        """Whether elements may be written twice: no operand aliases a result or is kept there."""
        if self.rows is not None and self.rows.kept is not None:
            return False
        read = (source for binding in self.e.bindings.values() for source in binding.values())
        return not any(isinstance(s, IrArray) and s.pointer in self.pointers for s in read)

    @property
    def _tail(self) -> Tail:
        return Tail.OVERLAP if self._again else Tail.MASK

    def _begin(self) -> None:
        self.e.kept = None
        self.e.has_written_none(self.pointers)

    def _index(self, at: Sequence[Ix]) -> Index:
        multi: list[Ix] = [0] * self.shape.rank
        for d, v in zip(self.order, at, strict=True):
            multi[d] = v
        return Index(self.shape, multi)

    def _store(self, index: Index) -> None:
        # Compute all values first: an output may alias an operand.
        if self.e.kept is None:
            self.e.writes(self.pointers, index)
        values = [(array, self.e.element(i, index, leaf)) for i, leaf, array in self.group]
        for array, value in values:
            array.store(index, value)

    # -- one element at a time ---------------------------------------------------------------------

    def _one_by_one(self) -> None:
        """One element at a time: nested loops, or one flat loop if rows have a single counter."""
        self._begin()
        if self.rows is not None and self.rows.reductions:
            run = len(self.sizes) - len(self.rows.numbered)
            nest = Nest(self.sizes, run, None, self.plan.nanoseconds)
            nest.each(self.f, lambda at: self._store(self._index(at)), self._row)
        elif self.plan.run < len(self.order):
            Nest(self.sizes, 0, None, self.plan.nanoseconds).each(self.f, lambda at: self._store(self._index(at)))
        else:
            with parallel(self.f, self.shape.element_count, nanoseconds=self.plan.nanoseconds) as flat:
                self._store(Index(self.shape, flat=flat))

    # -- vectors -----------------------------------------------------------------------------------

    def _in_vectors(self, run: int) -> bool:
        """Emit vectors along the `run` fastest dimensions; return False if that is impossible.

        Nothing is emitted then.
        """
        widths = Vectors(*self.plan.vectors(self.f.target.vector_bits))
        nest = Nest(self.sizes, run, widths, self.plan.nanoseconds, self._tail)
        self._begin()
        if run == len(self.sizes):
            flat = Nest((self.shape.element_count,), 1, widths, nest.nanoseconds, nest.tail)
            return flat.each(self.f, lambda at: self._store(Index(self.shape, flat=at[0])))
        return nest.each(self.f, lambda at: self._store(self._index(at)), self._row)

    def _across_reduced_rows(self) -> bool:
        """Emit vectors of the results of several short rows; return False if that is impossible.

        Nothing is emitted then.
        """
        lanes, _ = self.plan.vectors(self.f.target.vector_bits)
        if self.shape.element_count < lanes:
            return False
        nest = row_nest(self.sizes, lanes, self.plan.nanoseconds, self._tail)
        self._begin()
        return emitted_across(self.f, nest, self._longest, lambda at: self._store(self._index(at)))

    @property
    def _longest(self) -> int:
        """The most elements of a row that is better reduced across.

        Processors add up a vector of integers fast; choosing between pairs takes many operations.
        """
        read = [array_of(i).element_type for i in self.plan.seen if i in self.e.bindings and array_of(i).dimensions]
        if self._reduces_rows or all(t.is_floating for t in read):
            return min(_LONGEST_ROW, _ROW_BYTES * 8 // self.plan.widest)
        return LOADED

    def _in_short_rows(self) -> bool:
        """Emit vectors of equal elements of several short rows; return False if that is impossible.

        Nothing is emitted then.
        """
        lanes, _ = self.plan.vectors(self.f.target.vector_bits)
        axes = row_axes(self.sizes, self.shape.element_type.bits, self.plan, lanes, self.plan.run)
        if not axes or (self.rows is not None and self.rows.reductions):
            return False
        sizes, elements = self.sizes[:-axes], math.prod(self.sizes[-axes:])
        nest = row_nest(sizes, lanes, self.plan.nanoseconds * elements, self._tail, elements)
        self._begin()
        return emitted_across(self.f, nest, LOADED, lambda at: self._store_rows(columns(self.shape, at, axes)))

    def _store_rows(self, row: Sequence[Index]) -> None:
        values = []
        for index in row:
            self.e.writes(self.pointers, index)
            values.append([self.e.element(i, index, leaf) for i, leaf, _ in self.group])
        for (_, _, array), elements in zip(self.group, zip(*values, strict=True), strict=True):
            store_rows(self.f, array, row[0], elements)

    def _row(self, at: Sequence[Ix]) -> None:
        """Emit a row's reductions before its elements; keep costly operands in the result's row."""
        if self.rows is None:
            return
        for i in self.rows.reductions:
            if i is self.rows.keeper and self.rows.kept is not None:
                self.e.kept = Kept(self.rows.kept, self.group[0][2])
            self.e.element(i, row_index(i, at))
            if self.e.kept is not None:
                self.e.kept.filled = True
                self.e.writes(self.pointers)

    # -- gathers -----------------------------------------------------------------------------------

    def _gathers_alike(self, outer: Sequence[int]) -> bool:
        """Whether this is a gather, with the same indices for every row, and little more."""
        i = self.group[0][0]
        if len(self.group) > 1 or self.plan.hard or not outer or outer[-1] < costs.COMMON.gathered_rows:
            return False
        alike = same_elements(i, self.shape, self.e.bindings)
        gathers = [j for j in alike if j.opcode is Op.GATHER and j not in self.e.bindings]
        if len(gathers) != 1 or len(alike) > _LITTLE:
            return False
        return self._again and set(gathers[0].ints("offset_dims")) == set(self.order[: len(outer)])

    def _gathered(self, run: int) -> None:
        """Gather several rows at once, by element: they share each index computation.

        The scalar loads take fewer cycles than vector gathers.
        """
        outer, inner = self.sizes[:-run], self.sizes[-run:]
        last = outer[-1] - costs.COMMON.gathered_rows  # the last rows overlap the previous ones
        self._begin()
        cost = self.plan.nanoseconds * costs.COMMON.gathered_rows * math.prod(inner)
        with nested(self.f, [*outer[:-1], -(-outer[-1] // costs.COMMON.gathered_rows)], cost) as at:
            first = self.f.clamp(self.f.mul(at[-1], costs.COMMON.gathered_rows), 0, last)
            rows = [[*at[:-1], self.f.add(first, k)] for k in range(costs.COMMON.gathered_rows)]
            with self.f.loop(math.prod(inner)) as q:
                for row in rows:
                    self._store(self._index([*row, *split(self.f, q, inner)]))
