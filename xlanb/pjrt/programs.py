"""Compile programs from JAX into PjrtProgram, which can be serialized."""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from xlanb.analysis.cost import cost
from xlanb.analysis.input_output_alias import read_aliases, read_donors
from xlanb.codegen.signature import ArraySpec
from xlanb.cpu.calls import Calls
from xlanb.cpu.executable import Executable
from xlanb.cpu.saved import load, save
from xlanb.debug_options import flags
from xlanb.errors import ArgumentError, CompilationError, FlagError, UnimplementedError, XlanbError
from xlanb.evaluator.custom_calls import knows_target
from xlanb.frontends.jax import from_jax, import_jax
from xlanb.hlo import HloModule
from xlanb.hlo.proto.writer import module_message
from xlanb.pjrt import c_api, callbacks
from xlanb.pjrt.functions import Handle, NamedValues, Text, pointers
from xlanb.pjrt.native import NUMBERS
from xlanb.pjrt.words import RESULT_COUNT
from xlanb.protos import as_varint
from xlanb.runtime.compiler import compiled
from xlanb.shape.primitive_type import PrimitiveType
from xlanb.transforms.layout.layout_assignment import row_major

T = TypeVar("T")
_MAGIC = b"xlanb PJRT executable 1\n"


@dataclass(frozen=True)
class BufferSpec:
    """An argument or result array: its PJRT_Buffer_Type, dimensions and bytes."""

    number: int
    dims: tuple[int, ...]
    size: int

    @staticmethod
    def of(spec: ArraySpec | None) -> BufferSpec:
        """Return the spec of a program's argument or result array; None is a token.

        Raises:
            UnimplementedError: its layout is not row-major, or its sizes are dynamic.
        """
        if spec is None:
            return BufferSpec(NUMBERS[PrimitiveType.TOKEN], (), 0)
        if spec.order is not None:
            raise UnimplementedError(
                f"{spec.label}: xlanb's backend takes and gives row-major arrays, not {spec.shape}"
            )
        if spec.shape.is_dynamic:
            raise UnimplementedError(f"{spec.label}: JAX has no arrays of dynamic size, as {spec.shape} is")
        return BufferSpec(NUMBERS[spec.shape.element_type], spec.dimensions, spec.byte_size)


class PjrtProgram(Handle):
    """A PJRT_Executable: compiled code, independent of its device.

    `module` is the optimized HLO, `options` the serialized CompileOptionsProto, and `donated` the
    indices of the arguments whose memory a call consumes.
    """

    def __init__(
        self, calls: Calls, module: HloModule, options: bytes, donated: Sequence[int], executable: Executable | None
    ) -> None:
        self.calls = calls
        self.module = module
        self.options = Text(options)
        self.donated = tuple(donated)
        self.executable = executable
        self.arguments = [BufferSpec.of(s) for s in calls.arguments]
        self.results = [BufferSpec.of(s) for s in calls.results]
        self.name = Text(module.name)
        super().__init__()
        self.words[RESULT_COUNT] = len(self.results)
        self.result_layouts: Any = None
        self.device_number = 0

    @cached_property
    def optimized(self) -> Text:
        """The optimized HLO, as a HloModuleProtoWithConfig.

        Its config has only the entry's layout.
        """
        message = module_message(self.module)
        config = _field(1, message.host_program_shape.SerializeToString())
        return Text(_field(1, message.SerializeToString(deterministic=True)) + _field(2, config))

    @cached_property
    def fingerprint(self) -> Text:
        """A text that is equal for programs that compute the same."""
        return Text(hashlib.sha256(str(self.module).encode()).hexdigest())

    @cached_property
    def properties(self) -> NamedValues:
        """The properties of XLA's cost analysis, for one execution."""
        found = cost(self.module)
        return NamedValues(
            {
                "flops": float(found.flops),
                "bytes accessed": float(found.bytes_accessed),
                "transcendentals": float(found.transcendentals),
            }
        )

    @cached_property
    def serialized(self) -> Text:
        """The program serialized for another process on a machine of the same type.

        Raises:
            UnimplementedError: it calls Python functions of this process, or was deserialized
                itself.
        """
        if self.executable is None:
            raise UnimplementedError(f"{self.module.name} was itself deserialized: serialize the program it came from")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "code"
            save(self.executable, path)
            code = path.read_bytes()
        proto = self.module.to_proto()
        options = c_api.text_at(self.options.address, self.options.size)
        header = {"donated": self.donated, "sizes": [len(options), len(proto), len(code)], "device": self.device_number}
        head = json.dumps(header).encode()
        return Text(_MAGIC + struct.pack("<Q", len(head)) + head + options + proto + code)

    @cached_property
    def result_types(self) -> Any:
        """The results' PJRT_Buffer_Types."""
        import ctypes

        return (ctypes.c_int32 * max(len(self.results), 1))(*(s.number for s in self.results))

    @cached_property
    def result_dims(self) -> tuple[Any, Any]:
        """The dimensions of all results, concatenated, and each rank."""
        import ctypes

        dims = [d for s in self.results for d in s.dims]
        ranks = [len(s.dims) for s in self.results]
        return (ctypes.c_int64 * max(len(dims), 1))(*dims), (ctypes.c_size_t * max(len(ranks), 1))(*ranks)

    @cached_property
    def memory_kinds(self) -> tuple[Any, Any]:
        """Each result's kind of memory, and the length of its name."""
        import ctypes

        kind, count = Text("device"), len(self.results)
        sizes = (ctypes.c_size_t * max(count, 1))(*[kind.size] * count)
        self._kind = kind
        return pointers([kind.address] * count), sizes


