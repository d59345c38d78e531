"""PJRT C API functions on the fast path of calls, in LLVM IR, without Python frames or the GIL.

A `PJRT_Buffer` is one block of memory: 16 words (`Buffer` below), its dimensions, and its elements
if they are few. Its elements are released when nothing refers to them: neither the undeleted buffer
nor external references.

A `PJRT_Event` has two words: references, and waiters: 1 if it is ready, otherwise a list of (next,
function, argument). An error is its code, the size of its message, and the message. Unusual cases
call the Python function of the same name.
"""

from __future__ import annotations

import time
from enum import IntEnum
from string import Template

from xlanb.cpu.runtime import guard
from xlanb.pjrt import c_api
from xlanb.pjrt.ir_calls import EXECUTE, LAYOUTS, TRANSFERS
from xlanb.pjrt.ir_objects import MEMORY, OBJECTS
from xlanb.pjrt.words import CALLS_HOST, GUARDED, RANKS, RESULT_COUNT, UNUSUAL, Buffer, LayoutWords, Loaded, MemoryWords

SMALL = 4096
"""Up to this many bytes, elements are stored directly after their buffer."""
_MALLOC_ALIGNED = 16
"""The alignment of malloc on 64-bit systems."""
_COPIED = 256
"""Up to this many bytes, a copy is cheaper than tracking when the elements are no longer needed."""
_ALIGNED = 63
"""A mask of addresses.

Compiled code accepts arguments at any multiple of 16. Arrays are shared only if XLA:CPU shares them
too, so that writing to a NumPy array after jnp.asarray has the same effect as on XLA:CPU.
"""


def _load(function: str, fields: dict[str, tuple[str, str]]) -> str:
    """Return lines that load argument fields, {value name: (field, type)}."""
    lines = []
    for name, (field, kind) in fields.items():
        lines += [
            f"%{name}.p = getelementptr i8, ptr %args, i64 {c_api.offset(function, field)}",
            f"%{name} = load {kind}, ptr %{name}.p",
        ]
    return "\n  ".join(lines)


def _words(base: str, kinds: dict[str, tuple[IntEnum, str]]) -> str:
    """Return lines that load words of a block, {value name: (word, type)}."""
    lines = []
    for name, (word, kind) in kinds.items():
        lines += [
            f"%{name}.w = getelementptr i64, ptr %{base}, i64 {word.value}",
            f"%{name} = load {kind}, ptr %{name}.w",
        ]
    return "\n  ".join(lines)


def _stores(kinds: dict[Buffer, str]) -> str:
    """Return lines that set words of the buffer %b, {word: typed value}."""
    lines = []
    for word, value in kinds.items():
        lines += [
            f"%set{word.value} = getelementptr i64, ptr %b, i64 {word.value}",
            f"store {value}, ptr %set{word.value}",
        ]
    return "\n  ".join(lines)


_GETTERS: dict[str, tuple[tuple[int, str, str], ...]] = {
    "Buffer_ElementType": ((Buffer.type, "i32", "type"),),
    "Buffer_Dimensions": ((Buffer.dims, "i64", "dims"), (Buffer.rank, "i64", "num_dims")),
    "Buffer_UnpaddedDimensions": ((Buffer.dims, "i64", "unpadded_dims"), (Buffer.rank, "i64", "num_dims")),
    "Buffer_OnDeviceSizeInBytes": ((Buffer.size, "i64", "on_device_size_in_bytes"),),
    "Buffer_Device": ((Buffer.device, "i64", "device"),),
    "Buffer_Memory": ((Buffer.memory, "i64", "memory"),),
    "Buffer_IsDeleted": ((Buffer.deleted, "i8", "is_deleted"),),
    "Buffer_UnsafePointer": ((Buffer.data, "i64", "buffer_pointer"),),
    "Buffer_OpaqueDeviceMemoryDataPointer": ((Buffer.data, "i64", "device_memory_ptr"),),
    "LoadedExecutable_GetExecutable": ((Loaded.executable, "i64", "executable"),),
    "Executable_NumOutputs": ((RESULT_COUNT, "i64", "num_outputs"),),
    "Device_DefaultMemory": ((0, "i64", "memory"),),  # JAX 0.12 calls it at each call with a NumPy array
    "Memory_Kind": ((MemoryWords.kind, "i64", "kind"), (MemoryWords.kind_size, "i64", "kind_size")),
    "Layouts_MemoryLayout_Serialize": (
        (LayoutWords.text, "i64", "serialized_bytes"), (LayoutWords.text, "i64", "serialized_layout"),
        (LayoutWords.size, "i64", "serialized_bytes_size"), (LayoutWords.deleter, "i64", "serialized_layout_deleter"),
    ),
}  # fmt: skip
"""Functions that return words of their first argument's object: (word, type, field)."""
_CONSTANT: dict[str, tuple[tuple[str, str], ...]] = {
    "Executable_NumReplicas": (("i64 1", "num_replicas"),),
    "Executable_NumPartitions": (("i64 1", "num_partitions"),),
    "Layouts_MemoryLayout_Destroy": (),
    "Executable_Destroy": (),  # a loaded executable owns it
    "TopologyDescription_Destroy": (),  # its client owns it
    "Buffer_IsOnCpu": (("i8 1", "is_on_cpu"),),
    "Buffer_ReadyEvent": (("ptr @pjrt.ready", "event"),),
    "Buffer_DynamicDimensionIndices": (("ptr null", "dynamic_dim_indices"), ("i64 0", "num_dynamic_dims")),
}
"""Functions with a constant result."""


