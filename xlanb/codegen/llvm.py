"""LLVM's C functions as exported by llvmlite's library, and ownership of LLVM objects.

Two parts of llvmlite are not used, because they do not survive an exception between any two
bytecodes, such as KeyboardInterrupt:

- its classes, whose finalizers free a context before its module if both are in one reference cycle;
- its lock, taken in Python code: an interrupt there leaves it locked forever. Without it several
  threads compile at once, each in a context of its own.

Pointers are plain integers. A context owns the modules parsed into it, so that freeing the context
is enough; see `Owned`.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from itertools import starmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

from xlanb.errors import CompilationError, MissingLibraryError

_P, _S, _I, _B, _N = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_bool, ctypes.c_size_t
_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "InitializeAllTargetInfos": (None, ()),
    "InitializeAllTargets": (None, ()),
    "InitializeAllTargetMCs": (None, ()),
    "InitializeAllAsmPrinters": (None, ()),
    "InitializeNativeTarget": (None, ()),
    "InitializeNativeAsmPrinter": (None, ()),
    "GetProcessTriple": (None, (_P,)),
    "GetHostCPUName": (None, (_P,)),
    "GetHostCPUFeatures": (_I, (_P,)),
    "DisposeString": (None, (_P,)),
    "GetTargetFromTriple": (_P, (_S, _P)),
    "CreateTargetMachine": (_P, (_P, _S, _S, _S, _I, _S, _S, _I, _I, _S)),
    "SetTargetMachineAsmVerbosity": (None, (_P, _I)),
    "CreateTargetMachineData": (_P, (_P,)),
    "CopyStringRepOfTargetData": (None, (_P, _P)),
    "DisposeTargetData": (None, (_P,)),
    "ContextCreate": (_P, ()),
    "ContextDispose": (None, (_P,)),
    "ParseAssembly": (_P, (_P, _S, _P)),
    "VerifyModule": (_I, (_P, _P)),
    "PrintModuleToString": (None, (_P, _P)),
    "CreatePipelineTuningOptions": (_P, ()),
    "DisposePipelineTuningOptions": (None, (_P,)),
    "PTOSetLoopVectorization": (None, (_P, _B)),
    "PTOSetSLPVectorization": (None, (_P, _B)),
    "PTOSetLoopUnrolling": (None, (_P, _B)),
    "CreatePassBuilder": (_P, (_P, _P)),
    "DisposePassBuilder": (None, (_P,)),
    "buildPerModuleDefaultPipeline": (_P, (_P, _I)),
    "DisposeNewModulePassManger": (None, (_P,)),
    "RunNewModulePassManager": (None, (_P, _P, _P)),
    "TargetMachineEmitToMemory": (_P, (_P, _P, _I, _P)),
    "GetBufferStart": (_P, (_P,)),
    "GetBufferSize": (_N, (_P,)),
    "DisposeMemoryBuffer": (None, (_P,)),
    "CreateLLJITCompiler": (_P, (_P, _B, _B, _P)),
    "LLJITDispose": (None, (_P,)),
    "LLJIT_Link": (_P, (_P, _S, _P, _N, _P, _N, _P, _N, _P)),
    "LLJIT_Dylib_Tracker_Dispose": (_B, (_P, _P)),
}
"""Results and arguments of the functions, without LLVMPY_ before their names."""


@cache
def is_installed() -> bool:
    """Whether llvmlite is installed. Pyodide has no build of it for WebAssembly."""
    return find_spec("llvmlite") is not None


def missing(work: str) -> MissingLibraryError:
    """The error if `work` ("making machine code") needs LLVM, which is not installed."""
    return MissingLibraryError(f"{work} needs llvmlite, which is not installed: pip install llvmlite")


def version() -> str:
    """The version of llvmlite.

    Raises:
        MissingLibraryError: It is not installed.
    """
    if not is_installed():
        raise missing("machine code")
    import llvmlite

    return str(llvmlite.__version__)


@cache
def library() -> Any:
    """The functions of `_PROTOTYPES` by name; calls release the GIL.

    Raises:
        MissingLibraryError: llvmlite is not installed.
    """
    if not is_installed():
        raise missing("making machine code")
    opened = ctypes.CDLL(_path())
    functions = {}
    for name, (result, arguments) in _PROTOTYPES.items():
        function = opened[f"LLVMPY_{name}"]
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return SimpleNamespace(**functions)


def _path() -> str:
    """The path of llvmlite's library.

    It is found without llvmlite's Python code, which takes longer to import than the library to
    load.
    """
    spec = find_spec("llvmlite")
    for folder in (spec and spec.submodule_search_locations) or ():
        for name in ("libllvmlite.so", "libllvmlite.dylib", "llvmlite.dll"):
            path = Path(folder, "binding", name)
            if path.is_file():
                return str(path)
    import llvmlite.binding

    return str(llvmlite.binding.ffi.lib._name)  # noqa: SLF001 - what a ctypes.CDLL has too


class Owned:
    """LLVM objects that are freed together, in reverse order.

    A signal handler's exception is raised between two bytecodes. So an object is created and
    recorded in one bytecode (`extend` calls `make` and keeps the result), and all are freed in one:
    nothing that took long to make is lost, and nothing is freed twice.
    """

    def __init__(self) -> None:
        self._frees: list[Any] = [None]

    def take(self, free: Any, make: Any, *arguments: Any) -> int | None:
        """Return `make(*arguments)`, to be freed by `free`; None for a null pointer."""
        self._frees.extend(map(partial, [free], starmap(make, [arguments])))
        pointer: int | None = self._frees[-1].args[0]
        return pointer

    def free(self) -> None:
        """Free everything in C code, which pops and makes the calls down to the None below."""
        if self._frees:
            _exhaust(map(partial.__call__, iter(self._frees.pop, None)))


def _exhaust(calls: Iterable[Any]) -> None:
    deque(calls, maxlen=0)


class Message:
    """A string that LLVM returns through a `char **`; pass `place`."""

    def __init__(self) -> None:
        self._pointer = ctypes.c_void_p()
        self.place = ctypes.byref(self._pointer)

    @property
    def data(self) -> bytes | None:
        """The string; None if LLVM has set none."""
        return ctypes.string_at(self._pointer) if self._pointer.value else None

    def __str__(self) -> str:
        return (self.data or b"").decode("utf-8", "replace")

    def free(self) -> None:
        """Free the string."""
        library().DisposeString(self._pointer)


@contextmanager
def message() -> Iterator[Message]:
    """A string of LLVM, freed when the block ends."""
    made = Message()
    try:
        yield made
    finally:
        made.free()


def text_of(function: Any, *arguments: Any) -> str:
    """The string that a function writes through its last argument."""
    with message() as output:
        function(*arguments, output.place)
        return str(output)


# -- target machines -------------------------------------------------------------------------------


class TargetMachine(Protocol):
    """The properties of an LLVM target machine; equal ones have equal hashes."""

    @property
    def triple(self) -> str:
        """LLVM's name of the platform."""

    @property
    def cpu(self) -> str:
        """The model."""

    @property
    def features(self) -> str:
        """Features as LLVM writes them ("+avx2,-avx512f")."""

    def __hash__(self) -> int:
        """Hash; equal machines have equal hashes."""


