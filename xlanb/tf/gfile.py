"""tf.gfile: files under TensorFlow's names (python/platform/gfile.py); paths are local."""

# ruff: noqa: N802, SIM115 - TensorFlow's names; the object is the context manager

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

from xlanb.errors import XlanbError


class NotFoundError(XlanbError, FileNotFoundError):
    """A file or directory that is not there."""


class GFile:
    """A file, opened on first use. `mode` is Python's: "r" reads text and "rb" bytes."""

    def __init__(self, name: str | os.PathLike[str], mode: str = "r") -> None:
        self.name = os.fspath(name)
        self.mode = mode
        self._file: IO[Any] | None = None

    def _opened(self) -> IO[Any]:
        if self._file is None:
            try:
                self._file = Path(self.name).open(self.mode, encoding=None if "b" in self.mode else "utf-8")
            except FileNotFoundError as error:
                raise NotFoundError(f"{self.name}; No such file or directory") from error
        return self._file

    def read(self, n: int = -1) -> Any:
        """The rest of the file, or `n` of it."""
        return self._opened().read(n)

    def readline(self) -> Any:
        """The next line with its end."""
        return self._opened().readline()

    def readlines(self) -> list[Any]:
        """All lines that are left."""
        return self._opened().readlines()

    def write(self, content: Any) -> None:
        """Write at the current position."""
        self._opened().write(content)

    def seek(self, offset: int, whence: int = 0) -> None:
        """Go to a place in the file."""
        self._opened().seek(offset, whence)

    def tell(self) -> int:
        """The place in the file."""
        return self._opened().tell()

    def size(self) -> int:
        """Bytes of the file."""
        return Stat(self.name).st_size

    def flush(self) -> None:
        """Flush written data to the operating system."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._opened())


Open = FastGFile = GFile


def Exists(path: str) -> bool:
    """Whether there is such a file or directory."""
    return Path(path).exists()


def IsDirectory(path: str) -> bool:
    """Whether it is a directory."""
    return Path(path).is_dir()


def Glob(pattern: str | list[str]) -> list[str]:
    """Paths that match the pattern, or any of several."""
    patterns = [pattern] if isinstance(pattern, str) else pattern
    return [path for p in patterns for path in sorted(glob.glob(p))]  # noqa: PTH207 - relative patterns stay relative


def ListDirectory(path: str) -> list[str]:
    """Names in a directory."""
    if not Path(path).is_dir():
        raise NotFoundError(f"Could not find directory {path}")
    return sorted(p.name for p in Path(path).iterdir())


def MakeDirs(path: str) -> None:
    """Make a directory with its parents; existing ones are fine."""
    Path(path).mkdir(parents=True, exist_ok=True)


def MkDir(path: str) -> None:
    """Make a directory."""
    Path(path).mkdir()


def Remove(path: str) -> None:
    """Delete a file."""
    if not Path(path).exists():
        raise NotFoundError(f"{path}; No such file or directory")
    Path(path).unlink()


def DeleteRecursively(path: str) -> None:
    """Delete a directory with all in it."""
    if not Path(path).exists():
        raise NotFoundError(f"{path}; No such file or directory")
    shutil.rmtree(path)


def Copy(oldpath: str, newpath: str, overwrite: bool = False) -> None:
    """Copy a file. Raises FileExistsError unless `overwrite` where the new one is there."""
    if Path(newpath).exists() and not overwrite:
        raise FileExistsError(newpath)
    shutil.copyfile(oldpath, newpath)


def Rename(oldname: str, newname: str, overwrite: bool = False) -> None:
    """Rename a file. Raises FileExistsError if the new name exists, unless `overwrite`."""
    if Path(newname).exists() and not overwrite:
        raise FileExistsError(newname)
    Path(oldname).replace(newname)


def Stat(path: str) -> os.stat_result:
    """The file's size (`st_size`; `length` in TensorFlow) and times."""
    if not Path(path).exists():
        raise NotFoundError(f"{path}; No such file or directory")
    return Path(path).stat()


def Walk(top: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Directories below `top`, each with the names of directories and files in it."""
    for directory, folders, files in os.walk(top):
        yield directory, sorted(folders), sorted(files)
