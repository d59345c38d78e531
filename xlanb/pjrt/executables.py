"""Executables: compilation, their properties, and calls through Python."""

from __future__ import annotations

import ctypes
import itertools
import traceback
import weakref
from typing import Any

from xlanb.cpu.calls import Calls
from xlanb.cpu.run_counter import RunCounter
from xlanb.cpu.runtime.bridge import bridge
from xlanb.cpu.runtime.guard import NO_MEMORY, OK
from xlanb.errors import ArgumentError, CancelledError, OutOfMemoryError, XlanbError
from xlanb.frontends.jax import import_jax
from xlanb.memory import out_of_memory
from xlanb.pjrt import c_api
from xlanb.pjrt.buffers import BUFFERS, elements
from xlanb.pjrt.client import Client, Device, no_op_address
from xlanb.pjrt.functions import CallbackError, Handle, Text, error_of, give_text, implements, pointers
from xlanb.pjrt.native import buffer_words
from xlanb.pjrt.programs import PjrtProgram, compile_program, hint, load_program
from xlanb.pjrt.words import CALLS_HOST, GUARDED, UNUSUAL, Buffer, Loaded
from xlanb.wording import counted


class LoadedProgram(Handle):
    """A PJRT_LoadedExecutable: a program on a device. Its words are those of words.Loaded."""

    def __init__(self, program: PjrtProgram, device: Device) -> None:
        super().__init__(len(Loaded))
        self.program = program
        self.device = device
        self.devices = pointers([device.address])
        self.is_deleted = False
        self._counter: RunCounter | None = None
        calls = program.calls
        self._arguments = (ctypes.c_int64 * max(len(program.arguments), 1))(*(s.size for s in program.arguments))
        self._dims = [(ctypes.c_int64 * max(len(s.dims), 1))(*s.dims) for s in program.results]
        specs = [
            (s.size, s.number, len(s.dims), ctypes.addressof(d))
            for s, d in zip(program.results, self._dims, strict=True)
        ]
        flat = list(itertools.chain.from_iterable(specs))
        self._results = (ctypes.c_int64 * max(len(flat), 1))(*flat)
        self._donated = (ctypes.c_int64 * max(len(program.donated), 1))(*program.donated)
        values = {
            Loaded.run: calls.code.run,
            Loaded.steps: calls.code.table,
            Loaded.argument_count: len(program.arguments),
            Loaded.result_count: len(program.results),
            Loaded.temp: calls.temp_size,
            Loaded.flags: _flags(calls),
            Loaded.executable: program.address,
            Loaded.arguments: ctypes.addressof(self._arguments),
            Loaded.results: ctypes.addressof(self._results),
            Loaded.donated_count: len(program.donated),
            Loaded.donated: ctypes.addressof(self._donated),
            Loaded.device: device.address,
        }
        for word, value in values.items():
            self.words[word] = value
        self._count()

    def _count(self) -> None:
        """Make machine code count executions if the count is requested."""
        counter = self.program.executable.counter if self.program.executable is not None else None
        if counter is None:
            return
        self._counter = counter  # a running machine code call adds to it when it ends
        self.words[Loaded.counter] = counter.address
        found = weakref.ref(self)

        def end() -> None:
            loaded = found()
            if loaded is not None:
                loaded.words[Loaded.counter] = 0

        counter.on_end.append(end)

    @property
    def counter(self) -> RunCounter | None:
        """Return the current execution counter."""
        return self._counter if self.words[Loaded.counter] else None

    def delete(self) -> None:
        """Free the arena; later calls raise."""
        self.is_deleted = True
        self.words[Loaded.flags] |= UNUSUAL
        arena, self.words[Loaded.arena] = self.words[Loaded.arena], 0
        if arena:
            _give_back(arena)

    def forget(self) -> None:
        """Forget the handle, which C no longer uses."""
        self.delete()
        super().forget()


def _flags(calls: Calls) -> int:
    """Return the flags of a program's calls from machine code."""
    if calls.calls_host:
        return GUARDED | CALLS_HOST
    return GUARDED if calls.is_long else 0


