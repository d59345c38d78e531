"""Cooperative reductions: over rows of memory by lanes of warps, over columns by warps of a block.

    rows       a warp or a block per result: lanes read consecutive elements, then combine their
               values by shuffles, and warps by shared memory
    columns    a lane per result: the warps of a block take operand rows in turn, and combine their
               values by shared memory

A partial result starts with a thread's first element, so no identity element is needed, and the
initial value is combined once. All reductions of a fusion over the same elements take one pass.
What depends on a result is computed by the thread that has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xlanb.codegen.elemental import Leaf, array_of, flat, pack
from xlanb.codegen.elements import Element, load, register, store
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, same_order
from xlanb.codegen.lanes import split
from xlanb.codegen.types import I1, I32
from xlanb.codegen.values import Value
from xlanb.gpu.emitters.hero import hero_of, index_for, roots_of
from xlanb.gpu.emitters.kernel import WARP, GpuKernelFunction, Lowering
from xlanb.gpu.emitters.loops import store_elements
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType

_LEAST = 32
"""The least number of reduced elements per result for which several threads share the work."""
_WARP_ROW = 1024
"""The longest row reduced by a single warp."""
_WARPS = 8
"""The number of warps of a block."""


@dataclass(frozen=True)
class Reduced:
    """What is reduced: elements of arrays with the dimensions and layout of `source`.

    The type of `source` is arbitrary. The dimensions `kept` number the results, and `dims` the
    elements of each result; both are ordered from slow to fast in memory.
    """

    source: ArrayShape
    kept: tuple[int, ...]
    dims: tuple[int, ...]

    @staticmethod
    def of(i: HloInstruction) -> Reduced:
        """Return what a reduce instruction reduces."""
        source = array_of(i.operands[0]).with_type(PrimitiveType.F32)
        slowest = list(reversed(source.minor_to_major))
        return Reduced(
            source,
            tuple(d for d in slowest if d not in i.dimensions),
            tuple(d for d in slowest if d in i.dimensions),
        )

    def sizes(self, dims: Sequence[int]) -> list[int]:
        """Return the sizes of some dimensions."""
        return [self.source.dimensions[d] for d in dims]

    @property
    def results(self) -> int:
        """The number of results."""
        return math.prod(self.sizes(self.kept))

    @property
    def count(self) -> int:
        """The number of elements per result."""
        return math.prod(self.sizes(self.dims))

    @property
    def is_row(self) -> bool:
        """Whether consecutive elements in memory belong to one result."""
        fastest = next((d for d in self.source.minor_to_major if self.source.dimensions[d] != 1), None)
        return fastest is None or fastest in self.dims

    def index(self, k: GpuKernelFunction, result: Ix, element: Ix) -> list[Ix]:
        """Return the source index of an element of a result."""
        multi: list[Ix] = [0] * self.source.rank
        for dims, number in ((self.kept, result), (self.dims, element)):
            for d, v in zip(dims, split(k.f, number, self.sizes(dims)), strict=True):
                multi[d] = v
        return multi

    def result_index(self, k: GpuKernelFunction, result: Ix) -> list[Ix]:
        """Return a result's index: the kept dimensions in ascending order."""
        at = dict(zip(self.kept, split(k.f, result, self.sizes(self.kept)), strict=True))
        return [at[d] for d in sorted(at)]


# -- matching --------------------------------------------------------------------------------------


def heroes(lowering: Lowering) -> list[HloInstruction]:
    """Return the reductions that the instruction's results depend on, elementwise.

    They must all reduce the same elements; otherwise returns [].
    """
    root = lowering.root
    found: list[HloInstruction] = []
    for r in roots_of(root):
        hero = _hero_of(r)
        if hero is not None and hero not in found:
            found.append(hero)
    if not found:
        return []
    first = Reduced.of(found[0])
    alike = [h for h in found if Reduced.of(h) == first]
    return alike if first.count >= _LEAST and first.results else []


def _hero_of(i: HloInstruction) -> HloInstruction | None:
    """Return the reduction that an instruction depends on, or None."""
    return hero_of(i, lambda j: j.opcode is Op.REDUCE)


