"""Map lines of LLVM IR or assembly to HLO instructions, by debug locations."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xlanb.codegen.plan import KernelPlan
from xlanb.cpu.records import CodeRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.patterns import pattern

_LOCATION = pattern(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+)", re.MULTILINE)
_MARK = pattern(r", !dbg !(\d+)")
_DEFINE = pattern(r'^define .*?@"?([^"(]+)"?\(', re.MULTILINE)
_LOC = pattern(r"^\s+\.loc\s+\d+\s+(\d+)")
_LABEL = pattern(r"^([A-Za-z_][\w.$]*):")


def line_numbers(module: ModuleRecord) -> dict[str, int]:
    """The 1-based line of each instruction in the module's text."""
    out: dict[str, int] = {}
    for number, line in enumerate(module.text.splitlines(), 1):
        name, equals, _ = line.strip().removeprefix("ROOT ").partition(" = ")
        if equals:
            out.setdefault(name.removeprefix("%"), number)
    return out


def llvm_record(text: str, kernels: Mapping[str, str], line_of: Mapping[str, int]) -> CodeRecord:
    """LLVM IR as a record, each line with its HLO instruction."""
    instruction_at = {number: name for name, number in line_of.items()}
    location = {mark: instruction_at.get(int(line), "") for mark, line in _LOCATION.findall(text)}
    lines = {}
    for number, line in enumerate(text.splitlines(), 1):
        mark = _MARK.search(line)
        name = location.get(mark.group(1), "") if mark else ""
        if name:
            lines[number] = name
    functions = tuple(_DEFINE.findall(text))
    return CodeRecord("llvm", text, functions, {k: v for k, v in kernels.items() if k in functions}, lines)


def assembly_record(
    text: str, kernels: Mapping[str, str], line_of: Mapping[str, int], plans: Mapping[str, KernelPlan]
) -> CodeRecord:
    """Assembly as a record: a .loc applies until the next one or the function's end."""
    instruction_at = {number: name for name, number in line_of.items()}
    lines: dict[int, str] = {}
    functions: list[str] = []
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        loc = _LOC.match(line)
        label = _LABEL.match(line)
        if loc:
            current = instruction_at.get(int(loc.group(1)), "")
        elif label and not label.group(1).startswith(".L"):
            if label.group(1) in kernels or label.group(1) == "run":
                functions.append(label.group(1))
            current = ""
        elif current and line.startswith("\t") and not line.lstrip().startswith((".", "#")):
            lines[number] = current
    kept = {k: v for k, v in kernels.items() if k in functions}
    return CodeRecord("asm", text, tuple(functions), kept, lines, plans)
