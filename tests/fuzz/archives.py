"""Damaged saved executables (`.xlanb`): cut, changed, or with another header and a right digest.

A header with a right digest is trusted, like machine code: such a file is read, not run.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import xlanb
from tests.fuzz.kinds import Item
from tests.fuzz.mutate import change_bytes, change_json
from xlanb.errors import XlanbError

_TEXT = """HloModule line

ENTRY main {
  x = f32[7,3]{1,0} parameter(0)
  y = f32[3]{0} parameter(1)
  b = f32[7,3]{1,0} broadcast(y), dimensions={1}
  d = f32[7,3]{1,0} subtract(x, b)
  ROOT t = (f32[7,3]{1,0}, f32[7,3]{1,0}) tuple(d, x)
}
"""
_DIGEST = hashlib.sha256().digest_size


@cache
def _saved() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "line.xlanb"
        xlanb.compile(_TEXT).save(path)
        return path.read_bytes()


def mutants(rng: np.random.Generator) -> Iterator[bytes]:
    """Mutations of the seed program's file."""
    whole = _saved()
    while True:
        yield _with_other_header(whole, rng) if rng.random() < 0.5 else change_bytes(whole, rng)


def _with_other_header(whole: bytes, rng: np.random.Generator) -> bytes:
    magic = whole.index(b"\n") + 1
    body = whole[magic + _DIGEST :]
    (size,) = struct.unpack_from("<Q", body)
    header: Any = change_json(json.loads(body[8 : 8 + size]), rng)
    text = json.dumps(header).encode()
    length = len(text) if rng.random() < 0.9 else int(rng.integers(0, 1 << 62))
    body = struct.pack("<Q", length) + text + body[8 + size :]
    return whole[:magic] + hashlib.sha256(body).digest() + body


def check(item: Item, _rng: np.random.Generator) -> str | None:
    """Load the file; run it if nothing was changed."""
    assert isinstance(item, bytes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "line.xlanb"
        path.write_bytes(item)
        try:
            exe = xlanb.load(path)
        except XlanbError:
            return None
        if item == _saved():
            exe(np.ones((7, 3), np.float32), np.ones(3, np.float32))
    return None
