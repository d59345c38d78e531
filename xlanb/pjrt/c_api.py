"""The PJRT C API as data: its functions in order, and their argument structs.

Source: xla/pjrt/c/pjrt_c_api.h, version 0.90, and pjrt_c_api_layouts_extension.h. A framework with
a newer version accepts a plugin with this one: structs only grow at their ends, and each begins
with its size.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

VERSION = (0, 90)

FUNCTIONS = tuple(
    """
Error_Destroy Error_Message Error_GetCode Plugin_Initialize Plugin_Attributes Event_Destroy Event_IsReady
Event_Error Event_Await Event_OnReady Client_Create Client_Destroy Client_PlatformName Client_ProcessIndex
Client_PlatformVersion Client_Devices Client_AddressableDevices Client_LookupDevice Client_LookupAddressableDevice
Client_AddressableMemories Client_Compile Client_DefaultDeviceAssignment Client_BufferFromHostBuffer
DeviceDescription_Id DeviceDescription_ProcessIndex DeviceDescription_Attributes DeviceDescription_Kind
DeviceDescription_DebugString DeviceDescription_ToString Device_GetDescription Device_IsAddressable
Device_LocalHardwareId Device_AddressableMemories Device_DefaultMemory Device_MemoryStats Memory_Id Memory_Kind
Memory_DebugString Memory_ToString Memory_AddressableByDevices Executable_Destroy Executable_Name
Executable_NumReplicas Executable_NumPartitions Executable_NumOutputs Executable_SizeOfGeneratedCodeInBytes
Executable_GetCostAnalysis Executable_OutputMemoryKinds Executable_OptimizedProgram Executable_Serialize
LoadedExecutable_Destroy LoadedExecutable_GetExecutable LoadedExecutable_AddressableDevices LoadedExecutable_Delete
LoadedExecutable_IsDeleted LoadedExecutable_Execute Executable_DeserializeAndLoad LoadedExecutable_Fingerprint
Buffer_Destroy Buffer_ElementType Buffer_Dimensions Buffer_UnpaddedDimensions Buffer_DynamicDimensionIndices
Buffer_GetMemoryLayout Buffer_OnDeviceSizeInBytes Buffer_Device Buffer_Memory Buffer_Delete Buffer_IsDeleted
Buffer_CopyToDevice Buffer_ToHostBuffer Buffer_IsOnCpu Buffer_ReadyEvent Buffer_UnsafePointer
Buffer_IncreaseExternalReferenceCount Buffer_DecreaseExternalReferenceCount Buffer_OpaqueDeviceMemoryDataPointer
CopyToDeviceStream_Destroy CopyToDeviceStream_AddChunk CopyToDeviceStream_TotalBytes CopyToDeviceStream_GranuleSize
CopyToDeviceStream_CurrentBytes TopologyDescription_Create TopologyDescription_Destroy
TopologyDescription_PlatformName TopologyDescription_PlatformVersion TopologyDescription_GetDeviceDescriptions
TopologyDescription_Serialize TopologyDescription_Attributes Compile Executable_OutputElementTypes
Executable_OutputDimensions Buffer_CopyToMemory Client_CreateViewOfDeviceBuffer Executable_Fingerprint
Client_TopologyDescription Executable_GetCompiledMemoryStats Memory_Kind_Id ExecuteContext_Create
ExecuteContext_Destroy Buffer_CopyRawToHost AsyncHostToDeviceTransferManager_Destroy
AsyncHostToDeviceTransferManager_TransferData Client_CreateBuffersForAsyncHostToDevice
AsyncHostToDeviceTransferManager_RetrieveBuffer AsyncHostToDeviceTransferManager_Device
AsyncHostToDeviceTransferManager_BufferCount AsyncHostToDeviceTransferManager_BufferSize
AsyncHostToDeviceTransferManager_SetBufferError AsyncHostToDeviceTransferManager_AddMetadata Client_DmaMap
Client_DmaUnmap Client_CreateUninitializedBuffer Client_UpdateGlobalProcessInfo TopologyDescription_Deserialize
Client_CreateAliasBuffer Client_FulfillAliasBuffer LoadedExecutable_GetDeviceAssignment Client_CreateErrorBuffer
AsyncHostToDeviceTransferManager_TransferLiteral Buffer_CopyRawToHostFuture Device_PoisonExecution
Device_CreateAsyncTrackingEvent AsyncTrackingEvent_Destroy Executable_GetCompileOptions
Buffer_DonateWithControlDependency Event_Create Event_Set
""".split()
)
"""The members of PJRT_Api after its version, without the prefix PJRT_."""

LAYOUT_FUNCTIONS = tuple(
    """
