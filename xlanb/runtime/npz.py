"""Checked reading of .npz files.

Each member of the archive has a checksum (CRC-32), which NumPy verifies only if it reads a member
to its end.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from xlanb.errors import DataLossError


def read_npz(path: str | Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a .npz file by name, in the file's order. Pickled objects are not read.

    Raises:
        DataLossError: The file is not an .npz of plain arrays, is truncated, or a checksum does not
            match; the message names the file and the member.
        OSError: There is no such file, or it cannot be read.
    """
    where = f"{str(path)!r}"
    try:
        with ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise DataLossError(f"{where} is damaged: the checksum of {damaged!r} does not match its bytes")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, EOFError, SyntaxError, BadZipFile, NotImplementedError, RuntimeError, zlib.error) as error:
        raise DataLossError(f"{where} is not an .npz file of plain arrays, or is damaged: {error}") from error
    except MemoryError as error:
        raise DataLossError(f"the content of {where} does not fit into memory: {error}") from error
