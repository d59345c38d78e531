"""Parse the output of `ptxas -v` for kernels.

ptxas info    : Compiling entry function 'fusion_53' for 'sm_90a'
ptxas info    : Function properties for fusion_53
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 31 registers, used 1 barriers, 1024 bytes smem, 368 bytes cmem[0]
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMPILING = re.compile(r"^ptxas info\s*: Compiling entry function '([^'\n]{1,4000})' for '(\w{1,40})'", re.MULTILINE)
NO_SASS = "no SASS: "
"""Prefix of a report's last line if ptxas accepted the PTX but nvdisasm rejected the result."""

_COUNTS = {
    "registers": re.compile(r"\bUsed (\d{1,9}) registers"),
    "barriers": re.compile(r"\bused (\d{1,9}) barriers"),
    "stack_bytes": re.compile(r"(\d{1,12}) bytes (?:stack frame|cumulative stack size)"),
    "spill_stores": re.compile(r"(\d{1,12}) bytes spill stores"),
    "spill_loads": re.compile(r"(\d{1,12}) bytes spill loads"),
    "shared_bytes": re.compile(r"(\d{1,12}) bytes smem"),
    "local_bytes": re.compile(r"(\d{1,12}) bytes lmem"),
}
_CONSTANT = re.compile(r"(\d{1,12}) bytes cmem\[(\d{1,3})\]")


@dataclass(frozen=True)
class KernelResources:
    """The resources of one kernel.

    Registers and bytes of stack and spills are per thread, barriers and bytes of static shared
    memory per block; `constant_bytes` are (bank, bytes).
    """

    name: str
    target: str
    registers: int = 0
    barriers: int = 0
    stack_bytes: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared_bytes: int = 0
    local_bytes: int = 0
    constant_bytes: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        spills = f"{self.spill_stores} bytes spilled, {self.spill_loads} loaded back" if self.spills else "no spills"
        barriers = f", {self.barriers} barrier{'s' * (self.barriers != 1)}" if self.barriers else ""
        return f"{self.registers} registers, {spills}{barriers}"

    @property
    def spills(self) -> bool:
        """Whether registers spill."""
        return bool(self.spill_stores or self.spill_loads)


def parse_ptxas(text: str) -> tuple[KernelResources, ...]:
    """Parse a report's kernels, in order; empty if ptxas rejected the PTX (see `refusal`)."""
    heads = list(_COMPILING.finditer(text))
    ends = [m.start() for m in heads[1:]] + [len(text)]
    found = []
    for head, end in zip(heads, ends, strict=False):
        part = text[head.end() : end]
        counts = {name: int(m[1]) for name, pattern in _COUNTS.items() if (m := pattern.search(part)) is not None}
        constants = tuple((int(bank), int(size)) for size, bank in _CONSTANT.findall(part))
        found.append(KernelResources(head[1], head[2], **counts, constant_bytes=constants))
    return tuple(found)


def refusal(text: str) -> str:
    """Return why ptxas rejected the PTX, or nvdisasm its output, in their words, or ""."""
    _, found, why = text.rpartition(f"\n{NO_SASS}")
    return why.strip()[:2000] if found else "" if _COMPILING.search(text) else text.strip()[:2000]
