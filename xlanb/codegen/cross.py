"""Cross-compilation targets by LLVM triple, as far as llvmlite's LLVM supports them."""

from __future__ import annotations

from functools import cache

from xlanb.codegen import llvm
from xlanb.codegen.target import Target
from xlanb.errors import CompilationError

_WITHOUT_C_LIBRARY = ("wasm32", "wasm64")
_WORD = 8
"""Bytes of a pointer that programs require."""


@cache
def target_named(triple: str, cpu: str = "", features: str = "") -> Target:
    """The target of a triple, for code to be linked: one thread, no polls for signals.

    Args:
        triple: As for clang's -target: aarch64-linux-gnu, riscv64-linux-gnu, x86_64-linux-gnu, ...
        cpu: As for clang's -mcpu; LLVM's generic one by default.
        features: As for LLVM: "+neon,+sve"; only those of the CPU by default. AMX is left out: a
            process has to ask Linux for its registers.

    Raises:
        CompilationError: LLVM does not support the target, or its pointers do not have 64 bits.
    """
    c = llvm.library()
    for kind in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
        getattr(c, f"InitializeAll{kind}")()
    features = (features or _features(triple) * (not cpu)).replace("+amx", "-amx")
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
            f"{triple} has 32-bit pointers: expected a target with 64-bit pointers, such as x86_64, aarch64, riscv64 "
            "or wasm64"
        )
    has_c_library = not triple.startswith(_WITHOUT_C_LIBRARY)
    return Target(triple, cpu, features, layout, has_c_library=has_c_library)


def _features(triple: str) -> str:
    """The baseline features of Linux on an architecture, if LLVM's generic CPU has fewer."""
    return "+m,+a,+f,+d,+c" if triple.startswith("riscv64") and "linux" in triple else ""


def _is_narrow(layout: str) -> bool:
    """Whether a data layout gives pointers other than 64 bits, LLVM's default."""
    pointers = [part for part in layout.split("-") if part.startswith("p:")]
    return any(int(part.split(":")[1]) != 8 * _WORD for part in pointers)
