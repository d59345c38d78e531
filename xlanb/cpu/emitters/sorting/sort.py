"""Sort: stable, any number of operands, any comparison, along any dimension.

If the comparison orders keys (keys.py) of at most 64 bits, lines are sorted by the digits of their
keys, short ones by counting. Otherwise by merge sort: each line is copied to scratch memory, merged
in runs of doubling length between the two halves of the scratch, and written to the results. With
an inconsistent comparison the order is unspecified, but every element still appears exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from xlanb.codegen import arithmetic, costs
from xlanb.codegen.elemental import array_of
from xlanb.codegen.elements import Element, load, real, store
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, same_order, unflatten
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import parallel
from xlanb.codegen.plan import time_text
from xlanb.codegen.types import I8, I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.kernel import IN_PLACE, OPTIONAL, ROUNDS, SCRATCH_EACH, Kernel, emitter
from xlanb.cpu.emitters.sorting import digits
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import ArrayShape

_ALIGN = 64


def _line_bytes(i: HloInstruction, n: int) -> list[int]:
    """Bytes of a line of each operand, rounded up to cache lines."""
    return [-(-n * array_of(o).element_type.byte_size // _ALIGN) * _ALIGN for o in i.operands]


def _sort_scratch(i: HloInstruction) -> int:
    n = array_of(i.operands[0]).dimensions[i.dimensions[0]]
    plan = digits.plan(i)
    if plan is not None:
        return 0 if plan.is_short else plan.scratch_bytes
    return 2 * sum(_line_bytes(i, n))


def _rounds(i: HloInstruction) -> tuple[int, float]:
    """The number of lines, and nanoseconds per line."""
    source = array_of(i.operands[0])
    n = source.dimensions[i.dimensions[0]]
    plan = digits.plan(i)
    cost = plan.nanoseconds if plan is not None else n * max(n.bit_length(), 1) * costs.COMMON.comparison_ns
    return source.element_count // max(n, 1), cost


def _in_place(i: HloInstruction, operand: int) -> bool:
    """Whether a whole line is copied before its first result is written.

    Long lines are read again by position, except for an operand that is the positions themselves.
    """
    plan = digits.plan(i)
    whole = plan is None or plan.is_short or plan.value or digits.counts_places(i, operand)
    return whole and same_order(array_of(i.operands[operand]), array_of(i, (operand,) if i.shape.is_tuple else ()))


SCRATCH_EACH[Op.SORT] = _sort_scratch
ROUNDS[Op.SORT] = _rounds
IN_PLACE[Op.SORT] = _in_place
OPTIONAL[Op.SORT] = True


def _note(k: Kernel, plan: digits.RadixPlan | None, n: int, cost: float) -> None:
    """Record in the kernel's plan how lines are sorted, and why."""
    if not k.f.module.debug:
        return
    merged = time_text(n * max(n.bit_length(), 1) * costs.COMMON.comparison_ns)
    line = f"{time_text(cost)} per line of {n}"
    if plan is None:
        k.f.decided("sort", "by merging", f"{line}: the comparison is not an order of 64-bit keys, or lines are short")
    elif plan.is_short:
        k.f.decided("sort", "by counting the elements before each", line, [("by merging", merged)])
    else:
        way = f"by radix, {plan.rounds} rounds of {plan.digit} bits"
        k.f.decided("sort", way, line, [("by merging", merged)])


@emitter(Op.SORT)
def _sort(k: Kernel) -> bool:
    i, f = k.root, k.f
    (axis,) = i.dimensions
    source = array_of(i.operands[0])
    n = source.dimensions[axis]
    plan = digits.plan(i)
    across, cost = _rounds(i)
    _note(k, plan, n, cost)
    with parallel(f, across, nanoseconds=cost) as line:
        at = list(unflatten(f, line, _across(source, axis)))

        def place(o: int, v: Ix) -> Index:
            return Index(array_of(i.operands[o]), [v if d == axis else at[d] for d in range(source.rank)])

        if plan is not None:
            digits.SortedLine(k, plan, place).emit()
        else:
            _merge_line(k, n, place)
    return True


