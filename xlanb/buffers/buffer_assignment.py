"""Buffer assignment: which values share memory, and the allocation and offset of each.

Every parameter, constant and result has its own allocation. All other values share one arena, and
the memory of results that are not computed yet. A value shares another's memory if possible (tried
in this order):

    an entry result            is computed in the result's own memory
    a loop's state             in its initial value, if that has no later use
    a loop body's result       in the state, after the body's last read of it
    a branch's result          in the conditional's result
    an instruction's result    in an operand whose last use it is, if the backend allows it
                               (`Policy.can_share`)

Otherwise the program needs an `ElementCopy`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from xlanb.analysis.dataflow import HloDataflowAnalysis, Leaf
from xlanb.buffers import heap_simulator
from xlanb.buffers.live_ranges import ElementCopy, LiveRange, LiveRanges
from xlanb.buffers.memory_scheduler import candidates, schedule_module
from xlanb.display import Displayable
from xlanb.errors import OutOfMemoryError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import Shape

if TYPE_CHECKING:
    from xlanb.buffers.records import BufferAssignmentRecord
    from xlanb.frames.frame import Frame

_MOST_ORDERS = 1000
"""With more entry instructions than this, only one order is tried."""


class Policy(Protocol):
    """What the backend's kernels can do."""

    def can_share(self, instruction: HloInstruction, operand: int, operand_leaf: Leaf, leaf: Leaf) -> bool:
        """Whether the kernel may write the result at `leaf` over the operand (of equal size)."""

    def is_optional(self, instruction: HloInstruction) -> bool:
        """Whether unused results of the instruction need no memory."""

    def scratch_bytes(self, instruction: HloInstruction) -> int:
        """Bytes that the kernel needs in addition to operands and results."""


class NoSharing:
    """The conservative policy: no result shares memory with its operands, no scratch."""

    def can_share(self, instruction: HloInstruction, operand: int, operand_leaf: Leaf, leaf: Leaf) -> bool:
        return False

    def is_optional(self, instruction: HloInstruction) -> bool:
        return False

    def scratch_bytes(self, instruction: HloInstruction) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Slice:
    """The bytes from `offset` to `offset + size` of an allocation."""

    allocation: int
    offset: int
    size: int


@dataclass(eq=False, slots=True)
class Allocation:
    """One block of memory.

    `kind` is as in BufferAllocation; `number` is the index among the leaves of parameters or of the
    result.
    """

    index: int
    kind: str
    size: int
    number: int | None = None
    parameter: tuple[int, Leaf] | None = None
    constant: HloInstruction | None = None
    shape: str = ""


