"""Read a dump directory: files by module, found by name, opened on demand."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from stat import S_ISREG

from xlanb.dump.lazy_heads import is_analysis, is_lazy_text
from xlanb.dump.names import COMPRESSED, DumpName, decode_name, printable
from xlanb.dump.tpu.grouping import compilations
from xlanb.dump.tpu.names import FINAL_BUNDLES, HLO
from xlanb.errors import DumpError
from xlanb.files import at_home, is_file, is_folder, open_regular, read_regular
from xlanb.hlo.module import HloModule
from xlanb.hlo.text.parser import parse

MAX_FILES = 1_000_000
MAX_FOLDERS = 100_000
MAX_BYTES = 1 << 30
"""The most bytes read from a file (after gunzip); longer files are rejected."""

_SAMPLE = 50_000
_LEAST_SHARE = 0.01
"""The fraction of files that must have names of dump files, by number of files.

Otherwise it is not a dump directory.
"""

_UNZIPPED = 64 << 20
_RATIO = 100
"""The most bytes decompressed from a gzipped file, in total and per compressed byte.

HLO text compresses to a tenth or a thirtieth.
"""

_GZIP_LENGTH = 4
"""Bytes at the end of a gzipped file with the length of its content."""

_SHARDY = "shardy"
_CHANGELIST = re.compile(r"\.cl_\d{1,20}$")
"""The suffix of module names in XLA:TPU's files: the revision of libtpu."""

_NAME_BYTES = 4096
_MODULE_LINE = re.compile(r"\s*HloModule\s+([^\s,]{1,400})")

_LOOKED_INTO = 200
_TEXTS = frozenset({"", "txt", "hlo", "log"})

HLO_EXTENSIONS = ("txt", "hlo.pb", "pb", "hlo")
"""Forms of HLO that can be read, best first."""


@dataclass(frozen=True)
class DumpFile:
    """One file: `path`, size in bytes on disk, modification time in seconds, and its decoded name.

    `owner` keeps a temporary directory alive: keep it as long as a file of it may be read.
    """

    path: Path
    size: int
    modified: float
    name: DumpName
    owner: object = field(default=None, compare=False, repr=False)

    def read_bytes(self) -> bytes:
        """Read the content, gunzipped.

        Raises:
            DumpError: the file cannot be read, is not valid gzip, or is larger than MAX_BYTES.
        """
        try:
            if self.size > MAX_BYTES:
                raise DumpError(
                    f"{printable(self.path)}: the file has {self.size:,} bytes, more than the limit of {MAX_BYTES:,}"
                )
            data = read_regular(self.path, MAX_BYTES)
            if self.name.compressed:
                limit = min(MAX_BYTES, max(_UNZIPPED, _RATIO * len(data)))
                data = _gunzipped(data, limit)
            else:
                limit = MAX_BYTES
        except (OSError, EOFError, zlib.error) as error:
            raise DumpError(f"{printable(self.path)}: cannot be read: {error}") from error
        if len(data) > limit:
            zipped = f", compressed to {self.size:,} bytes" if self.name.compressed else ""
            raise DumpError(f"{printable(self.path)}: the content is larger than the limit of {limit:,} bytes{zipped}")
        return data

    def read_text(self) -> str:
        """Read the content as text; invalid UTF-8, which XLA names may contain, is replaced."""
        return self.read_bytes().decode("utf-8", errors="replace")

    def read_hlo(self) -> HloModule:
        """Read the HLO module, from text or protocol buffer.

        Raises:
            XlanbError: it holds no readable HLO; the message names the file.
        """
        if self.name.extension in ("hlo.pb", "pb"):
            return HloModule.from_proto(self.read_bytes())
        return parse(self.read_text())

    @cached_property
    def content_size(self) -> int:
        """Bytes of the content; of a gzipped file as it states, at most MAX_BYTES."""
        if not self.name.compressed:
            return self.size
        try:
            with open_regular(self.path) as file:
                file.seek(-_GZIP_LENGTH, os.SEEK_END)
                return min(int.from_bytes(file.read(_GZIP_LENGTH), "little"), MAX_BYTES)
        except OSError:
            return self.size

    @cached_property
    def digest(self) -> bytes:
        """A checksum of the content, equal for equal dumps."""
        import hashlib

        return hashlib.blake2b(self.read_bytes(), digest_size=16).digest()


@dataclass(frozen=True)
class DumpStep:
    """One HLO dump: its forms (text, dot, ...), best first; `name` is the first's."""

    name: DumpName
    files: tuple[DumpFile, ...]

    @property
    def readable(self) -> DumpFile | None:
        """The file from which HLO can be read, or None."""
        return next((f for e in HLO_EXTENSIONS for f in self.files if f.name.extension == e), None)


