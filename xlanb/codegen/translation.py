"""Translate LLVM IR to object code, assembly or IR, after optional passes."""

from __future__ import annotations

import ctypes
from enum import Enum
from typing import NamedTuple

from xlanb.codegen import llvm
from xlanb.errors import CompilationError


class Form(Enum):
    """What LLVM IR is translated to."""

    OBJECT = "object code"
    ASSEMBLY = "assembly"
    IR = "IR"


class Passes(NamedTuple):
    """LLVM's default pipeline for a level, and which optional passes of it to run."""

    level: int
    vectorize_loops: bool = True
    vectorize_slp: bool = True
    unroll: bool = True


def translate(text: str, model: llvm.TargetModel, passes: Passes | None, form: Form = Form.OBJECT) -> bytes:
    """The object code, assembly text or IR of a module of LLVM IR, after optional passes.

    Raises:
        CompilationError: LLVM rejects the IR.
    """
    owned = llvm.Owned()
    try:
        module = _parsed(text, owned)
        with llvm.target_machine(model) as machine:
            if passes is not None:
                _run_passes(module, machine, passes, owned)
            if form is Form.IR:
                return _printed(module)
            return _emit(machine, module) if form is Form.OBJECT else _emit(machine, module, assembly=True)
    finally:
        owned.free()


def check(text: str) -> None:
    """Parse and verify a module of LLVM IR.

    Raises:
        CompilationError: LLVM rejects the IR.
    """
    owned = llvm.Owned()
    try:
        _parsed(text, owned)
    finally:
        owned.free()


def _parsed(text: str, owned: llvm.Owned) -> int:
    """A verified module, owned and freed by a context of its own."""
    c = llvm.library()
    context = owned.take(c.ContextDispose, c.ContextCreate)
    with llvm.message() as output:
        module: int | None = c.ParseAssembly(context, text.encode(), output.place)
        if module is None or c.VerifyModule(module, output.place):
            raise CompilationError(f"LLVM rejects the IR:\n{output}")
        return module


def _run_passes(module: int, machine: int, passes: Passes, owned: llvm.Owned) -> None:
    c = llvm.library()
    options = owned.take(c.DisposePipelineTuningOptions, c.CreatePipelineTuningOptions)
    c.PTOSetLoopVectorization(options, passes.vectorize_loops)
    c.PTOSetSLPVectorization(options, passes.vectorize_slp)
    c.PTOSetLoopUnrolling(options, passes.unroll)
    builder = owned.take(c.DisposePassBuilder, c.CreatePassBuilder, machine, options)
    manager = owned.take(c.DisposeNewModulePassManger, c.buildPerModuleDefaultPipeline, builder, passes.level)
    c.RunNewModulePassManager(manager, module, builder)


def _printed(module: int) -> bytes:
    with llvm.message() as output:
        llvm.library().PrintModuleToString(module, output.place)
        return output.data or b""


def _emit(machine: int, module: int, *, assembly: bool = False) -> bytes:
    c, owned = llvm.library(), llvm.Owned()
    try:
        with llvm.message() as output:
            arguments = machine, module, 0 if assembly else 1, output.place
            buffer = owned.take(c.DisposeMemoryBuffer, c.TargetMachineEmitToMemory, *arguments)
            if buffer is None:
                raise CompilationError(
                    f"LLVM cannot generate {'assembly' if assembly else 'object code'} from the IR:\n{output}"
                )
        return ctypes.string_at(c.GetBufferStart(buffer), c.GetBufferSize(buffer))
    finally:
        owned.free()