class BufferAssignment(Displayable):
    """The memory of a scheduled module; `str()` gives a report in XLA's format.

    Attributes:
        sequence: the program order; loops and conditionals occur at each of their positions.
        orders: the schedule of each computation.
        copies: the copies needed, by position.
        slices: the memory of each value.
        temp_size: the bytes of the arena.
    """

    def __init__(
        self,
        module: HloModule,
        dataflow: HloDataflowAnalysis,
        orders: Mapping[HloComputation, Sequence[HloInstruction]],
        policy: Policy,
    ) -> None:
        self.module = module
        self.orders = orders
        self.live = LiveRanges(module.entry_computation, dataflow, orders)
        self.sequence = [i.name for i in self.live.sequence]
        self.allocations: list[Allocation] = []
        self.copies: dict[int, list[ElementCopy]] = {}
        self.staged: dict[tuple[int, LiveRange], Slice] = {}
        self.slices: dict[LiveRange, Slice] = {}
        self._scratch: dict[HloInstruction, Slice] = {}
        self._groups = BufferGroups(self.live, policy)
        self.result_copies: list[tuple[LiveRange, int]] = []
        self._allocate(policy)
        self._record: BufferAssignmentRecord | None = None

    # -- what codegen asks -------------------------------------------------------------------------

    def slice_of(self, i: HloInstruction, leaf: Leaf = ()) -> Slice:
        """The memory of the array at a leaf of an instruction's result."""
        return self.slices[self.live.value(i, leaf)]

    def has_place(self, i: HloInstruction, leaf: Leaf) -> bool:
        """Whether the array at a leaf of an instruction's result has memory.

        Unused results may have none (`Policy.is_optional`).
        """
        return self.live.value(i, leaf) in self.slices

    def slice_of_value(self, value: LiveRange) -> Slice:
        """The memory of a value."""
        return self.slices[value]

    def scratch_of(self, i: HloInstruction) -> Slice | None:
        """The scratch memory of an instruction's kernel."""
        return self._scratch.get(i)

    @property
    def temp_size(self) -> int:
        """Bytes of the arena."""
        return sum(a.size for a in self.allocations if a.kind == "temp")

    # -- allocations -------------------------------------------------------------------------------

    def _allocate(self, policy: Policy) -> None:
        flow = self.live
        number = 0
        for p in self.module.entry_computation.parameters:
            for leaf, shape in p.shape.leaves():
                value = flow.value(p, leaf)
                own = (p.parameter_number, leaf)
                self._own(Allocation(0, "parameter", value.size, number, own, None, _dims(shape)), [value])
                number += 1
        for value in flow.values:
            if value.kind == "constant":
                self._own(Allocation(0, "constant", value.size, constant=value.instruction), [value])
        for n, value in enumerate(flow.results):
            group = self._groups.members(value) if value.output == n else []
            self._own(Allocation(0, "output", value.size, n, shape=_dims(value.shape)), group)
            if not group:
                self.result_copies.append((value, n))
        self._pack(policy)

    def _own(self, allocation: Allocation, values: Sequence[LiveRange]) -> None:
        allocation.index = len(self.allocations)
        self.allocations.append(allocation)
        for v in values:
            self.slices[v] = Slice(allocation.index, 0, allocation.size)

    def _pack(self, policy: Policy) -> None:
        flow = self.live
        blocks: list[heap_simulator.HeapBlock] = []
        owners: list[_Owner] = []
        for group in self._groups.all():
            if group[0] not in self.slices and not self._is_left_out(group, policy):
                blocks.append(heap_simulator.HeapBlock(max(v.size for v in group), _times(group)))
                owners.append(group)
        for i, position in flow.position.items():
            size = policy.scratch_bytes(i)
            if size:
                blocks.append(heap_simulator.HeapBlock(size, ((position, position),), slack=heap_simulator.ALIGNMENT))
                owners.append(i)
        for at, value in self._plan_copies():
            blocks.append(heap_simulator.HeapBlock(value.size, ((at, at),)))
            owners.append((at, value))
        _check_addressable(blocks, owners)
        outputs = [a for a in self.allocations if a.kind == "output" and a.size]
        packing = heap_simulator.pack(blocks, [heap_simulator.HeapBlock(a.size, self._busy(a)) for a in outputs])
        self.peak_bytes = heap_simulator.peak([b for b, bin_ in zip(blocks, packing.bins, strict=True) if bin_ is None])
        arena = Allocation(0, "temp", packing.size)
        self._own(arena, [])
        for owner, bin_, offset, block in zip(owners, packing.bins, packing.offsets, blocks, strict=True):
            place = Slice((arena if bin_ is None else outputs[bin_]).index, offset, block.size)
            if isinstance(owner, list):
                for v in owner:
                    self.slices[v] = place
            elif isinstance(owner, tuple):
                self.staged[owner] = place
            else:
                self._scratch[owner] = place

    def _is_left_out(self, group: Sequence[LiveRange], policy: Policy) -> bool:
        """Whether a group of values is unused and its kernel need not write it."""
        v = group[0]
        unread = len(group) == 1 and v.start == v.end and v.output is None and bool(v.leaf)
        return unread and policy.is_optional(v.instruction)

    def _busy(self, output: Allocation) -> tuple[heap_simulator.Interval, ...]:
        """The positions at which a result's memory holds it; before, it may hold other values."""
        value = self.live.results[output.number or 0]
        copied_at_the_end = (self.live.end, self.live.end)
        return _times(self._groups.members(value)) if value.output == output.number else (copied_at_the_end,)

    def _plan_copies(self) -> list[tuple[int, LiveRange]]:
        """Fill `copies`; return the (position, source) pairs that need a temporary.

        Another copy at the same position overwrites their source.
        """
        for loop in self.live.loops:
            for leaf, state in loop.state.items():
                self._plan(loop.initial[leaf], state, loop.begin)
                self._plan(loop.left[leaf], state, loop.body_end)
        for choice in self.live.choices:
            for end, given in choice.branches:
                for leaf, value in given.items():
                    self._plan(value, choice.results[leaf], end)
        aside = []
        for position, copies in self.copies.items():
            targets = {self._groups.root(c.target) for c in copies}
            sources = dict.fromkeys(c.source for c in copies)
            aside += [(position, s) for s in sources if self._groups.root(s) in targets]
        return aside

    def _plan(self, source: LiveRange, target: LiveRange, position: int) -> None:
        if source.size and self._groups.root(source) is not self._groups.root(target):
            self.copies.setdefault(position, []).append(ElementCopy(source, target, position))

    # -- what it shows -----------------------------------------------------------------------------

    def record(self) -> BufferAssignmentRecord:
        """The frozen snapshot."""
        if self._record is None:
            from xlanb.buffers.snapshot import snapshot

            self._record = snapshot(
                self.module.name, self.live, self.allocations, self.slices, self._scratch, self.peak_bytes
            )
        return self._record

    def to_dataframe(self) -> Frame:
        """One row per value, largest first: see BufferAssignmentRecord.to_dataframe."""
        return self.record().to_dataframe()

    def plot(self) -> Any:
        """A plotly Figure of the temporaries: live ranges on the x axis, offsets on the y axis."""
        return self.record().plot()

    def __repr__(self) -> str:
        known = f"{len(self.allocations)} allocations, {self.temp_size:,} bytes of temporaries"
        return f"<BufferAssignment {self.module.name}: {known}>"

    def __str__(self) -> str:
        from xlanb.buffers.report import report

        return report(self.record())