@dataclass
class ModuleFiles:
    """The files of one module. `number` is its number in its process, -1 if not in the names."""

    folder: Path
    number: int
    name: str
    files: list[DumpFile] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all its files on disk."""
        return sum(f.size for f in self.files)

    @property
    def modified(self) -> float:
        """When the last of its files was written, in seconds since the epoch."""
        return max((f.modified for f in self.files), default=0.0)

    @cached_property
    def steps(self) -> list[DumpStep]:
        """The HLO dumps between and inside passes, in the order of writing."""
        return _in_steps(f for f in self.files if f.name.kind in ("pass", "step"))

    @cached_property
    def shardy(self) -> list[DumpFile]:
        """Shardy's MLIR before, between and after its passes, in order."""
        found = [f for f in self.files if f.path.parent.parent.name == _SHARDY and f.path.suffix == ".mlir"]
        return sorted(found, key=lambda f: f.path.name)

    def fixed(self, end: str) -> list[DumpFile]:
        """Return files whose fixed label ends so: "before_optimizations", "buffer-assignment"."""
        return [f for f in self.files if f.name.kind == "fixed" and _ends(f.name.label, end)]

    def hlo(self, end: str) -> DumpStep | None:
        """Return the HLO under a fixed label, in its forms."""
        found = sorted(self.fixed(end), key=_preference)
        return DumpStep(found[0].name, tuple(found)) if found else None

    @cached_property
    def kernels(self) -> dict[str, dict[str, DumpFile]]:
        """The backend's files for each kernel, by kernel and kind.

        Kinds are "llvm_ir", "llvm_ir_optimized", "object", ...
        """
        found: dict[str, dict[str, DumpFile]] = {}
        for f in self.files:
            if f.name.kind not in ("pass", "step", "fixed", "other", "graph", "llo"):
                found.setdefault(f.name.kernel, {})[f.name.kind] = f
        return dict(sorted(found.items()))

    @property
    def kernel_count(self) -> int:
        """The number of kernels; for a TPU, programs with bundles.

        XLA:GPU numbers a kernel's files separately, but writes one PTX for each, and an empty one
        for constants.
        """
        ptx = [f for files in self.kernels.values() for kind, f in files.items() if kind == "ptx"]
        if ptx:
            return sum(f.size > 0 for f in ptx)
        return len(self.kernels) or sum(f.name.label == FINAL_BUNDLES for f in self.llo)

    @property
    def llo(self) -> list[DumpFile]:
        """The LLO dumps of a TPU."""
        return [f for f in self.files if f.name.kind == "llo"]


@dataclass
class DumpListing:
    """The contents of a directory.

    They are modules, TensorFlow graphs in order, PyTorch/XLA's files about lazy graphs, and other
    files.
    """

    directory: Path
    modules: list[ModuleFiles] = field(default_factory=list)
    graphs: list[DumpFile] = field(default_factory=list)
    lazy: list[DumpFile] = field(default_factory=list)
    others: list[DumpFile] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)

    @property
    def file_count(self) -> int:
        """Files in the directory and its subfolders."""
        found = sum(len(m.files) for m in self.modules)
        return found + len(self.graphs) + len(self.lazy) + len(self.others)


