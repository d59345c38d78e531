"""Compile LLVM IR to callable machine code; optimized IR and assembly on demand."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any

from xlanb.codegen import llvm, translation
from xlanb.codegen.cpus import code_threads
from xlanb.codegen.target import Target, has_pool
from xlanb.errors import CompilationError

_LOCK = threading.RLock()


_READ_ONLY = Target(
    "x86_64-unknown-linux-gnu",
    "x86-64",
    "",
    "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128",
)
"""The machine that LLVM IR is emitted for if LLVM is not installed."""


@cache
def host() -> Target:
    """The machine of this process; without llvmlite a generic x86-64, whose code cannot be run."""
    if not llvm.is_installed():
        return _READ_ONLY
    with _LOCK:
        return _host()


@cache
def _host() -> Target:
    c = llvm.library()
    c.InitializeNativeTarget()
    c.InitializeNativeAsmPrinter()
    triple, cpu = llvm.text_of(c.GetProcessTriple), llvm.text_of(c.GetHostCPUName)
    found = llvm.text_of(c.GetHostCPUFeatures)
    if "+amx-tile" in found and not _may_use_tiles(triple):
        found = found.replace("+amx", "-amx")
    features = ",".join(sorted(found.split(","), key=lambda f: f[1:]))
    plain = Target(triple, cpu, features, "")
    owned = llvm.Owned()
    try:
        with llvm.target_machine(llvm.TargetModel(plain, 3)) as machine:
            data = owned.take(c.DisposeTargetData, c.CreateTargetMachineData, machine)
        layout = llvm.text_of(c.CopyStringRepOfTargetData, data)
    finally:
        owned.free()
    return Target(triple, cpu, features, layout, code_threads() if has_pool(triple) else 1)


_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
"""Linux's number of arch_prctl; its ARCH_REQ_XCOMP_PERM; the number of AMX's registers."""


def _may_use_tiles(triple: str) -> bool:
    """Ask Linux for the use of AMX's registers by all threads of this process.

    Source: https://docs.kernel.org/arch/x86/xstate.html
    """
    if not (has_pool(triple) and triple.startswith("x86_64")):
        return False
    given: int = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA)
    return given == 0


# -- linking ---------------------------------------------------------------------------------------

_LIBRARIES = 32
"""Libraries per linker.

LLVM keeps about 9 KiB of each until its linker is destroyed, even after the library has been
unloaded; a new linker takes a millisecond.
"""

_linkers: list[Any] = []
"""LLJITs; the last one is current. A library keeps its own alive."""
_numbers = itertools.count()
_unused: list[int] = []
"""Libraries whose code was garbage-collected; they are unloaded when the next one is loaded.

A finalizer could not propagate exceptions of signal handlers.
"""


def _linker(number: int) -> int:
    """The linker for the library with this number."""
    c = llvm.library()
    if not _linkers or number % _LIBRARIES == 0:
        with llvm.message() as output, llvm.target_machine(llvm.TargetModel(host(), 1)) as machine:
            _linkers.extend(itertools.starmap(c.CreateLLJITCompiler, [(machine, True, False, output.place)]))
            if _linkers[-1] is None:
                del _linkers[-1]
                raise CompilationError(f"LLVM cannot create a linker:\n{output}")
        while len(_linkers) > 1:
            c.LLJITDispose(_linkers.pop(0))
    found: int = _linkers[-1]
    return found


def _unload() -> None:
    """Unload libraries that are no longer used."""
    while _unused:
        with llvm.message() as output:
            llvm.library().LLJIT_Dylib_Tracker_Dispose(_unused.pop(), output.place)


class _Element(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_uint8), ("data", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Symbol(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("address", ctypes.c_uint64))


_OBJECT, _LIBRARY = 2, 3
"""Kinds of elements: an object file, or a library by name (empty: this process)."""


class LoadedCode:
    """Object files linked into this process: `function(name, parameters)` calls their exports.

    `symbols` are the addresses of external symbols; `kept` is kept alive as long as the code is,
    and so is the code by returned functions.

    Raises:
        CompilationError: A symbol is missing.
    """

    _trackers: Sequence[int] = ()

    def __init__(
        self,
        files: Sequence[bytes],
        exports: Sequence[str],
        symbols: Mapping[str, int] | None = None,
        kept: Any = None,
    ) -> None:
        self._kept = kept
        elements = [*(_Element(_OBJECT, data, len(data)) for data in files), _Element(_LIBRARY, b"", 0)]
        given = [_Symbol(name.encode(), address) for name, address in (symbols or {}).items()]
        wanted = [_Symbol(name.encode(), 0) for name in exports]
        arrays = (_Element * len(elements))(*elements), (_Symbol * len(given))(*given), (_Symbol * len(wanted))(*wanted)
        made: list[Any] = []
        self._trackers = made
        with _LOCK:
            _unload()
            number = next(_numbers)
            linker, name = _linker(number), f"xlanb{number}".encode()
            with llvm.message() as output:
                arguments = linker, name, *(x for array in arrays for x in (array, len(array))), output.place
                made.extend(itertools.starmap(llvm.library().LLJIT_Link, [arguments]))  # one bytecode: see llvm.Owned
                if made[0] is None:
                    made.clear()
                    raise CompilationError(f"the machine code cannot be loaded:\n{output}")
        self._addresses = {name: int(f.address) for name, f in zip(exports, arrays[2], strict=True)}

    def __del__(self, unused: list[int] = _unused) -> None:
        unused.extend(self._trackers)

    def address(self, name: str) -> int:
        """The address of an exported function."""
        return self._addresses[name]

    def function(self, name: str, parameters: int) -> Any:
        """A ctypes function of `parameters` pointers that returns nothing; releases the GIL."""
        made = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * parameters)(self.address(name))
        made.code = self  # type: ignore[attr-defined]  # the code lives as long as its functions
        return made


# -- disassembly and text --------------------------------------------------------------------------


class MachineCode:
    """A verified module of LLVM IR and its compilation by LLVM's default pipeline for a level.

    The vectorizers target the host's vector units.

    Raises:
        CompilationError: LLVM rejects the IR.
    """

    def __init__(self, text: str, level: int = 3) -> None:
        self._text = text
        self._model = llvm.TargetModel(host(), level)
        translation.check(text)

    @cached_property
    def optimized_text(self) -> str:
        """The IR after LLVM's passes."""
        passes = translation.Passes(self._model.level, *[self._model.level > 1] * 3)
        return translation.translate(self._text, self._model, passes, translation.Form.IR).decode()

    @cached_property
    def assembly(self) -> str:
        """The machine code as text."""
        return translation.translate(self.optimized_text, self._model, None, translation.Form.ASSEMBLY).decode()