def _dims(shape: Shape) -> str:
    return str(shape.without_layout())


def _times(group: Sequence[LiveRange]) -> tuple[heap_simulator.Interval, ...]:
    return tuple(n for v in group for n in v.intervals)


_Life = tuple[int, int, LiveRange]
"""The first and last position, both included, of a live range, and its value."""
_begin = itemgetter(0)


class _Lives:
    """The live ranges of the values of a group, sorted by their start."""

    def __init__(self, value: LiveRange) -> None:
        self.all: list[_Life] = sorted([(begin, end, value) for begin, end in value.intervals], key=_begin)
        self._longest = max(end - begin for begin, end in value.intervals)

    def add(self, others: _Lives) -> None:
        """Add the values of another group."""
        for life in others.all:
            insort(self.all, life, key=_begin)
        self._longest = max(self._longest, others._longest)

    def during(self, begin: int, end: int) -> Iterator[_Life]:
        """The live ranges that overlap begin..end."""
        for k in range(bisect_left(self.all, begin - self._longest, key=_begin), len(self.all)):
            life = self.all[k]
            if life[0] > end:
                return
            if life[1] >= begin:
                yield life


class BufferGroups:
    """Groups of values that share memory, merged if their live ranges allow it."""

    def __init__(self, flow: LiveRanges, policy: Policy) -> None:
        self.flow = flow
        self.policy = policy
        self._parent: dict[LiveRange, LiveRange] = {}
        self._members: dict[LiveRange, list[LiveRange]] = {}
        self._lives: dict[LiveRange, _Lives] = {}
        self._hand_over: set[tuple[LiveRange, LiveRange, int]] = set()
        for n, v in enumerate(flow.results):
            if v.kind == "value" and v.output is None and v.size:
                v.output = n
        self._merge_loops()
        self._merge_in_place()

    def root(self, v: LiveRange) -> LiveRange:
        """The representative of a value's group."""
        while v in self._parent:
            v = self._parent[v]
        return v

    def members(self, v: LiveRange) -> list[LiveRange]:
        """The group of a value."""
        root = self.root(v)
        return self._members.get(root, [root])

    def all(self) -> list[list[LiveRange]]:
        """Every group of values that are not parameters or constants."""
        return [self.members(v) for v in self.flow.values if v.kind == "value" and v not in self._parent]

    def _merge_loops(self) -> None:
        for loop in self.flow.loops:
            for leaf, state in loop.state.items():
                left, initial = loop.left[leaf], loop.initial[leaf]
                self._hand_over.add((left, state, loop.body_end))
                self._hand_over.add((initial, state, loop.begin))
        for choice in self.flow.choices:
            for end, given in choice.branches:
                for leaf, value in given.items():
                    self._hand_over.add((value, choice.results[leaf], end))
        self._find_shares()
        for loop in reversed(self.flow.loops):
            for leaf, state in loop.state.items():
                self._merge(state, loop.left[leaf])
                self._merge(state, loop.initial[leaf])
        for choice in self.flow.choices:
            for _, given in choice.branches:
                for leaf, value in given.items():
                    self._merge(choice.results[leaf], value)

    def _find_shares(self) -> None:
        self._shares: list[tuple[LiveRange, LiveRange]] = []
        for i, position in self.flow.position.items():
            results = [
                (leaf, v) for leaf, s in i.shape.leaves() if (v := self.flow.value(i, leaf)).instruction is i and v.size
            ]
            for operand, uses in self._last_uses(i, position).items():
                for leaf, result in results:
                    if (
                        operand.size == result.size
                        and result.start == position
                        and all(self.policy.can_share(i, k, operand_leaf, leaf) for k, operand_leaf in uses)
                    ):
                        self._hand_over.add((operand, result, position))
                        self._shares.append((operand, result))

    def _last_uses(self, i: HloInstruction, position: int) -> dict[LiveRange, list[tuple[int, Leaf]]]:
        """The values whose live range an instruction ends, with their (operand, leaf) uses in it.

        Through bitcasts a value may have several.
        """
        found: dict[LiveRange, list[tuple[int, Leaf]]] = {}
        for k, o in enumerate(i.operands):
            for leaf, _ in o.shape.leaves():
                value = self.flow.value(o, leaf)
                if value.kind == "value" and any(end == position for _, end in value.intervals):
                    found.setdefault(value, []).append((k, leaf))
        return found

    def _merge_in_place(self) -> None:
        for operand, result in self._shares:
            self._merge(operand, result)

    def _merge(self, a: LiveRange, b: LiveRange) -> bool:
        """Merge two groups; return whether it was possible.

        Not if both are results, one is not writable, or their live ranges overlap.
        """
        p, q = self.root(a), self.root(b)
        if p is q or p.kind != "value" or q.kind != "value" or p.size != q.size or not p.size:
            return False
        if p.output is not None and q.output is not None:
            return False
        ours, theirs = (self._lives.get(g) or _Lives(g) for g in (p, q))
        if len(ours.all) < len(theirs.all):
            ours, theirs = theirs, ours
        if any(self._crosses(life, ours) for life in theirs.all):
            return False
        ours.add(theirs)
        if q.output is not None:
            p, q = q, p
        self._parent[q] = p
        self._members[p] = self.members(p) + self._members.pop(q, [q])
        self._lives[p] = ours
        self._lives.pop(q, None)
        return True

    def _crosses(self, life: _Life, group: _Lives) -> bool:
        """Whether a live range overlaps one of a group.

        Positions where one value becomes the other do not count.
        """
        begin, end, value = life
        for other_begin, other_end, other in group.during(begin, end):
            first = max(begin, other_begin)
            if first != min(end, other_end) or not self._hands_over(value, other, first):
                return True
        return False

    def _hands_over(self, a: LiveRange, b: LiveRange, position: int) -> bool:
        return (a, b, position) in self._hand_over or (b, a, position) in self._hand_over


