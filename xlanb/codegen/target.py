"""The machine that code is for: what emitters and LLVM need to know of it."""

from __future__ import annotations

from functools import cached_property

from xlanb.codegen.costs import FAMILIES, Costs, family
from xlanb.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Target:
    """The machine that code is for.

    `features` are as in LLVM ("+avx2,-avx512f"); `threads` is how many a program may use. With
    `polls` loops check for stop requests (see xlanb.codegen.polling). Without `explicit_vectors`
    elementwise code and reductions are emitted for one element, and LLVM's passes vectorize them.
    `debug_locations` is LLVM's emission kind of a program with the lines of its HLO.
    """

    triple: str
    cpu: str
    features: str
    data_layout: str
    threads: int = 1
    explicit_vectors: bool = True
    polls: bool = False
    has_c_library: bool = True
    debug_locations: str = "LineTablesOnly"

    @cached_property
    def enabled(self) -> frozenset[str]:
        """The enabled features."""
        return frozenset(f[1:] for f in self.features.split(",") if f.startswith("+"))

    @cached_property
    def vector_bits(self) -> int:
        """Bits of a vector register."""
        if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= self.enabled:
            return 512
        return 256 if "avx2" in self.enabled else 128

    @cached_property
    def vector_registers(self) -> int:
        """The number of vector registers."""
        return 32 if self.vector_bits == 512 or self.triple.startswith(("aarch64", "arm64")) else 16

    @cached_property
    def costs(self) -> Costs:
        """The cost table of the machine's family."""
        return FAMILIES[family(self.vector_bits, self.enabled)]


def has_pool(triple: str) -> bool:
    """Whether a machine has a thread pool: Linux, with a known futex system call number."""
    return "linux" in triple and triple.split("-", maxsplit=1)[0] in FUTEX


FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
"""The number of the futex system call."""
