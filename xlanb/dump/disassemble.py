"""Object files as assembly text, by the binutils' objdump: LLVM's own disassembler is not in reach from Python."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from xlanb.errors import MissingPeerError, XlanbError

_TIMEOUT_S = 60
_FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>[^>]+)>:$")
_INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\s+(?P<text>.*)$")


def disassemble(data: bytes) -> str:
    """The functions of an object file as assembly, Intel syntax on x86: `name:` and its instructions, indented.

    Raises:
        MissingPeerError: objdump is not installed.
        XlanbError: the bytes are no object file that it can read.
    """
    tool = shutil.which("objdump")
    if tool is None:
        raise MissingPeerError("to show machine code of object files, install binutils (objdump)")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.o"
        path.write_bytes(data)
        command = [tool, "--disassemble", "--no-show-raw-insn", "--reloc", "-M", "intel", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise XlanbError(f"objdump took more than {_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise XlanbError(f"no object file: {done.stderr.strip().rpartition(': ')[2] or 'objdump refuses it'}")
    return _tidy(done.stdout)


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
