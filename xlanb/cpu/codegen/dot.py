"""Dot: batch dimensions, free dimensions of either side, contracting dimensions, in any layout.

One element by itself is a fold over the contracting dimensions (the rule below). As a kernel of its own a dot is a contraction (see `matmul`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.cpu.codegen import arithmetic
from xlanb.cpu.codegen.elemental import Elemental, array_of, elemental
from xlanb.cpu.codegen.indexing import Index, IrArray, strides
from xlanb.cpu.codegen.ir import Ix
from xlanb.cpu.codegen.matmul.contraction import Axis, Contraction
from xlanb.cpu.codegen.matmul.gemm import emit_contraction
from xlanb.cpu.codegen.matmul.lanes import Place
from xlanb.cpu.codegen.matmul.plan import plan
from xlanb.cpu.codegen.matmul.products import accumulator_type, multiply_add
from xlanb.cpu.codegen.types import Value, is_narrow, zero
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, PrimitiveType

T = PrimitiveType
MANY_PRODUCTS = 512
"""Products from which on it pays to write a result to memory for others to read."""
_PANEL_BYTES = 1 << 19


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """The dimensions of a dot's operands by their part; result dimensions are batch, lhs free, rhs free."""

    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_free: tuple[int, ...]
    rhs_free: tuple[int, ...]

    @staticmethod
    def of(i: HloInstruction) -> DotDimensions:
        """Those of a dot instruction."""
        lb, rb = i.ints("lhs_batch_dims"), i.ints("rhs_batch_dims")
        lc, rc = i.ints("lhs_contracting_dims"), i.ints("rhs_contracting_dims")
        lhs, rhs = (array_of(o).rank for o in i.operands[:2])
        lf = tuple(d for d in range(lhs) if d not in lb and d not in lc)
        return DotDimensions(lb, rb, lc, rc, lf, tuple(d for d in range(rhs) if d not in rb and d not in rc))


@elemental(Op.DOT)
def _dot(e: Elemental, i: HloInstruction, x: Index) -> Value:
    lhs, rhs = i.operands[:2]
    a, b = array_of(lhs), array_of(rhs)
    to = array_of(i).element_type
    t = accumulator_type(to)
    d = DotDimensions.of(i)
    multi = x.multi(e.f)
    left: list[Ix] = [0] * a.rank
    right: list[Ix] = [0] * b.rank
    for k, (p, q) in enumerate(zip(d.lhs_batch, d.rhs_batch, strict=True)):
        left[p] = right[q] = multi[k]
    base = len(d.lhs_batch)
    for k, p in enumerate(d.lhs_free):
        left[p] = multi[base + k]
    for k, q in enumerate(d.rhs_free):
        right[q] = multi[base + len(d.lhs_free) + k]

    def body(indices: list[Ix], total: list[Value]) -> list[Value]:
        at, bt = list(left), list(right)
        for p, q, v in zip(d.lhs_contracting, d.rhs_contracting, indices, strict=True):
            at[p] = bt[q] = v
        u = arithmetic.convert(e.f, a.element_type, t, e.element(lhs, Index(a, at)))
        v2 = arithmetic.convert(e.f, b.element_type, t, e.element(rhs, Index(b, bt)))
        return [multiply_add(e, t, total[0], u, v2)]

    folded = e.fold([a.dimensions[p] for p in d.lhs_contracting], [t], [zero(t)], body)
    return arithmetic.convert(e.f, t, to, folded[0])


def contraction_of(i: HloInstruction) -> Contraction:
    """A dot as axes with strides."""
    a, b, c = array_of(i.operands[0]), array_of(i.operands[1]), array_of(i)
    d = DotDimensions.of(i)
    sa, sb, sc = strides(a), strides(b), strides(c)
    batch = len(d.lhs_batch)
    rows = batch + len(d.lhs_free)
    return Contraction(
        tuple(
            Axis(a.dimensions[p], sa[p], sb[q], sc[k])
            for k, (p, q) in enumerate(zip(d.lhs_batch, d.rhs_batch, strict=True))
        ),
        tuple(Axis(a.dimensions[p], sa[p], 0, sc[batch + k]) for k, p in enumerate(d.lhs_free)),
        tuple(Axis(b.dimensions[q], 0, sb[q], sc[rows + k]) for k, q in enumerate(d.rhs_free)),
        tuple(Axis(a.dimensions[p], sa[p], sb[q]) for p, q in zip(d.lhs_contracting, d.rhs_contracting, strict=True)),
        a.element_type,
        b.element_type,
        accumulator_type(c.element_type),
        c.element_type,
    )


def scratch_bytes(i: HloInstruction) -> int:
    """Bytes of scratch that `emit_dot` wants."""
    made = plan(contraction_of(i))
    return made.scratch_bytes if made is not None else 0


def is_worth_a_kernel(i: HloInstruction) -> bool:
    """Whether a dot should be a kernel of its own rather than a part of another: it has enough products, of types that have vectors."""
    x = contraction_of(i)
    return x.products >= MANY_PRODUCTS and plan(x) is not None