def _gunzipped(data: bytes, limit: int) -> bytes:
    """Return up to `limit` + 1 bytes of the content."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return file.read(limit + 1)


def list_dump(directory: str | os.PathLike[str], owner: object = None) -> DumpListing:
    """List the files of a dump directory and its subfolders, by module.

    Opens no file, except the head of a TPU's HLO whose name has no module. `owner` is that of its
    files: see DumpFile.

    Raises:
        DumpError: there is no such directory; it holds more than MAX_FILES files or MAX_FOLDERS
            folders; or many files, hardly any of which has the name of a dump.
    """
    root = at_home(Path(directory))
    if not is_folder(root):
        raise DumpError(
            f"{printable(root)} is not a directory" + (f": did you mean {root.parent}?" if is_file(root) else "")
        )
    listing = DumpListing(root)
    files: list[DumpFile] = []
    unchecked = _SAMPLE
    for path, size, modified in _walk(root, listing.unreadable):
        if (
            len(files) >= unchecked and path.parent != files[-1].path.parent
        ):  # check whole folders, whose files are sorted by name
            _check_share(root, files)
            unchecked = len(files) + _SAMPLE
        files.append(DumpFile(path, size, modified, _decoded(path, root), owner))
        if len(files) > MAX_FILES:
            raise DumpError(f"{printable(root)} holds more than {MAX_FILES:,} files")
    named = _module_names(files)
    modules: dict[tuple[Path, int, str], ModuleFiles] = {}
    llo: dict[Path, list[DumpFile]] = {}
    for f in files:
        name = f.name
        if name.kind == "graph":
            listing.graphs.append(f)
        elif name.kind == "llo":
            llo.setdefault(f.path.parent, []).append(f)
        elif name.module_id is not None or name.module:
            f = _renamed(f, named)
            folder, number = _module_folder(f), -1 if f.name.module_id is None else f.name.module_id
            key = (folder, number, _CHANGELIST.sub("", _joined(f, named)))
            modules.setdefault(key, ModuleFiles(*key)).files.append(f)
        else:
            listing.others.append(f)
    _look_inside(listing, modules)
    listing.modules = sorted(modules.values(), key=lambda m: (m.folder, m.number, m.name))
    for folder, dumps in sorted(llo.items()):
        _add_llo(listing, folder, dumps)
    listing.graphs.sort(key=_graph_order)
    return listing


def _look_inside(listing: DumpListing, modules: dict[tuple[Path, int, str], ModuleFiles]) -> None:
    """Classify files with unknown names by their heads: PyTorch/XLA's texts, and HLO."""
    for f in listing.others[:_LOOKED_INTO]:
        if f.name.kind != "other" or f.name.extension not in _TEXTS or not f.size:
            continue
        head = _text_head(f)
        found = _MODULE_LINE.match(head)
        if found is not None:
            name = replace(f.name, kind="fixed", module=found[1], label="before_optimizations", extension="txt")
            key = (f.path.parent, -1, found[1])
            modules.setdefault(key, ModuleFiles(*key)).files.append(replace(f, name=name))
        elif is_lazy_text(head):
            listing.lazy.append(replace(f, name=replace(f.name, kind="lazy", label="graphs")))
        elif is_analysis(head):
            listing.lazy.append(replace(f, name=replace(f.name, kind="lazy", label="analysis")))
    known = {f.path for f in listing.lazy} | {f.path for m in modules.values() for f in m.files}
    listing.others = [f for f in listing.others if f.path not in known]


def _text_head(f: DumpFile) -> str:
    """Return the beginning of a file, "" if it cannot be read or is not text."""
    try:
        head = _head(f.path).replace(b"\r\n", b"\n")
    except (DumpError, OSError):
        return ""
    return "" if b"\0" in head else head.decode("utf-8", "replace")


def _add_llo(listing: DumpListing, folder: Path, dumps: list[DumpFile]) -> None:
    """Assign the LLO dumps of a folder to the modules in it, or in its parent, by name.

    The last compilation of a name belongs to its last module: compiling a program again into the
    same folder overwrites its HLO, but not its LLO. A compilation without other dumps is a module
    of its own.
    """
    waiting = [m for m in reversed(listing.modules) if m.folder in (folder, folder.parent)]
    groups = compilations(dumps)
    for group in reversed(groups):
        name = "" if len(groups) == 1 and len(waiting) == 1 else _llo_module(group)
        found = next((m for m in waiting if not name or m.name in (name, "")), None)
        if found is None:
            listing.modules.append(ModuleFiles(folder, -1, name or "tpu", group))
        else:
            waiting.remove(found)
            found.files.extend(group)


def _llo_module(group: list[DumpFile]) -> str:
    """Return the name of the module of a compilation's LLO, "" if it was not dumped."""
    file = next((f for f in group if f.name.label == HLO), None)
    if file is None:
        return ""
    try:
        head = file.read_bytes() if file.name.compressed else _head(file.path)
    except (DumpError, OSError):
        return ""
    found = _MODULE_LINE.match(head[:_NAME_BYTES].decode("utf-8", "replace"))
    return found[1] if found is not None else ""


def _head(path: Path) -> bytes:
    with open_regular(path) as opened:
        return opened.read(_NAME_BYTES)


def _check_share(root: Path, files: list[DumpFile]) -> None:
    """Raise DumpError if hardly any of these files has the name of a dump."""
    dumps = sum(f.name.module_id is not None or f.name.kind in ("graph", "llo") for f in files)
    if dumps < _LEAST_SHARE * len(files):
        raise DumpError(
            f"{printable(root)} is not a dump directory: {dumps:,} of its first "
            f"{len(files):,} files are named like dump files. Open the directory that "
            "--xla_dump_to or TF_DUMP_GRAPH_PREFIX pointed to"
        )


def read_hlo(path: str | os.PathLike[str]) -> HloModule:
    """Read the HLO module of one file.

    It may be text, or a binary HloModuleProto or HloProto (`.pb`), gzipped or not.

    Raises:
        XlanbError: the file cannot be read, or holds no HLO; the message shows where.
    """
    file = Path(path)
    try:
        stat = file.stat()
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise DumpError(f"{printable(file)}: {getattr(error, 'strerror', None) or error}") from error
    if file.is_dir():
        raise DumpError(f"{file} is a directory: expected one HLO file; use read_dump to open a dump directory")
    if not S_ISREG(stat.st_mode):
        raise DumpError(f"{file} is not a regular file: expected one HLO file")
    return DumpFile(file, stat.st_size, stat.st_mtime, decode_name(file.name)).read_hlo()


