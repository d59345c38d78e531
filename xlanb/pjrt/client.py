"""The client, its devices, their memories and the topology: the machine in the C API."""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache
from typing import Any

from xlanb.errors import ArgumentError, UnimplementedError
from xlanb.pjrt.functions import (
    Handle,
    NamedValues,
    Text,
    give_text,
    implements,
    pointers,
    read_named_values,
)
from xlanb.pjrt.words import MemoryWords as MemoryWord

PLATFORM = "xlanb"
DEVICE_COUNT = "num_devices"
"""The client option for the number of devices, which all use the same processor."""
_MEMORY_KIND = "device"
"""JAX's default memory kind: ordinary memory."""


class PjrtMemory(Handle):
    """The memory of a device; its words are those of words.Memory."""

    def __init__(self, device: Device) -> None:
        super().__init__(len(MemoryWord))
        self.device = device
        self.number = device.number
        self.kind = Text(_MEMORY_KIND)
        self.words[MemoryWord.device] = device.address
        self.words[MemoryWord.kind], self.words[MemoryWord.kind_size] = self.kind.address, self.kind.size
        self.text = Text(f"Memory(id={self.number}, kind={_MEMORY_KIND})")
        self.devices = pointers([device.address])


class Device(Handle):
    """A device and its description; word 0 is its memory."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.memory = PjrtMemory(self)
        self.words[0] = self.memory.address
        self.memories = pointers([self.memory.address])
        self.kind = Text(_kind())
        self.text = Text(f"XlanbDevice(id={number})")
        self.attributes = NamedValues({})


class DeviceTopology(Handle):
    """A description of the devices, for compilation without a client."""

    def __init__(self, devices: list[Device]) -> None:
        super().__init__()
        self.devices = devices
        self.descriptions = pointers(d.address for d in devices)
        self.attributes = NamedValues({})
        self.serialized = Text(f"{PLATFORM} {len(devices)}")


class Client(Handle):
    """The devices of this process."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.devices = [Device(n) for n in range(count)]
        self.device_array = pointers(d.address for d in self.devices)
        self.memory_array = pointers(d.memory.address for d in self.devices)
        self.topology = DeviceTopology(self.devices)

    def device(self, number: int) -> Device:
        """Return the device with a number.

        Raises:
            ArgumentError: there is none.
        """
        if not 0 <= number < len(self.devices):
            raise ArgumentError(f"no device {number}: the devices are 0 to {len(self.devices) - 1}")
        return self.devices[number]


@cache
def _kind() -> str:
    return f"xlanb on {platform.machine()}"


@cache
def platform_name() -> Text:
    """The name in `jax.devices()[0].platform`."""
    return Text(PLATFORM)


