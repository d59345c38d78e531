"""Fusions that reduce rows and then use the rows: softmax, normalization.

A warp or a block has a row: it reduces it, and each of its threads then has the result.

    m = reduce(max, x);  e = exp(x - broadcast(m));  s = reduce(add, e);  e / broadcast(s)
    => one kernel, one row of x per block

If an element of a row needs a reduction of another row, which is found only while writing, the
fusion becomes a loop kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.codegen.elemental import Leaf, array_of, flat, pack
from xlanb.codegen.elements import Element
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index
from xlanb.codegen.types import I1, I32
from xlanb.codegen.values import Value
from xlanb.errors import XlanbError
from xlanb.gpu.emitters.kernel import WARP, GpuKernelFunction, Lowering
from xlanb.gpu.emitters.loops import emit_loop, store_elements
from xlanb.gpu.emitters.reductions import Partial, Reduced
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

_LEAST = 16
"""Shorter rows are reduced by single threads, longer ones by several threads."""
_WARP_ROW = 1024
_WARPS = 8


class NotARowError(XlanbError):
    """An element of a row needs a reduction of another row."""


def fits(i: HloInstruction, root: HloInstruction) -> bool:
    """Whether a fusion reduces rows of one shape and returns rows of it that use the results.

    It may also return one number per row.
    """
    if i.opcode is not Op.FUSION:
        return False
    found = _reductions(root)
    if not found:
        return False
    what = Reduced.of(found[0])
    if what.count < _LEAST or not what.results or any(Reduced.of(h) != what for h in found):
        return False
    kept = tuple(n for d, n in enumerate(what.source.dimensions) if d in what.kept)
    shapes = [array_of(i, leaf).dimensions for leaf, _ in i.shape.leaves()]
    roots = root.operands if root.opcode is Op.TUPLE else (root,)
    rows = [r for r, s in zip(roots, shapes, strict=False) if s == what.source.dimensions]
    return all(s in (what.source.dimensions, kept) for s in shapes) and any(map(_reductions, rows))


def _reductions(root: HloInstruction) -> list[HloInstruction]:
    """Return the reductions that a root depends on, each after those that it needs."""
    order: dict[HloInstruction, None] = {}
    entered: set[HloInstruction] = set()
    stack = [root]
    while stack:
        j = stack[-1]
        if j in entered:
            order[stack.pop()] = None
            continue
        entered.add(j)
        stack += [o for o in j.operands if o not in entered]
    return [j for j in order if j.opcode is Op.REDUCE]


def levels(root: HloInstruction) -> list[list[HloInstruction]]:
    """Return the reductions in groups.

    A group depends on earlier groups only, and takes one pass over the row.
    """
    level: dict[HloInstruction, int] = {}
    done: dict[HloInstruction, int] = {}

    def depth(j: HloInstruction) -> int:
        stack = [j]
        while stack:
            top = stack[-1]
            waiting = [o for o in top.operands if o not in done]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            below = max((done[o] for o in top.operands), default=0)
            done[top] = below + (top.opcode is Op.REDUCE)
        return done[j]

    for h in _reductions(root):
        level[h] = depth(h)
    return [[h for h, n in level.items() if n == k] for k in sorted(set(level.values()))]


def emit_rows(lowering: Lowering) -> None:
    """Write and launch a row kernel, or a loop kernel if elements need more than their row."""
    what = Reduced.of(_reductions(lowering.root)[0])
    try:
        if what.count <= _WARP_ROW:
            _emit_warps(lowering, what)
        else:
            _emit_blocks(lowering, what)
    except NotARowError:
        emit_loop(lowering)


def _emit_warps(lowering: Lowering, what: Reduced) -> None:
    warps = min(_WARPS, what.results)
    blocks = -(-what.results // warps)
    with lowering.kernel(blocks, warps * WARP) as k:
        row = k.f.add(k.f.mul(k.block, warps), k.warp)
        with k.below(row, what.results, blocks * warps), k.f.aside():
            _Row(k, what, row, k.lane, WARP, _WarpTeam(k)).emit()


def _emit_blocks(lowering: Lowering, what: Reduced) -> None:
    warps = _WARPS if what.count < 8 * _WARP_ROW else 2 * _WARPS
    with lowering.kernel(what.results, warps * WARP) as k:
        _Row(k, what, k.block, k.thread, warps * WARP, _BlockTeam(k)).emit()


class _WarpTeam:
    """The lanes of a warp."""

    def __init__(self, k: GpuKernelFunction) -> None:
        self.k = k

    def reduce(self, partial: Partial, values: Sequence[Element]) -> list[Element]:
        """Combine the values of all lanes, for each of them."""
        total = partial.across_warp(values, partial.sharers(WARP))
        return pack(partial.types, [_from_first(self.k, v) for v in flat(total)])


class _BlockTeam:
    """The threads of a block."""

    def __init__(self, k: GpuKernelFunction) -> None:
        self.k, self.warps = k, k.threads // WARP

    def reduce(self, partial: Partial, values: Sequence[Element]) -> list[Element]:
        """Combine the values of all threads, for each of them."""
        total = partial.across_block(values, self.warps)  # in each warp, so that none waits for the first
        return pack(partial.types, [_from_first(self.k, v) for v in flat(total)])


def _from_first(k: GpuKernelFunction, v: Value) -> Value:
    """Return the first lane's value."""
    if v.type is I1:
        return k.shuffle("idx", v.zext(I32), 0).differs(0)
    return k.shuffle("idx", v, 0)