def emit_dot(e: Elemental, i: HloInstruction, output: IrArray, scratch: str) -> bool:
    """A dot of operands in memory as a kernel of its own; False where the rule above has to do."""
    a, b = (place_of(e, o) for o in i.operands[:2])
    if a is None or b is None:
        return False
    made = plan(contraction_of(i))
    if made is None:
        return _emit_rows(e, i, output)
    emit_contraction(e, made, a, b, Place(output.pointer), scratch)
    e.f.ready = e.f.calls_only = True
    return True


def place_of(e: Elemental, i: HloInstruction) -> Place | None:
    """Where an operand lies; None where its elements are computed anew for every use, which would not pay."""
    source = e.bindings.get(i, {}).get(())
    return Place(source.pointer) if isinstance(source, IrArray) else None


def _emit_rows(e: Elemental, i: HloInstruction, output: IrArray) -> bool:
    """A dot with plain rows of types that have no vectors here: `out[m, n] += lhs[m, k] * rhs[k, n]` for all n, so that LLVM vectorises over n.

    Needs one dimension of each free and contracting kind at most, the right side's free dimension being the fastest in the right side and in the result.
    """
    lhs, rhs = i.operands[:2]
    a, b, result = array_of(lhs), array_of(rhs), array_of(i)
    to = result.element_type
    d = DotDimensions.of(i)
    if (
        len(d.rhs_free) != 1
        or len(d.lhs_contracting) != 1
        or len(d.lhs_free) > 1
        or is_narrow(to)
        or result.element_count == 0
    ):
        return False
    n, depth = b.dimensions[d.rhs_free[0]], a.dimensions[d.lhs_contracting[0]]
    rows = a.dimensions[d.lhs_free[0]] if d.lhs_free else 1
    if n < 8 or depth == 0 or not _fastest(b, d.rhs_free[0]) or not _fastest(result, result.rank - 1):
        return False
    f = e.f
    block = 4
    # Columns of the right side that stay in the second-level cache while all rows of the left side pass over them.
    panel = (
        n
        if n * depth * b.element_type.byte_size <= _PANEL_BYTES
        else max(64, _PANEL_BYTES // (depth * b.element_type.byte_size) // 64 * 64)
    )

    def batch(k: int, at: list[Ix]) -> None:
        if k < len(d.lhs_batch):
            with e.loop(a.dimensions[d.lhs_batch[k]]) as v:
                batch(k + 1, [*at, v])
            return
        if n >= panel:
            with e.loop(n // panel) as p:
                columns(at, f.mul(p, panel), panel)
        if n % panel:
            columns(at, n - n % panel, n % panel)

    def columns(at: list[Ix], first: Ix, width: int) -> None:
        if rows >= block:
            with e.loop(rows // block) as m:
                tile(at, f.mul(m, block), block, first, width)
        if rows % block:
            tile(at, rows - rows % block, rows % block, first, width)

    def place(at: list[Ix], m: Ix, column: Ix) -> Index:
        return Index(result, [*at, *([m] if d.lhs_free else []), column])

    def left(at: list[Ix], m: Ix, k: Ix) -> Value:
        where: list[Ix] = [0] * a.rank
        for p, v in zip(d.lhs_batch, at, strict=True):
            where[p] = v
        where[d.lhs_contracting[0]] = k
        if d.lhs_free:
            where[d.lhs_free[0]] = m
        return arithmetic.convert(f, a.element_type, to, e.element(lhs, Index(a, where)))

    def right(at: list[Ix], k: Ix, column: Ix) -> Value:
        where: list[Ix] = [0] * b.rank
        for p, v in zip(d.rhs_batch, at, strict=True):
            where[p] = v
        where[d.rhs_contracting[0]] = k
        where[d.rhs_free[0]] = column
        return arithmetic.convert(f, b.element_type, to, e.element(rhs, Index(b, where)))

    def tile(at: list[Ix], m: Ix, height: int, first: Ix, width: int) -> None:
        lines = [f.add(m, r) for r in range(height)]
        with e.loop(width) as c:
            column = f.add(first, c)
            for line in lines:
                output.store(f, place(at, line, column), zero(to))
        # Four steps of the contraction at a time: the result's rows are read and written a quarter as often.
        whole = depth // 4
        if whole:
            with e.loop(whole) as k4:
                steps(at, lines, [f.add(f.mul(k4, 4), s) for s in range(4)], first, width)
        if depth % 4:
            steps(at, lines, [whole * 4 + s for s in range(depth % 4)], first, width)

    def steps(at: list[Ix], lines: list[Ix], ks: list[Ix], first: Ix, width: int) -> None:
        factors = [[left(at, line, k) for k in ks] for line in lines]
        with e.loop(width) as c:
            column = f.add(first, c)
            row = [right(at, k, column) for k in ks]
            for line, own in zip(lines, factors, strict=True):
                total = output.load(f, place(at, line, column))
                for u, v in zip(own, row, strict=True):
                    total = multiply_add(e, to, total, u, v)
                output.store(f, place(at, line, column), total)

    batch(0, [])
    return True


def _fastest(shape: ArrayShape, dimension: int) -> bool:
    order = [d for d in shape.minor_to_major if shape.dimensions[d] != 1]
    return bool(order) and order[0] == dimension
