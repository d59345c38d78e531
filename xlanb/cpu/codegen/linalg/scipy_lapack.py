"""geev, gees and gehrd: calls of SciPy's LAPACK, as XLA:CPU makes them; matrix after matrix of a batch, with no Python between.

A matrix with numbers that are not finite is not handed to LAPACK, whose iterations may not end then: its results are NaN, and info says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.ir import Function
from xlanb.cpu.codegen.linalg.custom_call import NATIVE, Call, Native
from xlanb.cpu.codegen.linalg.values import LINE, Code
from xlanb.cpu.codegen.types import part
from xlanb.cpu.lapack import PREFIX, workspace
from xlanb.evaluator.lapack import lapack_name, lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

_NUMBERS = 4 * LINE
"""Bytes of scratch for the integers and letters, whose addresses Fortran is given."""
_NOT_FINITE = -4
FINITE = ("ptr %a", "i64 %count", "ptr %sum")
PAIRS = ("ptr %v", "ptr %imaginary", "ptr %result", "i64 %n")


@dataclass(frozen=True)
class _Array:
    """An argument that is an array: result `result`, or scratch of so many bytes."""

    bytes: int = 0
    result: int | None = None


_Argument = int | str | _Array | None
"""An argument of a routine: an integer, a letter, an array; None is a null pointer, or the info."""


@dataclass(frozen=True)
class _Plan:
    """A routine with its arguments; its info is the last of them, `scratch` all that they take."""

    routine: str
    arguments: tuple[_Argument, ...]

    @property
    def scratch(self) -> int:
        """Bytes for the numbers and the arrays that are no results."""
        return _NUMBERS + sum(_lines(a.bytes) for a in self.arguments if isinstance(a, _Array) and a.result is None)


def _lines(size: int) -> int:
    return -(-size // LINE) * LINE


def _letter(i: HloInstruction) -> str:
    return (lapack_name(str(i.get("custom_call_target"))) or ("", ""))[0]


def _planned(i: HloInstruction, name: str, arguments: Sequence[_Argument], work: int) -> _Plan:
    """The plan of a routine whose argument `work` is the workspace, its size behind it."""
    routine, dtype = _letter(i) + name, array_of(i.operands[0]).element_type.dtype
    asked = tuple(None if isinstance(a, _Array) else a for a in arguments)
    size = workspace(routine, asked, work, dtype.str)
    room = _Array(size * dtype.itemsize)
    return _Plan(routine, (*arguments[:work], room, size, *arguments[work + 2 :]))


def _order(i: HloInstruction) -> int:
    return array_of(i.operands[0]).dimensions[-1]


def _bytes(i: HloInstruction) -> tuple[int, int]:
    """(Of a number, of its real part.)"""
    t = array_of(i.operands[0]).element_type
    return t.byte_size, part(t).byte_size


def _geev(i: HloInstruction) -> _Plan:
    n, (size, real), options = _order(i), _bytes(i), lapack_options(i)
    letters = [chr(options["compute_left"]), chr(options["compute_right"])]
    matrix, is_complex = _Array(n * n * size), size != real
    if is_complex:
        vectors: list[_Argument] = [_Array(result=1), n, _Array(result=2), n]
        rest = [*letters, n, matrix, n, _Array(result=0), *vectors, _Array(), 0, _Array(2 * n * real), _Array(result=3)]
        return _planned(i, "geev", rest, 10)
    vectors = [matrix, n, matrix, n]
    values = [_Array(result=0), _Array(result=1)]
    return _planned(i, "geev", [*letters, n, matrix, n, *values, *vectors, _Array(), 0, _Array(result=4)], 11)


def _gees(i: HloInstruction) -> _Plan:
    n, (size, real), options = _order(i), _bytes(i), lapack_options(i)
    is_complex = size != real
    count = 1 if is_complex else 2
    values: list[_Argument] = [_Array(result=2 + k) for k in range(count)]
    head: list[_Argument] = [chr(options["mode"]), "N", None, n, _Array(result=0), n, _Array(result=2 + count)]
    rest: list[_Argument] = [_Array(n * real)] if is_complex else []
    arguments: list[_Argument] = [
        *head,
        *values,
        _Array(result=1),
        n,
        _Array(),
        0,
        *rest,
        None,
        _Array(result=3 + count),
    ]
    return _planned(i, "gees", arguments, len(head) + count + 2)


def _gehrd(i: HloInstruction) -> _Plan:
    n, options = _order(i), lapack_options(i)
    arguments: list[_Argument] = [
        n,
        options["low"],
        options["high"],
        _Array(result=0),
        n,
        _Array(result=1),
        _Array(),
        0,
    ]
    return _planned(i, "gehrd", [*arguments, _Array(result=2)], 6)


def _call(call: Call, plan: _Plan) -> list[str]:
    """Call the routine; the addresses of its arguments."""
    f, at, room = call.f, 0, _NUMBERS
    addresses: list[str] = []
    for a in plan.arguments:
        if isinstance(a, _Array):
            if a.result is None:
                addresses.append(f.let(f"getelementptr i8, ptr {call.scratch}, i64 {room}"))
                room += _lines(a.bytes)
            else:
                addresses.append(call.results[a.result])
            continue
        if a is None:
            addresses.append("null")
            continue
        addresses.append(f.let(f"getelementptr i8, ptr {call.scratch}, i64 {at}"))
        f.do(f"store {f'i8 {ord(a)}' if isinstance(a, str) else f'i32 {a}'}, ptr {addresses[-1]}")
        at += 8
    f.module.declare("void", f"{PREFIX}{plan.routine}", ", ".join(["ptr"] * len(addresses)))
    f.do(f"call void @{PREFIX}{plan.routine}({', '.join(f'ptr {a}' for a in addresses)})")
    return addresses


def _fill(f: Function, address: str, byte: int, size: int) -> None:
    f.module.declare("void", "llvm.memset.p0.i64", "ptr, i8, i64, i1")
    f.do(f"call void @llvm.memset.p0.i64(ptr {address}, i8 {byte}, i64 {size}, i1 false)")


def _emit(
    plan: Callable[[HloInstruction], _Plan], prepare: Callable[[Call], str], finish: Callable[[Call, list[str]], None]
) -> Callable[[Call], None]:
    """What writes a call: `prepare` gives the address of the matrix, `finish` makes results of what LAPACK left in scratch."""

    def emit(call: Call) -> None:
        f, i = call.f, call.instruction
        n = _order(i)
        source = prepare(call)
        number, real = _real(call.type), part(call.type)
        count = n * n * (call.type.byte_size // real.byte_size)
        f.do(f"store {number} 0.0, ptr {call.scratch}")
        call.routine("is.finite", lambda g: write_finite(Code(g, real)), FINITE, source, count, call.scratch)
        total = f.let(f"load {number}, ptr {call.scratch}")
        finite, other = (f.let(f"fcmp {how} {number} {total}, 0.0") for how in ("oeq", "une"))
        with f.when(finite):
            finish(call, _call(call, plan(i)))
        with f.when(other):
            for address, size in zip(call.results, _sizes(i), strict=True):
                _fill(f, address, 0xFF, size)
            f.do(f"store i32 {_NOT_FINITE}, ptr {call.results[-1]}")

    return emit


def _sizes(i: HloInstruction) -> list[int]:
    """Bytes of each result for one matrix."""
    batch = array_of(i.operands[0]).rank - 2
    shapes = [s.as_array() for _, s in i.shape.leaves()]
    return [_product(s.dimensions[batch:]) * s.element_type.byte_size for s in shapes]


def _product(dims: Sequence[int]) -> int:
    found = 1
    for d in dims:
        found *= d
    return found


def _real(t: PrimitiveType) -> str:
    return "float" if part(t).byte_size == 4 else "double"


def write_finite(c: Code) -> None:
    """The routine that adds 0 times each number to %sum: 0 where all are finite, NaN otherwise."""
    a, total = c.place("a"), c.place("sum")
    with c.count(0, c.given("count"), [c.real(0.0)]) as loop:
        loop.next = [loop.values[0] + a[loop.index] * 0.0]
    total[0] = loop.values[0]


def write_pairs(c: Code) -> None:
    """The routine that makes complex eigenvectors of LAPACK's real ones: those of a pair are v[j] + i v[j + 1] and its conjugate."""
    n, v, imaginary, result = c.given("n"), c.place("v"), c.place("imaginary"), c.place("result")
    with c.count(0, n) as column:
        j = column.index
        first, second = imaginary[j] > 0.0, imaginary[j] < 0.0
        real, other = v.by(second.pick(j - 1, j) * n), v.by(first.pick(j + 1, j) * n)
        sign = first.pick(c.real(1.0), second.pick(c.real(-1.0), c.real(0.0)))
        into = result.by(j * n * 2)
        with c.count(0, n) as row:
            r = row.index
            into[r * 2], into[r * 2 + 1] = real[r], other[r] * sign