_ADDRESSABLE = 2**62
"""At this size in bytes, offsets into the arena might overflow 64 bits."""

_Owner = list[LiveRange] | HloInstruction | tuple[int, LiveRange]


def _check_addressable(blocks: Sequence[heap_simulator.HeapBlock], owners: Sequence[_Owner]) -> None:
    """Raise OutOfMemoryError if temporaries exceed the addressable size."""
    wanted = sum(b.size + b.slack for b in blocks)
    if wanted < _ADDRESSABLE:
        return
    k = max(range(len(blocks)), key=lambda k: blocks[k].size)
    owner = owners[k]
    if isinstance(owner, tuple):
        owner = [owner[1]]
    i = owner[0].instruction if isinstance(owner, list) else owner
    raise OutOfMemoryError(
        f"temporaries would take {wanted:,} bytes, more than can be addressed; the largest, "
        f"of {blocks[k].size:,} bytes, belongs to\n  {i}",
        wanted,
    )


def assign_buffers(
    module: HloModule,
    policy: Policy | None = None,
    orders: Mapping[HloComputation, Sequence[HloInstruction]] | None = None,
) -> BufferAssignment:
    """Assign memory to every value of a module with a flat call graph.

    Each computation that runs as a sequence must have one caller. By default the schedule is that
    of `schedule_module`, or one with another order of the entry if that makes the arena smaller.

    Raises:
        CompilationError: a loop's, call's or conditional's computation has several callers.
    """
    policy = policy or NoSharing()
    dataflow = HloDataflowAnalysis(module, ssa_form=False)
    best = BufferAssignment(module, dataflow, orders or schedule_module(module), policy)
    entry = module.entry_computation
    if orders is not None or not best.temp_size or len(entry) > _MOST_ORDERS:
        return best
    for order in candidates(entry):
        if best.temp_size and order != best.orders[entry]:
            other = BufferAssignment(module, dataflow, {**best.orders, entry: order}, policy)
            if other.temp_size < best.temp_size:
                best = other
    return best
