"""The host with narrower vectors than it has."""

from __future__ import annotations

from dataclasses import replace

from xlanb.codegen import jit
from xlanb.codegen.target import Target

_WITHOUT = {512: ("amx",), 256: ("amx", "avx512"), 128: ("amx", "avx", "fma", "f16c", "xop")}


def narrowed(bits: int, threads: int) -> Target:
    """The host without the features of wider vectors, and without AMX."""
    cut = _WITHOUT[bits]
    features = ("-" + f[1:] if f[1:].startswith(cut) else f for f in jit.host().features.split(","))
    return replace(jit.host(), features=",".join(features), threads=threads)
