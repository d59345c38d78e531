"""Disassemble object files with binutils' objdump.

LLVM's own disassembler is not available from Python.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from xlanb.errors import MissingPeerError, XlanbError

_TIMEOUT_S = 60
_AT_ONCE = 200
_FILE = re.compile(r"^(?P<file>\d+\.o):\s+file format .*$", re.MULTILINE)
_COMPLAINT = re.compile(r"(?P<file>\d+\.o): (?P<words>.+)")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>[^>]+)>:$")
_INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\s+(?P<text>.*)$")


def disassemble(objects: Sequence[bytes]) -> list[str | XlanbError]:
    """Disassemble each object file's functions, Intel syntax on x86, or return why it failed.

    A function is `name:` and its indented instructions. One process reads hundreds of files.

    Raises:
        MissingPeerError: objdump is not installed.
    """
    tool = shutil.which("objdump")
    if tool is None:
        raise MissingPeerError("to show machine code of object files, install binutils (objdump)")
    found: list[str | XlanbError] = []
    for first in range(0, len(objects), _AT_ONCE):
        found += _some(tool, objects[first : first + _AT_ONCE])
    return found


def _some(tool: str, objects: Sequence[bytes]) -> list[str | XlanbError]:
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{k}.o" for k in range(len(objects))]
        for name, data in zip(names, objects, strict=True):
            (Path(folder) / name).write_bytes(data)
        command = [tool, "--disassemble", "--no-show-raw-insn", "--reloc", "-M", "intel", *names]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd=folder)
        except subprocess.TimeoutExpired:
            return [XlanbError(f"objdump took more than {_TIMEOUT_S} s")] * len(objects)
    texts = dict(_by_file(done.stdout))
    complaints = {m["file"]: m["words"] for m in map(_COMPLAINT.search, done.stderr.splitlines()) if m is not None}
    return [
        _tidy(texts[name])
        if name in texts
        else XlanbError(f"not an object file: {complaints.get(name, 'objdump rejects it')}")
        for name in names
    ]


def _by_file(text: str) -> Iterator[tuple[str, str]]:
    """Return objdump's output by file name."""
    begins = list(_FILE.finditer(text))
    ends = [m.start() for m in begins[1:]] + [len(text)]
    for begin, end in zip(begins, ends, strict=False):  # without files there is only an end
        yield begin["file"], text[begin.end() : end]


def _tidy(text: str) -> str:
    lines = []
    for line in text.splitlines():
        function = _FUNCTION.match(line)
        instruction = _INSTRUCTION.match(line)
        if function is not None:
            lines += ["", f"{function['name']}:"]
        elif instruction is not None:
            lines.append(f"\t{instruction['text'].rstrip()}")
    return "\n".join(lines).lstrip("\n")
