"""QR of small matrices: geqrf, a = Q R by reflections of columns, and orgqr, as many columns of Q as are wanted.

Matrices are brought to scratch memory, where columns are whole vectors. Reflections are LAPACK's: R, below it the
vectors v, beside it their factors tau. LAPACK works in blocks, which pays from some 200 rows on.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.function import Ix
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, Room, parameters, step, stride
from xlanb.cpu.emitters.linalg.padded import MOVE, identity, write_bring, write_take
from xlanb.cpu.emitters.linalg.reflections import product_of_reflections, reflect_columns, reflector
from xlanb.cpu.emitters.linalg.routine import CUSTOM_CALLS, Call, Way, element_type, size_of, small
from xlanb.cpu.emitters.linalg.table import geqrf_signature, orgqr_signature, reflections_of
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

GEQRF = parameters("q tau v", "m n stride")
ORGQR = parameters("q packed tau v", "m n stride count below")


def emit_geqrf(call: Call) -> None:
    """Factor the first result in place; the second one is tau."""
    m, n = size_of(call.instruction)
    a, tau = call.results
    q, v = _geqrf_room(call.type, m, n).addresses(call)
    sizes = (m, n, stride(m, call.type))
    step(call, "bring", write_bring, MOVE, a, q, *sizes)
    step(call, "geqrf", write_geqrf, GEQRF, q, tau, v, *sizes)
    step(call, "take", write_take, MOVE, q, a, *sizes)


def _geqrf_room(t: PrimitiveType, m: int, n: int) -> Room:
    return Room(t, ((m, n), (m, 1)))


def write_geqrf(c: Columns) -> None:
    """The routine that factors a matrix in scratch."""
    m, n, apart, q, v = c.given("m"), c.given("n"), c.given("stride"), c.place("q"), c.place("v")
    end = c.up(m)
    with c.count(0, m.smin(n)) as loop:
        k = loop.index
        tau, _ = reflector(c, q.by(k * apart), k, end, v)
        c.place("tau")[k] = tau
        reflect_columns(c, q, apart, v, (c.down(k), end), tau, k + 1, n)


def emit_orgqr(call: Call) -> None:
    """The only result becomes Q, of the reflections in operand 0 and tau in operand 1."""
    m, n = size_of(call.instruction)
    (a, tau), (result,) = call.operands, call.results
    q, packed, v = _orgqr_room(call.type, m, n).addresses(call)
    count, apart = reflections_of(call.instruction), stride(m, call.type)
    step(call, "bring", write_bring, MOVE, a, packed, m, count, apart)
    emit_product(call, (q, packed, tau, v), (m, n, apart, count))
    step(call, "take", write_take, MOVE, q, result, m, n, apart)


def emit_product(call: Call, places: Sequence[Value], sizes: Sequence[Ix], *, below: int = 0) -> None:
    """Make Q of reflections in scratch: `places` are Q, what holds the reflections, tau and room for a column, `sizes` rows, columns and stride of Q and the number of reflections.

    The vector of reflection k has its 1 in row k + below.
    """
    step(call, "orgqr", write_orgqr, ORGQR, *places, *sizes, below)


def _orgqr_room(t: PrimitiveType, m: int, n: int) -> Room:
    return Room(t, ((m, n), (m, n), (m, 1)))


def write_orgqr(c: Columns) -> None:
    """The routine behind it."""
    n, apart, q, end = c.given("n"), c.given("stride"), c.place("q"), c.up(c.given("m"))
    identity(c, q, apart, end, n)
    sizes = n, c.given("count"), end
    product_of_reflections(c, q, c.place("packed"), apart, c.place("tau"), c.place("v"), sizes, c.given("below"))


def nanoseconds(i: HloInstruction) -> float:
    """The time of one matrix of either routine."""
    m, n = size_of(i)
    return 50.0 + 40.0 * n + m * n * min(m, n) * element_type(i).byte_size / 80


CUSTOM_CALLS["geqrf"].insert(
    0,
    Way(
        small(geqrf_signature),
        emit_geqrf,
        nanoseconds,
        lambda i: _geqrf_room(element_type(i), *size_of(i)).bytes,
        (0,),
    ),
)
CUSTOM_CALLS["orgqr"].insert(
    0, Way(small(orgqr_signature), emit_orgqr, nanoseconds, lambda i: _orgqr_room(element_type(i), *size_of(i)).bytes)
)