Layouts_MemoryLayout_Destroy Layouts_MemoryLayout_Serialize Layouts_PJRT_Client_GetDefaultLayout
Layouts_PJRT_Buffer_MemoryLayout Layouts_PJRT_Topology_GetDefaultLayout Layouts_PJRT_Executable_GetOutputLayouts
""".split()
)
"""The members of PJRT_Layouts_Extension after its head."""

_KINDS: Mapping[str, Any] = {
    "p": ctypes.c_void_p,
    "z": ctypes.c_size_t,
    "i": ctypes.c_int32,
    "q": ctypes.c_int64,
    "b": ctypes.c_bool,
    "L": ctypes.c_int64 * 10,
}
"""Pointer, size_t, int (and enums), int64_t, bool; L: PJRT_Buffer_MemoryLayout, 80 bytes."""

_ARGUMENTS = """
Error_Destroy: error p
Error_Message: error p, message p, message_size z
Error_GetCode: error p, code i
Plugin_Attributes: attributes p, num_attributes z
Event_Destroy: event p
Event_IsReady: event p, is_ready b
Event_Error: event p
Event_Await: event p
Event_OnReady: event p, callback p, user_arg p
Client_Create: create_options p, num_options z, kv_get_callback p, kv_get_user_arg p, kv_put_callback p,
    kv_put_user_arg p, client p, kv_try_get_callback p, kv_try_get_user_arg p
Client_Destroy: client p
Client_PlatformName: client p, platform_name p, platform_name_size z
Client_ProcessIndex: client p, process_index i
Client_PlatformVersion: client p, platform_version p, platform_version_size z
Client_TopologyDescription: client p, topology p
Client_Devices: client p, devices p, num_devices z
Client_AddressableDevices: client p, addressable_devices p, num_addressable_devices z
Client_LookupDevice: client p, id i, device p
Client_LookupAddressableDevice: client p, local_hardware_id i, addressable_device p
Client_AddressableMemories: client p, addressable_memories p, num_addressable_memories z
Client_Compile: client p, program p, compile_options p, compile_options_size z, executable p
Client_DefaultDeviceAssignment: client p, num_replicas i, num_partitions i, default_assignment_size z,
    default_assignment p
Client_CreateUninitializedBuffer: client p, shape_dims p, shape_num_dims z, shape_element_type i, shape_layout p,
    device p, memory p, buffer p
Client_BufferFromHostBuffer: client p, data p, type i, dims p, num_dims z, byte_strides p, num_byte_strides z,
    host_buffer_semantics i, device p, memory p, device_layout p, done_with_host_buffer p, buffer p
Client_CreateViewOfDeviceBuffer: client p, device_buffer_ptr p, dims p, num_dims z, element_type i, layout p, device
    p, on_delete_callback p, on_delete_callback_arg p, stream z, buffer p, memory p
