"""Loop kernels: one value per element of the result, in the order in which the result lies in memory."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.cpu.codegen.elemental import Elemental, Leaf, array_of
from xlanb.cpu.codegen.indexing import Index, IrArray, same_order
from xlanb.cpu.codegen.ir import Ix
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape

Output = tuple[HloInstruction, Leaf, IrArray]
_FLAT_LEAVES = frozenset({Op.PARAMETER, Op.CONSTANT})


def emit_loops(e: Elemental, outputs: Sequence[Output]) -> None:
    """Fill arrays with the elements of instructions; those of equal shape in one loop."""
    groups: list[list[Output]] = []
    for output in outputs:
        shape = output[2].shape
        for group in groups:
            if same_order(group[0][2].shape, shape):
                group.append(output)
                break
        else:
            groups.append([output])
    for group in groups:
        shape = group[0][2].shape
        if shape.element_count:
            with e.scope():
                _emit_group(e, group, shape)


def _emit_group(e: Elemental, group: Sequence[Output], shape: ArrayShape) -> None:
    def store(index: Index) -> None:
        # All values first: an output may lie in the place of an operand.
        values = [(array, e.element(i, index, leaf)) for i, leaf, array in group]
        for array, value in values:
            array.store(e.f, index, value)

    if shape.element_count > 1 and all(_is_flat(i, leaf, shape, e) for i, leaf, _ in group):
        with e.loop(shape.element_count) as flat:
            store(Index(shape, flat=flat))
        return
    order = [d for d in reversed(shape.minor_to_major) if shape.dimensions[d] != 1]

    def nest(at: dict[int, Ix]) -> None:
        if len(at) == len(order):
            store(Index(shape, [at.get(d, 0) for d in range(shape.rank)]))
            return
        d = order[len(at)]
        with e.loop(shape.dimensions[d]) as v:
            nest({**at, d: v})

    nest({})


def _is_flat(root: HloInstruction, leaf: Leaf, shape: ArrayShape, e: Elemental) -> bool:
    """Whether everything that the kernel inlines is elementwise in one order of memory, so that one linear index serves all."""
    seen: set[HloInstruction] = set()
    stack: list[tuple[HloInstruction, Leaf]] = [(root, leaf)]
    while stack:
        i, at = stack.pop()
        if i in e.bindings:
            if not same_order(array_of(i, at), shape) and array_of(i, at).dimensions:
                return False
            continue
        if i in seen:
            continue
        seen.add(i)
        if i.opcode in (Op.TUPLE, Op.GET_TUPLE_ELEMENT) or at:
            return False
        own = array_of(i)
        if not own.dimensions:
            continue  # scalars do not depend on the index
        if not same_order(own, shape):
            return False
        if i.opcode in _FLAT_LEAVES or (i.opcode is Op.BROADCAST and not array_of(i.operands[0]).dimensions):
            continue
        if not i.opcode.is_elementwise and i.opcode is not Op.COPY and i.opcode is not Op.MAP:
            return False
        stack.extend((o, ()) for o in i.operands)
    return True
