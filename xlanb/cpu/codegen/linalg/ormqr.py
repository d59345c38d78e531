"""ormqr: a matrix times Q, from either side, Q the product of reflections or its transpose.

From the right c Q = (Q^T c^T)^T: the matrix is brought to scratch by rows.
"""

from __future__ import annotations

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.linalg.custom_call import NATIVE, Call, Native
from xlanb.cpu.codegen.linalg.householder import load_reflection, reflect_columns
from xlanb.cpu.codegen.linalg.qr import nanoseconds
from xlanb.cpu.codegen.linalg.scratch import (
    MOVE,
    Room,
    bring_transposed,
    has_results,
    is_small,
    step,
    take_transposed,
    write_bring,
    write_take,
)
from xlanb.cpu.codegen.linalg.values import Code, stride
from xlanb.evaluator.lapack import lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

ORMQR = tuple(f"ptr noalias %{p}" for p in ("c", "packed", "tau", "v"))
ORMQR += ("i64 %m", "i64 %n", "i64 %stride", "i64 %count", "i64 %forward")


def emit_ormqr(call: Call) -> None:
    """The only result becomes Q c or c Q of the reflections in operand 0, their tau, and c, operand 2."""
    (a, tau, c), (result,) = call.operands, call.results
    left, forward = _options(call.instruction)
    m, n = _sizes(call.instruction)
    count = array_of(call.instruction.operands[1]).dimensions[-1]
    rows, columns = call.size(2)
    moved, packed, v = _room(call.type, m, n, count).addresses(call)
    apart = stride(m, call.type)
    step(call, "bring", write_bring, MOVE, a, packed, m, count, apart)
    name, bring, take = ("", write_bring, write_take) if left else (".turned", write_bring_rows, write_take_rows)
    step(call, f"bring{name}", bring, MOVE, c, moved, rows, columns, apart)
    step(call, "ormqr", write_ormqr, ORMQR, moved, packed, tau, v, m, n, apart, count, int(forward))
    step(call, f"take{name}", take, MOVE, moved, result, rows, columns, apart)


def _options(i: HloInstruction) -> tuple[bool, bool]:
    """(whether Q stands at the left, whether its first reflection is the first that is applied to columns)."""
    options = lapack_options(i)
    left, transposed = bool(options.get("left", 1)), bool(options.get("transpose", 0))
    return left, transposed is left


def _sizes(i: HloInstruction) -> tuple[int, int]:
    """Rows and columns of c in scratch."""
    rows, columns = array_of(i.operands[2]).dimensions[-2:]
    return (rows, columns) if _options(i)[0] else (columns, rows)


def _room(t: PrimitiveType, m: int, n: int, count: int) -> Room:
    return Room(t, ((m, n), (m, count), (m, 1)))


def write_ormqr(c: Code) -> None:
    """The routine that applies reflections to a matrix in scratch, the first or the last of them first."""
    m, n, apart, count = (c.given(name) for name in ("m", "n", "stride", "count"))
    end, v, forward = c.up(m), c.place("v"), c.given("forward").same(1)
    with c.count(0, count) as loop:
        k = forward.pick(loop.index, count - 1 - loop.index)
        rows = load_reflection(c, c.place("packed").by(k * apart), k, end, v)
        reflect_columns(c, c.place("c"), apart, v, rows, c.place("tau")[k], c.whole(0), n)


def write_bring_rows(c: Code) -> None:
    """The routine that brings rows to scratch, as columns."""
    bring_transposed(c, c.place("source"), c.given("rows"), c.given("columns"), c.place("target"), c.given("stride"))


def write_take_rows(c: Code) -> None:
    """The routine that takes columns out of scratch, as rows."""
    take_transposed(c, c.place("source"), c.given("stride"), c.place("target"), c.given("rows"), c.given("columns"))


def _fits_ormqr(i: HloInstruction) -> bool:
    m, _ = _sizes(i)
    rows, columns = array_of(i.operands[0]).dimensions[-2:]
    count = array_of(i.operands[1]).dimensions[-1]
    return (
        is_small(i)
        and rows == m
        and count <= min(m, columns)
        and has_results(i, array_of(i.operands[2]).dimensions[-2:])
    )


NATIVE["ormqr"] = Native(
    emit_ormqr,
    operands=(2, 1, 2),
    results=(2,),
    nanoseconds=nanoseconds,
    fits=_fits_ormqr,
    scratch=lambda i: (
        _room(array_of(i.operands[0]).element_type, *_sizes(i), array_of(i.operands[1]).dimensions[-1]).bytes
    ),
)