class _Row:
    """A row being written: `rank` is this thread's number among the `size` that share it."""

    def __init__(
        self, k: GpuKernelFunction, what: Reduced, row: Ix, rank: Ix, size: int, team: _WarpTeam | _BlockTeam
    ) -> None:
        self.k, self.what, self.row, self.rank, self.size, self.team = k, what, row, rank, size, team
        self.number = what.result_index(k, row)

    def emit(self) -> None:
        """Reduce level by level, then visit the row's elements."""
        for group in levels(self.k.lowering.root):
            self._reduce(group)
        leaves = self.k.lowering.leaves
        shape = {leaf: array_of(self.k.lowering.instruction, leaf) for leaf in leaves}
        rows = [leaf for leaf in leaves if shape[leaf].dimensions == self.what.source.dimensions]
        numbers = [leaf for leaf in leaves if leaf not in rows]
        f = self.k.f
        if numbers:
            with f.when(f.value(self.rank).equals(0)):
                for leaf in numbers:
                    store_elements(self.k, [leaf], Index(shape[leaf], self.number))
        if rows:
            self._through(lambda at: self._store(rows, at))

    def _store(self, leaves: Sequence[Leaf], at: Ix) -> None:
        multi = self.what.index(self.k, self.row, at)
        instruction = self.k.lowering.instruction
        arrays = [self.k.output(leaf) for leaf in leaves]
        indices = [Index(array_of(instruction, leaf), multi) for leaf in leaves]
        values = [self.k.e.element(self.k.lowering.root, x, leaf) for x, leaf in zip(indices, leaves, strict=True)]
        for array, x, value in zip(arrays, indices, values, strict=True):
            array.store(x, value)

    def _through(self, body: Callable[[Ix], None]) -> None:
        """Call `body` for each element of the row."""
        f, count = self.k.f, self.what.count
        rounds = -(-count // self.size)
        with f.loop(rounds) as n:
            at = f.add(f.mul(n, self.size), self.rank)
            with self.k.below(at, count, rounds * self.size):
                body(at)

    def _reduce(self, group: Sequence[HloInstruction]) -> None:
        partial = Partial(self.k, group, self.what)
        values = self.team.reduce(partial, partial.along(self.row, self.rank, self.size))
        done = partial.combine(partial.initial(), values)
        at = 0
        for i, n in zip(group, partial.counts, strict=True):
            leaves: list[Leaf] = [(m,) for m in range(n)] if i.shape.is_tuple else [()]
            bound = {leaf: self._result(i, v) for leaf, v in zip(leaves, done[at : at + n], strict=True)}
            self.k.e.bindings[i] = bound  # type: ignore[index]
            at += n

    def _result(self, i: HloInstruction, value: Element) -> Callable[[Index], Element]:
        """Return a reduction's result at the row's index, the only one available."""

        def at(index: Index) -> Element:
            wanted = index.multi(self.k.f)
            same = all(a == b or n == 1 for a, b, n in zip(wanted, self.number, index.shape.dimensions, strict=True))
            if not same:
                raise NotARowError(f"{i.name} is read at a different row")
            return value

        return at
