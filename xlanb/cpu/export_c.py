"""A compiled module for C programs: object file, header and shared library."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xlanb.cpu.codegen.program import emit_program
from xlanb.cpu.object_code import (
    ObjectCode,
    c_type,
    check_name,
    described,
    needed,
    object_code,
    standalone,
)
from xlanb.errors import CompilationError, UnimplementedError
from xlanb.files import path_to_write

if TYPE_CHECKING:
    from xlanb.cpu.executable import Executable


def export_c(exe: Executable, directory: str | Path, name: str) -> list[Path]:
    """See Executable.export_c."""
    check_name(name)
    if exe.device_count > 1:
        raise UnimplementedError(
            f"cannot export {exe.hlo_module.name} to C: it runs on {exe.device_count} devices; only "
            "programs for one device can be exported"
        )
    program = emit_program(exe.buffer_assignment, standalone(exe.target))
    code = object_code(program, exe.calls.signature, exe.buffer_assignment.temp_size, name)
    folder = path_to_write(directory)
    folder.mkdir(parents=True, exist_ok=True)
    compiled = folder / f"{name}.o"
    compiled.write_bytes(code.data)
    header = folder / f"{name}.h"
    header.write_text(_header(code))
    made = [compiled, header]
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is not None:
        library = folder / f"lib{name}.so"
        done = subprocess.run(
            [compiler, "-shared", "-o", str(library), str(compiled), "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CompilationError(f"{compiler} could not build a shared library:\n{done.stderr}")
        made.append(library)
    return made


def _header(code: ObjectCode) -> str:
    name, arguments, results = code.name, code.arguments, code.results
    names = [*(f"argument{k}" for k in range(len(arguments))), *(f"result{k}" for k in range(len(results)))]
    specs = (*arguments, *results)
    parameters = [
        f"{'const ' if k < len(arguments) else ''}{c_type(s)} *{n}"
        for k, (n, s) in enumerate(zip(names, specs, strict=True))
    ]
    comments = [f" *   {n}: {described(s)}" for n, s in zip(names, specs, strict=True)]
    upper = name.upper()
    return f"""/* {code.signature.name}, compiled by xlanb for {code.target.triple}, {code.target.cpu}.{needed(code)} */
#ifndef XLANB_{upper}_H
#define XLANB_{upper}_H

#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* Bytes of memory that a call works in, aligned to 64. */
#define {upper}_TEMP_BYTES {code.temp_bytes}

/* The function itself: addresses of the argument arrays, of the result arrays, and of
 * {upper}_TEMP_BYTES bytes. The result arrays must not overlap anything. It may run on several
 * threads at once, each with its own memory. */
void {name}(const void *const *arguments, void *const *results, void *temp);

/* The same with an argument for each array; 0, or -1 where there is no memory.
 *
{chr(10).join(comments)}
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


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "0"
