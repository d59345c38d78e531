"""geqrf: a = Q R by reflections of columns, and orgqr: as many columns of Q as are wanted.

Matrices are brought to scratch, where columns are whole vectors. Reflections are LAPACK's: R, below it the vectors v, beside it their factors tau.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.linalg.custom_call import NATIVE, Call, Native
from xlanb.cpu.codegen.linalg.householder import product_of_reflections, reflect_columns, reflector
from xlanb.cpu.codegen.linalg.scratch import MOVE, Room, has_results, identity, is_small, step, write_bring, write_take
from xlanb.cpu.codegen.linalg.values import Code, stride
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

GEQRF = ("ptr noalias %q", "ptr noalias %tau", "ptr noalias %v", "i64 %m", "i64 %n", "i64 %stride")
ORGQR = (
    "ptr noalias %q", "ptr noalias %packed", "ptr noalias %tau", "ptr noalias %v",
    "i64 %m", "i64 %n", "i64 %stride", "i64 %count", "i64 %below",
)  # fmt: skip


def emit_geqrf(call: Call) -> None:
    """Factor the first result in place; the second one is tau."""
    m, n = call.size(0)
    a, tau = call.results
    q, v = _geqrf_room(call.type, m, n).addresses(call)
    sizes = (m, n, stride(m, call.type))
    step(call, "bring", write_bring, MOVE, a, q, *sizes)
    step(call, "geqrf", write_geqrf, GEQRF, q, tau, v, *sizes)
    step(call, "take", write_take, MOVE, q, a, *sizes)


def _geqrf_room(t: PrimitiveType, m: int, n: int) -> Room:
    return Room(t, ((m, n), (m, 1)))


def write_geqrf(c: Code) -> None:
    """The routine that factors a matrix in scratch."""
    m, n, apart, q, v = c.given("m"), c.given("n"), c.given("stride"), c.place("q"), c.place("v")
    end = c.up(m)
    with c.count(0, m.smallest(n)) as loop:
        k = loop.index
        tau, _ = reflector(c, q.by(k * apart), k, end, v)
        c.place("tau")[k] = tau
        reflect_columns(c, q, apart, v, (c.down(k), end), tau, k + 1, n)


def emit_orgqr(call: Call) -> None:
    """The only result becomes Q, of the reflections in operand 0 and tau in operand 1."""
    m, n = call.size(0)
    (a, tau), (result,) = call.operands, call.results
    q, packed, v = _orgqr_room(call.type, m, n).addresses(call)
    count, apart = array_of(call.instruction.operands[1]).dimensions[-1], stride(m, call.type)
    step(call, "bring", write_bring, MOVE, a, packed, m, count, apart)
    emit_product(call, (q, packed, tau, v), (m, n, apart, count))
    step(call, "take", write_take, MOVE, q, result, m, n, apart)


def emit_product(call: Call, places: Sequence[str], sizes: Sequence[int], *, below: int = 0) -> None:
    """Make Q of reflections in scratch: `places` are Q, what holds the reflections, tau and room for a column, `sizes` rows, columns and stride of Q and the number of reflections.

    The vector of reflection k has its 1 in row k + below.
    """
    step(call, "orgqr", write_orgqr, ORGQR, *places, *sizes, below)


def _orgqr_room(t: PrimitiveType, m: int, n: int) -> Room:
    return Room(t, ((m, n), (m, n), (m, 1)))


def write_orgqr(c: Code) -> None:
    """The routine behind it."""
    n, apart, q, end = c.given("n"), c.given("stride"), c.place("q"), c.up(c.given("m"))
    identity(c, q, apart, end, n)
    sizes = n, c.given("count"), end
    product_of_reflections(c, q, c.place("packed"), apart, c.place("tau"), c.place("v"), sizes, c.given("below"))


def _size(i: HloInstruction) -> tuple[int, int]:
    m, n = array_of(i.operands[0]).dimensions[-2:]
    return m, n


def nanoseconds(i: HloInstruction) -> float:
    """The time of one matrix of either routine."""
    m, n = _size(i)
    return 50.0 + 40.0 * n + m * n * min(m, n) * array_of(i.operands[0]).element_type.byte_size / 80


def _is_factored(i: HloInstruction) -> bool:
    m, n = _size(i)
    return is_small(i) and has_results(i, (m, n), (min(m, n),))


def _has_as_many(i: HloInstruction) -> bool:
    """Whether there are no more reflections than columns, and no more columns than rows, as LAPACK wants it."""
    m, n = _size(i)
    return is_small(i) and has_results(i, (m, n)) and array_of(i.operands[1]).dimensions[-1] <= n <= m


NATIVE["geqrf"] = Native(
    emit_geqrf,
    operands=(2,),
    results=(2, 1),
    nanoseconds=nanoseconds,
    fits=_is_factored,
    overwrites=(0,),
    scratch=lambda i: _geqrf_room(array_of(i.operands[0]).element_type, *_size(i)).bytes,
)
NATIVE["orgqr"] = Native(
    emit_orgqr,
    operands=(2, 1),
    results=(2,),
    nanoseconds=nanoseconds,
    fits=_has_as_many,
    scratch=lambda i: _orgqr_room(array_of(i.operands[0]).element_type, *_size(i)).bytes,
)
