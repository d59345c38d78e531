"""Slow paths of buffers: strides and host layouts, copies, views of foreign memory, and errors."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.errors import ArgumentError, UnimplementedError
from xlanb.pjrt import c_api
from xlanb.pjrt.client import Device, memory_limit
from xlanb.pjrt.functions import Handle, Implementation, implements
from xlanb.pjrt.native import BY_NUMBER, ITEM_SIZES, NativeFunctions, buffer_dims, buffer_words
from xlanb.pjrt.words import Buffer

Array = NDArray[Any]


def int64s(address: int | None, count: int) -> tuple[int, ...]:
    """Return int64 numbers at an address."""
    return tuple((ctypes.c_int64 * count).from_address(address)) if count and address else ()


def dtype_of(number: int) -> np.dtype[Any]:
    """Return the dtype of a PJRT_Buffer_Type.

    Raises:
        UnimplementedError: arrays have no such type.
    """
    found = BY_NUMBER[number] if 0 <= number < len(BY_NUMBER) else None
    if found is None or found.scalar is None:
        name = c_api.ELEMENT_TYPES[number] if 0 <= number < len(BY_NUMBER) else f"number {number}"
        raise UnimplementedError(f"xlanb's backend does not support PJRT's element type {name}")
    return found.dtype


def byte_size(number: int, dims: Sequence[int]) -> int:
    """Return the bytes of a row-major array."""
    return math.prod(dims) * ITEM_SIZES[number]


def place(args: Any) -> Device:
    """Return the device that `memory` or `device` of the arguments names."""
    found: Any = Handle.at(args.memory or args.device)
    device: Device = found if isinstance(found, Device) else found.device
    return device


def elements(buffer: int) -> Array:
    """Return a buffer's elements without a copy.

    Raises:
        ArgumentError: it was deleted or donated.
    """
    found = buffer_words(buffer)
    dims, dtype = buffer_dims(buffer), dtype_of(found[Buffer.type])
    if found[Buffer.deleted]:
        raise ArgumentError(f"a buffer {dtype}{list(dims)} was used after it was deleted or donated")
    if not found[Buffer.size]:
        return np.empty(dims, dtype)
    memory = (ctypes.c_uint8 * found[Buffer.size]).from_address(found[Buffer.data])
    array: Array = np.frombuffer(memory, dtype).reshape(dims)
    return array


def check_row_major(layout: int | None, rank: int) -> None:
    """Check that a PJRT_Buffer_MemoryLayout is row-major.

    Raises:
        UnimplementedError: it is not.
    """
    if layout and _order(layout, rank) != tuple(range(rank)):
        raise UnimplementedError("xlanb's backend keeps arrays in row-major order: leave out the layout")


def _order(layout: int, rank: int) -> tuple[int, ...]:
    """Return the dimensions of a tiled layout, slowest first."""
    tiled = c_api.Tiled.from_address(layout)
    if tiled.type != 0 or tiled.num_tiles:
        raise UnimplementedError("xlanb's backend does not support layouts with strides or tiles")
    return tuple(reversed(int64s(tiled.minor_to_major, tiled.minor_to_major_size))) if rank else ()


def _strided(address: int, dtype: np.dtype[Any], dims: Sequence[int], strides: Sequence[int]) -> Array:
    """Return host elements at an address; strides may be negative."""
    if not math.prod(dims):
        return np.empty(dims, dtype)
    low = sum(min(s, 0) * (d - 1) for s, d in zip(strides, dims, strict=True))
    high = sum(max(s, 0) * (d - 1) for s, d in zip(strides, dims, strict=True)) + dtype.itemsize
    memory = (ctypes.c_uint8 * (high - low)).from_address(address + low)
    return np.ndarray(tuple(dims), dtype, memoryview(memory), -low, tuple(strides))


class BufferFunctions:
    """The C API functions that make and copy buffers."""

    def __init__(self) -> None:
        self.native: NativeFunctions | None = None
        implementations: dict[str, Implementation] = {
            "Client_BufferFromHostBuffer": self.from_host,
            "Client_CreateUninitializedBuffer": self.uninitialized,
            "Client_CreateViewOfDeviceBuffer": self.view,
            "Buffer_ToHostBuffer": self.to_host,
            "Buffer_CopyRawToHost": self.raw_to_host,
            "Buffer_CopyToDevice": self.to_device,
            "Buffer_CopyToMemory": self.to_memory,
            "Device_MemoryStats": self.memory_statistics,
        }
        for name, function in implementations.items():
            implements(name)(function)

    @property
    def loaded(self) -> NativeFunctions:
        """The native functions."""
        assert self.native is not None  # noqa: S101 - the plugin loads them before C calls anything
        return self.native

    def make(self, number: int, dims: Sequence[int], device: Device) -> int:
        """Make a buffer."""
        return self.loaded.make(number, dims, byte_size(number, dims), device.address, device.memory.address)

    def from_host(self, args: Any) -> None:
        """Copy host elements with any strides."""
        dims, dtype = int64s(args.dims, args.num_dims), dtype_of(args.type)
        check_row_major(args.device_layout, len(dims))
        strides = int64s(args.byte_strides, args.num_byte_strides)
        if not strides:
            strides = np.empty(dims, dtype).strides if 0 in dims else _row_major(dims, dtype.itemsize)
        made = self.make(args.type, dims, place(args))
        elements(made)[...] = _strided(args.data or 0, dtype, dims, strides)
        args.buffer, args.done_with_host_buffer = made, self.loaded.ready

    def uninitialized(self, args: Any) -> None:
        """Allocate a buffer that the caller writes before reading it."""
        dims = int64s(args.shape_dims, args.shape_num_dims)
        check_row_major(args.shape_layout, len(dims))
        dtype_of(args.shape_element_type)
        args.buffer = self.make(args.shape_element_type, dims, place(args))

    def view(self, args: Any) -> None:
        """Make a view of memory that another library owns, for DLPack."""
        dims = int64s(args.dims, args.num_dims)
        dtype_of(args.element_type)
        check_row_major(args.layout, len(dims))
        device, size = place(args), byte_size(args.element_type, dims)
        args.buffer = self.loaded.view(
            args.device_buffer_ptr or 0, args.element_type, dims, size, device.address, device.memory.address,
            args.on_delete_callback or 0, args.on_delete_callback_arg or 0,
        )  # fmt: skip

    def to_host(self, args: Any) -> None:
        """Copy to host memory in the requested layout."""
        source = elements(args.src)
        if args.dst_size < source.nbytes:
            raise ArgumentError(f"{source.nbytes} bytes do not fit into a destination of {args.dst_size} bytes")
        order = _order(args.host_layout, source.ndim) if args.host_layout else tuple(range(source.ndim))
        copied = np.ascontiguousarray(source.transpose(order))
        ctypes.memmove(args.dst, copied.ctypes.data, source.nbytes)
        args.event = self.loaded.ready

    def raw_to_host(self, args: Any) -> None:
        """Copy some of a buffer's bytes to the host."""
        source = elements(args.buffer)
        if args.offset < 0 or args.offset + args.transfer_size > source.nbytes:
            last = args.offset + args.transfer_size
            raise ArgumentError(f"bytes {args.offset} to {last} are out of range for a buffer of {source.nbytes} bytes")
        ctypes.memmove(args.dst, buffer_words(args.buffer)[Buffer.data] + args.offset, args.transfer_size)
        args.event = self.loaded.ready

    def _copied(self, buffer: int, device: Device) -> int:
        source = elements(buffer)
        made = self.make(buffer_words(buffer)[Buffer.type], source.shape, device)
        elements(made)[...] = source
        return made

    def to_device(self, args: Any) -> None:
        """Copy to another device."""
        args.dst_buffer = self._copied(args.buffer, Handle.at(args.dst_device))

    def to_memory(self, args: Any) -> None:
        """Copy to another memory."""
        args.dst_buffer = self._copied(args.buffer, Handle.at(args.dst_memory).device)

    def memory_statistics(self, args: Any) -> None:
        """Return what all devices use together, because they share the machine's memory."""
        live, peak, count, largest = self.loaded.statistics()
        for field, *_ in type(args)._fields_:
            if field.endswith("_is_set"):
                setattr(args, field, False)
        args.bytes_in_use = live
        args.peak_bytes_in_use, args.peak_bytes_in_use_is_set = peak, True
        args.num_allocs, args.num_allocs_is_set = count, True
        args.largest_alloc_size, args.largest_alloc_size_is_set = largest, True
        args.bytes_limit, args.bytes_limit_is_set = memory_limit(), True


def _row_major(dims: Sequence[int], item: int) -> tuple[int, ...]:
    return tuple(item * math.prod(dims[k + 1 :]) for k in range(len(dims)))


BUFFERS = BufferFunctions()

__all__ = ["BUFFERS", "buffer_dims", "check_row_major", "dtype_of", "elements", "int64s"]
