"""Kernels that write into an array that is there: dynamic-update-slice, scatter, select-and-scatter.

Each first copies its operand into the result, unless the result lies in the operand's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from xlanb.codegen import arithmetic
from xlanb.codegen.elemental import Leaf, array_of, flat, pack
from xlanb.codegen.elements import parts, real
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import Index, IrArray, order
from xlanb.codegen.movement import starts
from xlanb.codegen.nest import nested
from xlanb.codegen.parallel import parallel
from xlanb.codegen.types import I1, I64
from xlanb.codegen.values import Value
from xlanb.codegen.views import along
from xlanb.cpu.emitters.kernel import MEMORY_ONLY, Kernel, emitter
from xlanb.cpu.emitters.loops import emit_loops
from xlanb.cpu.emitters.reductions import window_position
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, PrimitiveType

T = PrimitiveType


def _copy_in(k: Kernel, operand: HloInstruction, leaf: Leaf) -> None:
    """Fill the result at a leaf with the operand."""
    source = k.e.bindings.get(operand, {}).get(())
    output = k.outputs[leaf]
    if not (isinstance(source, IrArray) and source.pointer == output.pointer):
        emit_loops(k.e, [(operand, (), output)])


MEMORY_ONLY.update((Op.SCATTER, Op.SELECT_AND_SCATTER, Op.SCAN))


@emitter(Op.DYNAMIC_UPDATE_SLICE)
def _dynamic_update_slice(k: Kernel) -> bool:
    operand, update = k.root.operands[:2]
    e, f = k.e, k.f
    source, piece = array_of(operand), array_of(update)
    _copy_in(k, operand, ())
    if piece.element_count == 0:
        return True
    room = [n - m for n, m in zip(source.dimensions, piece.dimensions, strict=True)]
    inner = order(piece)[::-1]
    ready = f.ready

    def put(at: dict[int, Ix]) -> None:
        begin = starts(e, k.root.operands[2:], room)  # here: threads may share the loop around
        multi = [at.get(d, 0) for d in range(piece.rank)]
        value = e.element(update, Index(piece, multi))
        k.output.store(Index(source, [f.add(b, v) for b, v in zip(begin, multi, strict=True)]), value)

    if not inner:
        put({})
        return True
    cost = 0.3 * piece.dimensions[inner[-1]]
    outside: AbstractContextManager[list[Ix]] = nullcontext([])
    if inner[1:]:
        outside = nested(f, [piece.dimensions[d] for d in inner[:-1]], cost)
    with outside as outer:
        at: dict[int, Ix] = dict(zip(inner, outer, strict=False))
        types = (source.element_type,)
        vectors = along(f, piece.dimensions[inner[-1]], types, lambda q: put({**at, inner[-1]: q}))
    f.ready = ready and vectors
    return True


@emitter(Op.PAD)
def _pad_between(k: Kernel) -> bool:
    """Padding between the elements of the fastest dimension: the value everywhere, then each element to its place. False of other paddings, which are loops over the result."""
    operand, value = k.root.operands
    e, f, source, result = k.e, k.f, array_of(operand), k.output.shape
    slowest = order(source)[::-1]
    padding = k.root.get("padding")
    spread = bool(slowest) and padding[slowest[-1]].interior and all(p.low >= 0 and p.high >= 0 for p in padding)
    if not spread or not f.target.explicit_vectors or not 0 < source.element_count < result.element_count:
        return False
    size = result.element_type.byte_size

    def clear(q: Ix) -> None:
        k.output.store(Index(result, flat=q), e.scalar(value))

    f.ready = along(f, result.element_count, (result.element_type,), clear, nanoseconds=f.target.costs.byte_ns * size)
    with nested(f, [source.dimensions[d] for d in slowest], 0.3 + 0.05 * size) as at:
        multi: list[Ix] = [0] * source.rank
        for d, v in zip(slowest, at, strict=True):
            multi[d] = v
        place = [f.add(f.mul(v, p.interior + 1), p.low) for v, p in zip(multi, padding, strict=True)]
        k.output.store(Index(result, place), e.element(operand, Index(source, multi)))
    return True


@emitter(Op.SCATTER)
def _scatter(k: Kernel) -> bool:
    """Update after update, each combined into its place; one whose window does not fit is skipped whole."""
    i, e, f = k.root, k.e, k.f
    count = (len(i.operands) - 1) // 2
    operands, indices, updates = i.operands[:count], i.operands[count], i.operands[count + 1 :]
    leaves: list[Leaf] = [(n,) for n in range(count)] if i.shape.is_tuple else [()]
    for operand, leaf in zip(operands, leaves, strict=True):
        _copy_in(k, operand, leaf)
    source, table, update = array_of(operands[0]), array_of(indices), array_of(updates[0])
    if update.element_count == 0:
        return True
    window_dims, inserted = i.ints("update_window_dims"), i.ints("inserted_window_dims")
    batching, index_batching = i.ints("input_batching_dims"), i.ints("scatter_indices_batching_dims")
    to_operand, vector_dim = i.ints("scatter_dims_to_operand_dims"), i.get("index_vector_dim")
    scatter_dims = [d for d in range(update.rank) if d not in window_dims]
    windowed = [d for d in range(source.rank) if d not in inserted and d not in batching]
    sizes = {d: update.dimensions[w] for d, w in zip(windowed, window_dims, strict=True)}

    def window(at: dict[int, Ix]) -> None:
        batch: list[Ix] = [at[d] for d in scatter_dims]
        where: dict[int, Ix] = {}
        inside = f.const(I1, True)
        for n, d in enumerate(to_operand):
            spot: list[Ix] = list(batch)
            if vector_dim < table.rank:
                spot.insert(vector_dim, n)
            value = e.element(indices, Index(table, spot))
            wide = real(arithmetic.convert(f, table.element_type, T.S64, value))
            where[d] = wide
            inside = f.both(inside, f.within(wide, 0, source.dimensions[d] - sizes.get(d, 1) + 1))
        for d, t in zip(batching, index_batching, strict=True):
            where[d] = batch[t - (1 if t > vector_dim else 0)]
        if inside.number == 0:
            return
        with f.when(inside) if inside.number is None else f.aside():
            flags.append(elements(at, where, {}))

    order_in_window = [d for d in reversed(source.minor_to_major) if sizes.get(d, 1) != 1]
    width = sizes[order_in_window[-1]] if order_in_window else 1
    ready = f.ready
    update_dim = dict(zip(windowed, window_dims, strict=True))

    def elements(at: dict[int, Ix], where: dict[int, Ix], shift: dict[int, Ix]) -> bool:
        if len(shift) < len(order_in_window) - 1:
            d = order_in_window[len(shift)]
            with f.loop(sizes[d]) as v:
                return elements(at, where, {**shift, d: v})
        if not order_in_window:
            element(at, where, {})
            return True
        d = order_in_window[-1]
        types = [array_of(o).element_type for o in operands]
        return along(f, width // blocks, types, lambda q: element(at, where, {**shift, d: f.add(first, q)}))

    def element(at: dict[int, Ix], where: dict[int, Ix], shift: dict[int, Ix]) -> None:
        place = Index(source, [f.add(where.get(d, 0), shift.get(d, 0)) for d in range(source.rank)])
        inner = {update_dim[d]: v for d, v in shift.items()}
        spot = Index(update, [at.get(d, inner.get(d, 0)) for d in range(update.rank)])
        old = [k.outputs[leaf].load(_of(place, array_of(o))) for leaf, o in zip(leaves, operands, strict=True)]
        new = [e.element(u, _of(spot, array_of(u))) for u in updates]
        for leaf, operand, value in zip(leaves, operands, e.apply(i.to_apply, [*old, *new]), strict=True):
            k.outputs[leaf].store(_of(place, array_of(operand)), value)

    def nest(at: dict[int, Ix]) -> None:
        if len(at) < len(scatter_dims):
            d = scatter_dims[len(at)]
            with f.loop(update.dimensions[d]) as v:
                nest({**at, d: v})
            return
        window(at)

    # Updates come one after the other; but threads may each take a part of all windows.
    flags: list[bool] = []
    # That is theirs alone where all windows begin at one place along it: those that begin anywhere overlap.
    fastest = order_in_window[-1] if order_in_window else 0
    at_zero = fastest not in to_operand or width == source.dimensions[fastest]
    blocks = _blocks(f, width, min(array_of(o).element_type.bits for o in operands)) if at_zero else 1
    with parallel(f, blocks, nanoseconds=update.element_count / blocks * f.target.costs.updated_element_ns) as block:
        first = f.mul(block, width // blocks)
        nest({})
    f.ready = ready and all(flags) and bool(order_in_window)
    return True


def _blocks(f: Function, width: int, bits: int) -> int:
    """Into how many parts of whole vectors, one to a thread, the fastest dimension of a window is cut; 1 where it is not."""
    blocks = f.target.threads
    return blocks if width % (blocks * f.target.vector_bits // max(8, bits)) == 0 else 1


def _of(index: Index, shape: ArrayShape) -> Index:
    """The same index in a shape of the same dimensions."""
    return Index(shape, index.key)  # type: ignore[arg-type]


@emitter(Op.SELECT_AND_SCATTER)
def _select_and_scatter(k: Kernel) -> bool:
    """For each element of the source, the element of its window that `select` keeps takes it in by `scatter`."""
    i, e, f = k.root, k.e, k.f
    operand, source, initial = i.operands
    base, windows = array_of(operand), array_of(source)
    t = base.element_type
    _fill(k, initial)
    if windows.element_count == 0:
        return True
    dims = i.window.dimensions
    select, scatter = i.attributes["select"], i.attributes["scatter"]
    size = 2 if t.is_complex else 1
    # Whether an element was seen, the best so far, and its place.
    none = [f.const(I1, False), *parts(e.scalar(initial)), *[f.zero(I64)] * base.rank]

    def pick(at: list[Ix], offset: list[Ix], carried: Sequence[Value]) -> Sequence[Value]:
        if len(offset) < len(dims):
            with f.carried(dims[len(offset)].size, carried) as loop:
                loop.next = pick(at, [*offset, loop.index], loop.values)
            return loop.values
        inside, where = window_position(f, dims, at, offset, base.dimensions)

        def visit() -> list[Value]:
            value = e.element(operand, Index(base, where))
            best = pack([t], carried[1 : 1 + size])[0]
            stays = carried[0] & real(e.apply(select, [best, value])[0])
            chosen = arithmetic.select(stays, best, value)
            spots = [stays.select(old, f.value(new)) for old, new in zip(carried[1 + size :], where, strict=True)]
            return [f.const(I1, True), *parts(chosen), *spots]

        return f.choose(inside, visit, lambda: carried)

    def nest(at: dict[int, Ix]) -> None:
        if len(at) < windows.rank:
            with f.loop(windows.dimensions[len(at)]) as v:
                nest({**at, len(at): v})
            return
        multi = [at[d] for d in range(windows.rank)]
        found = pick(multi, [], none)
        with f.when(found[0]):
            place = Index(base, list(found[1 + size :]))
            value = e.element(source, Index(windows, multi))
            k.output.store(place, e.apply(scatter, [k.output.load(place), value])[0])

    nest({})
    return True


def _fill(k: Kernel, value: HloInstruction) -> None:
    """Every element of the result set to a scalar."""
    with k.f.loop(k.output.shape.element_count) as offset:
        k.output.store(Index(k.output.shape, flat=offset), k.e.scalar(value))


def scans_by_element(i: HloInstruction) -> bool:
    """Whether the elements of a scan's slices do not meet: its computation is elementwise, on slices of one shape."""
    target = i.to_apply
    simple = (Op.PARAMETER, Op.TUPLE, Op.CONSTANT)
    shapes = (s for j in target for _, s in j.shape.leaves())
    slices = {s.as_array().dimensions for s in shapes if s.as_array().dimensions}
    return len(slices) < 2 and all(j.opcode.is_elementwise or j.opcode in simple for j in target)


