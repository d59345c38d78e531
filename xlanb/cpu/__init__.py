"""The CPU backend: the order of passes, LLVM IR, machine code, executables."""

from xlanb.cpu.compiler import CompileOptions, compile_module, compile_steps
from xlanb.cpu.executable import Executable
from xlanb.cpu.pipelines import pipeline

__all__ = ["CompileOptions", "Executable", "compile_module", "compile_steps", "pipeline"]
