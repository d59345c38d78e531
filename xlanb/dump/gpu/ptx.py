"""Parse PTX: kernels and their declarations."""

from __future__ import annotations

import re
from dataclasses import dataclass

_VERSION = re.compile(r"^[ \t]*\.version[ \t]+([\d.]{1,20})", re.MULTILINE)
_TARGET = re.compile(r"^[ \t]*\.target[ \t]+(\w{1,40})", re.MULTILINE)
_ENTRY = re.compile(r"^[ \t]*(?:\.\w+[ \t]+)*\.entry[ \t]+([\w$]+)[ \t]*\(", re.MULTILINE)
_PARAMETER = re.compile(
    r"\.param\b[^,()\n]*?(?P<type>\.(?:[usfb]\d{1,3}|pred))\b[^,()\n]*?(?P<name>[\w$]+)(?P<size>\[\d+\])?\s*(?:,|$)"
)
_DIRECTIVE = re.compile(r"\.(reqntid|maxntid|minnctapersm|maxnreg)\s+([\d, ]+)")
_REGISTERS = re.compile(r"^[ \t]*\.reg\s+\.(\w+)\s+%?[\w$]+<(\d{1,9})>;", re.MULTILINE)
_SHARED = re.compile(r"\.shared\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+[\w$]+\[(\d{1,12})\]")
_LOC = re.compile(r"^\s*\.loc\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})")
_FILE = re.compile(r'^[ \t]*\.file\s+(\d{1,9})\s+"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.]*)[\s;]")


@dataclass(frozen=True)
class PtxKernel:
    """One kernel entry.

    It has parameters as (name, type), the required threads per block ((0, 0, 0) if none), virtual
    registers by type, and bytes of declared shared memory. `line` and `end` are its first and last
    line in the file, 1-based. `lines` gives the source line (file, line) from a line of PTX on, if
    there is a line table.
    """

    name: str
    target: str
    version: str
    parameters: tuple[tuple[str, str], ...] = ()
    required_threads: tuple[int, int, int] = (0, 0, 0)
    registers: tuple[tuple[str, int], ...] = ()
    shared_bytes: int = 0
    line: int = 1
    end: int = 1
    instructions: int = 0
    lines: tuple[tuple[int, str, int], ...] = ()


def parse_ptx(text: str) -> tuple[PtxKernel, ...]:
    """Parse the kernels of a PTX file, in order."""
    if ".entry" not in text:  # found at once in a large file that is no PTX; patterns take seconds
        return ()
    version, target = _VERSION.search(text), _TARGET.search(text)
    files = dict(_FILE.findall(text))
    found = list(_ENTRY.finditer(text))
    kernels = []
    for k, head in enumerate(found):
        last = found[k + 1].start() if k + 1 < len(found) else len(text)
        part = text[head.start() : last]
        close = part.find("\n}")
        part = part if close < 0 else part[: close + 2]
        declared, _, body = part.partition("\n{")
        first = text.count("\n", 0, head.start()) + 1
        code = body.splitlines()
        kernels.append(
            PtxKernel(
                head[1],
                target[1] if target else "",
                version[1] if version else "",
                tuple(
                    (m["name"], m["type"] + (m["size"] or ""))
                    for m in map(_PARAMETER.search, declared.splitlines())
                    if m
                ),
                _threads(declared),
                tuple((kind, int(count)) for kind, count in _REGISTERS.findall(body)),
                sum(int(size) * _bytes(kind) for kind, size in _SHARED.findall(part)),
                first,
                first + part.count("\n"),
                sum(_INSTRUCTION.match(line) is not None for line in code),
                _source_lines(code, first + declared.count("\n") + 1, files),
            )
        )
    return tuple(kernels)


def _threads(declared: str) -> tuple[int, int, int]:
    numbers = {name: re.findall(r"\d+", values) for name, values in _DIRECTIVE.findall(declared)}
    found = numbers.get("reqntid") or numbers.get("maxntid") or ()
    x, y, z, *_ = (*(int(n[:9]) for n in found), *(1, 1, 1)) if found else (0, 0, 0)
    return x, y, z


def _bytes(kind: str) -> int:
    digits = re.search(r"\d{1,3}$", kind)
    return max(1, int(digits[0]) // 8) if digits else 1


def _source_lines(code: list[str], first: int, files: dict[str, str]) -> tuple[tuple[int, str, int], ...]:
    return tuple(
        (first + k, files.get(m[1], ""), int(m[2]))
        for k, line in enumerate(code)
        if (m := _LOC.match(line)) is not None
    )
