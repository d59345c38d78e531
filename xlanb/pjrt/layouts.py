"""The C API extension for layouts; all are row-major here."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from xlanb.pjrt import c_api
from xlanb.pjrt.buffers import BUFFERS
from xlanb.pjrt.functions import Handle, Text, implements, pointers
from xlanb.pjrt.native import buffer_words
from xlanb.pjrt.words import Buffer, LayoutWords


class RowMajor(Handle):
    """The row-major layout of a rank, serialized as in XLA: {1,0}."""

    def __init__(self, rank: int) -> None:
        super().__init__(len(LayoutWords))
        self.text = Text("{" + ",".join(str(d) for d in reversed(range(rank))) + "}")
        self.minor_to_major = (ctypes.c_int64 * max(rank, 1))(*reversed(range(rank)))
        self.rank = rank
        self.words[LayoutWords.text], self.words[LayoutWords.size] = self.text.address, self.text.size
        self.words[LayoutWords.deleter] = BUFFERS.loaded.nothing


@cache
def row_major(rank: int) -> RowMajor:
    """Return a rank's layout, which stays alive."""
    return RowMajor(rank)


@implements("Layouts_PJRT_Client_GetDefaultLayout")
def _client_default(args: Any) -> None:
    args.layout = row_major(args.num_dims).address


@implements("Layouts_PJRT_Topology_GetDefaultLayout")
def _topology_default(args: Any) -> None:
    args.layout = row_major(args.num_dims).address


@implements("Layouts_PJRT_Buffer_MemoryLayout")
def _of_buffer(args: Any) -> None:
    args.layout = row_major(buffer_words(args.buffer)[Buffer.rank]).address


@implements("Layouts_PJRT_Executable_GetOutputLayouts")
def _of_results(args: Any) -> None:
    program = Handle.at(args.executable)
    program.result_layouts = pointers(row_major(len(s.dims)).address for s in program.results)
    args.num_outputs, args.layouts = len(program.results), ctypes.addressof(program.result_layouts)


@implements("Buffer_GetMemoryLayout")
def _memory_layout(args: Any) -> None:
    layout = row_major(buffer_words(args.buffer)[Buffer.rank])
    tiled = c_api.Tiled.from_buffer(args.layout)
    tiled.struct_size, tiled.type = 80, 0
    tiled.minor_to_major, tiled.minor_to_major_size = ctypes.addressof(layout.minor_to_major), layout.rank
    tiled.tile_dims = tiled.tile_dim_sizes = None
    tiled.num_tiles = 0


__all__ = ["row_major"]
