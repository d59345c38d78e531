"""LLVM IR and assembly as plain data: lines, which op each comes from, where functions begin."""

from __future__ import annotations

import re
from typing import Any

from xlanb.cpu.records import CodeRecord
from xlanb.view.parts.items import clip

_LLVM_DEFINE = re.compile(r"^define\b[^@]*@(\"[^\"]*\"|[\w.$-]+)")
_ASM_LABEL = re.compile(r"^(\"[^\"]*\"|[A-Za-z_$][\w.$]*):")


def code_data(record: CodeRecord, max_lines: int = 1500) -> dict[str, Any]:
    """Plain data for the Text pane.

    `ops` gives (first line, op) of each run of lines that come from one instruction, 1-based, "" where that is unknown; a line that `lines` does not know
    belongs to its function's instruction. Lines beyond the limit are left out, whole functions last, with a note.
    """
    lines = record.text.splitlines()
    data: dict[str, Any] = {
        "k": "code",
        "lang": record.language,
        "lines": [clip(x, 400) for x in lines[:max_lines]],
        "total": len(lines),
    }
    data["ops"] = _runs(record, lines[:max_lines])
    data["functions"] = list(record.functions)
    if len(lines) > max_lines:
        data["note"] = f"{len(lines) - max_lines:,} more lines are not shown."
    return data


def line_ops(record: CodeRecord, lines: list[str]) -> list[str]:
    """The HLO instruction of every line, "" where unknown."""
    kernels = {name.strip('"'): op for name, op in record.kernels.items()}
    start = _LLVM_DEFINE if record.language == "llvm" else _ASM_LABEL
    known = set(kernels) | set(record.functions)
    current = ""
    ops = []
    for number, line in enumerate(lines, 1):
        found = start.match(line)
        if found and found.group(1).strip('"') in known:
            current = kernels.get(found.group(1).strip('"'), "")
        ops.append(record.lines.get(number, current))
        if record.language == "llvm" and line.startswith("}"):
            current = ""
    return ops


def _runs(record: CodeRecord, lines: list[str]) -> list[list[Any]]:
    runs: list[list[Any]] = []
    for number, op in enumerate(line_ops(record, lines), 1):
        if not runs or runs[-1][1] != op:
            runs.append([number, op])
    return runs
