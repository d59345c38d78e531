"""The C API as data: sizes and offsets as in the C header."""

from __future__ import annotations

import ctypes

import pytest

from xlanb.pjrt import c_api
from xlanb.pjrt.native_text import NATIVE, UNUSUAL_FUNCTIONS


def test_the_table_has_the_size_of_its_version() -> None:
    assert ctypes.sizeof(c_api.Api) == 1064
    assert len(c_api.FUNCTIONS) == len(set(c_api.FUNCTIONS)) == 128


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("LoadedExecutable_Execute", 80),
        ("Client_BufferFromHostBuffer", 120),
        ("Device_MemoryStats", 185),
        ("Event_IsReady", 25),
        ("Error_GetCode", 28),
    ],
)
def test_arguments_have_the_sizes_of_the_header(name: str, size: int) -> None:
    assert c_api.size(name) == size


def test_shared_structs_have_the_sizes_of_the_header() -> None:
    assert ctypes.sizeof(c_api.NamedValue) == 56
    assert ctypes.sizeof(c_api.Tiled) == ctypes.sizeof(c_api.Strided) == 80


def test_each_described_function_is_one_of_the_table() -> None:
    described = set(c_api._FIELDS)
    assert described <= set(c_api.FUNCTIONS) | set(c_api.LAYOUT_FUNCTIONS)
    assert set(UNUSUAL_FUNCTIONS) <= set(NATIVE) <= set(c_api.FUNCTIONS) | set(c_api.LAYOUT_FUNCTIONS)