DeviceDescription_Id: device_description p, id i
DeviceDescription_ProcessIndex: device_description p, process_index i
DeviceDescription_Attributes: device_description p, num_attributes z, attributes p
DeviceDescription_Kind: device_description p, device_kind p, device_kind_size z
DeviceDescription_DebugString: device_description p, debug_string p, debug_string_size z
DeviceDescription_ToString: device_description p, to_string p, to_string_size z
Device_GetDescription: device p, device_description p
Device_IsAddressable: device p, is_addressable b
Device_LocalHardwareId: device p, local_hardware_id i
Device_AddressableMemories: device p, memories p, num_memories z
Device_DefaultMemory: device p, memory p
Device_MemoryStats: device p, bytes_in_use q, peak_bytes_in_use q, peak_bytes_in_use_is_set b, num_allocs q,
    num_allocs_is_set b, largest_alloc_size q, largest_alloc_size_is_set b, bytes_limit q, bytes_limit_is_set b,
    bytes_reserved q, bytes_reserved_is_set b, peak_bytes_reserved q, peak_bytes_reserved_is_set b,
    bytes_reservable_limit q, bytes_reservable_limit_is_set b, largest_free_block_bytes q,
    largest_free_block_bytes_is_set b, pool_bytes q, pool_bytes_is_set b, peak_pool_bytes q, peak_pool_bytes_is_set
    b
Memory_Id: memory p, id i
Memory_Kind: memory p, kind p, kind_size z
Memory_Kind_Id: memory p, kind_id i
Memory_DebugString: memory p, debug_string p, debug_string_size z
Memory_ToString: memory p, to_string p, to_string_size z
Memory_AddressableByDevices: memory p, devices p, num_devices z
ExecuteContext_Create: context p
ExecuteContext_Destroy: context p
Executable_Destroy: executable p
LoadedExecutable_Destroy: executable p
LoadedExecutable_GetExecutable: loaded_executable p, executable p
LoadedExecutable_GetDeviceAssignment: executable p, serialized_bytes p, serialized_bytes_size z,
    serialized_device_assignment p, serialized_device_assignment_deleter p
Executable_Name: executable p, executable_name p, executable_name_size z
Executable_NumReplicas: executable p, num_replicas z
Executable_NumPartitions: executable p, num_partitions z
LoadedExecutable_AddressableDevices: executable p, addressable_devices p, num_addressable_devices z
Executable_OptimizedProgram: executable p, program p
LoadedExecutable_Delete: executable p
LoadedExecutable_IsDeleted: executable p, is_deleted b
LoadedExecutable_Execute: executable p, options p, argument_lists p, num_devices z, num_args z, output_lists p,
    device_complete_events p, execute_device p
Executable_NumOutputs: executable p, num_outputs z
Executable_SizeOfGeneratedCodeInBytes: executable p, size_in_bytes q
Executable_Fingerprint: executable p, executable_fingerprint p, executable_fingerprint_size z
Executable_GetCostAnalysis: executable p, num_properties z, properties p
Executable_GetCompiledMemoryStats: executable p, generated_code_size_in_bytes q, argument_size_in_bytes q,
    output_size_in_bytes q, alias_size_in_bytes q, temp_size_in_bytes q, host_generated_code_size_in_bytes q,
    host_argument_size_in_bytes q, host_output_size_in_bytes q, host_alias_size_in_bytes q, host_temp_size_in_bytes
    q, peak_memory_in_bytes q, total_size_in_bytes q
Executable_OutputElementTypes: executable p, output_types p, num_output_types z
Executable_OutputDimensions: executable p, num_outputs z, dims p, dim_sizes p
Executable_OutputMemoryKinds: executable p, num_outputs z, memory_kinds p, memory_kind_sizes p
Executable_Serialize: executable p, serialized_bytes p, serialized_bytes_size z, serialized_executable p,
    serialized_executable_deleter p
Executable_GetCompileOptions: executable p, serialized_bytes p, serialized_bytes_size z, serialized_compile_options
    p, serialized_compile_options_deleter p
Executable_DeserializeAndLoad: client p, serialized_executable p, serialized_executable_size z, loaded_executable p,
    overridden_serialized_compile_options p, overridden_serialized_compile_options_size z