class TargetModel(NamedTuple):
    """The parameters of a target machine: for code run in place, or to be linked.

    It is to be linked if there is a relocation model.
    """

    target: TargetMachine
    level: int
    relocation: str = ""


_machines: dict[TargetModel, list[Any]] = {}
"""Unused target machines; creating one takes longer than compiling a small module."""


@contextmanager
def target_machine(model: TargetModel) -> Iterator[int]:
    """Borrow an LLVM target machine exclusively.

    Raises:
        CompilationError: LLVM does not support the target.
    """
    free = _machines.setdefault(model, [])
    machine = None
    try:
        machine = _free_machine(model, free)
        yield machine
    finally:
        if machine is not None:
            free.append(machine)


def _free_machine(model: TargetModel, free: list[Any]) -> int:
    while True:
        try:
            machine: int | None = free.pop()
        except IndexError:
            free.extend(starmap(library().CreateTargetMachine, [_arguments(model)]))
            continue
        if machine is None:
            raise CompilationError(f"LLVM cannot create a target machine for {model.target.triple} {model.target.cpu}")
        library().SetTargetMachineAsmVerbosity(machine, 0)
        return machine


def _arguments(model: TargetModel) -> tuple[Any, ...]:
    target, jit = model.target, not model.relocation
    with message() as output:
        kind = library().GetTargetFromTriple(target.triple.encode(), output.place)
        if not kind:
            raise CompilationError(f"LLVM has no target {target.triple}:\n{output}")
    triple, cpu, features = (s.encode() for s in (target.triple, target.cpu, target.features))
    relocation, code_model = (b"default", b"jitdefault") if jit else (model.relocation.encode(), b"default")
    return kind, triple, cpu, features, model.level, relocation, code_model, 0, int(jit), b""