def fits(i: HloInstruction, root: HloInstruction) -> bool:
    """Whether an instruction or fusion depends on reductions that are long enough to share."""
    if i.opcode is not Op.FUSION and root.opcode is not Op.REDUCE:
        return False
    hero = next((h for r in roots_of(root) if (h := _hero_of(r)) is not None), None)
    return hero is not None and Reduced.of(hero).count >= _LEAST and Reduced.of(hero).results > 0


# -- kernels ---------------------------------------------------------------------------------------


def emit_reduction(lowering: Lowering) -> None:
    """Write and launch the kernel of reductions."""
    made = heroes(lowering)
    what = Reduced.of(made[0])
    groups = _leaves(lowering, made)
    if not what.is_row:
        _emit_columns(lowering, made, what, groups)
    elif what.count <= _WARP_ROW:
        _emit_warp_rows(lowering, made, what, groups)
    else:
        _emit_block_rows(lowering, made, what, groups)


@dataclass(frozen=True)
class _Groups:
    """Leaves of the result by how they are computed.

    `own` are computed with the reductions' results, `others` in separate loops.
    """

    own: list[Leaf]
    others: list[Leaf]


def _leaves(lowering: Lowering, made: Sequence[HloInstruction]) -> _Groups:
    root = lowering.root
    own, others = list[Leaf](), list[Leaf]()
    for leaf in lowering.leaves:
        producer = root.operands[leaf[0]] if root.opcode is Op.TUPLE else root
        (own if _hero_of(producer) in made else others).append(leaf)
    return _Groups(own, others)