def _copied(call: Call) -> str:
    """The matrix in scratch, where geev may destroy it."""
    f, i = call.f, call.instruction
    n = _order(i)
    where = f.let(f"getelementptr i8, ptr {call.scratch}, i64 {_NUMBERS}")
    f.module.declare("void", "llvm.memcpy.p0.p0.i64", "ptr, ptr, i64, i1")
    size = n * n * call.type.byte_size
    f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {where}, ptr {call.operands[0]}, i64 {size}, i1 false)")
    return where


def _in_place(call: Call) -> str:
    """The matrix where the first result is to be."""
    return call.results[0]


def _nothing(call: Call, arguments: list[str]) -> None:
    """LAPACK left all results in their places."""
    del call, arguments


def _vectors(call: Call, arguments: list[str]) -> None:
    """The eigenvectors that were asked for; zeros in place of the others."""
    i = call.instruction
    options, sizes, is_complex = lapack_options(i), _sizes(i), call.type.is_complex
    for k, (option, result) in enumerate((("compute_left", -3), ("compute_right", -2))):
        wanted, address = options[option] == ord("V"), call.results[result]
        if not wanted:
            _fill(call.f, address, 0, sizes[result])
        elif not is_complex:
            given = (arguments[7 + 2 * k], call.results[1], address, _order(i))
            call.routine("eigenvectors", lambda g: write_pairs(Code(g, call.type)), PAIRS, *given)


