"""QR of small matrices: geqrf, a = Q R by Householder reflections, and orgqr, Q's first columns.

Matrices are copied to scratch memory, where columns are whole vectors. Results have LAPACK's form:
R, below it the vectors v, and the factors tau. LAPACK uses blocks, which pays from about 200 rows.
"""

from __future__ import annotations

from xlanb.codegen.memory import Pointer
from xlanb.cpu.emitters.linalg.columns import Columns, Matrix, Room, columns_way, step
from xlanb.cpu.emitters.linalg.padded import bring, take
from xlanb.cpu.emitters.linalg.reflections import reflect_columns, reflector, unitary
from xlanb.cpu.emitters.linalg.routine import WAYS, Routine, RoutineCall, element_type, size_of
from xlanb.cpu.emitters.linalg.table import geqrf, orgqr
from xlanb.hlo.instruction import HloInstruction


def _geqrf_room(i: HloInstruction, _routine: Routine) -> Room:
    m, n = size_of(i)
    return Room(element_type(i), ((m, n), (m, 1)))


def _orgqr_room(i: HloInstruction, routine: Routine) -> Room:
    (m, n), (_, (_, (count,))) = size_of(i), routine.operands
    return Room(element_type(i), ((m, n), (m, count), (m, 1)))


def emit_geqrf(call: RoutineCall) -> None:
    """Factor the first result in place; the second result is tau."""
    a, tau = map(call.numbers, call.results)
    q, v = _geqrf_room(call.instruction, call.routine).matrices(call)
    step(call, bring, a, q)
    step(call, factor, q, tau, v.first)
    step(call, take, q, a)


def factor(c: Columns, q: Matrix, tau: Pointer, v: Pointer) -> None:
    """Factor a matrix in scratch memory."""
    end = c.up(q.rows)
    with c.count(0, q.rows.smin(q.columns)) as loop:
        k = loop.index
        tau[k], _ = reflector(c, q[k], k, end, v)
        reflect_columns(c, q, v, (c.down(k), end), tau[k], k + 1)


def emit_orgqr(call: RoutineCall) -> None:
    """Compute Q, the only result, from the reflections in operand 0 and tau in operand 1."""
    q, packed, v = _orgqr_room(call.instruction, call.routine).matrices(call)
    a, tau = map(call.numbers, call.operands)
    step(call, bring, a, packed)
    step(call, unitary, q, packed, tau, v.first, 0)
    step(call, take, q, call.numbers(call.results[0]))


def _nanoseconds(i: HloInstruction, routine: Routine) -> float:
    """Estimated nanoseconds of one matrix, for either routine."""
    return 50.0 + 40.0 * size_of(i)[1] + routine.flops * element_type(i).byte_size / 160


WAYS["geqrf"].insert(0, columns_way(geqrf, emit_geqrf, _nanoseconds, _geqrf_room))
WAYS["orgqr"].insert(0, columns_way(orgqr, emit_orgqr, _nanoseconds, _orgqr_room, in_place=()))
