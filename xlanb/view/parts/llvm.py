"""LLVM IR and assembly as plain data: lines, which op each comes from, where functions begin."""

from __future__ import annotations

import re
from typing import Any

from xlanb.cpu.records import CodeRecord
from xlanb.view.parts.items import clip

_LLVM_DEFINE = re.compile(r"^define\b[^@]*@(\"[^\"]*\"|[\w.$-]+)")
_PTX_ENTRY = re.compile(r"^[ \t]*(?:\.\w+[ \t]+)*\.entry[ \t]+([\w$]+)")
_ASM_LABEL = re.compile(r"^(\"[^\"]*\"|[A-Za-z_$][\w.$]*):")


_KERNEL_LINES = 40  # of one kernel, where not all is kept
MAX_CHARACTERS = 4_000_000
"""Characters of one text in a page: packed, some hundred kilobytes."""


def code_data(record: CodeRecord, max_lines: int = 1500, max_characters: int = MAX_CHARACTERS) -> dict[str, Any]:
    """Return plain data for the Text pane.

    `ops` gives (first line, op) of each run of lines of one instruction, 1-based, "" if unknown; a
    line that is not in `lines` belongs to its function's instruction. Lines beyond the limits are
    left out, with a note on their number and place.
    """
    lines, total = _first_lines(record.text, max_lines, max_characters)
    data: dict[str, Any] = {
        "k": "code",
        "lang": record.language,
        "lines": lines,
        "total": total,
    }
    data["ops"] = _runs(record, lines)
    data["functions"] = list(record.functions)
    if record.plans:
        data["plan"] = _plan_data(record, max_lines)
    if total > len(lines):
        data["note"] = _cut_note(len(lines), total)
    return data


def code_characters(data: dict[str, Any]) -> int:
    """Count the characters of the lines in a text's data."""
    return sum(map(len, data["lines"]))


def shorten_code(data: dict[str, Any], max_lines: int) -> dict[str, Any]:
    """The same data with at most so many lines, and a note on those that are left out."""
    if len(data["lines"]) <= max_lines:
        return data
    ops = [run for run in data["ops"] if run[0] <= max_lines]
    note = _cut_note(max_lines, data["total"])
    return {**data, "lines": data["lines"][:max_lines], "ops": ops, "note": note}


def kept_code(data: dict[str, Any], characters: int) -> dict[str, Any]:
    """Return the data with only the beginnings of kernels, about `characters` of them, and a
    note.
    """
    if code_characters(data) <= characters:
        return data
    ends = [run[0] - 1 for run in data["ops"][1:]] + [len(data["lines"])]
    lines: list[str] = []
    ops: list[list[Any]] = []
    left, shown, missing = characters, 0, 0
    for (begin, op), end in zip(data["ops"], ends, strict=True):
        given = data["lines"][begin - 1 : min(end, begin - 1 + _KERNEL_LINES)] if op and left > 0 else []
        left -= sum(map(len, given))
        missing += end - begin + 1 - len(given)
        if not given:
            continue
        ops.append([len(lines) + 1, op])
        lines += given
        shown += len(given)
        if missing:
            lines.append(_left_out(data["lang"], missing))
            missing = 0
    note = (
        f"A notebook keeps {shown:,} of {data['total']:,} lines; xlanb.explore(trace) and "
        "trace.to_html(path) contain all, as the record's .text does."
    )
    return {**data, "lines": lines, "ops": ops, "note": note}


def _left_out(language: str, count: int) -> str:
    return f"{';' if language == 'llvm' else '//' if language == 'ptx' else '#'} ... {count:,} lines"


def _cut_note(shown: int, total: int) -> str:
    return f"Shown: {shown:,} of {total:,} lines; search covers these only. The record's .text contains all."


def _plan_data(record: CodeRecord, max_lines: int) -> dict[str, Any]:
    """The plans of the kernels as lines, each with its instruction."""
    lines: list[str] = []
    ops: list[list[Any]] = []
    for plan in record.plans.values():
        ops.append([len(lines) + 1, plan.instruction])
        lines += [*(clip(line, 400) for line in str(plan).split("\n")), ""]
        if len(lines) >= max_lines:
            break
    return {"k": "code", "lang": "plan", "lines": lines[:max_lines], "total": len(lines), "ops": ops, "functions": []}


def _first_lines(text: str, max_lines: int, max_characters: int) -> tuple[list[str], int]:
    """Return the first lines within both limits, each clipped, and the total number.

    Hidden lines are counted, not split.
    """
    lines: list[str] = []
    at, left = 0, max_characters
    while len(lines) < max_lines and at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = clip(text[at:end], 400)
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
        at = end + 1
    rest = text.count("\n", at) + (at < len(text) and not text.endswith("\n"))
    return lines, len(lines) + rest


def line_ops(record: CodeRecord, lines: list[str]) -> list[str]:
    """The HLO instruction of every line, "" where unknown."""
    kernels = {name.strip('"'): op for name, op in record.kernels.items()}
    start, word = {"llvm": (_LLVM_DEFINE, "define"), "ptx": (_PTX_ENTRY, ".entry")}.get(
        record.language, (_ASM_LABEL, ":")
    )
    known = set(kernels) | set(record.functions)
    current = ""
    ops = []
    for number, line in enumerate(lines, 1):
        found = start.match(line) if word in line else None
        if found and found.group(1).strip('"') in known:
            current = kernels.get(found.group(1).strip('"'), "")
        ops.append(record.lines.get(number, current))
        if record.language in ("llvm", "ptx") and line.startswith("}"):
            current = ""
    return ops


def _runs(record: CodeRecord, lines: list[str]) -> list[list[Any]]:
    runs: list[list[Any]] = []
    for number, op in enumerate(line_ops(record, lines), 1):
        if not runs or runs[-1][1] != op:
            runs.append([number, op])
    return runs