def _getters() -> str:
    lines = []
    for name, parts in _GETTERS.items():
        lines += [
            f"define ptr @{name}(ptr %args) {{",
            "  %at = getelementptr i8, ptr %args, i64 16",
            "  %o = load ptr, ptr %at",
        ]
        for n, (word, kind, field) in enumerate(parts):
            lines += [
                f"  %w{n} = getelementptr i64, ptr %o, i64 {int(word)}",
                f"  %v{n} = load {kind}, ptr %w{n}",
                f"  %t{n} = getelementptr i8, ptr %args, i64 {c_api.offset(name, field)}",
                f"  store {kind} %v{n}, ptr %t{n}",
            ]
        lines += ["  ret ptr null", "}"]
    for name, constants in _CONSTANT.items():
        lines.append(f"define ptr @{name}(ptr %args) {{")
        for n, (value, field) in enumerate(constants):
            lines += [
                f"  %t{n} = getelementptr i8, ptr %args, i64 {c_api.offset(name, field)}",
                f"  store {value}, ptr %t{n}",
            ]
        lines += ["  ret ptr null", "}"]
    return "\n".join(lines)


def text(item_sizes: tuple[int, ...]) -> str:
    """Return the module's text, without its target.

    `item_sizes` are element bytes by PJRT_Buffer_Type, 0 if it has none.
    """
    event = {"event": ("event", "ptr")}
    values = {
        "types": len(item_sizes),
        "sizes": ", ".join(f"i64 {n}" for n in item_sizes),
        "small": SMALL,
        "copied": _COPIED,
        "aligned": _ALIGNED,
        "zero_copy": c_api.ZERO_COPY,
        "guarded": GUARDED,
        "unusual": UNUSUAL,
        "calls_host": CALLS_HOST,
        **{
            word.name: word.value
            for word in (
                Buffer.base,
                Buffer.references,
                Buffer.deleted,
                Buffer.size,
                Buffer.rank,
                Buffer.mark,
                Buffer.block,
            )
        },
        "skipped": 64 - _MALLOC_ALIGNED,
        "at_kept": c_api.ExecuteOptions.num_non_donatable_input_indices.offset,
        "ranks": RANKS,
        "raised": guard.RAISED,
        "clock": time.CLOCK_MONOTONIC,
        "cancelled": c_api.CANCELLED,
        "next_destroyed": Loaded.next_destroyed.value,
        "at_layout": c_api.offset("Layouts_PJRT_Buffer_MemoryLayout", "layout"),
        "at_is_ready": c_api.offset("Event_IsReady", "is_ready"),
        "at_from_host_buffer": c_api.offset("Client_BufferFromHostBuffer", "buffer"),
        "at_done_with_host_buffer": c_api.offset("Client_BufferFromHostBuffer", "done_with_host_buffer"),
        "at_dst_size": c_api.offset("Buffer_ToHostBuffer", "dst_size"),
        "at_to_host_event": c_api.offset("Buffer_ToHostBuffer", "event"),
        "load_OnReady": _load(
            "Event_OnReady", {**event, "callback": ("callback", "ptr"), "user_arg": ("user_arg", "ptr")}
        ),
        "load_Await": _load("Event_Await", event),
        "load_IsReady": _load("Event_IsReady", event),
        "load_EventDestroy": _load("Event_Destroy", event),
        "load_FromHost": _load("Client_BufferFromHostBuffer", _FROM_HOST),
        "load_ToHost": _load("Buffer_ToHostBuffer", _TO_HOST),
        "load_Execute": _load("LoadedExecutable_Execute", _EXECUTED),
        "get_loaded": _words("loaded", _LOADED)
        + f"\n  %arena.at = getelementptr i64, ptr %loaded, i64 {Loaded.arena.value}"
        + f"\n  %cancelled.at = getelementptr i64, ptr %loaded, i64 {Loaded.cancelled.value}",
        "get_release": _words("b", _RELEASED),
        "set_block": _stores(_BLOCK),
        "set_view": _stores(_VIEW),
    }  # fmt: skip
    return Template(OBJECTS + MEMORY + TRANSFERS + LAYOUTS + EXECUTE).substitute(values) + _getters()