class Partial:
    """Accumulators of reductions over the same elements, exchanged between threads."""

    def __init__(self, k: GpuKernelFunction, reductions: Sequence[HloInstruction], what: Reduced) -> None:
        self.k, self.reductions, self.what = k, reductions, what
        self.counts = [len(i.operands) // 2 for i in reductions]
        self.types = [
            array_of(o).element_type for i, n in zip(reductions, self.counts, strict=True) for o in i.operands[n:]
        ]

    def elements(self, result: Ix, element: Ix) -> list[Element]:
        """Compute the elements of all inputs."""
        at = self.what.index(self.k, result, element)
        return [
            self.k.e.element(o, Index(array_of(o), at))
            for i, n in zip(self.reductions, self.counts, strict=True)
            for o in i.operands[:n]
        ]

    def initial(self) -> list[Element]:
        """Return the initial values."""
        return [self.k.e.scalar(o) for i, n in zip(self.reductions, self.counts, strict=True) for o in i.operands[n:]]

    def combine(self, a: Sequence[Element], b: Sequence[Element]) -> list[Element]:
        """Combine two partial results."""
        made, at = list[Element](), 0
        for i, n in zip(self.reductions, self.counts, strict=True):
            made += self.k.e.apply(i.to_apply, [*a[at : at + n], *b[at : at + n]])
            at += n
        return made

    @property
    def is_ordered(self) -> bool:
        """Whether elements must be combined in order, because commutativity is not known."""
        return not all(is_commutative(i.to_apply) for i in self.reductions)

    def sharers(self, size: int) -> int:
        """Return how many of `size` threads have elements of a result: the first ones."""
        count = self.what.count
        return -(-count // -(-count // size)) if self.is_ordered else min(count, size)

    def along(self, result: Ix, rank: Ix, size: int) -> list[Element]:
        """Compute a thread's part of a result that `size` threads share.

        The part has strided elements, or consecutive ones if the order matters. Threads without a
        part get an unspecified value.
        """
        k, f, count = self.k, self.k.f, self.what.count
        rounds = -(-count // size)
        first = f.mul(rank, rounds) if self.is_ordered else rank
        step = 1 if self.is_ordered else size
        nothing = [v for t in self.types for v in _nothing(k, t)]

        def begin() -> list[Value]:
            start = flat(self.elements(result, first))
            if rounds < 2:
                return start
            with f.carried(rounds, start, 1) as loop:
                carried = pack(self.types, loop.values)
                at = f.add(first, f.mul(loop.index, step))

                def more() -> list[Value]:
                    return flat(self.combine(carried, self.elements(result, at)))

                if count % size:
                    loop.next = f.choose(f.within(at, 0, count), more, lambda: flat(carried))
                else:
                    loop.next = more()
            return loop.values

        if self.sharers(size) == size:
            return pack(self.types, begin())
        return pack(self.types, f.choose(f.within(first, 0, count), begin, lambda: nothing))

    def across_warp(self, values: Sequence[Element], valid: Ix) -> list[Element]:
        """Combine the partial results of the first `valid` lanes in the first lane."""
        k, f = self.k, self.k.f
        made = flat(values)
        offset = 1  # ascending, so that a lane combines consecutive lanes
        while offset < (valid if isinstance(valid, int) else WARP):
            others = [k.shuffle("down", v, offset) if v.type is not I1 else _shuffle_bit(k, v, offset) for v in made]
            both = flat(self.combine(pack(self.types, made), pack(self.types, others)))
            if isinstance(valid, int) and valid >= WARP:
                made = both
            else:
                has = f.value(f.add(k.lane, offset)) < valid
                made = [has.select(b, a) for a, b in zip(made, both, strict=True)]
            offset *= 2
        return pack(self.types, made)

    def across_block(self, values: Sequence[Element], warps: int) -> list[Element]:
        """Combine the partial results of all threads of a block in the first lane of each warp."""
        k, f = self.k, self.k.f
        have = self.sharers(warps * WARP)
        valid: Ix = WARP
        if have < warps * WARP:
            valid = f.clamp(f.sub(have, f.mul(k.warp, WARP)), 0, WARP)
        lanes = self.across_warp(values, valid)
        shared = [k.shared_array(t, warps) for t in self.types]
        with f.when(f.value(k.lane).equals(0)):
            for t, memory, v in zip(self.types, shared, lanes, strict=True):
                store(t, memory, k.warp, v)
        k.barrier()
        own = f.clamp(k.lane, 0, warps - 1)
        every = [load(t, memory, own) for t, memory in zip(self.types, shared, strict=True)]
        return self.across_warp(every, -(-have // WARP))

    def finish(self, values: Sequence[Element]) -> None:
        """Combine the initial values, and bind the results to the reductions for later code."""
        done, at = self.combine(self.initial(), values), 0
        for i, n in zip(self.reductions, self.counts, strict=True):
            leaves: list[Leaf] = [(m,) for m in range(n)] if i.shape.is_tuple else [()]
            bound = {leaf: _constant(v) for leaf, v in zip(leaves, done[at : at + n], strict=True)}
            self.k.e.bindings[i] = bound  # type: ignore[index]
            at += n


def is_commutative(target: HloComputation) -> bool:
    """Whether a computation applies one commutative operation to each pair of values."""
    roots, count = roots_of(target.root), len(target.parameters) // 2
    return len(roots) == count and all(
        r.opcode in _COMMUTATIVE and set(r.operands) == {target.parameters[n], target.parameters[count + n]}
        for n, r in enumerate(roots)
    )


_COMMUTATIVE = frozenset({Op.ADD, Op.MULTIPLY, Op.MAXIMUM, Op.MINIMUM, Op.AND, Op.OR, Op.XOR})


def _nothing(k: GpuKernelFunction, t: PrimitiveType) -> list[Value]:
    return [k.f.zero(register(t))] * (2 if t.is_complex else 1)


def _shuffle_bit(k: GpuKernelFunction, v: Value, offset: int) -> Value:
    return k.shuffle("down", v.zext(I32), offset).differs(0)


def _constant(value: Element) -> Callable[[Index], Element]:
    return lambda _: value


def _store_results(
    k: GpuKernelFunction, hero: HloInstruction, what: Reduced, result: Ix, leaves: Sequence[Leaf]
) -> None:
    """Store the results of the reductions' shape, or of bitcasts of it, at one index."""
    instruction = k.lowering.instruction
    at = what.result_index(k, result)
    for leaf in leaves:
        store_elements(k, [leaf], index_for(k, array_of(instruction, leaf), hero, at))


def _store_others(k: GpuKernelFunction, leaves: Sequence[Leaf]) -> None:
    """Compute results that do not depend on the reductions, by all threads."""
    groups: list[list[Leaf]] = []
    for leaf in leaves:
        shape = array_of(k.lowering.instruction, leaf)
        alike = next((g for g in groups if same_order(array_of(k.lowering.instruction, g[0]), shape)), None)
        if alike is None:
            groups.append([leaf])
        else:
            alike.append(leaf)
    for group in groups:
        shape = array_of(k.lowering.instruction, group[0])
        k.each(shape.element_count, lambda q, g=group, s=shape: store_elements(k, g, Index(s, flat=q)))  # type: ignore[misc]


def _emit_warp_rows(lowering: Lowering, made: list[HloInstruction], what: Reduced, groups: _Groups) -> None:
    """Reduce each result by a warp."""
    warps = min(_WARPS, what.results)
    blocks = -(-what.results // warps)
    with lowering.kernel(blocks, warps * WARP, "") as k:
        f = k.f
        result = f.add(f.mul(k.block, warps), k.warp)
        with k.below(result, what.results, blocks * warps), f.aside():
            partial = Partial(k, made, what)
            values = partial.across_warp(partial.along(result, k.lane, WARP), partial.sharers(WARP))
            with f.when(f.value(k.lane).equals(0)):
                partial.finish(values)
                _store_results(k, made[0], what, result, groups.own)
        with f.aside():
            _forget(k, made)
            _store_others(k, groups.others)


def _forget(k: GpuKernelFunction, made: Sequence[HloInstruction]) -> None:
    """Unbind the reductions, so that later code recomputes them if needed."""
    for i in made:
        k.e.bindings.pop(i, None)  # type: ignore[attr-defined]


def _emit_block_rows(lowering: Lowering, made: list[HloInstruction], what: Reduced, groups: _Groups) -> None:
    """Reduce each result by a block."""
    warps = _WARPS if what.count < 8 * _WARP_ROW else 2 * _WARPS
    with lowering.kernel(what.results, warps * WARP, "") as k:
        f = k.f
        partial = Partial(k, made, what)
        total = partial.across_block(partial.along(k.block, k.thread, warps * WARP), warps)
        with f.when(f.value(k.thread).equals(0)):
            partial.finish(total)
            _store_results(k, made[0], what, k.block, groups.own)
        with f.aside():
            _forget(k, made)
            _store_others(k, groups.others)


def _emit_columns(lowering: Lowering, made: list[HloInstruction], what: Reduced, groups: _Groups) -> None:
    """Reduce each result by a lane per warp; the warps of a block take elements in turn."""
    blocks = -(-what.results // WARP)
    with lowering.kernel(blocks, _WARPS * WARP, "") as k:
        f = k.f
        result = f.add(f.mul(k.block, WARP), k.lane)
        partial = Partial(k, made, what)
        shared = [k.shared_array(t, _WARPS * WARP) for t in partial.types]
        with k.below(result, what.results, blocks * WARP), f.aside():
            values = partial.along(result, k.warp, _WARPS)
            for t, memory, v in zip(partial.types, shared, values, strict=True):
                store(t, memory, k.thread, v)
        k.barrier()
        with f.when(f.value(k.warp).equals(0)), k.below(result, what.results, blocks * WARP), f.aside():
            total = [load(t, memory, k.lane) for t, memory in zip(partial.types, shared, strict=True)]
            valid = partial.sharers(_WARPS)
            with f.carried(valid, flat(total), 1, guarded=valid < 2) as loop:
                at = f.add(f.mul(loop.index, WARP), k.lane)
                others = [load(t, memory, at) for t, memory in zip(partial.types, shared, strict=True)]
                loop.next = flat(partial.combine(pack(partial.types, loop.values), others))
            partial.finish(pack(partial.types, loop.values))
            _store_results(k, made[0], what, result, groups.own)
        with f.aside():
            _forget(k, made)
            _store_others(k, groups.others)


__all__ = ["Partial", "Reduced", "emit_reduction", "fits"]
