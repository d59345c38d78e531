"""A compiled module for C programs: object file, header and shared library, as TensorFlow's tfcompile made them."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xlanb.codegen.signature import ArraySpec
from xlanb.cpu import lapack
from xlanb.cpu.codegen.program import Program, emit_program
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_unit
from xlanb.errors import CompilationError, UnimplementedError
from xlanb.files import path_to_write
from xlanb.shape import PrimitiveType

if TYPE_CHECKING:
    from xlanb.cpu.executable import Executable

_T = PrimitiveType
_C_TYPES = {
    _T.F32: "float", _T.F64: "double", _T.PRED: "uint8_t", _T.S8: "int8_t", _T.S16: "int16_t", _T.S32: "int32_t", _T.S64: "int64_t",
    _T.U8: "uint8_t", _T.U16: "uint16_t", _T.U32: "uint32_t", _T.U64: "uint64_t", _T.F16: "uint16_t", _T.BF16: "uint16_t",
    _T.C64: "float", _T.C128: "double",
}  # fmt: skip
"""The C type of an element; numbers that C has no type for are their bits, complex ones two numbers."""
_LEVEL = 2
_WORDS = frozenset(
    "alignas alignof asm auto bool break case catch char class const constexpr continue decltype default delete do double else enum explicit "
    "export extern false float for friend goto if inline int long main mutable namespace new noexcept nullptr operator private protected "
    "public register restrict return short signed sizeof static struct switch template this throw true try typedef typeid typename "
    "typeof union unsigned using virtual void volatile while".split()
)
"""What no function can be called in C, or in C++, which may include the header."""


def export_c(exe: Executable, directory: str | Path, name: str) -> list[Path]:
    """See Executable.export_c."""
    _check_name(name)
    if exe.device_count > 1:
        raise UnimplementedError(
            f"{exe.hlo_module.name} runs on {exe.device_count} devices of this process: it cannot be exported to C"
        )
    if exe.program.host:
        instruction = next(iter(exe.program.host.values()))
        raise UnimplementedError(f"the program calls a function of this process, which C cannot:\n  {instruction}")
    # One thread that nobody stops: the code stands by itself.
    target = replace(exe.target, threads=1, polls=False)
    program = emit_program(exe.buffer_assignment, target)
    text, routines = _with_lapack(_with_constants(program))
    if name != "run":  # a kernel of the same name gives way
        text = re.sub(rf"@{name}(?![\w.$-])", f"@{name}.kernel", text)
    text = text.replace("define void @run(", f"define void @{name}(")
    folder = path_to_write(directory)
    folder.mkdir(parents=True, exist_ok=True)
    compiled = folder / f"{name}.o"
    compiled.write_bytes(compile_unit(Unit(text, ready=False, weight=0), target, relocation="pic", level=_LEVEL))
    header = folder / f"{name}.h"
    header.write_text(_header(exe, name, routines))
    made = [compiled, header]
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is not None:
        library = folder / f"lib{name}.so"
        done = subprocess.run(
            [compiler, "-shared", "-o", str(library), str(compiled), "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CompilationError(f"{compiler} makes no shared library:\n{done.stderr}")
        made.append(library)
    return made


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise CompilationError(f"{name!r} is no C identifier")
    if name in _WORDS:
        raise CompilationError(f"{name!r} is a word of C or C++: choose another name")
    if hasattr(ctypes.CDLL(None), name):
        raise CompilationError(f"{name!r} is a function of the C library: choose another name")


def _with_constants(program: Program) -> str:
    """The program as one module with all of its constants in it."""
    text = program.text
    for name, memory in program.constants.items():
        kind = f"[{memory.size} x i8]"
        data = "".join(f"\\{b:02X}" for b in memory.tolist())
        text = text.replace(
            f"@{name} = external constant {kind}, align 64", f'@{name} = private constant {kind} c"{data}", align 64', 1
        )
    return text


def _with_lapack(text: str) -> tuple[str, list[str]]:
    """(The module with the names that a LAPACK library for C or Fortran has, those names.)"""
    called = re.compile(rf"@{re.escape(lapack.PREFIX)}(?:serial\.)?(\w+)")
    return called.sub(r"@\1_", text), sorted({f"{routine}_" for routine in called.findall(text)})


def _header(exe: Executable, name: str, routines: Sequence[str]) -> str:
    arguments = [s for s in exe.calls.arguments if s is not None]
    results = [s for s in exe.calls.results if s is not None]
    names = [*(f"argument{k}" for k in range(len(arguments))), *(f"result{k}" for k in range(len(results)))]
    specs = (*arguments, *results)
    parameters = [
        f"{'const ' if k < len(arguments) else ''}{_c_type(s)} *{n}"
        for k, (n, s) in enumerate(zip(names, specs, strict=True))
    ]
    described = [f" *   {n}: {_described(s)}" for n, s in zip(names, specs, strict=True)]
    temp = max(-(-exe.buffer_assignment.temp_size // 64) * 64, 64)
    upper = name.upper()
    return f"""/* {exe.calls.signature.name}, compiled by xlanb for {exe.target.triple}, {exe.target.cpu}.{_needed(routines)} */
#ifndef XLANB_{upper}_H
#define XLANB_{upper}_H

#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* Bytes of memory that a call works in, aligned to 64. */
#define {upper}_TEMP_BYTES {temp}

/* The function itself: addresses of the arrays that go in, of those that come out, and of {upper}_TEMP_BYTES bytes. The arrays that come
 * out overlap nothing. It may run on several threads at once, each with memory of its own. */
void {name}(const void *const *arguments, void *const *results, void *temp);

/* The same with an argument for each array; 0, or -1 where there is no memory.
 *
{chr(10).join(described)}
 */
static inline int {name}_call({", ".join(parameters) or "void"}) {{
  const void *arguments[] = {{{_list(names[: len(arguments)])}}};
  void *results[] = {{{_list(names[len(arguments) :])}}};
  void *temp = aligned_alloc(64, {upper}_TEMP_BYTES);
  if (!temp) return -1;
  {name}(arguments, results, temp);
  free(temp);
  return 0;
}}

#ifdef __cplusplus
}}
#endif

#endif
"""


def _needed(routines: Sequence[str]) -> str:
    """What the header says of LAPACK."""
    if not routines:
        return ""
    return (
        "\n *\n * The code calls LAPACK or BLAS: link a library that defines the symbols below, with 32-bit integers"
        f" (-llapack -lblas, or -lopenblas).\n *   {' '.join(routines)}\n"
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "0"


def _c_type(spec: ArraySpec) -> str:
    return _C_TYPES.get(spec.shape.element_type, "uint8_t")


def _described(spec: ArraySpec) -> str:
    count = spec.shape.element_count * (2 if spec.shape.element_type.is_complex else 1)
    order = "" if spec.order is None else f", dimensions {list(spec.order)} from slow to fast in memory"
    return f"{spec.shape.text(layout=False)}, {count} x {_c_type(spec)}{order}"