def _schur_vectors(call: Call, arguments: list[str]) -> None:
    if lapack_options(call.instruction)["mode"] != ord("V"):
        _fill(call.f, call.results[1], 0, _sizes(call.instruction)[1])


def _fits(i: HloInstruction, *names: str) -> bool:
    """Whether the matrices are square and the options there."""
    rows, columns = array_of(i.operands[0]).dimensions[-2:]
    options = lapack_options(i)
    modes = [options[n] for n in names if n in options and not n.startswith(("low", "high"))]
    return rows == columns and all(n in options for n in names) and all(m in (ord("V"), ord("N")) for m in modes)


def _fits_gehrd(i: HloInstruction) -> bool:
    options, n = lapack_options(i), _order(i)
    return _fits(i, "low", "high") and 1 <= options["low"] <= options["high"] <= n and n > 1


def _nanoseconds(i: HloInstruction) -> float:
    n = _order(i)
    return 3000.0 + 100.0 * n * n + 5.0 * n**3


def _add(
    name: str,
    plan: Callable[[HloInstruction], _Plan],
    emit: Callable[[Call], None],
    results: tuple[int, ...],
    complex_results: tuple[int, ...],
    fits: Callable[[HloInstruction], bool],
    overwrites: tuple[int, ...] = (),
) -> None:
    """The row of a routine; see Native."""
    NATIVE[name] = Native(
        emit,
        operands=(2,),
        results=results,
        complex_results=complex_results,
        nanoseconds=_nanoseconds,
        fits=fits,
        overwrites=overwrites,
        scratch=lambda i: plan(i).scratch,
    )


_add(
    "geev",
    _geev,
    _emit(_geev, _copied, _vectors),
    (1, 1, 2, 2, 0),
    (1, 2, 2, 0),
    lambda i: _fits(i, "compute_left", "compute_right"),
)
_add(
    "gees",
    _gees,
    _emit(_gees, _in_place, _schur_vectors),
    (2, 2, 1, 1, 0, 0),
    (2, 2, 1, 0, 0),
    lambda i: _fits(i, "mode"),
    (0,),
)
_add("gehrd", _gehrd, _emit(_gehrd, _in_place, _nothing), (2, 1, 0), (2, 1, 0), _fits_gehrd, (0,))