def _walk(root: Path, unreadable: list[tuple[Path, str]]) -> Iterator[tuple[Path, int, float]]:
    """Yield regular files below a folder.

    Does not follow links out of it; records what cannot be listed.
    """
    stack, folders = [root], 0
    while stack:
        folder = stack.pop()
        folders += 1
        if folders > MAX_FOLDERS:
            raise DumpError(f"{printable(root)} holds more than {MAX_FOLDERS:,} folders")
        try:
            entries = sorted(os.scandir(folder), key=lambda e: e.name)
        except OSError as error:
            unreadable.append((folder, str(error)))
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(Path(entry.path))
                elif entry.is_file():
                    stat = entry.stat()
                    yield Path(entry.path), stat.st_size, stat.st_mtime
            except OSError as error:
                unreadable.append((Path(entry.path), str(error)))


def _decoded(path: Path, root: Path) -> DumpName:
    """Decode a name; files in a folder module_NNNN.NAME belong to that module."""
    name = decode_name(printable(path.name))
    if name.module_id is None and path.parent != root:
        of_folder = decode_name(path.parent.name)
        if of_folder.module_id is not None:
            module = path.parent.name.partition(".")[2]
            stem = printable(path.name).removesuffix(COMPRESSED)
            label, _, extension = stem.partition(".")
            return replace(
                decode_name(f"module_{of_folder.module_id:04d}.{module}.{stem}", module),
                label=label,
                extension=extension,
            )
    return name


def _module_folder(f: DumpFile) -> Path:
    """Return the folder that distinguishes modules.

    It is the file's, or the parent of a module's own folder (also shardy/module_NNNN.NAME).
    """
    return _home_of(f.path.parent)


@lru_cache(maxsize=4096)
def _home_of(folder: Path) -> Path:
    if decode_name(folder.name).module_id is None:
        return folder
    return folder.parent.parent if folder.parent.name == _SHARDY else folder.parent


def _module_names(files: list[DumpFile]) -> dict[tuple[Path, int], Counter[str]]:
    """Count the module names of each number, from files with unambiguous names."""
    names: dict[tuple[Path, int], Counter[str]] = {}
    for f in files:
        if f.name.module_id is not None and f.name.module and f.name.kind in ("pass", "step", "fixed"):
            names.setdefault((_module_folder(f), f.name.module_id), Counter())[f.name.module] += 1
    return names


def _renamed(f: DumpFile, named: dict[tuple[Path, int], Counter[str]]) -> DumpFile:
    """Decode the file's name again with its module's name known."""
    names = named.get((_module_folder(f), f.name.module_id)) if f.name.module_id is not None else None
    if not names or f.name.kind in ("pass", "step"):
        return f
    rest = printable(f.path.name).removesuffix(COMPRESSED).partition("module_")[2].partition(".")[2]
    fitting = [n for n in names if rest.startswith(n + ".")]
    if not fitting or max(fitting, key=len) == f.name.module:
        return f
    return replace(f, name=decode_name(printable(f.path.name), max(fitting, key=len)))


def _joined(f: DumpFile, named: dict[tuple[Path, int], Counter[str]]) -> str:
    """Return a file's module name; if the file lacks it, that of its number's other files."""
    if f.name.module or f.name.module_id is None:
        return f.name.module
    names = named.get((_module_folder(f), f.name.module_id))
    return next(iter(names)) if names is not None and len(names) == 1 else ""


def _ends(label: str, end: str) -> bool:
    return label == end or label.endswith(("_" + end, "-" + end))


def _preference(f: DumpFile) -> tuple[int, str]:
    extension = f.name.extension
    return (HLO_EXTENSIONS.index(extension) if extension in HLO_EXTENSIONS else len(HLO_EXTENSIONS), extension)


def _in_steps(files: Iterator[DumpFile]) -> list[DumpStep]:
    """Group files into steps by what they show.

    A dump's text and picture are one step, whether they share a number or follow one another.
    """
    groups: dict[tuple[object, ...], list[DumpFile]] = {}
    for f in sorted(files, key=lambda f: (f.name.sequence if f.name.sequence is not None else -1, f.modified)):
        n = f.name
        groups.setdefault((n.sequence, n.pipeline, n.after, n.before), []).append(f)
    return [DumpStep((best := sorted(g, key=_preference))[0].name, tuple(best)) for g in groups.values()]


def _graph_order(f: DumpFile) -> tuple[str, int, float, str]:
    return (str(f.path.parent), f.name.sequence or 0, f.modified, f.path.name)
