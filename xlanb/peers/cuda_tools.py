"""NVIDIA's ptxas and nvdisasm: report registers and spills of a dump's PTX, and write SASS.

Both tools come from wheels and need no GPU. Each start of nvdisasm takes some 0.4 s for any input,
so the kernels of a module are assembled together, and one by one only if ptxas rejects that. The
files for `NAME.ptx`:

    NAME.ptxas.txt    the report of `ptxas -v` on its entries, or its error
    NAME.sass         the machine code, each instruction after its line of the PTX
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from xlanb.dump.gpu.ptxas import NO_SASS
from xlanb.dump.names import decode_name, printable
from xlanb.dump.reader import MAX_BYTES
from xlanb.errors import DumpError, MissingPeerError
from xlanb.files import read_regular, replace_file

TIMEOUT_S = 120.0
_FEWEST = 8
"""Kernels for which one more process is started."""

_TARGET = re.compile(r"^[ \t]*\.target[ \t]+(sm_\d+[a-z]?)", re.MULTILINE)
_ENTRY = re.compile(r"^[ \t]*(?:\.\w+[ \t]+)*\.entry[ \t]+([\w$]+)", re.MULTILINE)
_HEADER = re.compile(r"^([ \t]*\.(?:version|target|address_size)\b)", re.MULTILINE)
_VARIABLE = re.compile(
    r"^(?:\.(?:visible|extern|weak|common)[ \t]+)*\.(?:global|const|shared)\b[^;={\n]*?"
    r"([A-Za-z_$%][\w$]*)[ \t]*(?:\[|;|=)",
    re.MULTILINE,
)
_COMPILING = re.compile(r"^ptxas info +: Compiling entry function '([^'\n]+)'", re.MULTILINE)
_SECTION = re.compile(r"^//-+ \.text\.([\w$.]+) +-+$", re.MULTILINE)
_PTX_LINE = re.compile(r'^(\s*//## File "\.nv_debug_ptx_txt", line )(\d+)', re.MULTILINE)
_NOISE = re.compile(r"^(?:nvdisasm warning .*|ptxas info +: Compile time = .*)\n?", re.MULTILINE)


@dataclass(frozen=True)
class Assembled:
    """The files written for one PTX file.

    `error` says why there is no SASS, or is "".
    """

    ptx: Path
    entries: tuple[str, ...] = ()
    error: str = ""

    @property
    def report(self) -> Path:
        """The report of ptxas."""
        return self.ptx.with_suffix(".ptxas.txt")

    @property
    def sass(self) -> Path:
        """Its machine code."""
        return self.ptx.with_suffix(".sass")


@dataclass(frozen=True)
class _Source:
    """A PTX file's text, its architecture, and its kernels."""

    path: Path
    text: str
    arch: str
    entries: tuple[str, ...]


@dataclass(frozen=True)
class _Tools:
    ptxas: str
    nvdisasm: str
    timeout: float


def find_tool(name: str) -> str:
    """The path of "ptxas" or "nvdisasm": from NVIDIA's wheels in this environment, else from PATH.

    Raises:
        MissingPeerError: it is not installed.
    """
    tool = _of_wheels(name)
    found = str(tool) if tool is not None else shutil.which(name)
    if found is None:
        raise MissingPeerError(
            f"{name}, which assembles PTX to machine code, is not installed: pip install 'xlanb[gpu]'"
        )
    return found


def toolkit_flag() -> str:
    """Return the flag that makes XLA use ptxas from NVIDIA's wheel; "" if there is no wheel.

    The system's ptxas may be too new for old GPUs.
    """
    tool = _of_wheels("ptxas")
    # XLA_FLAGS are split at blanks.
    return "" if tool is None or " " in str(tool) else f"--xla_gpu_cuda_data_dir={tool.parent.parent}"


def _of_wheels(name: str) -> Path | None:
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for tool in sorted(Path(folder).glob(f"*/bin/{name}")):
            if os.access(tool, os.X_OK):
                return tool
    return None


def assemble(folder: str | os.PathLike[str], *, timeout: float = TIMEOUT_S) -> list[Assembled]:
    """Assemble and disassemble every .ptx of a dump directory that has a kernel.

    Existing results are kept. `timeout` is in seconds, for each process. A PTX that ptxas rejects
    gives a record with its error, which is also in the report.

    Raises:
        MissingPeerError: ptxas or nvdisasm is not installed.
        DumpError: the folder cannot be written to.
    """
    tools = _Tools(find_tool("ptxas"), find_tool("nvdisasm"), timeout)
    # XLA writes an empty one for constants alone.
    sources = [s for p in sorted(Path(folder).glob("*.ptx")) if p.is_file() and (s := _read(p)).text.strip()]
    done: dict[Path, Assembled] = {}
    for source in sources:
        if _is_done(Assembled(source.path)):
            done[source.path] = Assembled(source.path, source.entries)
        elif not source.arch:
            done[source.path] = _refused(source, "no line .target sm_NN: not PTX")
    groups = list(_groups([s for s in sources if s.path not in done]))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for made in pool.map(lambda g: _assemble_group(tools, g), groups):
            done.update({a.ptx: a for a in made})
    return [done[s.path] for s in sources]


def _is_done(made: Assembled) -> bool:
    """Whether both files are there and no older than the PTX."""
    try:
        newest = made.ptx.stat().st_mtime_ns
        return all(p.stat().st_mtime_ns >= newest for p in (made.report, made.sass))
    except OSError:
        return False


