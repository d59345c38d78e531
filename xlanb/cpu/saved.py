"""Executables on disk: `exe.save(path)` writes one file, `xlanb.load(path)` reads it.

The file: a magic line, a digest of the rest, the length of a JSON header, the header, then the
object files and the constants in its order. The digest detects damage, not forgery: machine code is
trusted input, like a shared library.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xlanb.codegen import jit
from xlanb.codegen.signature import Signature
from xlanb.cpu import library
from xlanb.cpu.calls import Calls
from xlanb.cpu.objects import compile_units
from xlanb.errors import CompilationError, UnimplementedError
from xlanb.files import path_to_write, read_regular
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_shape import parse_shape
from xlanb.shape import Shape

if TYPE_CHECKING:
    from xlanb.cpu.executable import Executable

_MAGIC = b"xlanb executable 2\n"
_DIGEST = hashlib.sha256().digest_size
_MOST_BYTES = 1 << 47
"""More bytes than any process can address."""


def save(exe: Executable, path: str | Path) -> None:
    """See Executable.save."""
    if exe.device_count > 1:
        raise UnimplementedError(
            f"cannot save {exe.hlo_module.name}: it runs on {exe.device_count} devices; only programs for "
            "one device can be saved"
        )
    program = exe.program
    if program.host:
        instruction = next(iter(program.host.values()))
        raise UnimplementedError(
            f"the program calls a function of this process, which cannot be saved:\n  {instruction}"
        )
    path_to_write(path).write_bytes(content(exe))


def content(exe: Executable) -> bytes:
    """The file content for an executable of one device that calls no function of this process."""
    program = exe.program
    objects = compile_units(program.units(), program.target)
    constants = {name: memory.tobytes() for name, memory in program.constants.items()}
    signature = exe.calls.signature
    header = {
        "name": signature.name,
        "parameters": [[name, shape.text()] for name, shape in signature.parameters],
        "result": signature.result.text(),
        "triple": program.target.triple,
        "features": sorted(program.target.enabled),
        "temp": exe.buffer_assignment.temp_size,
        "long": exe.calls.is_long,
        "symbols": list(library.symbols(program.module.declarations)),
        "objects": [len(o) for o in objects],
        "constants": {name: len(data) for name, data in constants.items()},
    }
    text = json.dumps(header).encode()
    body = b"".join((struct.pack("<Q", len(text)), text, *objects, *constants.values()))
    return _MAGIC + hashlib.sha256(body).digest() + body


class SavedExecutable:
    """An executable read from a file: `exe(*arrays)` runs it as where it was compiled.

    See Executable.
    """

    __slots__ = ("__call__", "calls")
    __call__: Callable[..., Any]

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.__call__ = calls.entry()

    def cancel(self) -> int:
        """Stop the calls of other threads (see Executable.cancel)."""
        return self.calls.cancel()

    def __str__(self) -> str:
        return f"SavedExecutable {self.calls.signature.name}: {self.calls.signature.text}"

    def __repr__(self) -> str:
        return f"<{self}>"


def load(path: str | Path) -> SavedExecutable:
    """Load the executable that `Executable.save` wrote.

    The file holds machine code that runs in this process: as with pickle, whoever wrote it can do
    anything that you can. Load only files that you would also run as programs. The digest detects
    damage, not forgery; the header is checked before anything is linked.

    Raises:
        CompilationError: The file is not an executable of this version, is damaged or inconsistent,
            or was made for a machine with features that this one lacks.
        OSError: The file cannot be read.
    """
    file = Path(path)
    return SavedExecutable(read(path, read_regular(file, file.stat().st_size)))


def read(
    path: str | Path,
    content: bytes,
    names: Sequence[str] | None = None,
    explain: Callable[[int | None], str] | None = None,
) -> Calls:
    """The calls of an executable from the content of its file.

    Args:
        path: The file's name in errors.
        content: The result of `content`.
        names: The parameters' names, if they differ from those in the file.
        explain: As for `Calls`.

    Raises:
        CompilationError: As for `load`.
    """
    header, blobs = _parts(path, content)
    try:
        return _load(path, header, blobs, names, explain or _unexplained)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CompilationError(
            f"{path} is damaged: its header does not describe an executable ({type(error).__name__}: {error})"
        ) from error


def _unexplained(_: int | None) -> str:
    return ""


def _load(
    path: str | Path,
    header: Mapping[str, Any],
    blobs: _Blobs,
    names: Sequence[str] | None,
    explain: Callable[[int | None], str],
) -> Calls:
    host = jit.host()
    missing = sorted(set(header["features"]) - host.enabled)
    if header["triple"] != host.triple or missing:
        needs = f"{header['triple']}{''.join(f' +{f}' for f in missing)}"
        raise CompilationError(
            f"{path} was compiled for another machine: it needs {needs}, this is {host.triple} {host.cpu}"
        )
    temp, is_long = header["temp"], header["long"]
    if type(temp) is not int or not 0 <= temp < _MOST_BYTES or type(is_long) is not bool:
        raise ValueError(f"temp is {temp!r}, long is {is_long!r}")
    objects = [blobs.take(size) for size in header["objects"]]
    unfit = [name for name in header["constants"] if not name or "\0" in name]
    if unfit:
        raise ValueError(f"the constant's name {unfit[0]!r} is not a valid symbol name")
    constants = {name: _aligned(blobs.take(size)) for name, size in header["constants"].items()}
    symbols = {name: memory.ctypes.data for name, memory in constants.items()} | _functions(header["symbols"])
    loaded = jit.LoadedCode(objects, ["run"], symbols, constants)
    code = library.ProgramCode(loaded.address("run"), 0, loaded)
    parameters = [(n, _shape(text)) for n, text in header["parameters"]]
    if names is not None:
        parameters = [(n, shape) for n, (_, shape) in zip(names, parameters, strict=True)]
    signature = Signature(header["name"], tuple(parameters), _shape(header["result"]))
    return Calls(signature, code, temp, is_long=is_long, calls_host=False, explain=explain)


class _Blobs:
    """The bytes after the header, read in sequence."""

    def __init__(self, data: memoryview) -> None:
        self.data = data

    def take(self, size: int) -> bytes:
        if type(size) is not int or not 0 <= size <= len(self.data):
            raise ValueError(f"a part has {size!r} bytes, but only {len(self.data)} are left")
        taken, self.data = self.data[:size], self.data[size:]
        return bytes(taken)


def _parts(path: str | Path, content: bytes) -> tuple[Mapping[str, Any], _Blobs]:
    """The header and what follows it.

    Raises:
        CompilationError: The content is not of this version, or is damaged.
    """
    start = len(_MAGIC) + _DIGEST
    if not content.startswith(_MAGIC):
        raise CompilationError(f"{path} is not an executable saved by this version of xlanb")
    if content[len(_MAGIC) : start] != hashlib.sha256(content[start:]).digest():
        raise CompilationError(f"{path} is damaged: its checksum does not match its content")
    begin = start + 8
    length = int.from_bytes(content[start:begin], "little")
    try:
        header = json.loads(content[begin : begin + length])
    except (ValueError, RecursionError) as error:
        raise CompilationError(f"{path} is damaged: its header is not JSON ({error})") from error
    if len(content) < begin + length or not isinstance(header, dict):
        raise CompilationError(f"{path} is damaged: its header is incomplete")
    return header, _Blobs(memoryview(content)[begin + length :])


def _functions(names: list[str]) -> dict[str, int]:
    """The addresses of the functions of this process that the code calls."""
    found = library.symbols(names)
    return {name: found[name] for name in names}


def _shape(text: str) -> Shape:
    return parse_shape(Cursor(text), {})


def _aligned(data: bytes) -> NDArray[np.uint8]:
    memory = np.empty(len(data) + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :][: len(data)]
    memory[:] = np.frombuffer(data, np.uint8)
    return memory