_FROM_HOST = {
    "data": ("data", "ptr"), "type.n": ("type", "i32"), "dims": ("dims", "ptr"), "num_dims": ("num_dims", "i64"),
    "byte_strides": ("byte_strides", "ptr"), "num_byte_strides": ("num_byte_strides", "i64"),
    "semantics": ("host_buffer_semantics", "i32"), "device.given": ("device", "ptr"),
    "memory.given": ("memory", "ptr"), "device_layout": ("device_layout", "ptr"),
}  # fmt: skip
_TO_HOST = {
    "src": ("src", "ptr"), "host_layout": ("host_layout", "ptr"), "dst": ("dst", "ptr"),
    "dst_size": ("dst_size", "i64"),
}  # fmt: skip
_EXECUTED = {
    "loaded": ("executable", "ptr"), "options": ("options", "ptr"), "argument_lists": ("argument_lists", "ptr"),
    "num_devices": ("num_devices", "i64"), "num_args": ("num_args", "i64"), "output_lists": ("output_lists", "ptr"),
    "events": ("device_complete_events", "ptr"), "execute_device": ("execute_device", "ptr"),
}  # fmt: skip
_LOADED: dict[str, tuple[IntEnum, str]] = {
    "run": (Loaded.run, "ptr"), "steps": (Loaded.steps, "ptr"), "argument_count": (Loaded.argument_count, "i64"),
    "result_count": (Loaded.result_count, "i64"), "temp": (Loaded.temp, "i64"), "flags": (Loaded.flags, "i64"),
    "arguments": (Loaded.arguments, "ptr"), "results": (Loaded.results, "ptr"),
    "donated_count": (Loaded.donated_count, "i64"), "donated": (Loaded.donated, "ptr"),
    "device.own": (Loaded.device, "ptr"), "counter": (Loaded.counter, "ptr"),
}  # fmt: skip
_RELEASED: dict[str, tuple[IntEnum, str]] = {
    "size": (Buffer.size, "i64"), "base": (Buffer.base, "ptr"), "data": (Buffer.data, "ptr"),
    "event": (Buffer.event, "ptr"), "callback": (Buffer.callback, "ptr"), "argument": (Buffer.argument, "ptr"),
}  # fmt: skip
_BLOCK = {
    Buffer.data: "ptr %data", Buffer.size: "i64 %size", Buffer.type: "i64 %type", Buffer.rank: "i64 %rank",
    Buffer.dims: "ptr %own.dims", Buffer.device: "ptr %device", Buffer.memory: "ptr %memory", Buffer.deleted: "i64 0",
    Buffer.references: "i64 1", Buffer.base: "ptr null", Buffer.event: "ptr null", Buffer.callback: "ptr null",
    Buffer.argument: "ptr null", Buffer.mark: "i64 0", Buffer.block: "ptr %block",
}  # fmt: skip
_VIEW = {
    Buffer.data: "ptr %data", Buffer.event: "ptr %event", Buffer.callback: "ptr %callback",
    Buffer.argument: "ptr %argument",
}  # fmt: skip

NATIVE = (
    *(
        "Event_OnReady Event_Await Event_IsReady Event_Error Event_Destroy Error_Destroy Error_Message Error_GetCode"
    ).split(),
    *"Buffer_Delete Buffer_Destroy Buffer_IncreaseExternalReferenceCount Buffer_DecreaseExternalReferenceCount".split(),
    *(
        "Client_BufferFromHostBuffer Buffer_ToHostBuffer LoadedExecutable_Execute Layouts_PJRT_Buffer_MemoryLayout"
    ).split(),
    "LoadedExecutable_Destroy",
    *_GETTERS,
    *_CONSTANT,
)
"""The functions of the C API that the module defines."""
UNUSUAL_FUNCTIONS = tuple(
    "Client_BufferFromHostBuffer Buffer_ToHostBuffer LoadedExecutable_Execute Layouts_PJRT_Buffer_MemoryLayout".split()
)
"""Those of them that call Python for unusual cases."""

__all__ = ["NATIVE", "SMALL", "UNUSUAL_FUNCTIONS", "text"]