def _read(path: Path) -> _Source:
    try:
        text = read_regular(path, MAX_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise DumpError(f"{printable(path)}: cannot be read: {error}") from error
    target = _TARGET.search(text)
    return _Source(path, text, target[1] if target else "", tuple(_ENTRY.findall(text)))


def _groups(sources: Sequence[_Source]) -> Iterable[list[_Source]]:
    """Sources that can be assembled together: of one module and architecture, no entry twice.

    As many groups as there are processors.
    """
    together: dict[tuple[object, ...], list[_Source]] = {}
    for s in sources:
        name = decode_name(printable(s.path.name))
        together.setdefault((name.module_id, name.timestamp, s.arch), []).append(s)
    for group in together.values():
        count = max(1, min(os.cpu_count() or 1, len(group) // _FEWEST))
        by_size = sorted(group, key=lambda s: -len(s.text))
        for part in (by_size[k::count] for k in range(count)):
            entries = Counter(e for s in part for e in s.entries)
            alone = [s for s in part if any(entries[e] > 1 for e in s.entries)]
            yield from ([s] for s in alone)
            if rest := [s for s in part if s not in alone]:
                yield rest


def _assemble_group(tools: _Tools, group: Sequence[_Source]) -> list[Assembled]:
    """Assemble a group together; if that fails, each file alone, to find the faulty one."""
    try:
        report, sass, unread = _run_both(tools, _merged(group), group[0].arch)
    except DumpError as error:
        if len(group) > 1:
            return [a for s in group for a in _assemble_group(tools, [s])]
        return [_refused(group[0], str(error))]
    said, code = _by_name(_COMPILING, report), _by_name(_SECTION, sass)
    made = []
    for source, first in zip(group, _offsets(group), strict=True):
        _write(Assembled(source.path).report, "".join(said.get(e, "") for e in source.entries) + unread)
        if unread:
            made.append(Assembled(source.path, source.entries, unread.strip()))
            continue
        text = "\n".join(code[e].rstrip() for e in source.entries if e in code)
        _write(Assembled(source.path).sass, _numbered(text, first) + "\n")
        made.append(Assembled(source.path, source.entries))
    return made


def _numbered(sass: str, before: int) -> str:
    """Renumber PTX lines in SASS from the file's beginning, line `before` of the merged text."""
    return _PTX_LINE.sub(lambda m: f"{m[1]}{int(m[2]) - before}", sass)


def _merged(group: Sequence[_Source]) -> str:
    """One PTX of several: one header, and variables that several declare named apart.

    No line is added or removed.
    """
    declared = Counter(name for s in group for name in set(_VARIABLE.findall(s.text)))
    parts = []
    for k, source in enumerate(group):
        text = source.text
        for name in set(_VARIABLE.findall(text)):
            if declared[name] > 1:
                text = re.sub(rf"(?<![\w$]){re.escape(name)}(?![\w$])", f"{name}__{k}", text)
        parts.append((_HEADER.sub(r"//\1", text) if k else text).rstrip("\n"))
    return "\n".join([*parts, ""])


def _offsets(group: Sequence[_Source]) -> list[int]:
    """Lines of the merged text before each source."""
    offsets, at = [], 0
    for source in group:
        offsets.append(at)
        at += source.text.rstrip("\n").count("\n") + 1
    return offsets


def _run_both(tools: _Tools, ptx: str, arch: str) -> tuple[str, str, str]:
    """Return the report of ptxas on a PTX, and its SASS.

    Or the reason why there is none: nvdisasm does not support GPUs that are too old.

    Raises:
        DumpError: ptxas rejects it.
    """
    with tempfile.TemporaryDirectory(prefix="xlanb-") as folder:
        source, cubin = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(ptx, encoding="utf-8")
        options = ["-v", f"-arch={arch}", "-lineinfo", "-o", cubin.name, source.name]
        report = _run([tools.ptxas, *options], folder, tools.timeout).stderr
        try:
            sass = _run([tools.nvdisasm, "-c", "-g", "-gp", cubin.name], folder, tools.timeout).stdout
        except DumpError as error:
            return _NOISE.sub("", report), "", f"{NO_SASS}{error}\n"
    return _NOISE.sub("", report), _NOISE.sub("", sass), ""


def _run(command: Sequence[str], folder: str, timeout: float) -> subprocess.CompletedProcess[str]:
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout, check=False, cwd=folder
        )
    except subprocess.TimeoutExpired:
        raise DumpError(f"{name} took more than {timeout:g} s") from None
    except OSError as error:
        raise DumpError(f"{command[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or f"it exited with status {done.returncode}"
        raise DumpError(f"{name} rejects the input: {said[-2000:]}")
    return done


def _by_name(begin: re.Pattern[str], text: str) -> dict[str, str]:
    """The pieces of a text by the name that each begins with."""
    found = list(begin.finditer(text))
    ends = [m.start() for m in found[1:]] + [len(text)]
    return {m[1]: text[m.start() : end] for m, end in zip(found, ends, strict=False)}


def _refused(source: _Source, why: str) -> Assembled:
    _write(Assembled(source.path).report, why + "\n")
    return Assembled(source.path, source.entries, why)


def _write(path: Path, text: str) -> None:
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise DumpError(f"{printable(path)}: cannot be written: {error}") from error
