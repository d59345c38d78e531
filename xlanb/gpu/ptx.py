"""Compile LLVM IR of kernels to PTX, and PTX to machine code if NVIDIA's ptxas is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from xlanb.codegen import llvm
from xlanb.codegen.translation import Form, Passes, translate
from xlanb.errors import CompilationError, MissingLibraryError
from xlanb.gpu.target import GpuTarget
from xlanb.lazy_dataclass import dataclass

LEVEL = 3
"""LLVM's optimization level for IR passes and code."""
_PASSES = Passes(LEVEL, vectorize_loops=False, vectorize_slp=False, unroll=True)
_WHEEL = ("nvidia", "cuda_nvcc", "bin", "ptxas")
_USED = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_STACK = re.compile(r"(\d+) bytes stack frame")
_ARCHITECTURE = re.compile(r"^\.target\s+(sm_\w+)", re.MULTILINE)


@cache
def _initialize() -> None:
    """Initialize LLVM's targets."""
    c = llvm.library()
    for start in (
        c.InitializeAllTargetInfos,
        c.InitializeAllTargets,
        c.InitializeAllTargetMCs,
        c.InitializeAllAsmPrinters,
    ):
        start()


def compile_ptx(text: str, target: GpuTarget) -> str:
    """Compile a module of LLVM IR to PTX.

    Raises:
        CompilationError: LLVM rejects the IR.
    """
    _initialize()
    return translate(text, llvm.TargetModel(target, LEVEL), _PASSES, Form.ASSEMBLY).decode()


def optimized_ir(text: str, target: GpuTarget) -> str:
    """Return the optimized IR that PTX is generated from.

    Raises:
        CompilationError: LLVM rejects the IR.
    """
    _initialize()
    return translate(text, llvm.TargetModel(target, LEVEL), _PASSES, Form.IR).decode()


@dataclass(frozen=True)
class PtxasOutput:
    """ptxas' output for a kernel: machine code (cubin), and a thread's resource use."""

    cubin: bytes
    registers: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int


@cache
def find_ptxas() -> str | None:
    """Return the path of ptxas, or None.

    Looks for the wheel nvidia-cuda-nvcc in this Python's packages, then on the PATH.
    """
    places = [Path(p).joinpath(*_WHEEL) for p in sys.path if p.endswith("site-packages")]
    return next((str(p) for p in places if p.is_file()), None) or shutil.which("ptxas")


@cache
def assemble(text: str) -> PtxasOutput:
    """Assemble PTX to machine code.

    Raises:
        MissingLibraryError: there is no ptxas.
        CompilationError: ptxas rejects the text.
    """
    ptxas = find_ptxas()
    if ptxas is None:
        raise MissingLibraryError("ptxas not found: pip install 'xlanb[gpu]', or add CUDA's to the PATH")
    found = _ARCHITECTURE.search(text)
    if found is None:
        raise CompilationError("the PTX does not name an architecture (.target sm_NN)")
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(text)
        ran = subprocess.run(
            [ptxas, "-v", "-arch", found[1], "-o", str(made), str(source)], capture_output=True, text=True, check=False
        )
        report = ran.stderr + ran.stdout
        if ran.returncode:
            raise CompilationError(f"ptxas rejects the PTX:\n{report.strip()}")
        registers, spills, stack = _USED.search(report), _SPILLS.search(report), _STACK.search(report)
        stores, loads = (int(n) for n in spills.groups()) if spills else (0, 0)
        return PtxasOutput(
            made.read_bytes(), int(registers[1]) if registers else 0, stores, loads, int(stack[1]) if stack else 0
        )
