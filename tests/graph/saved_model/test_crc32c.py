"""CRC-32C against the vectors of RFC 3720 (appendix B.4) and against a bit at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlanb.graph.saved_model.crc32c import crc32c, masked

VECTORS = {
    b"": 0,
    b"a": 0xC1D04330,
    b"123456789": 0xE3069283,
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(reversed(range(32))): 0x113FDB5C,
}


def by_bits(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize("data", VECTORS, ids=lambda d: f"{len(d)} bytes {d[:1].hex()}")
def test_the_vectors_of_the_standard(data: bytes) -> None:
    assert crc32c(data) == VECTORS[data]


@given(st.binary(max_size=600), st.integers(0, 600))
def test_a_part_after_the_other_is_the_whole(data: bytes, at: int) -> None:
    assert crc32c(data) == by_bits(data) == crc32c(data[at:], crc32c(data[:at]))


@pytest.mark.parametrize("size", [(1 << 18) - 4, 1 << 18, (1 << 18) + 7, 3 * (1 << 18) + 1])
def test_data_of_several_chunks(size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    assert crc32c(data[:size]) == crc32c(data[1000:size], crc32c(data[:1000]))
    assert crc32c(bytearray(data[:size])) == crc32c(memoryview(data)[:size])


def test_masked_as_leveldb_does() -> None:
    assert masked(0) == 0xA282EAD8
    assert masked(masked(crc32c(b"foo"))) != crc32c(b"foo")
