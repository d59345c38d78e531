from __future__ import annotations

import pytest

from xlanb.errors import OutOfMemoryError
from xlanb.memory import ADDRESSABLE, available_bytes, check_addressable, out_of_memory, size_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (3 << 29, "1.5 GiB"),
        (1 << 70, "1,024.0 EiB"),
        (10**30, "about 10^30 bytes"),
    ],
)
def test_sizes(count, text):
    assert size_text(count) == text


def test_some_memory_is_available():
    left = available_bytes()
    assert left is None or left > 0


def test_the_error_says_what_and_how_much():
    error = out_of_memory("result 0", 1 << 40)
    assert str(error).startswith("out of memory for result 0: 1.0 TiB requested")
    assert error.wanted == 1 << 40


def test_what_cannot_be_addressed():
    check_addressable("x", ADDRESSABLE - 1)
    with pytest.raises(OutOfMemoryError, match=r"x takes 4\.0 EiB, more than can be addressed"):
        check_addressable("x", ADDRESSABLE)