@cache
def platform_version() -> Text:
    """The compiler and its version."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("xlanb")
    except PackageNotFoundError:
        found = "unknown"
    return Text(f"xlanb {found}")


@cache
def _plugin_attributes() -> NamedValues:
    # Without a version from the plugin, jaxlib writes StableHLO in the oldest supported version.
    return NamedValues({"xla_version": 2})


@implements("Plugin_Initialize")
def _initialize(args: Any) -> None:
    del args


@implements("Plugin_Attributes")
def _attributes(args: Any) -> None:
    values = _plugin_attributes()
    args.attributes, args.num_attributes = values.address, values.count


# -- client ----------------------------------------------------------------------------------------


@implements("Client_Create")
def _create(args: Any) -> None:
    options = read_named_values(args.create_options, args.num_options)
    if int(options.get("num_nodes", 1)) != 1:
        raise UnimplementedError("xlanb's backend runs in one process: JAX_PLATFORMS=cpu has several")
    count = int(options.get(DEVICE_COUNT, 1))
    if count < 1:
        raise ArgumentError(f"{DEVICE_COUNT} must be at least 1, not {count}")
    args.client = Client(count).address


@implements("Client_Destroy")
def _destroy(args: Any) -> None:
    client = Handle.at(args.client)
    for device in client.devices:
        device.memory.forget()
        device.forget()
    client.topology.forget()
    client.forget()


@implements("Client_PlatformName")
def _platform_name(args: Any) -> None:
    give_text(args, "platform_name", platform_name())


@implements("Client_PlatformVersion")
def _platform_version(args: Any) -> None:
    give_text(args, "platform_version", platform_version())


@implements("Client_ProcessIndex")
def _process_index(args: Any) -> None:
    args.process_index = 0


@implements("Client_TopologyDescription")
def _topology(args: Any) -> None:
    args.topology = Handle.at(args.client).topology.address


@implements("Client_Devices")
def _devices(args: Any) -> None:
    client = Handle.at(args.client)
    args.devices, args.num_devices = ctypes.addressof(client.device_array), len(client.devices)


@implements("Client_AddressableDevices")
def _addressable_devices(args: Any) -> None:
    client = Handle.at(args.client)
    args.addressable_devices = ctypes.addressof(client.device_array)
    args.num_addressable_devices = len(client.devices)


@implements("Client_AddressableMemories")
def _addressable_memories(args: Any) -> None:
    client = Handle.at(args.client)
    args.addressable_memories = ctypes.addressof(client.memory_array)
    args.num_addressable_memories = len(client.devices)


@implements("Client_LookupDevice")
def _lookup(args: Any) -> None:
    args.device = Handle.at(args.client).device(args.id).address


@implements("Client_LookupAddressableDevice")
def _lookup_addressable(args: Any) -> None:
    args.addressable_device = Handle.at(args.client).device(args.local_hardware_id).address


@implements("Client_DefaultDeviceAssignment")
def _default_assignment(args: Any) -> None:
    client, count = Handle.at(args.client), args.num_replicas * args.num_partitions
    if count > len(client.devices) or count > args.default_assignment_size:
        raise ArgumentError(f"the program needs {count} devices, there are {len(client.devices)}")
    (ctypes.c_int * count).from_address(args.default_assignment)[:] = list(range(count))


# -- devices ---------------------------------------------------------------------------------------


@implements("DeviceDescription_Id")
def _id(args: Any) -> None:
    args.id = Handle.at(args.device_description).number


@implements("DeviceDescription_ProcessIndex")
def _description_process(args: Any) -> None:
    args.process_index = 0


@implements("DeviceDescription_Attributes")
def _description_attributes(args: Any) -> None:
    values = Handle.at(args.device_description).attributes
    args.attributes, args.num_attributes = values.address, values.count


@implements("DeviceDescription_Kind")
def _description_kind(args: Any) -> None:
    give_text(args, "device_kind", Handle.at(args.device_description).kind)


@implements("DeviceDescription_DebugString")
def _description_debug(args: Any) -> None:
    give_text(args, "debug_string", Handle.at(args.device_description).text)


@implements("DeviceDescription_ToString")
def _description_text(args: Any) -> None:
    give_text(args, "to_string", Handle.at(args.device_description).text)


@implements("Device_GetDescription")
def _description(args: Any) -> None:
    args.device_description = args.device


@implements("Device_IsAddressable")
def _is_addressable(args: Any) -> None:
    args.is_addressable = True


@implements("Device_LocalHardwareId")
def _local_id(args: Any) -> None:
    args.local_hardware_id = Handle.at(args.device).number


@implements("Device_AddressableMemories")
def _memories(args: Any) -> None:
    args.memories, args.num_memories = ctypes.addressof(Handle.at(args.device).memories), 1


def memory_limit() -> int:
    """Return this machine's bytes of memory, 0 if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0


# -- memories --------------------------------------------------------------------------------------


@implements("Memory_Id")
def _memory_id(args: Any) -> None:
    args.id = Handle.at(args.memory).number


@implements("Memory_Kind_Id")
def _memory_kind_id(args: Any) -> None:
    args.kind_id = 0


@implements("Memory_DebugString")
def _memory_debug(args: Any) -> None:
    give_text(args, "debug_string", Handle.at(args.memory).text)


@implements("Memory_ToString")
def _memory_text(args: Any) -> None:
    give_text(args, "to_string", Handle.at(args.memory).text)


@implements("Memory_AddressableByDevices")
def _memory_devices(args: Any) -> None:
    args.devices, args.num_devices = ctypes.addressof(Handle.at(args.memory).devices), 1


# -- topology --------------------------------------------------------------------------------------


@implements("TopologyDescription_PlatformName")
def _topology_name(args: Any) -> None:
    give_text(args, "platform_name", platform_name())


@implements("TopologyDescription_PlatformVersion")
def _topology_version(args: Any) -> None:
    give_text(args, "platform_version", platform_version())


@implements("TopologyDescription_GetDeviceDescriptions")
def _topology_devices(args: Any) -> None:
    topology = Handle.at(args.topology)
    args.descriptions, args.num_descriptions = ctypes.addressof(topology.descriptions), len(topology.devices)


@implements("TopologyDescription_Attributes")
def _topology_attributes(args: Any) -> None:
    values = Handle.at(args.topology).attributes
    args.attributes, args.num_attributes = values.address, values.count


@implements("TopologyDescription_Serialize")
def _topology_serialize(args: Any) -> None:
    text = Handle.at(args.topology).serialized
    give_text(args, "serialized_bytes", text)
    args.serialized_topology, args.serialized_topology_deleter = text.address, no_op_address()


@cache
def _no_op() -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)


def no_op_address() -> int:
    """Return the address of a deleter that does nothing."""
    return ctypes.cast(_no_op(), ctypes.c_void_p).value or 0


__all__ = [
    "DEVICE_COUNT",
    "PLATFORM",
    "Client",
    "Device",
    "DeviceTopology",
    "PjrtMemory",
    "memory_limit",
    "no_op_address",
]
