"""The opcodes cholesky and triangular-solve by the routines of LAPACK's. A matrix by rows is its transpose by columns: the other triangle of it, on the other side."""

from __future__ import annotations

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.ir import Function
from xlanb.cpu.codegen.linalg import cholesky, triangular
from xlanb.cpu.codegen.linalg.columns import Columns
from xlanb.cpu.codegen.linalg.custom_call import OPCODES, Call, Native, Together, is_by_rows
from xlanb.cpu.codegen.linalg.side_by_side import LINE
from xlanb.cpu.codegen.linalg.triangular import System
from xlanb.cpu.codegen.types import float_text
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

_FINISH = ("ptr noalias %a", "i64 %n", "i64 %count", "ptr noalias readonly %info")


def _by_rows(i: HloInstruction, operand: int) -> bool:
    """Whether an operand lies row after row; a matrix of one row or column may do so and not."""
    return is_by_rows(array_of(i.operands[operand]))


def _type(i: HloInstruction) -> PrimitiveType:
    return array_of(i.operands[0]).element_type


def _bytes(i: HloInstruction) -> int:
    return _type(i).byte_size


# -- cholesky -----------------------------------------------------------------------------------------------------


def _n(i: HloInstruction) -> int:
    return array_of(i.operands[0]).dimensions[-1]


def _is_upper(i: HloInstruction) -> bool:
    """Whether it is the upper triangle of what lies column after column."""
    return bool(i.get("lower")) == _by_rows(i, 0)


def _factor_scratch(i: HloInstruction) -> int:
    return cholesky.scratch_bytes(_n(i), _bytes(i), upper=_is_upper(i))


def _emit_cholesky(call: Call) -> None:
    i = call.instruction
    info = call.address(call.scratch, _factor_scratch(i) // _bytes(i))
    cholesky.emit_factor(call, _n(i), call.results[0], info, upper=_is_upper(i))
    _emit_finish(call, info)


def _emit_small_cholesky(call: Call) -> None:
    i = call.instruction
    info = call.address(call.scratch, cholesky.scratch_together(i) // _bytes(i))
    cholesky.emit_small(call, _n(i), call.operands[0], call.results[0], info, upper=_is_upper(i))
    _emit_finish(call, info)


def _emit_finish(call: Call, info: str) -> None:
    upper = _is_upper(call.instruction)
    call.routine(
        f"cholesky.{'upper' if upper else 'lower'}",
        lambda f: _write_finish(f, call.type, upper=upper),
        _FINISH,
        call.results[0], _n(call.instruction), call.count, info,
    )  # fmt: skip


def _write_finish(f: Function, t: PrimitiveType, *, upper: bool) -> None:
    """The routine: zeros in the other triangle, and nothing but NaN in a matrix that was not positive definite.

    A NaN in the triangle that is read reaches the last pivot.
    """
    c = Columns(f, t)
    size = c.index("mul", "%n", "%n")
    last = c.index("sub", size, 1)
    with f.loop("%count", guarded=True) as b:
        matrix = c.at("%a", c.index("mul", b, size))
        info = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr %info, i64 {b}')}")
        pivot = c.scalar(c.at(matrix, last))
        has_nan = f.let(f"fcmp uno {c.element} {pivot}, {pivot}")
        failed = f.let(f"or i1 {has_nan}, {f.let(f'icmp ne i32 {info}, 0')}")
        with f.loop("%n", guarded=True) as j, f.loop(c.rounds("%n", c.lanes), guarded=True) as block:
            row = c.index("mul", block, c.lanes)
            mask = c.v.first(c.index("sub", "%n", row))
            here = c.at(matrix, c.index("add", c.index("mul", j, "%n"), row))
            below = c.from_lane(c.index("sub", c.index("add", j, int(upper)), row))
            kept = ("zeroinitializer", c.load(here, mask)) if upper else (c.load(here, mask), "zeroinitializer")
            made = f.let(f"select <{c.lanes} x i1> {below}, {c.v.kind} {kept[0]}, {c.v.kind} {kept[1]}")
            nothing = c.v.splat(float_text(float("nan"), c.element))
            c.store(here, f.let(f"select i1 {failed}, {c.v.kind} {nothing}, {c.v.kind} {made}"), mask)


OPCODES[Op.CHOLESKY] = Native(
    _emit_cholesky,
    operands=(2,),
    results=(2,),
    nanoseconds=lambda i: cholesky.nanoseconds(_n(i)),
    fits=lambda i: array_of(i.operands[0]).dimensions[-2] == _n(i),
    overwrites=(0,),
    scratch=lambda i: _factor_scratch(i) + LINE,
    together=Together(
        _emit_small_cholesky,
        matrices=cholesky.enough,
        scratch=lambda i: cholesky.scratch_together(i) + LINE,
        nanoseconds=lambda i: cholesky.nanoseconds_together(_n(i)),
    ),
)


# -- triangular-solve ---------------------------------------------------------------------------------------------


def _system(i: HloInstruction) -> System:
    """The system of what lies column after column."""
    flip = _by_rows(i, 0)
    lower = bool(i.get("lower")) != flip
    transposed = (str(i.get("transpose_a") or "NO_TRANSPOSE") != "NO_TRANSPOSE") != flip
    left = bool(i.get("left_side"))
    if _by_rows(i, 1):  # op(a) x = b is x^T op(a)^T = b^T
        left, transposed = not left, not transposed
    return System(left=left, lower=lower, transposed=transposed, unit=bool(i.get("unit_diagonal")))


def _sizes(i: HloInstruction) -> tuple[int, int]:
    """The order of a, and the number of right-hand sides."""
    rows, columns = array_of(i.operands[1]).dimensions[-2:]
    return (rows, columns) if i.get("left_side") else (columns, rows)


def _fits(i: HloInstruction) -> bool:
    rows, columns = array_of(i.operands[0]).dimensions[-2:]
    return rows == columns == _sizes(i)[0]


def _emit_system(call: Call) -> None:
    i = call.instruction
    triangular.emit_system(call, _system(i), *_sizes(i), call.operands[0], call.results[0])


def _emit_small_system(call: Call) -> None:
    i = call.instruction
    triangular.emit_small(call, _system(i), *_sizes(i), call.operands[0], call.operands[1], call.results[0])


OPCODES[Op.TRIANGULAR_SOLVE] = Native(
    _emit_system,
    operands=(2, 2),
    results=(2,),
    nanoseconds=lambda i: triangular.nanoseconds(*_sizes(i)),
    fits=_fits,
    overwrites=(1,),
    scratch=lambda i: triangular.scratch_bytes(*_sizes(i), _system(i), _bytes(i)),
    together=Together(
        _emit_small_system,
        matrices=lambda i: triangular.enough(_type(i), *_sizes(i)),
        scratch=lambda i: triangular.scratch_together(_type(i), *_sizes(i)),
        nanoseconds=lambda i: triangular.nanoseconds_together(*_sizes(i)),
    ),
)