LoadedExecutable_Fingerprint: executable p, executable_fingerprint p, executable_fingerprint_size z
Buffer_Destroy: buffer p
Buffer_ElementType: buffer p, type i
Buffer_Dimensions: buffer p, dims p, num_dims z
Buffer_UnpaddedDimensions: buffer p, unpadded_dims p, num_dims z
Buffer_DynamicDimensionIndices: buffer p, dynamic_dim_indices p, num_dynamic_dims z
Buffer_GetMemoryLayout: buffer p, layout L
Buffer_ToHostBuffer: src p, host_layout p, dst p, dst_size z, event p
Buffer_OnDeviceSizeInBytes: buffer p, on_device_size_in_bytes z
Buffer_Delete: buffer p
Buffer_IsDeleted: buffer p, is_deleted b
Buffer_CopyRawToHost: buffer p, dst p, offset q, transfer_size q, event p
Buffer_CopyToDevice: buffer p, dst_device p, dst_buffer p
Buffer_CopyToMemory: buffer p, dst_memory p, dst_buffer p
Buffer_IsOnCpu: buffer p, is_on_cpu b
Buffer_Device: buffer p, device p
Buffer_Memory: buffer p, memory p
Buffer_ReadyEvent: buffer p, event p
Buffer_UnsafePointer: buffer p, buffer_pointer z
Buffer_IncreaseExternalReferenceCount: buffer p
Buffer_DecreaseExternalReferenceCount: buffer p
Buffer_OpaqueDeviceMemoryDataPointer: buffer p, device_memory_ptr p
TopologyDescription_Destroy: topology p
TopologyDescription_PlatformVersion: topology p, platform_version p, platform_version_size z
TopologyDescription_PlatformName: topology p, platform_name p, platform_name_size z
TopologyDescription_GetDeviceDescriptions: topology p, descriptions p, num_descriptions z
TopologyDescription_Serialize: topology p, serialized_bytes p, serialized_bytes_size z, serialized_topology p,
    serialized_topology_deleter p
TopologyDescription_Deserialize: serialized_topology p, serialized_topology_size z, topology p
TopologyDescription_Attributes: topology p, attributes p, num_attributes z
Compile: topology p, program p, compile_options p, compile_options_size z, client p, executable p
Layouts_MemoryLayout_Destroy: layout p
Layouts_MemoryLayout_Serialize: layout p, serialized_bytes p, serialized_bytes_size z, serialized_layout p,
    serialized_layout_deleter p
Layouts_PJRT_Client_GetDefaultLayout: client p, type i, dims p, num_dims z, layout p
Layouts_PJRT_Buffer_MemoryLayout: buffer p, layout p
Layouts_PJRT_Topology_GetDefaultLayout: topology_description p, type i, dims p, num_dims z, layout p
Layouts_PJRT_Executable_GetOutputLayouts: executable p, num_outputs z, layouts p
"""
"""The fields of each function's PJRT_..._Args after its size and extension pointer."""

