"""A compiled module as a self-contained object file: one thread, without xlanb's runtime."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

from xlanb.codegen.signature import ArraySpec, Signature
from xlanb.codegen.target import Target
from xlanb.cpu import lapack
from xlanb.cpu.codegen.program import Program
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_unit
from xlanb.errors import CompilationError, UnimplementedError
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

_T = PrimitiveType
C_TYPES = {
    _T.F32: "float", _T.F64: "double", _T.PRED: "uint8_t", _T.S8: "int8_t", _T.S16: "int16_t", _T.S32: "int32_t",
    _T.S64: "int64_t", _T.U8: "uint8_t", _T.U16: "uint16_t", _T.U32: "uint32_t", _T.U64: "uint64_t",
    _T.F16: "uint16_t", _T.BF16: "uint16_t", _T.C64: "float", _T.C128: "double",
}  # fmt: skip
"""C types of elements; types that C lacks are their bits, complex numbers two numbers."""
_LEVEL = 2
_WORDS = frozenset(
    "alignas alignof asm auto bool break case catch char class const constexpr continue decltype default "
    "delete do double else enum explicit "
    "export extern false float for friend goto if inline int long main mutable namespace new noexcept "
    "nullptr operator private protected "
    "public register restrict return short signed sizeof static struct switch template this throw true try "
    "typedef typeid typename "
    "typeof union unsigned using virtual void volatile while".split()
)
"""Words that cannot name a function in C or C++, which may include the header."""


@dataclass(frozen=True)
class ObjectCode:
    """An object file with one function, `void name(const void *const *, void *const *, void *)`.

    Attributes:
        name: The function's symbol.
        data: The file.
        target: The machine that it is for.
        signature: The module's name, parameters and result.
        temp_bytes: Bytes of memory that a call works in, aligned to 64 bytes.
        routines: Symbols of the LAPACK and BLAS routines that it calls.
    """

    name: str
    data: bytes
    target: Target
    signature: Signature
    temp_bytes: int
    routines: tuple[str, ...]

    @property
    def arguments(self) -> list[ArraySpec]:
        """The argument arrays, without tokens."""
        return [s for s in self.signature.arguments() if s is not None]

    @property
    def results(self) -> list[ArraySpec]:
        """The result arrays, without tokens."""
        return [s for s in self.signature.results() if s is not None]


def standalone(target: Target) -> Target:
    """The same machine for code without xlanb's runtime: one thread, which cannot be cancelled."""
    return replace(target, threads=1, polls=False)


def object_code(program: Program, signature: Signature, temp_size: int, name: str) -> ObjectCode:
    """The object file of a program that was emitted for a `standalone` target.

    Raises:
        CompilationError: `name` cannot be a C function, or LLVM rejects the code.
        UnimplementedError: The program calls a function of this process.
    """
    check_name(name)
    if program.host:
        instruction = next(iter(program.host.values()))
        raise UnimplementedError(
            f"the program calls a function of this process, which exported C code cannot call:\n  {instruction}"
        )
    text, routines = _with_lapack(_with_constants(program))
    if name != "run":  # a kernel of the same name is renamed
        text = re.sub(rf"@{name}(?![\w.$-])", f"@{name}.kernel", text)
    text = text.replace("define void @run(", f"define void @{name}(")
    unit = Unit(text, ready=False, weight=0)
    data = compile_unit(unit, program.target, relocation="pic", level=_LEVEL)
    temp = max(-(-temp_size // 64) * 64, 64)
    return ObjectCode(name, data, program.target, signature, temp, tuple(routines))


def check_name(name: str) -> None:
    """Raise CompilationError if a name cannot be that of a new function of C and C++."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise CompilationError(f"{name!r} is not a C identifier")
    if name in _WORDS:
        raise CompilationError(f"{name!r} is a C or C++ keyword: choose another name")
    if hasattr(ctypes.CDLL(None), name):
        raise CompilationError(f"{name!r} is a function of the C library: choose another name")


def c_type(spec: ArraySpec) -> str:
    """The C type of an array's elements."""
    return C_TYPES.get(spec.shape.element_type, "uint8_t")


def described(spec: ArraySpec) -> str:
    """An array in words, for a comment: its shape, count and type of numbers, order in memory."""
    count = spec.shape.element_count * (2 if spec.shape.element_type.is_complex else 1)
    order = "" if spec.order is None else f", dimensions {list(spec.order)} from slow to fast in memory"
    return f"{spec.shape.text(layout=False)}, {count} x {c_type(spec)}{order}"


def needed(code: ObjectCode) -> str:
    """The text of a header about the libraries that the code needs."""
    if not code.routines:
        return ""
    return (
        "\n *\n * The code calls LAPACK or BLAS: link a library that defines the symbols below, with "
        f"32-bit integers (-llapack -lblas, or -lopenblas).\n *   {' '.join(code.routines)}\n"
    )


def _with_constants(program: Program) -> str:
    """The program as one module that contains all of its constants."""
    text = program.text
    for name, memory in program.constants.items():
        kind = f"[{memory.size} x i8]"
        data = "".join(f"\\{b:02X}" for b in memory.tolist())
        text = text.replace(
            f"@{name} = external constant {kind}, align 64",
            f'@{name} = private constant {kind} c"{data}", align 64',
            1,
        )
    return text


def _with_lapack(text: str) -> tuple[str, list[str]]:
    """(The module with the symbols of a LAPACK library for C or Fortran, those symbols.)"""
    called = re.compile(rf"@{re.escape(lapack.PREFIX)}(?:serial\.)?(\w+)(?:\.\d+)?")
    return called.sub(r"@\1_", text), sorted({f"{routine}_" for routine in called.findall(text)})