def _field(number: int, data: bytes) -> bytes:
    """Encode a message field of a protocol buffer."""
    return as_varint(number << 3 | 2) + as_varint(len(data)) + data


def parse_options(data: bytes) -> Any:
    """Parse a CompileOptionsProto with jaxlib.

    Raises:
        CompilationError: jaxlib rejects it.
    """
    extension = import_jax("jaxlib._jax")
    try:
        return extension.CompileOptions.ParseFromString(data)
    except Exception as error:  # the extension raises its own exceptions
        raise CompilationError(f"the CompileOptionsProto cannot be read: {error}") from error


class SeveralDevicesError(UnimplementedError):
    """A program needs more than one device."""


def assigned_device(options: Any) -> int | None:
    """Return the device number that a program is compiled for, or None if it runs on any.

    Raises:
        SeveralDevicesError: it is for several devices.
    """
    count = options.num_replicas * options.num_partitions
    if count > 1:
        raise SeveralDevicesError(
            f"a program over {count} devices ({options.num_replicas} replicas, {options.num_partitions} partitions): "
            "xlanb's backend runs a program on one device"
        )
    assignment = options.device_assignment
    if options.compile_portable_executable or assignment is None:
        return None
    return _lastas_varint(assignment.serialize())


def _lastas_varint(data: bytes) -> int:
    """Return the last varint: of a one-device DeviceAssignmentProto, the device's number."""
    begin = len(data) - 1
    while begin > 0 and data[begin - 1] & 0x80:
        begin -= 1
    return sum((byte & 0x7F) << 7 * k for k, byte in enumerate(data[begin:]))


def compile_program(code: bytes, form: str, options: bytes) -> PjrtProgram:
    """Compile a program from JAX.

    Raises:
        XlanbError: the program cannot be compiled; the message says what to do.
    """
    module = _going_on("", lambda: _read(code, form))
    return _going_on(module.name, lambda: _compile(module, options))


def _read(code: bytes, form: str) -> HloModule:
    if form == "hlo":
        return HloModule.from_proto(code)
    if form != "mlir":
        raise UnimplementedError(f"a program in the format {form!r}: xlanb's backend compiles 'mlir' and 'hlo'")
    extension = import_jax("jaxlib._jax")
    try:
        return from_jax(code)
    except XlanbError:
        context = import_jax("jax._src.interpreters.mlir").make_ir_context()
        with context:
            return from_jax(str(extension.mlir.deserialize_portable_artifact(code, context)))


