"""Parse SASS, the machine code of NVIDIA's GPUs, as nvdisasm prints it.

Finds functions, and the line of PTX that each instruction comes from.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_SECTION = re.compile(r"^//-+ \.text\.([\w$.]+) +-+$", re.MULTILINE)
_PTX_LINE = re.compile(r'^\s*//## File "\.nv_debug_ptx_txt", line (\d{1,9})')
_INSTRUCTION = re.compile(r"^\s*/\*(?P<address>[0-9a-f]+)\*/\s+(?P<text>(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*).*)$")
_SHOWN = re.compile(r"^[0-9a-f]+  (?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)")
_LABEL = re.compile(r"^\.L_\w+:$")


@dataclass(frozen=True)
class SassKernel:
    """The machine code of one kernel: lines of address and instruction, and labels.

    Each has the PTX line that it comes from, 0 if unknown.
    """

    name: str
    lines: tuple[str, ...]
    ptx_lines: tuple[int, ...]

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)

    @property
    def opcodes(self) -> Counter[str]:
        """Count each opcode without its modifiers: `FFMA`, `LDG`."""
        return Counter(m["opcode"].partition(".")[0] for m in map(_SHOWN.match, self.lines) if m is not None)

    def __repr__(self) -> str:
        return f"<SassKernel {self.name}: {len(self.lines)} lines>"


def parse_sass(text: str) -> tuple[SassKernel, ...]:
    """Parse nvdisasm's kernels, in order: instructions and branch labels, without directives."""
    heads = list(_SECTION.finditer(text))
    ends = [m.start() for m in heads[1:]] + [len(text)]
    return tuple(_kernel(head[1], text[head.end() : end]) for head, end in zip(heads, ends, strict=False))


def _kernel(name: str, text: str) -> SassKernel:
    lines: list[str] = []
    places: list[int] = []
    at = 0
    for line in text.splitlines():
        if (found := _PTX_LINE.match(line)) is not None:
            at = int(found[1])
        elif (shown := _INSTRUCTION.match(line)) is not None:
            lines.append(f"{shown['address']}  {shown['text'].rstrip(' ;')}")
            places.append(at)
        elif _LABEL.match(line) is not None:
            lines.append(line)
            places.append(0)
    return SassKernel(name, tuple(lines), tuple(places))