def _across(source: ArrayShape, axis: int) -> ArrayShape:
    """The shape of the lines in memory order: the sorted dimension has size one."""
    dims = tuple(1 if d == axis else size for d, size in enumerate(source.dimensions))
    return ArrayShape(source.element_type, dims, layout=source.layout)


# -- merging ---------------------------------------------------------------------------------------


def _merge_line(k: Kernel, n: int, place: Callable[[int, Ix], Index]) -> None:
    i, e, f = k.root, k.e, k.f
    types = [array_of(o).element_type for o in i.operands]
    first, second = _halves(k, n)
    with f.loop(n) as v:
        for o, operand in enumerate(i.operands):
            store(types[o], first[o], v, e.element(operand, place(o, v)))

    def before(a: Sequence[Element], b: Sequence[Element]) -> Value:
        # The comparison takes both elements of the first operand, then of the second, ...
        return real(e.apply(i.to_apply, [v for pair in zip(a, b, strict=True) for v in pair])[0])

    sorted_at = _merge_sort(k, types, first, second, n, before)
    with f.loop(n) as v:
        for o, (leaf, _) in enumerate(i.shape.leaves()):
            if leaf in k.outputs:
                k.outputs[leaf].store(place(o, v), load(types[o], sorted_at[o], v))


def _halves(k: Kernel, n: int) -> tuple[list[Value], list[Value]]:
    """The addresses of each operand's lines in the two halves of the scratch memory."""
    sizes, scratch = _line_bytes(k.root, n), Pointer(k.own_scratch(), I8)
    begins = [scratch.address(at) for at in accumulate([0, *sizes, *sizes[:-1]])]
    return begins[: len(sizes)], begins[len(sizes) :]


Before = Callable[[Sequence[Element], Sequence[Element]], Value]


def _merge_sort(
    k: Kernel, types: Sequence[PrimitiveType], first: list[Value], second: list[Value], n: int, before: Before
) -> Sequence[Value]:
    """Sort lines of n elements at `first`, with `second` as spare; return where they are.

    `before(a, b)` emits the i1 whether elements a precede elements b.
    """
    f, count = k.f, len(types)
    levels = max(0, (n - 1).bit_length())
    if levels == 0:
        return first
    with f.carried(levels, [f.const(I64, 1), *first, *second]) as level:
        width = level.values[0]
        source, target = level.values[1 : 1 + count], level.values[1 + count :]
        runs = width << 1
        with f.loop((runs + (n - 1)).udiv(runs), most=n) as run:
            begin = f.value(run) * runs
            bounds = begin, (begin + width).umin(n), (begin + runs).umin(n)
            _merge_runs(k, types, (source, target), bounds, n, before)
        level.next = [runs, *target, *source]
    return level.values[1 : 1 + count]


def _merge_runs(
    k: Kernel,
    types: Sequence[PrimitiveType],
    lines: tuple[Sequence[Value], Sequence[Value]],
    bounds: tuple[Value, Value, Value],
    n: int,
    before: Before,
) -> None:
    """Merge runs begin..middle and middle..end of the first line of `lines` into the second."""
    f = k.f
    (source, target), (begin, middle, end) = lines, bounds
    with f.carried(end, [begin, middle], begin) as merge, f.aside():
        left, right = merge.values
        a = [load(t, p, left.umin(n - 1)) for t, p in zip(types, source, strict=True)]
        b = [load(t, p, right.umin(n - 1)) for t, p in zip(types, source, strict=True)]
        take = left.ult(middle) & (right.uge(end) | ~before(b, a))
        for t, p, u, v in zip(types, target, a, b, strict=True):
            store(t, p, merge.index, arithmetic.select(take, u, v))
        merge.next = [left + take.zext(I64), right + (~take).zext(I64)]