@emitter(Op.SCAN)
def _scan(k: Kernel) -> bool:
    """A running fold along a dimension, for each element of the slices by itself; the computation must be elementwise.

    The computation takes a slice of each input and the carries, and gives a slice of each output and the carries.
    """
    i, e, f = k.root, k.e, k.f
    carries = i.get("num_carries") or 0
    count = len(i.operands) - carries
    inputs, initial = i.operands[:count], i.operands[count:]
    (axis,) = i.dimensions
    source = array_of(inputs[0])
    target = i.to_apply
    leaves = [leaf for leaf, _ in i.shape.leaves()]
    outputs = leaves[: len(leaves) - carries]
    types = [array_of(o).element_type for o in initial]
    length = source.dimensions[axis]
    rest = [d for d in range(source.rank) if d != axis]
    order = [d for d in reversed(source.minor_to_major) if d != axis]

    def line(at: dict[int, Ix]) -> None:
        slice_index = [at[d] for d in rest]
        first = [e.element(o, Index(array_of(o), slice_index if array_of(o).rank else ())) for o in initial]
        last = first
        if length:
            with f.carried(length, flat(first)) as loop:
                step = f.sub(length - 1, loop.index) if i.get("is_reverse") else loop.index
                where = [step if d == axis else at[d] for d in range(source.rank)]
                rows = [e.element(o, Index(array_of(o), where)) for o in inputs]
                made = e.apply_at(target, [*rows, *pack(types, loop.values)], slice_index)
                for leaf, value in zip(outputs, made, strict=False):
                    k.outputs[leaf].store(Index(k.outputs[leaf].shape, where), value)
                loop.next = flat(made[len(outputs) :])
            last = pack(types, loop.values)
        for leaf, value in zip(leaves[len(outputs) :], last, strict=True):
            shape = k.outputs[leaf].shape
            k.outputs[leaf].store(Index(shape, slice_index if shape.rank else ()), value)

    def nest(at: dict[int, Ix]) -> None:
        if len(at) < len(order):
            d = order[len(at)]
            with f.loop(source.dimensions[d]) as v:
                nest({**at, d: v})
            return
        line(at)

    if all(source.dimensions[d] for d in rest):
        nest({})
    return True