def _give_back(memory: int) -> None:
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(bridge().memory.address("free"))
    free(None, memory, 0)


# -- compiling -------------------------------------------------------------------------------------


def forget_destroyed() -> None:
    """Forget the loaded executables that C has destroyed, and their programs."""
    for address in BUFFERS.loaded.take_destroyed():
        loaded = Handle.at(address)
        loaded.program.forget()
        loaded.forget()


def _loaded(program: PjrtProgram, client: Client) -> int:
    forget_destroyed()
    number = program.device_number
    return LoadedProgram(program, client.device(max(number, 0))).address


@implements("Client_Compile")
def _compile(args: Any) -> None:
    given = c_api.ProgramStruct.from_address(args.program)
    code, form = c_api.text_at(given.code, given.code_size), c_api.text_at(given.format, given.format_size).decode()
    program = compile_program(code, form, c_api.text_at(args.compile_options, args.compile_options_size))
    args.executable = _loaded(program, Handle.at(args.client))


@implements("Compile")
def _compile_ahead(args: Any) -> None:
    given = c_api.ProgramStruct.from_address(args.program)
    code, form = c_api.text_at(given.code, given.code_size), c_api.text_at(given.format, given.format_size).decode()
    args.executable = compile_program(
        code, form, c_api.text_at(args.compile_options, args.compile_options_size)
    ).address


@implements("Executable_DeserializeAndLoad")
def _deserialize(args: Any) -> None:
    data = c_api.text_at(args.serialized_executable, args.serialized_executable_size)
    overridden = c_api.text_at(
        args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size
    )
    args.loaded_executable = _loaded(load_program(data, overridden), Handle.at(args.client))


# -- properties ------------------------------------------------------------------------------------


@implements("LoadedExecutable_Delete")
def _delete(args: Any) -> None:
    Handle.at(args.executable).delete()


@implements("LoadedExecutable_IsDeleted")
def _is_deleted(args: Any) -> None:
    args.is_deleted = Handle.at(args.executable).is_deleted


@implements("LoadedExecutable_AddressableDevices")
def _devices(args: Any) -> None:
    loaded = Handle.at(args.executable)
    portable = loaded.program.device_number < 0
    args.addressable_devices = ctypes.addressof(loaded.devices)
    args.num_addressable_devices = 0 if portable else 1


@implements("LoadedExecutable_Fingerprint")
def _loaded_fingerprint(args: Any) -> None:
    give_text(args, "executable_fingerprint", Handle.at(args.executable).program.fingerprint)


@implements("Executable_Fingerprint")
def _fingerprint(args: Any) -> None:
    give_text(args, "executable_fingerprint", Handle.at(args.executable).fingerprint)


@implements("Executable_Name")
def _name(args: Any) -> None:
    give_text(args, "executable_name", Handle.at(args.executable).name)


@implements("Executable_SizeOfGeneratedCodeInBytes")
def _code_size(args: Any) -> None:
    args.size_in_bytes = 0


@implements("Executable_OptimizedProgram")
def _optimized(args: Any) -> None:
    wanted = c_api.ProgramStruct.from_address(args.program)
    text = Handle.at(args.executable).optimized
    wanted.format, wanted.format_size = _HLO, len(_HLO_NAME) - 1
    if wanted.code:
        ctypes.memmove(wanted.code, text.address, min(wanted.code_size, text.size))
    wanted.code_size = text.size


_HLO_NAME = ctypes.create_string_buffer(b"hlo_with_config")
_HLO = ctypes.addressof(_HLO_NAME)


@implements("Executable_GetCostAnalysis")
def _cost(args: Any) -> None:
    values = Handle.at(args.executable).properties
    args.properties, args.num_properties = values.address, values.count


@implements("Executable_GetCompiledMemoryStats")
def _memory(args: Any) -> None:
    program = Handle.at(args.executable)
    args.argument_size_in_bytes = sum(s.size for s in program.arguments)
    args.output_size_in_bytes = sum(s.size for s in program.results)
    args.temp_size_in_bytes = program.calls.temp_size
    total = args.argument_size_in_bytes + args.output_size_in_bytes + args.temp_size_in_bytes
    args.peak_memory_in_bytes = args.total_size_in_bytes = total


