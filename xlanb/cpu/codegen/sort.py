"""Sort: stable, any number of operands, any comparison, along any dimension.

Where the comparison is the order of keys (sort_keys.py) of 64 bits in all, lines are sorted by the digits of their keys, short ones by counting what comes before each element; else
by merging: each line is copied into scratch, merged in runs of growing length from one half of the scratch to the other and back, and written to the results. A comparison that
contradicts itself gives some order; every element is still there once.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.cpu.codegen import radix
from xlanb.cpu.codegen.arithmetic import select
from xlanb.cpu.codegen.elemental import Leaf, array_of
from xlanb.cpu.codegen.indexing import Index, same_order, unflatten
from xlanb.cpu.codegen.ir import Ix
from xlanb.cpu.codegen.kernel import IN_PLACE, OPTIONAL, ROUNDS, SCRATCH_EACH, Kernel, special
from xlanb.cpu.codegen.parallel import parallel
from xlanb.cpu.codegen.types import Value, load, real, store
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
    plan = radix.plan(i)
    if plan is not None:
        return 0 if plan.is_short else plan.scratch_bytes
    return 2 * sum(_line_bytes(i, n))


def _rounds(i: HloInstruction) -> tuple[int, float]:
    """Lines, and nanoseconds that one takes."""
    source = array_of(i.operands[0])
    n = source.dimensions[i.dimensions[0]]
    plan = radix.plan(i)
    cost = plan.nanoseconds if plan is not None else n * max(n.bit_length(), 1) * 6.0
    return source.element_count // max(n, 1), cost


def _in_place(i: HloInstruction, operand: int) -> bool:
    """Whether a line is whole elsewhere before the first element of it is written; long ones are read again by places, but for those that count the places."""
    plan = radix.plan(i)
    whole = plan is None or plan.is_short or plan.value or radix.counts_places(i, operand)
    return whole and same_order(array_of(i.operands[operand]), array_of(i, (operand,) if i.shape.is_tuple else ()))


SCRATCH_EACH[Op.SORT] = _sort_scratch
ROUNDS[Op.SORT] = _rounds
IN_PLACE[Op.SORT] = _in_place
OPTIONAL.add(Op.SORT)


@special(Op.SORT, memory_only=True)
def _sort(k: Kernel) -> bool:
    i, e, f = k.root, k.e, k.f
    (axis,) = i.dimensions
    source = array_of(i.operands[0])
    n = source.dimensions[axis]
    plan = radix.plan(i)
    across, cost = _rounds(i)
    with parallel(e, across, nanoseconds=cost) as line:
        at = list(unflatten(f, line, _across(source, axis)))

        def place(o: int, v: Ix) -> Index:
            return Index(array_of(i.operands[o]), [v if d == axis else at[d] for d in range(source.rank)])

        if plan is not None:
            radix.sort_line(k, plan, place)
        else:
            _merge_line(k, n, place)
    return True


def _across(source: ArrayShape, axis: int) -> ArrayShape:
    """The shape of the lines, in the order of memory: the dimension that is sorted has one element."""
    dims = tuple(1 if d == axis else size for d, size in enumerate(source.dimensions))
    return ArrayShape(source.element_type, dims, layout=source.layout)


def _merge_line(k: Kernel, n: int, place: Callable[[int, Ix], Index]) -> None:
    i, e, f = k.root, k.e, k.f
    types = [array_of(o).element_type for o in i.operands]
    leaves: list[Leaf] = [leaf for leaf, _ in i.shape.leaves()]
    first, second = _halves(k, n)
    with e.loop(n) as v:
        for o, operand in enumerate(i.operands):
            store(f, types[o], first[o], v, e.element(operand, place(o, v)))
    sorted_at = merge_sort(k, types, first, second, n, lambda a, b: real(e.apply(i.to_apply, _paired(a, b))[0]))
    with e.loop(n) as v:
        for o, leaf in enumerate(leaves):
            if leaf in k.outputs:
                k.outputs[leaf].store(f, place(o, v), load(f, types[o], sorted_at[o], v))


def _paired(a: list[Value], b: list[Value]) -> list[Value]:
    """The comparison takes both elements of the first operand, then of the second, ..."""
    return [v for pair in zip(a, b, strict=True) for v in pair]


def _halves(k: Kernel, n: int) -> tuple[list[str], list[str]]:
    """Where the lines of each operand lie in the two halves of the scratch."""
    sizes = _line_bytes(k.root, n)
    scratch = k.own_scratch()
    offset = 0
    halves: tuple[list[str], list[str]] = ([], [])
    for half in halves:
        for size in sizes:
            half.append(k.f.let(f"getelementptr inbounds i8, ptr {scratch}, i64 {offset}"))
            offset += size
    return halves


def merge_sort(
    k: Kernel,
    types: list[PrimitiveType],
    first: list[str],
    second: list[str],
    n: int,
    before: Callable[[list[Value], list[Value]], str],
) -> list[str]:
    """Sort lines of n elements that lie at `first`, with `second` as room; gives where they lie then.

    `before(a, b)` emits the i1 whether elements a stand before elements b.
    """
    e, f = k.e, k.f
    levels = max(0, (n - 1).bit_length())
    if levels == 0:
        return first
    pointers = [("ptr", p) for p in (*first, *second)]
    with e.carried(levels, [("i64", "1"), *pointers]) as level:
        width = level.values[0]
        source, target = level.values[1 : 1 + len(types)], level.values[1 + len(types) :]
        runs = f.let(f"shl i64 {width}, 1")
        count = f.let(f"udiv i64 {f.let(f'add i64 {runs}, {n - 1}')}, {runs}")
        with e.loop(count) as run:
            begin = f.let(f"mul i64 {run}, {runs}")
            middle = _least(k, f.let(f"add i64 {begin}, {width}"), n)
            end = _least(k, f.let(f"add i64 {begin}, {runs}"), n)
            with f.carried(end, [("i64", begin), ("i64", middle)], begin) as merge, e.scope():
                left, right = merge.values
                a = [load(f, t, p, _least(k, left, n - 1)) for t, p in zip(types, source, strict=True)]
                b = [load(f, t, p, _least(k, right, n - 1)) for t, p in zip(types, source, strict=True)]
                later = before(b, a)
                take = f.let(f"or i1 {f.let(f'icmp uge i64 {right}, {end}')}, {f.let(f'xor i1 {later}, true')}")
                take = f.let(f"and i1 {f.let(f'icmp ult i64 {left}, {middle}')}, {take}")
                for t, p, u, v in zip(types, target, a, b, strict=True):
                    store(f, t, p, merge.index, select(f, t, take, u, v))
                merge.next = [
                    f.let(f"add i64 {left}, {f.let(f'zext i1 {take} to i64')}"),
                    f.let(f"add i64 {right}, {_not64(k, take)}"),
                ]
        level.next = [runs, *target, *source]
    return level.values[1 : 1 + len(types)]


def _not64(k: Kernel, bit: str) -> str:
    return k.f.let(f"zext i1 {k.f.let(f'xor i1 {bit}, true')} to i64")


def _least(k: Kernel, value: Ix, limit: int) -> str:
    return k.f.call("i64", "llvm.umin.i64", ("i64", str(value)), ("i64", str(limit)))
