"""LLVM IR to object code: the passes that pay, several modules on several threads, and a cache on disk: of what programs share, or of all of it for whoever asks for that."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from xlanb.cpu import jit
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.half import conversions
from xlanb.cpu.object_cache import ObjectCache
from xlanb.cpu.target import Target
from xlanb.errors import CompilationError

LEVEL = 1
"""LLVM's level for IR passes and code: with explicit vectors 2 and 3 gave the same speed, and took twice as long."""
_TWO_THREADS = 150.0
"""Weight (see Unit) of all modules from which on a second thread pays."""


def compile_units(units: Sequence[Unit], target: Target) -> list[bytes]:
    """The object file of each module, in order.

    Raises:
        CompilationError: LLVM refuses the IR.
    """
    disks = _disks(units, target)
    found = [disk.get(u.text, ready=u.ready) if disk else None for u, disk in zip(units, disks, strict=True)]
    made = iter(_compile([u for u, data in zip(units, found, strict=True) if data is None], target))
    out = []
    for u, disk, known in zip(units, disks, found, strict=True):
        data = next(made) if known is None else known
        if disk is not None and known is None:
            disk.put(u.text, data, ready=u.ready)
        out.append(data)
    return out


def _disks(units: Sequence[Unit], target: Target) -> list[ObjectCache | None]:
    """The cache of each module: that of the environment, or else that of what programs share."""
    disk = ObjectCache.of_environment(target)
    if disk is not None:
        return [disk] * len(units)
    shared = ObjectCache.of_routines(target) if any(u.shared or u.everywhere for u in units) else None
    return [shared if u.shared or u.everywhere else None for u in units]


def _compile(units: Sequence[Unit], target: Target) -> list[bytes]:
    if len(units) < 2 or target.threads < 2 or sum(u.weight for u in units) < _TWO_THREADS:
        return [compile_unit(u, target) for u in units]
    results: dict[int, bytes | BaseException] = {}
    rest = sorted(range(len(units)), key=lambda k: units[k].weight)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if not rest:
                    return
                k = rest.pop()
            try:
                results[k] = compile_unit(units[k], target)
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked
                results[k] = error

    helpers = [threading.Thread(target=work) for _ in range(min(target.threads, len(units)) - 1)]
    for h in helpers:
        h.start()
    work()
    for h in helpers:
        h.join()
    out = []
    for k in range(len(units)):
        result = results[k]
        if isinstance(result, BaseException):
            raise result
        out.append(result)
    return out


def compile_unit(unit: Unit, target: Target, *, relocation: str = "", level: int = LEVEL) -> bytes:
    """The object file of one module; `relocation` is "pic" for code that a linker takes.

    Raises:
        CompilationError: LLVM refuses the IR.
    """
    level = 0 if unit.calls_only else level
    context = llvm.context.ContextRef(_free().LLVMPY_ContextCreate())
    key = (target, level, relocation)
    free = _machines.setdefault(key, [])
    machine = free.pop() if free else jit.target_machine(target, level, relocation)
    module = _parsed(unit.text + conversions(unit.text, target), context)
    if not unit.ready:
        _run_passes(module, machine)
    data = _emit(machine, module)
    module.close()
    context.close()
    free.append(machine)
    return data


_machines: dict[tuple[Target, int, str], list[Any]] = {}
"""Machines that nobody uses: a new one takes longer than a small module."""


def _run_passes(module: Any, machine: Any) -> None:
    """LLVM's pipeline with the loop vectoriser, without what takes long and gained nothing: unrolling, the SLP vectoriser."""
    options = llvm.create_pipeline_tuning_options(speed_level=LEVEL)
    options.loop_vectorization, options.slp_vectorization, options.loop_unrolling = True, False, False
    builder = llvm.create_pass_builder(machine, options)
    _free().LLVMPY_RunNewModulePassManager(builder.getModulePassManager(), module, builder)


def _parsed(text: str, context: Any) -> Any:
    """The module of some IR, verified; without llvmlite's lock, as a thread that has to wait for it may sleep for longer than all of its work takes."""
    free = _free()
    message = ctypes.c_void_p()
    pointer = free.LLVMPY_ParseAssembly(context, text.encode(), ctypes.byref(message))
    module = llvm.ModuleRef(pointer, context) if pointer else None
    refused = module is None or message.value is not None or free.LLVMPY_VerifyModule(module, ctypes.byref(message))
    try:
        if refused:
            told = ctypes.string_at(message).decode("utf-8", "replace") if message.value else ""
            raise CompilationError(f"LLVM refuses the IR:\n{told}")
    finally:
        if message.value:
            free.LLVMPY_DisposeString(message)
    return module


def _emit(machine: Any, module: Any) -> bytes:
    free = _free()
    with llvm.ffi.OutputString() as error:
        memory = free.LLVMPY_TargetMachineEmitToMemory(machine, module, 1, error)
        if not memory:
            raise CompilationError(f"LLVM makes no object code of the IR:\n{error}")
    try:
        return ctypes.string_at(free.LLVMPY_GetBufferStart(memory), free.LLVMPY_GetBufferSize(memory))
    finally:
        free.LLVMPY_DisposeMemoryBuffer(memory)


@cache
def _free() -> ctypes.CDLL:
    """llvmlite's library, without the lock that lets one thread at a time into it: these calls work on contexts of their own."""
    library = ctypes.CDLL(llvm.ffi.lib._name)  # noqa: SLF001 - what a ctypes.CDLL has too
    pointer = ctypes.c_void_p
    library.LLVMPY_ContextCreate.argtypes = []
    library.LLVMPY_ContextCreate.restype = llvm.ffi.LLVMContextRef
    library.LLVMPY_ParseAssembly.restype = llvm.ffi.LLVMModuleRef
    library.LLVMPY_ParseAssembly.argtypes = [pointer, ctypes.c_char_p, pointer]
    library.LLVMPY_VerifyModule.argtypes = [pointer] * 2
    library.LLVMPY_VerifyModule.restype = ctypes.c_int
    library.LLVMPY_DisposeString.argtypes = [pointer]
    library.LLVMPY_DisposeString.restype = None
    library.LLVMPY_RunNewModulePassManager.argtypes = [pointer] * 3
    library.LLVMPY_RunNewModulePassManager.restype = None
    library.LLVMPY_TargetMachineEmitToMemory.argtypes = [pointer, pointer, ctypes.c_int, pointer]
    library.LLVMPY_TargetMachineEmitToMemory.restype = pointer
    library.LLVMPY_GetBufferStart.argtypes = library.LLVMPY_GetBufferSize.argtypes = [pointer]
    library.LLVMPY_GetBufferStart.restype = pointer
    library.LLVMPY_GetBufferSize.restype = ctypes.c_size_t
    library.LLVMPY_DisposeMemoryBuffer.argtypes = [pointer]
    library.LLVMPY_DisposeMemoryBuffer.restype = None
    return library