@implements("Executable_OutputElementTypes")
def _types(args: Any) -> None:
    program = Handle.at(args.executable)
    args.output_types, args.num_output_types = ctypes.addressof(program.result_types), len(program.results)


@implements("Executable_OutputDimensions")
def _dimensions(args: Any) -> None:
    program = Handle.at(args.executable)
    dims, ranks = program.result_dims
    args.num_outputs, args.dims, args.dim_sizes = len(program.results), ctypes.addressof(dims), ctypes.addressof(ranks)


@implements("Executable_OutputMemoryKinds")
def _memory_kinds(args: Any) -> None:
    program = Handle.at(args.executable)
    kinds, sizes = program.memory_kinds
    args.num_outputs = len(program.results)
    args.memory_kinds, args.memory_kind_sizes = ctypes.addressof(kinds), ctypes.addressof(sizes)


@implements("Executable_Serialize")
def _serialize(args: Any) -> None:
    text = Handle.at(args.executable).serialized
    give_text(args, "serialized_bytes", text)
    args.serialized_executable, args.serialized_executable_deleter = text.address, no_op_address()


@implements("Executable_GetCompileOptions")
def _options(args: Any) -> None:
    text = Handle.at(args.executable).options
    give_text(args, "serialized_bytes", text)
    args.serialized_compile_options, args.serialized_compile_options_deleter = text.address, no_op_address()


@implements("LoadedExecutable_GetDeviceAssignment")
def _assignment(args: Any) -> None:
    loaded = Handle.at(args.executable)
    loaded.assignment = _device_assignment(loaded.device.number)
    give_text(args, "serialized_bytes", loaded.assignment)
    args.serialized_device_assignment = loaded.assignment.address
    args.serialized_device_assignment_deleter = no_op_address()


def _device_assignment(number: int) -> Any:
    """Return a DeviceAssignmentProto of one device."""
    import numpy as np

    create = import_jax("jaxlib._jax").DeviceAssignment.create
    return Text(create(np.full((1, 1), number, np.int32)).serialize())


@implements("ExecuteContext_Create")
def _context(args: Any) -> None:
    args.context = Handle(1).address


@implements("ExecuteContext_Destroy")
def _context_destroy(args: Any) -> None:
    Handle.at(args.context).forget()


# -- calls -----------------------------------------------------------------------------------------


@implements("LoadedExecutable_Execute")
def _execute(args: Any) -> None:
    """Run a call that machine code does not.

    An argument must not be donated, or there is an error.
    """
    loaded = Handle.at(args.executable)
    if loaded.is_deleted:
        raise ArgumentError(f"{loaded.program.module.name} was deleted")
    if args.num_devices != 1:
        raise ArgumentError(f"{loaded.program.module.name} runs on one device, not {args.num_devices}")
    given = _arguments(loaded.program, args)
    _check_donated(loaded.program, given, _kept(args))
    device = Handle.at(args.execute_device) if args.execute_device else loaded.device
    made: list[int] = []
    try:
        for spec in loaded.program.results:
            place = device.address, device.memory.address
            made.append(BUFFERS.loaded.make(spec.number, spec.dims, spec.size, *place))
        _run(loaded, given, made)
    except BaseException as error:
        for buffer in made:
            BUFFERS.loaded.destroy(buffer)
        if not isinstance(error, Exception):
            BUFFERS.loaded.raise_again(error)
        raise
    _hand_over(args, loaded.program, given, made)


def _kept(args: Any) -> set[int]:
    """Return the indices of the arguments that this call must not donate."""
    options = c_api.ExecuteOptions.from_address(args.options)
    count = options.num_non_donatable_input_indices
    return set((ctypes.c_int64 * count).from_address(options.non_donatable_input_indices)) if count else set()