_HEAD = (("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p))


class Version(ctypes.Structure):
    """PJRT_Api_Version."""

    _fields_ = (*_HEAD, ("major_version", ctypes.c_int), ("minor_version", ctypes.c_int))


class Api(ctypes.Structure):
    """PJRT_Api."""

    _fields_ = (*_HEAD, ("version", Version), *((name, ctypes.c_void_p) for name in FUNCTIONS))


class LayoutsExtension(ctypes.Structure):
    """PJRT_Layouts_Extension."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in LAYOUT_FUNCTIONS),
    )


LAYOUTS_EXTENSION = 4
"""PJRT_Extension_Type_Layouts."""


class ProgramStruct(ctypes.Structure):
    """PJRT_Program."""

    _fields_ = (
        *_HEAD,
        ("code", ctypes.c_void_p),
        ("code_size", ctypes.c_size_t),
        ("format", ctypes.c_void_p),
        ("format_size", ctypes.c_size_t),
    )


class ExecuteOptions(ctypes.Structure):
    """PJRT_ExecuteOptions, the fields that are used."""

    _fields_ = (
        *_HEAD,
        ("send_callbacks", ctypes.c_void_p),
        ("recv_callbacks", ctypes.c_void_p),
        ("num_send_ops", ctypes.c_size_t),
        ("num_recv_ops", ctypes.c_size_t),
        ("launch_id", ctypes.c_int),
        ("non_donatable_input_indices", ctypes.c_void_p),
        ("num_non_donatable_input_indices", ctypes.c_size_t),
    )


class _Value(ctypes.Union):
    _fields_ = (
        ("string", ctypes.c_void_p),
        ("int64", ctypes.c_int64),
        ("float", ctypes.c_float),
        ("bool", ctypes.c_bool),
    )


class NamedValue(ctypes.Structure):
    """PJRT_NamedValue."""

    _anonymous_ = ("value",)
    _fields_ = (
        *_HEAD,
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("value", _Value),
        ("value_size", ctypes.c_size_t),
    )


STRING, INT64, INT64_LIST, FLOAT, BOOL = range(5)
"""PJRT_NamedValue_Type."""


class Tiled(ctypes.Structure):
    """PJRT_Buffer_MemoryLayout of type tiled (0)."""

    _fields_ = (
        *_HEAD,
        ("tiled_size", ctypes.c_size_t),
        ("tiled_extension_start", ctypes.c_void_p),
        ("minor_to_major", ctypes.c_void_p),
        ("minor_to_major_size", ctypes.c_size_t),
        ("tile_dims", ctypes.c_void_p),
        ("tile_dim_sizes", ctypes.c_void_p),
        ("num_tiles", ctypes.c_size_t),
        ("type", ctypes.c_int),
    )


class Strided(ctypes.Structure):
    """PJRT_Buffer_MemoryLayout of type strided (1)."""

    _fields_ = (
        *_HEAD,
        ("strides_size", ctypes.c_size_t),
        ("strides_extension_start", ctypes.c_void_p),
        ("byte_strides", ctypes.c_void_p),
        ("num_byte_strides", ctypes.c_size_t),
        ("unused", ctypes.c_int64 * 3),
        ("type", ctypes.c_int),
    )


CANCELLED, UNKNOWN, INVALID_ARGUMENT = 1, 2, 3
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, UNIMPLEMENTED, INTERNAL, DATA_LOSS = 8, 9, 12, 13, 15
"""PJRT_Error_Code."""

ELEMENT_TYPES = tuple(
    "invalid pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 bf16 c64 c128 f8e5m2 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz "
    "f8e4m3fnuz s4 u4 token s2 u2 f8e4m3 f8e3m4 f8e8m0fnu f4e2m1fn".split()
)
"""PJRT_Buffer_Type by number, as HLO type names."""

DURING_CALL, UNTIL_TRANSFER, ZERO_COPY, MUTABLE_ZERO_COPY = range(4)
"""PJRT_HostBufferSemantics."""


def _fields() -> dict[str, tuple[tuple[str, Any], ...]]:
    text = _ARGUMENTS.replace("\n    ", " ")
    found = {}
    for line in text.strip().splitlines():
        name, _, fields = line.partition(":")
        pairs = (field.split() for field in fields.split(",") if field.strip())
        found[name] = tuple((field, _KINDS[kind]) for field, kind in pairs)
    return found


_FIELDS = _fields()


@cache
def arguments(name: str) -> type[ctypes.Structure]:
    """Return the argument struct of a function."""
    return type(name, (ctypes.Structure,), {"_fields_": (*_HEAD, *_FIELDS.get(name, ()))})


def offset(name: str, field: str) -> int:
    """Return the byte offset of a field in a function's struct."""
    return int(getattr(arguments(name), field).offset)


def size(name: str) -> int:
    """Return the minimum size of a function's struct: the end of its last field."""
    struct = arguments(name)
    last, kind = struct._fields_[-1][:2]
    return int(getattr(struct, str(last)).offset) + ctypes.sizeof(kind)


def text_at(address: int | None, size: int) -> bytes:
    """Return bytes at an address."""
    return ctypes.string_at(address, size) if address and size else b""
