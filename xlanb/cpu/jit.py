"""LLVM through llvmlite: text in; optimised IR, assembly and callable machine code out."""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from xlanb.cpu.target import Target, has_pool, thread_count
from xlanb.errors import CompilationError

_LOCK = threading.RLock()


@cache
def host() -> Target:
    """The machine that this process runs on."""
    with _LOCK:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        triple = llvm.get_process_triple()
        cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=3, jit=True)
        return Target(triple, cpu, features, str(machine.target_data), thread_count() if has_pool(triple) else 1)


def target_machine(target: Target, level: int, relocation: str = "") -> Any:
    """A target machine for code that is run in place, or, with a relocation model, for code that a linker takes; a new one, as an execution engine takes it over."""
    kind = llvm.Target.from_triple(target.triple)
    if relocation:
        return kind.create_target_machine(
            cpu=target.cpu, features=target.features, opt=level, reloc=relocation, codemodel="default"
        )
    return kind.create_target_machine(cpu=target.cpu, features=target.features, opt=level, jit=True)


@cache
def linker() -> Any:
    """LLVM's linker in memory; what it has linked goes when its tracker does."""
    return llvm.create_lljit_compiler(target_machine(host(), 1), suppress_errors=True)


class LoadedCode:
    """Object files linked into this process: `function(name, parameters)` calls what they export.

    `symbols` gives the address of each symbol that comes from outside; `kept` is kept alive as long as the code is. Functions that were handed out keep it alive too.

    Raises:
        CompilationError: a symbol is missing.
    """

    _numbers = itertools.count()

    def __init__(
        self,
        objects: Sequence[bytes],
        exports: Sequence[str],
        symbols: Mapping[str, int] | None = None,
        kept: Any = None,
    ) -> None:
        self._kept = kept
        builder = llvm.JITLibraryBuilder()
        for data in objects:
            builder.add_object_img(data)
        for name, address in (symbols or {}).items():
            builder.import_symbol(name, address)
        for name in exports:
            builder.export_symbol(name)
        with _LOCK:
            try:
                self._tracker = builder.add_current_process().link(linker(), f"xlanb{next(self._numbers)}")
            except RuntimeError as error:
                raise CompilationError(f"the machine code cannot be loaded:\n{error}") from error

    def address(self, name: str) -> int:
        """The address of an exported function."""
        found: int = self._tracker[name]
        return found

    def function(self, name: str, parameters: int) -> Any:
        """A ctypes function that takes so many pointers and gives nothing; calls release the GIL."""
        return _function(self, name, parameters)


def _function(code: Any, name: str, parameters: int) -> Any:
    made = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * parameters)(code.address(name))
    made.code = code  # type: ignore[attr-defined]  # the code lives as long as its functions
    return made


class MachineCode:
    """A module of LLVM IR: parsed and verified, optimised when it is first asked for more.

    `constants` gives the memory of its external symbols; it is kept alive as long as the code is. `functions` gives the addresses of external functions
    (host calls), which the caller keeps alive. Methods may be called from several threads.

    Raises:
        CompilationError: LLVM refuses the IR.
    """

    def __init__(
        self,
        text: str,
        constants: Mapping[str, NDArray[np.uint8]] | None = None,
        functions: Mapping[str, int] | None = None,
        level: int = 3,
    ) -> None:
        self.target = host()
        self.level = level
        self._constants = dict(constants or {})
        self._functions = dict(functions or {})
        self._engine: Any = None
        self._optimized = False
        with _LOCK:
            # A context of its own: LLVM's types and metadata are not shared between compilations.
            self._context = llvm.create_context()
            try:
                self._module = llvm.parse_assembly(text, self._context)
                self._module.verify()
            except RuntimeError as error:
                raise CompilationError(f"LLVM refuses the IR:\n{error}") from error

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        # The context must outlive all that was made in it; left to itself Python would let it go first. At the interpreter's end LLVM's binding is gone before.
        if ends():
            return
        for name in ("_engine", "_module", "_context"):
            made = getattr(self, name, None)
            if made is not None:
                made.close()

    def optimize(self) -> None:
        """Run LLVM's default pipeline for the level, with the loop and SLP vectorisers, for the host's vector units."""
        with _LOCK:
            if self._optimized:
                return
            options = llvm.create_pipeline_tuning_options(speed_level=self.level)
            options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = self.level > 1
            machine = target_machine(self.target, self.level)
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(self._module, builder)
            self._optimized = True

    @property
    def optimized_text(self) -> str:
        """The IR after LLVM's passes."""
        with _LOCK:
            self.optimize()
            return str(self._module)

    def assembly(self) -> str:
        """The machine code as text. Made from a copy: to emit a module twice aborts the process."""
        with _LOCK:
            self.optimize()
            machine = target_machine(self.target, self.level)
            machine.set_asm_verbosity(False)
            text: str = machine.emit_assembly(self._module.clone())
            return text

    def address(self, name: str) -> int:
        """The address of a function; the code lives as long as this object."""
        with _LOCK:
            if self._engine is None:
                self.optimize()
                copy = self._module.clone()
                self._engine = llvm.create_mcjit_compiler(copy, target_machine(self.target, self.level))
                for symbol, memory in self._constants.items():
                    self._engine.add_global_mapping(copy.get_global_variable(symbol), memory.ctypes.data)
                for symbol, address in self._functions.items():
                    self._engine.add_global_mapping(copy.get_function(symbol), address)
                self._engine.finalize_object()
            found: int = self._engine.get_function_address(name)
        if not found:
            raise CompilationError(f"no function {name} in the compiled module")
        return found

    def function(self, name: str, parameters: int) -> Any:
        """A ctypes function that takes so many pointers and gives nothing; calls release the GIL."""
        return _function(self, name, parameters)
