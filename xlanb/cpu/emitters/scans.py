"""Cumulative sums and their kin: a reduce-window in which every window begins (or ends) with the array is a running fold, one step per element.

Along the fastest dimension a vector is folded within itself by shifts that double (W. D. Hillis and G. L. Steele, "Data parallel algorithms", 1986) and then takes in what came before;
along other dimensions each lane keeps a line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlanb.codegen.elemental import array_of, flat, pack
from xlanb.codegen.elements import Element, array, is_narrow, load, memory, real, store
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, IrArray
from xlanb.codegen.parallel import parallel
from xlanb.codegen.values import Value
from xlanb.codegen.views import Split, array_in_order, fill, is_plain, lanes_of
from xlanb.cpu.emitters.reductions import Reducer, combine, identity, simple_reducer
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

if TYPE_CHECKING:
    from xlanb.cpu.emitters.kernel import Kernel

_UNROLL = 4
_TILE = 1024


@dataclass(frozen=True)
class Cumulative:
    """Element j of a line of m is the fold of elements 0 .. j + shift of one of n (of those that there are); both counted from the end where `reverse`."""

    axis: int
    n: int
    m: int
    shift: int
    reverse: bool

    @property
    def empty(self) -> int:
        """How many elements of the result come before the first fold of anything."""
        return min(max(-self.shift, 0), self.m)

    @property
    def early(self) -> int:
        """How many elements of the operand are folded before the first result."""
        return min(max(self.shift, 0), self.n)

    @property
    def steps(self) -> int:
        """How many results take in one more element each; those behind them are the last fold again."""
        return max(min(self.m - self.empty, self.n - self.early), 0)


def cumulative(i: HloInstruction) -> Cumulative | None:
    """What a reduce-window is as a running fold along one dimension; None where it is none."""
    if i.opcode is not Op.REDUCE_WINDOW:
        return None
    source = array_of(i.operands[0])
    result = next(shape.as_array() for _, shape in i.shape.leaves())
    wide = [d for d, w in enumerate(i.window.dimensions) if w.size != 1 or result.dimensions[d] != source.dimensions[d]]
    if any(w.stride != 1 or w.base_dilation != 1 or w.window_dilation != 1 for w in i.window.dimensions):
        return None
    if len(wide) != 1 or source.element_count == 0 or result.element_count == 0:
        return None
    (axis,) = wide
    w = i.window.dimensions[axis]
    others = (v for d, v in enumerate(i.window.dimensions) if d != axis)
    if w.size < 3 or w.reversal or any(v.padding_low or v.padding_high for v in others):
        return None
    n, m = source.dimensions[axis], result.dimensions[axis]
    if w.padding_low >= m - 1:
        return Cumulative(axis, n, m, w.size - 1 - w.padding_low, reverse=False)
    if w.size - 1 - w.padding_low >= n - 1:
        return Cumulative(axis, n, m, n - m + w.padding_low, reverse=True)
    return None


def emit_cumulative(k: Kernel) -> bool:
    """A running fold in as many steps as there are elements; False where the reduce-window is none."""
    i = k.root
    scan = cumulative(i)
    if scan is None:
        return False
    source = array_of(i.operands[0])
    result = next(iter(k.outputs.values())).shape
    order = [d for d in source.minor_to_major if source.dimensions[d] != 1 or result.dimensions[d] != 1]
    if any(order != [d for d in a.shape.minor_to_major if d in order] for a in k.outputs.values()):
        return False
    split, goal = Split.of(source, scan.axis), Split.of(result, scan.axis)
    op = simple_reducer(i.to_apply) if len(i.operands) == 2 else None
    t = array_of(i.operands[0]).element_type
    if op is not None and is_plain(t):
        lanes = lanes_of(k.f, t)
        if split.inner == 1 and scan.steps >= 2 * lanes:
            k.f.decided("scan", "vectors along rows", f"{split.n} elements in each")
            _Rows(k, scan, split, goal, op).emit()
            return True
        if split.inner >= lanes:
            _columns(k, scan, split, goal, op)
            return True
    _plain(k, scan, split, goal)
    return True


class _Rows:
    """Lines along memory, a vector at a time."""

    def __init__(self, k: Kernel, scan: Cumulative, split: Split, goal: Split, op: Op) -> None:
        self.k, self.e, self.f = k, k.e, k.f
        self.scan, self.split, self.goal, self.op = scan, split, goal, op
        self.operand = k.root.operands[0]
        self.array = array_in_order(k.e, self.operand, split.shape)
        self.t = array_of(self.operand).element_type
        self.n = lanes_of(k.f, self.t)
        self.target = array(self.t, k.output.pointer)
        self.reducer = Reducer(k.e, k.root.to_apply, [self.t])
        self.line: Ix = 0
        self.ready = True

    def emit(self) -> None:
        f, scan = self.f, self.scan
        c = f.target.costs
        cost = (scan.m / self.n + scan.m % self.n / 3) * c.scan_vector_ns + c.scan_row_ns
        with parallel(f, self.split.outer, nanoseconds=cost) as o:
            self.line = o
            source, target = f.mul(o, self.split.n), f.mul(o, self.goal.n)
            carry = real(self.e.scalar(self.k.root.operands[1]))
            self._repeat(target, 0, scan.empty, carry)
            carry = self._early(source, carry)
            carry = self._vectors(source, target, carry)
            done = scan.steps // self.n * self.n
            carry = self._elements(source, target, done, scan.steps - done, carry)
            last = scan.empty + scan.steps
            self._repeat(target, last, scan.m - last, carry)
        f.ready = self.ready

    def _in(self, base: Ix, at: Ix, width: int = 1) -> Ix:
        """Where `width` elements from place `at` on begin in the operand; places are counted from the end in reverse."""
        f = self.f
        return f.add(base, f.sub(self.scan.n - width, at) if self.scan.reverse else at)

    def _out(self, base: Ix, at: Ix, width: int = 1) -> Ix:
        f = self.f
        return f.add(base, f.sub(self.scan.m - width, at) if self.scan.reverse else at)

    def _element(self, place: Ix) -> Element:
        if self.array is not None:
            return load(self.t, self.array.pointer, place)
        return self.e.element(self.operand, Index(self.split.shape, flat=place))

    def _repeat(self, target: Ix, begin: int, count: int, value: Value) -> None:
        """The same value in `count` places."""
        if count > 0:
            with self.f.loop(begin + count, begin) as j:
                self.target[self._out(target, j)] = value

    def _early(self, source: Ix, carry: Value) -> Value:
        if not self.scan.early:
            return carry
        with self.f.carried(self.scan.early, [carry]) as loop:
            loop.next = flat(self.reducer.step(loop.values, [self._element(self._in(source, loop.index))]))
        return loop.values[0]

    def _elements(self, source: Ix, target: Ix, begin: int, count: int, carry: Value) -> Value:
        """One step after the other."""
        if count <= 0:
            return carry
        f = self.f
        with f.carried(begin + count, [carry], begin) as loop, f.aside():
            value = self._element(self._in(source, f.add(loop.index, self.scan.early)))
            made = flat(self.reducer.step(loop.values, [value]))
            self.target[self._out(target, f.add(loop.index, self.scan.empty))] = made[0]
            loop.next = made
        return loop.values[0]

    def _vectors(self, source: Ix, target: Ix, carry: Value) -> Value:
        f, n = self.f, self.n
        size = max(_TILE // n, 1) * n
        tile = None if self.array is not None else f.alloca(memory(self.t), size)
        total = self.scan.steps // n * n
        state = f.splat(carry, n)
        if tile is not None and total > size:
            with f.carried(total // size, [state]) as outer:
                outer.next = [self._steps(source, target, f.mul(outer.index, size), size, outer.values[0], tile)]
            state = outer.values[0]
            if total % size:
                state = self._steps(source, target, total // size * size, total % size, state, tile)
        else:
            state = self._steps(source, target, 0, total, state, tile)
        return f.extract(state, 0)

    def _steps(self, source: Ix, target: Ix, low: Ix, count: int, state: Value, tile: Value | None) -> Value:
        """`count` steps from step `low` on, a vector at a time."""
        f, n, t = self.f, self.n, self.t
        begin = self._in(source, f.add(low, self.scan.early), count)
        if self.array is not None:
            given, first = array(t, self.array.pointer), begin
        elif tile is not None:
            given, first = array(t, tile), 0
            along = self._in(0, f.add(low, self.scan.early), count)
            self.ready &= fill(self.e, self.operand, self.split, (self.line, along, 0), count, tile)
        with f.carried(count // n, [state]) as loop:
            at = f.mul(loop.index, n)
            place = f.add(first, f.sub(count - n, at) if self.scan.reverse else at)
            inside = self._within(given.load(place, n))
            out = self._out(target, f.add(f.add(low, at), self.scan.empty), n)
            self.target.store(out, combine(f, self.op, t, loop.values[0], inside))
            whole = f.shuffle(inside, None, [0 if self.scan.reverse else n - 1] * n)
            loop.next = [combine(f, self.op, t, loop.values[0], whole)]
        return loop.values[0]

    def _within(self, v: Value) -> Value:
        """Each lane with all lanes before it (behind it, in reverse)."""
        f, n = self.f, self.n
        nothing = f.splat(real(identity(f, self.op, self.t)), n)
        distance = 1
        while distance < n:
            lanes = range(n)
            if self.scan.reverse:
                which = [min(n, lane + distance) for lane in lanes]
            else:
                which = [lane - distance if lane >= distance else n for lane in lanes]
            v = combine(f, self.op, self.t, f.shuffle(v, nothing, which), v)
            distance *= 2
        return v


def _columns(k: Kernel, scan: Cumulative, split: Split, goal: Split, op: Op) -> None:
    """Lines that lie side by side: a lane for each."""
    e, f = k.e, k.f
    operand = k.root.operands[0]
    t = array_of(operand).element_type
    n = lanes_of(f, t)
    goal_array = array(t, k.output.pointer)
    group = next(g for g in (_UNROLL, 2, 1) if split.inner >= g * n)
    width = group * n
    blocks = -(-split.inner // width)
    held = array_in_order(e, operand, split.shape)
    flags = [True]
    with parallel(f, split.outer * blocks, nanoseconds=scan.m * group * f.target.costs.scan_step_ns) as at:
        o = f.div(at, blocks)
        # The last block lies back over the one before: the same results are written twice.
        column = f.clamp(f.mul(f.rem(at, blocks), width), 0, split.inner - width)
        tile = held.pointer if held is not None else f.alloca(memory(t), width)
        given = array(t, tile)

        def place(view: Split, size: int, at: Ix) -> Ix:
            return view.flat(f, o, f.sub(size - 1, at) if scan.reverse else at, column)

        def vectors(at: Ix) -> list[Value]:
            begin: Ix = 0
            if held is not None:
                begin = place(split, scan.n, at)
            else:
                along = f.sub(scan.n - 1, at) if scan.reverse else at
                flags.append(fill(e, operand, split, (o, along, column), width, tile))
            return [given.load(f.add(begin, g * n), n) for g in range(group)]

        def put(at: Ix, values: Sequence[Value]) -> None:
            begin = place(goal, scan.m, at)
            for g, v in enumerate(values):
                goal_array.store(f.add(begin, g * n), v)

        def run(count: int, state: list[Value], *, first_in: int, first_out: int | None) -> list[Value]:
            if count <= 0:
                return state
            with f.carried(count, state) as loop:
                new = vectors(f.add(loop.index, first_in))
                loop.next = [combine(f, op, t, a, b) for a, b in zip(loop.values, new, strict=True)]
                if first_out is not None:
                    put(f.add(loop.index, first_out), loop.next)
            return loop.values

        def repeat(begin: int, count: int, state: list[Value]) -> None:
            if count > 0:
                with f.loop(begin + count, begin) as j:
                    put(j, state)

        state = [f.splat(real(e.scalar(k.root.operands[1])), n)] * group
        repeat(0, scan.empty, state)
        state = run(scan.early, state, first_in=0, first_out=None)
        state = run(scan.steps, state, first_in=scan.early, first_out=scan.empty)
        last = scan.empty + scan.steps
        repeat(last, scan.m - last, state)
    f.ready = all(flags)


def _plain(k: Kernel, scan: Cumulative, split: Split, goal: Split) -> None:
    """Any fold of any types: each result from the one before it, which is read back where lines lie side by side."""
    made, f = _Plain(k, scan, split, goal), k.f
    types = made.types
    cost = scan.m * len(types) * f.target.costs.scan_element_ns * (1.5 if any(is_narrow(t) for t in types) else 1)
    with parallel(f, split.outer, nanoseconds=cost * split.inner) as o:
        if split.inner >= 8 and scan.steps:
            made.lines(o)
        else:
            with f.loop(split.inner) as c:
                made.line(o, c)


class _Plain:
    """Writes lines of a fold one element after the other: element `at` of line (o, c)."""

    def __init__(self, k: Kernel, scan: Cumulative, split: Split, goal: Split) -> None:
        self.e, self.f = k.e, k.f
        count = len(k.root.operands) // 2
        self.inputs, self.initial = k.root.operands[:count], k.root.operands[count:]
        self.types = [array_of(o).element_type for o in self.initial]
        self.reducer = Reducer(k.e, k.root.to_apply, self.types)
        self.outputs: list[IrArray] = list(k.outputs.values())
        self.scan, self.split, self.goal = scan, split, goal

    def _element(self, o: Ix, at: Ix, c: Ix) -> list[Element]:
        """The operands' elements."""
        f, split = self.f, self.split
        place = f.sub(self.scan.n - 1, at) if self.scan.reverse else at
        index = Index(split.shape, flat=split.flat(f, o, place, c))
        return [
            self.e.element(i, index if array_of(i) == split.shape else Index(array_of(i), index.multi(f)))
            for i in self.inputs
        ]

    def _out(self, o: Ix, at: Ix, c: Ix) -> Ix:
        """The offset of a result."""
        f = self.f
        return self.goal.flat(f, o, f.sub(self.scan.m - 1, at) if self.scan.reverse else at, c)

    def _put(self, o: Ix, at: Ix, c: Ix, values: Sequence[Element]) -> None:
        place = self._out(o, at, c)
        for a, t, v in zip(self.outputs, self.types, values, strict=True):
            store(t, a.pointer, place, v)

    def _first(self, o: Ix, c: Ix) -> list[Element]:
        """The fold before the first step."""
        start = [self.e.scalar(i) for i in self.initial]
        if not self.scan.early:
            return start
        step = self.reducer.step
        return self.e.fold(
            [self.scan.early], self.types, start, lambda at, values: step(values, self._element(o, at[0], c))
        )

    def line(self, o: Ix, c: Ix) -> None:
        """One line, its state in registers."""
        f, scan, types = self.f, self.scan, self.types
        state = self._first(o, c)
        if scan.empty:
            with f.loop(scan.empty) as j:
                self._put(o, j, c, state)
        if scan.steps:
            with f.carried(scan.steps, flat(state)) as loop:
                given = self._element(o, f.add(loop.index, scan.early), c)
                made = self.reducer.step(pack(types, loop.values), given)
                self._put(o, f.add(loop.index, scan.empty), c, made)
                loop.next = flat(made)
            state = pack(types, loop.values)
        last = scan.empty + scan.steps
        if last < scan.m:
            with f.loop(scan.m, last) as j:
                self._put(o, j, c, state)

    def lines(self, o: Ix) -> None:
        """All lines at once, a row of results from the row before it."""
        f, scan, inner = self.f, self.scan, self.split.inner
        for count, begin in ((scan.empty, 0), (min(scan.steps, 1), scan.empty)):
            if count:
                with f.loop(begin + count, begin) as j, f.loop(inner) as c:
                    state = self._first(o, c)
                    if begin == scan.empty:
                        state = self.reducer.step(state, self._element(o, scan.early, c))
                    self._put(o, j, c, state)
        last = scan.empty + scan.steps
        for count, begin, is_step in ((scan.steps - 1, scan.empty + 1, True), (scan.m - last, last, False)):
            if count <= 0:
                continue
            with f.loop(begin + count, begin) as j, f.loop(inner) as c:
                before = self._out(o, f.sub(j, 1), c)
                state = [load(t, a.pointer, before) for a, t in zip(self.outputs, self.types, strict=True)]
                if is_step:
                    at = f.add(f.sub(j, scan.empty), scan.early)
                    state = self.reducer.step(state, self._element(o, at, c))
                self._put(o, j, c, state)
