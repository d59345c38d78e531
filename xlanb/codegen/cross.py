"""Targets that are not this machine, by LLVM's triple: the ones that llvmlite's LLVM was built with."""

from __future__ import annotations

from functools import cache

from xlanb.codegen import llvm
from xlanb.codegen.target import Target
from xlanb.errors import CompilationError

_WITHOUT_C_LIBRARY = ("wasm32", "wasm64")
_WORD = 8
"""Bytes of a pointer that programs count on."""


@cache
def target_named(triple: str, cpu: str = "", features: str = "") -> Target:
    """The machine of a triple, for code that a linker takes: one thread, without a poll for signals.

    Args:
        triple: as clang's -target: aarch64-linux-gnu, riscv64-linux-gnu, x86_64-linux-gnu, ...
        cpu: as clang's -mcpu; LLVM's most general one by default.
        features: as LLVM writes them: "+neon,+sve"; those of the CPU alone by default.

    Raises:
        CompilationError: LLVM knows no such target, or its pointers are not of 64 bits.
    """
    c = llvm.library()
    for kind in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
        getattr(c, f"InitializeAll{kind}")()
    features = features or _features(triple) * (not cpu)
    plain = Target(triple, cpu, features, "")
    owned = llvm.Owned()
    try:
        with llvm.target_machine(llvm.TargetModel(plain, 2, "pic")) as machine:
            data = owned.take(c.DisposeTargetData, c.CreateTargetMachineData, machine)
            layout = llvm.text_of(c.CopyStringRepOfTargetData, data)
    finally:
        owned.free()
    if _is_narrow(layout) and not triple.startswith("wasm32"):
        raise CompilationError(
            f"{triple} has 32-bit pointers: expected a target with 64-bit pointers, such as x86_64, aarch64, riscv64 or wasm64"
        )
    has_c_library = not triple.startswith(_WITHOUT_C_LIBRARY)
    return Target(triple, cpu, features, layout, has_c_library=has_c_library)


def _features(triple: str) -> str:
    """What a Linux of an architecture is compiled for, where LLVM's most general CPU has less."""
    return "+m,+a,+f,+d,+c" if triple.startswith("riscv64") and "linux" in triple else ""


def _is_narrow(layout: str) -> bool:
    """Whether a data layout says that pointers have other than 64 bits, LLVM's default."""
    pointers = [part for part in layout.split("-") if part.startswith("p:")]
    return any(int(part.split(":")[1]) != 8 * _WORD for part in pointers)
