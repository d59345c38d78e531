"""Loop kernels: each thread computes some consecutive elements of the results, in memory order.

It computes four elements if that still keeps all threads of the device busy: LLVM then merges four
loads into one of 16 bytes, and four stores too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlanb.codegen.elemental import Leaf, array_of
from xlanb.codegen.elements import Element
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, IrArray, order, same_order, unflatten
from xlanb.gpu.emitters.kernel import GpuKernelFunction, Lowering
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape

THREADS = 128
_UNROLLED = 4
_MOST_UNROLLED = 80
"""Fusions with at most this many instructions are unrolled four times."""
_NOT_UNROLLED = frozenset(
    {
        Op.CONCATENATE, Op.CONDITIONAL, Op.CONVOLUTION, Op.COSINE, Op.DOT, Op.DYNAMIC_UPDATE_SLICE, Op.ERF, Op.MAP,
        Op.PAD, Op.POWER,
        Op.REDUCE, Op.REDUCE_WINDOW, Op.REMAINDER, Op.SINE, Op.TAN,
    }
)  # fmt: skip
"""Opcodes with branches or loops per element, across which loads are not merged."""
_Group = list[Leaf]


def emit_loop(lowering: Lowering) -> None:
    """Write and launch the loop kernel of an instruction or fusion.

    Results of equal shape share a loop; the others follow one another.
    """
    groups = group_leaves(lowering)
    lowering.emitter = "loop"
    if not groups:
        return
    shapes = [array_of(lowering.instruction, g[0]) for g in groups]
    each = elements_of_a_thread(lowering, shapes)
    rounds = [s.element_count // each for s in shapes]
    blocks = -(-max(rounds) // THREADS)
    with lowering.kernel(blocks, THREADS) as k:
        for group, shape, count in zip(groups, shapes, rounds, strict=True):
            with k.below(k.index, count, blocks * THREADS), k.f.aside():
                if each == 1:
                    store_elements(k, group, Index(shape, flat=k.index))
                else:
                    _store_run(k, group, list(_run(k, shape, each)))


def elements_of_a_thread(lowering: Lowering, shapes: Sequence[ArrayShape]) -> int:
    """Return how many elements a thread computes."""
    device = lowering.program.target.device
    enough = device.cores * device.architecture.threads_per_core
    if any(s.element_count % _UNROLLED or s.element_count // _UNROLLED < enough for s in shapes):
        return 1
    instructions = list(_all(lowering.instruction))
    if len(instructions) > _MOST_UNROLLED or any(i.opcode in _NOT_UNROLLED for i in instructions):
        return 1
    return _UNROLLED


def _all(i: HloInstruction) -> Iterator[HloInstruction]:
    """Yield an instruction, and those of the computations that it calls."""
    yield i
    for c in i.called_computations:
        for j in c:
            yield from _all(j)


def _run(k: GpuKernelFunction, shape: ArrayShape, count: int) -> Iterator[Index]:
    """Yield the indices of a thread's elements.

    If the row length is a multiple of their count, they differ in one dimension only.
    """
    f = k.f
    first = f.mul(k.index, count)
    fastest = order(shape)[0] if shape.rank else 0
    multi = list(unflatten(f, first, shape))
    for n in range(count):
        flat = f.add(first, n)
        if not shape.rank or shape.dimensions[fastest] % count:
            yield Index(shape, flat=flat)
            continue
        at: list[Ix] = list(multi)
        at[fastest] = f.add(at[fastest], n)
        yield Index(shape, at, flat)


def _store_run(k: GpuKernelFunction, leaves: Sequence[Leaf], indices: Sequence[Index]) -> None:
    """Compute the elements at some indices, then store them all."""
    made: list[tuple[IrArray, Index, Element]] = []
    for index in indices:
        made += [(k.output(leaf), index, k.e.element(k.lowering.root, index, leaf)) for leaf in leaves]
    for array, index, value in sorted(made, key=lambda m: m[0].pointer.text):
        array.store(index, value)


def group_leaves(lowering: Lowering) -> list[_Group]:
    """Group the result leaves by equal shape and layout."""
    groups: list[_Group] = []
    for leaf in lowering.leaves:
        shape = array_of(lowering.instruction, leaf)
        alike = next((g for g in groups if same_order(array_of(lowering.instruction, g[0]), shape)), None)
        if alike is None:
            groups.append([leaf])
        else:
            alike.append(leaf)
    return groups


def store_elements(k: GpuKernelFunction, leaves: Sequence[Leaf], index: Index) -> None:
    """Compute all results at an index, then store them.

    A result may reuse the memory of another's operand.
    """
    arrays = [k.output(leaf) for leaf in leaves]
    values = [k.e.element(k.lowering.root, index, leaf) for leaf in leaves]
    for array, value in zip(arrays, values, strict=True):
        array.store(index, value)
