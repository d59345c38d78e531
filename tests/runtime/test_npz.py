"""Arrays in .npz files: a change of any byte of their values is detected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xlanb.errors import DataLossError
from xlanb.runtime.npz import read_npz

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones((), np.int8)}


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **ARRAYS)
    found = read_npz(tmp_path / "x.npz")
    assert list(found) == ["a", "b"]
    np.testing.assert_array_equal(found["a"], ARRAYS["a"])


def test_every_byte_of_a_member_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, **ARRAYS)
    whole = path.read_bytes()
    refused = 0
    for at in range(whole.index(b"PK\1\2")):  # then comes the directory, which has no checksum
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x21]) + whole[at + 1 :])
        try:
            found = read_npz(path)
        except DataLossError:
            refused += 1
            continue
        for name, array in ARRAYS.items():  # local headers are only partly read: the directory repeats them
            np.testing.assert_array_equal(found[name], array)
    assert refused > sum(a.nbytes for a in ARRAYS.values())


def test_a_smaller_shape_in_a_header_is_no_way_round_the_checksum(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **ARRAYS)
    whole = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(whole.replace(b"(2, 3)", b"(2, 2)"))
    with pytest.raises(DataLossError, match=r"a\.npy"):
        read_npz(tmp_path / "x.npz")


def test_no_archive(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"PK nonsense")
    with pytest.raises(DataLossError, match=r"x\.npz"):
        read_npz(tmp_path / "x.npz")
