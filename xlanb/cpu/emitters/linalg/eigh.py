"""Eigenvalues and eigenvectors of small symmetric matrices (syevd).

The matrix is reduced to tridiagonal form, then QL with implicit Wilkinson shifts, then sorting:

    a <- H a H = a - v w^T - w v^T      w = tau a v - (tau^2 v^T a v / 2) v

(Golub and Van Loan, Matrix Computations, 4th edition, 8.3; QL starts at the smaller end, as
LAPACK's steqr.) Both triangles are stored, so that columns of the matrix are also its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I32, I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, Matrix, Room, columns_way, step
from xlanb.cpu.emitters.linalg.lapack import checked
from xlanb.cpu.emitters.linalg.padded import ascending, bring, normalize, take
from xlanb.cpu.emitters.linalg.reflections import combine_columns, reflector, subtract_products, unitary
from xlanb.cpu.emitters.linalg.rotations import Block, rotate_columns, rotation
from xlanb.cpu.emitters.linalg.routine import LINE, WAYS, Routine, RoutineCall, element_type, size_of
from xlanb.cpu.emitters.linalg.table import syevd
from xlanb.hlo.instruction import HloInstruction

_SWEEPS = 30
"""The most sweeps per eigenvalue (as in LAPACK)."""


def _room(i: HloInstruction, _routine: Routine) -> Room:
    """Scratch for the matrix, its vectors, d, e, tau, v, w, the order, rotations, and the scale."""
    n, t = size_of(i)[1], element_type(i)
    column = (n + 1, 1)
    return Room(t, ((n, n), (n, n), column, (n + 16, 1), column, column, column, (2 * n, 1), (2 * n, 1), (1, 1)))


def emit_syevd(call: RoutineCall) -> None:
    """Emit syevd: vectors over the first result (with mode V), eigenvalues, info."""
    a, z, *columns = _room(call.instruction, call.routine).matrices(call)
    d, e, tau, v, w, order, turns, back = (column.first for column in columns)
    e, order = e.by(LINE // call.type.byte_size), replace(order, element=I64)
    vectors, values = map(call.numbers, call.results[:2])
    wanted, uplo, *_ = call.routine.arguments
    is_wanted = wanted == "V"
    step(call, symmetric, vectors, a, back, uplo)
    step(call, tridiagonal, a, d, e, tau, v, w)
    if is_wanted:
        step(call, unitary, z, replace(a, columns=call.f.const(I64, size_of(call.instruction)[1] - 1)), tau, v, 1)
    step(call, ql, d, e, z, turns, Pointer(call.results[2], I32), is_wanted)
    step(call, eigenvalues, d, z.rows, order, back, values)
    if is_wanted:
        step(call, take, z, vectors, order)


def symmetric(c: Columns, source: Pointer, a: Matrix, back: Pointer, uplo: str) -> None:
    """Copy a matrix, given by one triangle, to scratch memory and scale it."""
    bring(c, source, a)
    with c.count(0, a.columns) as loop:
        j = loop.index
        with c.count(j + 1, a.columns) as inner:
            below, above = a[j].by(inner.index), a[inner.index].by(j)
            if uplo == "U":
                below[0] = above[0]
            else:
                above[0] = below[0]
    back[0] = normalize(c, a)


def tridiagonal(c: Columns, a: Matrix, d: Pointer, e: Pointer, tau: Pointer, v: Pointer, w: Pointer) -> None:
    """Reduce a symmetric matrix to diagonals d and e.

    Reflections are stored below the subdiagonal, their factors in tau. v and w are workspace of one
    column each.
    """
    end, last = c.up(a.rows), a.columns - 1
    with c.count(0, last) as loop:
        k = loop.index
        column = a[k]
        d[k] = column[k]
        factor, e[k] = reflector(c, column, k + 1, end, v)
        tau[k] = factor
        rows = (c.down(k + 1), end)
        combine_columns(c, a, v, rows, k + 1, w)
        product = c.sum(rows, lambda r: c.load(v, r) * c.load(w, r))
        half = c.repeated(factor * factor * product * 0.5)
        c.fill(w, rows, lambda r: c.load(w, r) * c.repeated(factor) - c.load(v, r) * half)
        subtract_products(c, a, [(v, w), (w, v)], rows, k + 1)
    d[last] = a[last][last]


def ql(c: Columns, d: Pointer, e: Pointer, z: Matrix, turns: Pointer, info: Pointer, vectors: bool) -> None:
    """Replace d by the unsorted eigenvalues of the tridiagonal matrix with diagonals d and e.

    Rotates the columns of z along; sets info to 1 if the iteration does not converge. d needs room
    for a number after the last one, e for one before the first.
    """
    f, n, one = c.f, z.rows, c.f.const(I64, 1)
    d[n] = e[n - 1] = c.real(0)
    with f.rounds([f.const(I64, 0), f.const(I64, 0), -one, -one, one]) as loop:
        low, sweeps, *before = loop.values
        high = _block_end(c, d, e, low)
        e[high] = c.real(0)
        # A sweep runs from the larger end to the smaller; its direction changes only with the
        # block.
        is_other = low.differs(before[0]) | high.differs(before[1])
        step = is_other.select((abs(d[high]) >= abs(d[low])).select(one, -1), before[2])

        def sweep() -> Sequence[Value]:
            _sweep(c, (d, e), (low, high, step), turns)
            if vectors:
                rotate_columns(c, z, ((step > 0).select(high, low), -step, high - low), turns)
            return low, sweeps + 1

        after, count = f.choose(high.equals(low), lambda: [low + 1, sweeps], sweep)
        loop.next, loop.again = [after, count, low, high, step], after.ult(n) & (count < n * _SWEEPS)
    info[0] = loop.values[0].ult(n).zext(I32)


def _block_end(c: Columns, d: Pointer, e: Pointer, low: Value) -> Value:
    """The last row of the unreduced block that begins at row `low`."""
    with c.f.rounds([low]) as loop:
        k = loop.values[0]
        off, both = e[k], abs(d[k]) * c.epsilon**2 * abs(d[k + 1])
        loop.again = off * off > both + c.tiny
        loop.next = [k + loop.again.zext(I64)]
    return loop.values[0]


def _sweep(c: Columns, diagonals: tuple[Pointer, Pointer], block: Block, turns: Pointer) -> None:
    """One implicit QL step on rows low..high.

    The shift is taken at one end; the bulge is chased there from the other, in direction `step`.
    """
    (d, e), (low, high, step) = diagonals, block
    forward = step > 0
    near, far = forward.select(low, high), forward.select(high, low)
    # Between rows q and q - step lies e[q - behind]; between q and q + step e[q - ahead].
    behind, ahead = forward.zext(I64), (~forward).zext(I64)
    first = e.by(near - ahead)
    p, off = d[near], first[0]
    g = (d[near + step] - p) / (off + off)
    r = (g * g + 1.0).sqrt().with_sign_of(g)
    g = d[far] - p + off / (g + r)
    with c.count(0, high - low, [g, c.real(1), c.real(1), c.real(0), far]) as loop:
        g, s, cosine, p, q = loop.values
        between = e.by(q - behind)
        other = q - step
        f, b = s * between[0], cosine * between[0]
        cosine, s, r = rotation(c, g, f)
        between[step] = r
        g = d[q] - p
        r = (d[other] - g) * s + (cosine + cosine) * b
        p = s * r
        d[q] = g + p
        g = cosine * r - b
        turn = turns.by(loop.index + loop.index)
        turn[0], turn[1] = cosine, s
        loop.next = [g, s, cosine, p, other]
    g, _, _, p, _ = loop.values
    d[near] = d[near] - p
    first[0] = g
    e.by(far - behind)[step] = c.real(0)


def eigenvalues(c: Columns, d: Pointer, n: Value, order: Pointer, back: Pointer, values: Pointer) -> None:
    """Store the sorted eigenvalues and their order."""
    ascending(c, d, n, order)
    with c.count(0, n) as loop:
        values[loop.index] = d[order[loop.index]] * back[0]


def _nanoseconds(i: HloInstruction, _routine: Routine) -> float:
    """Estimated nanoseconds of one matrix."""
    n = size_of(i)[1]
    return 200.0 + 25.0 * n * n + n**3 * element_type(i).byte_size / 20


WAYS["syevd"].insert(0, columns_way(syevd, checked(emit_syevd), _nanoseconds, _room))