def _compile(module: HloModule, options: bytes) -> PjrtProgram:
    parsed = parse_options(options)
    device, chosen = assigned_device(parsed), dict(parsed.env_option_overrides)
    callbacks.bind(module)
    entry = module.entry_computation
    # JAX's arrays are row-major, but jaxlib's HLO from StableHLO has the layouts of the last
    # operations.
    module.entry_layout = tuple(row_major(p.shape) for p in entry.parameters), row_major(entry.root.shape)
    aliased = {a.parameter for a in read_aliases(module)} | {n for n, _ in read_donors(module)}
    _check_names(chosen)
    with flags(**chosen):
        executable = compiled(module)
    _check_targets(executable)
    program = PjrtProgram(executable.native_calls, executable.hlo_module, options, sorted(aliased), executable)
    program.device_number = -1 if device is None else device
    return program


def _check_targets(executable: Executable) -> None:
    """Check that every custom call is supported, so that compilation fails instead of a run.

    Raises:
        UnimplementedError: one is not; the message names its target, Python line and instruction.
    """
    for i in executable.program.host.values():
        target = i.get("custom_call_target")
        if target is None or knows_target(str(target)):
            continue
        file, line = i.metadata.python_line
        where = f", called in {file}, line {line}" if file else ""
        raise UnimplementedError(
            f"custom-call target {target!r}{where}: xlanb's backend does not implement it; functions registered "
            f"with jax.ffi run on XLA:CPU only\n  {i}"
        )


def _check_names(chosen: Mapping[str, Any]) -> None:
    """Check that `compiler_options` have names of XLA; they mean the same as in XLA_FLAGS.

    Raises:
        ArgumentError: a name is unknown, or its value is invalid.
    """
    for name, value in chosen.items():
        try:
            with flags(**{name: value}):
                pass
        except FlagError as error:
            raise ArgumentError(f"No such compile option: {name!r} = {value!r}: {error}") from error


def _going_on(name: str, work: Callable[[], T]) -> T:
    """Return the result of `work`; add to its error how to use XLA:CPU instead."""
    try:
        return work()
    except XlanbError as error:
        error.args = (f"{error}\n{hint(name, error)}", *error.args[1:])
        raise


def hint(name: str, error: XlanbError) -> str:
    """Return how to run on XLA:CPU what cannot run here."""
    part = 'put this part under `with jax.default_device(jax.devices("cpu")[0]):`'
    if isinstance(error, SeveralDevicesError):
        part = 'make the mesh, or the `devices` of pmap, of jax.devices("cpu"), which has as many devices'
    which = name or "the program"
    return f"To run {which} on XLA:CPU: set JAX_PLATFORMS=cpu for all, or JAX_PLATFORMS=xlanb,cpu and {part}."


def load_program(data: bytes, overridden: bytes = b"") -> PjrtProgram:
    """Load what `PjrtProgram.serialized` returned, possibly in another process.

    Raises:
        CompilationError: the bytes are no such executable, or were compiled for another machine.
    """
    if not data.startswith(_MAGIC):
        raise CompilationError(f"{len(data)} bytes are not an executable serialized by this version of xlanb")
    begin = len(_MAGIC) + 8
    (length,) = struct.unpack_from("<Q", data, len(_MAGIC))
    header = json.loads(data[begin : begin + length])
    at, parts = begin + length, []
    for size in header["sizes"]:
        parts.append(data[at : at + size])
        at += size
    options, proto, code = parts
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code"
        path.write_bytes(code)
        saved = load(path)
    program = PjrtProgram(saved.calls, HloModule.from_proto(proto), overridden or options, header["donated"], None)
    device = assigned_device(parse_options(overridden)) if overridden else header["device"]
    program.device_number = -1 if device is None else device
    return program


__all__ = ["BufferSpec", "PjrtProgram", "compile_program", "hint", "load_program"]