def _check_donated(program: PjrtProgram, given: list[int], kept: set[int]) -> None:
    """Check that no donated array is passed twice.

    Raises:
        ArgumentError: one is.
    """
    for number in program.donated:
        if number in kept or given.count(given[number]) == 1:
            continue
        other = next(k for k, buffer in enumerate(given) if buffer == given[number] and k != number)
        raise ArgumentError(
            f"argument {number} of {program.module.name} is donated, but the same array is "
            f"also argument {other}: pass a copy of it, or do not donate it"
        )


def _hand_over(args: Any, program: PjrtProgram, given: list[int], made: list[int]) -> None:
    """Set the results, and consume donated arguments."""
    kept = _kept(args)
    for number in program.donated:
        if number not in kept:
            BUFFERS.loaded.delete(given[number])
    outputs = ctypes.c_void_p.from_address(args.output_lists).value
    if made and outputs:
        ctypes.memmove(outputs, (ctypes.c_int64 * len(made))(*made), 8 * len(made))
    if args.device_complete_events:
        ctypes.c_void_p.from_address(args.device_complete_events).value = BUFFERS.loaded.ready


def _arguments(program: PjrtProgram, args: Any) -> list[int]:
    """Return the buffers of a call.

    Raises:
        ArgumentError: their number or sizes do not match, or one was deleted.
    """
    count = len(program.arguments)
    if args.num_args != count:
        raise ArgumentError(f"{program.module.name} takes {counted(count, 'argument')}, not {args.num_args}")
    first = ctypes.c_void_p.from_address(args.argument_lists).value if count else None
    given = list((ctypes.c_void_p * count).from_address(first)) if first else []
    for k, (buffer, spec) in enumerate(zip(given, program.arguments, strict=True)):
        found = buffer_words(buffer)
        if found[Buffer.deleted]:
            elements(buffer)
        if found[Buffer.size] != spec.size:
            raise ArgumentError(
                f"argument {k} of {program.module.name} has {found[Buffer.size]} bytes, expected {spec.size}"
            )
    return given


def _run(loaded: LoadedProgram, given: list[int], made: list[int]) -> None:
    """Run the code with its own arena, because a Python function may call it recursively."""
    program = loaded.program
    arguments = pointers(buffer_words(b)[Buffer.data] for b in given)
    results = pointers(buffer_words(b)[Buffer.data] for b in made)
    size = program.calls.temp_size
    try:
        arena = (ctypes.c_uint8 * (size + 64))()
    except MemoryError as error:
        raise out_of_memory(f"the temporaries of {program.module.name}", size) from error
    base = ctypes.addressof(arena)
    word = loaded.address + 8 * Loaded.cancelled
    call = bridge().call if loaded.counter is None else loaded.counter.timed(bridge().call)
    try:
        code = program.calls.code
        status = call(code.run, arguments, results, base + -base % 64, code.table, word)
    except Exception as error:
        raise _failure(program, error) from error
    if status != OK:
        raise _reason(status)


def _failure(program: PjrtProgram, error: Exception) -> XlanbError:
    """Return the error of a call in which a Python function or a runtime operation raised."""
    if isinstance(error, XlanbError):
        error.args = (f"{error}\n{hint(program.module.name, error)}", *error.args[1:])
        return error
    return CallbackError("".join(traceback.format_exception(error)))


def _reason(status: int) -> XlanbError:
    if status == NO_MEMORY:
        return OutOfMemoryError("out of memory for the state of a thread")
    return CancelledError("the call was cancelled while it ran")


def stopped(executable: int, status: int, raised: int | None) -> int | None:
    """Return the error of a call by machine code that did not complete.

    `raised` is the address of the exception that a Python function raised, or None.
    """
    if raised is None:
        return error_of(_reason(status))
    error = ctypes.cast(raised, ctypes.py_object).value
    if isinstance(error, Exception):
        return error_of(_failure(Handle.at(executable).program, error))
    BUFFERS.loaded.raise_again(error)
    return error_of(error)


__all__ = ["LoadedProgram", "forget_destroyed", "stopped"]
