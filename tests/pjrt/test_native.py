"""Buffers, events and errors in machine code, called as C would."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import pytest

from xlanb.errors import ArgumentError, UnimplementedError
from xlanb.pjrt import buffers, c_api, native, words
from xlanb.pjrt.functions import CallbackError, as_callback, error_of
from xlanb.pjrt.native_text import SMALL, UNUSUAL_FUNCTIONS
from xlanb.pjrt.words import Buffer

F32 = c_api.ELEMENT_TYPES.index("f32")


class Loaded:
    """The functions, with stand-ins for Python's that count their calls."""

    def __init__(self) -> None:
        self.unusual_calls = 0
        self._callback = native.UNUSUAL(self._unusual)
        self.dropped: list[int] = []
        self.native = native.NativeFunctions(
            dict.fromkeys(UNUSUAL_FUNCTIONS, self._callback),
            native.STOPPED(lambda *_: None),
            native.DESTROYED(lambda: self.dropped.extend(self.native.take_destroyed())),
        )

    def _unusual(self, _: int) -> int:
        self.unusual_calls += 1
        return native.DONE

    def call(self, name: str, **fields: object) -> ctypes.Structure:
        """Call a function of the C API; return its arguments with the results."""
        args = c_api.arguments(name)(c_api.size(name), None, **fields)
        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(self.native.functions[name])
        assert function(ctypes.addressof(args)) is None
        return args


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return Loaded()


@pytest.fixture
def device() -> ctypes.Array:
    """Return a device with its memory at address 64."""
    return (ctypes.c_int64 * 1)(64)


def from_host(loaded: Loaded, array: np.ndarray, device: ctypes.Array, semantics: int) -> ctypes.Structure:
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    strides = (ctypes.c_int64 * array.ndim)(*array.strides)
    return loaded.call(
        "Client_BufferFromHostBuffer", data=array.ctypes.data, type=F32, dims=ctypes.addressof(dims),
        num_dims=array.ndim, byte_strides=ctypes.addressof(strides), num_byte_strides=array.ndim,
        host_buffer_semantics=semantics, device=ctypes.addressof(device),
    )  # fmt: skip


def aligned(count: int) -> np.ndarray:
    memory = np.zeros(count + 16, np.float32)
    return memory[-memory.ctypes.data % 64 // 4 :][:count]


@pytest.mark.parametrize("count", [0, 3, SMALL // 4, SMALL])
def test_a_buffer_gives_back_what_it_takes(loaded: Loaded, count: int) -> None:
    before = loaded.native.statistics()[0]
    buffer = loaded.native.make(F32, (count,), 4 * count, 1, 2)
    words = native.buffer_words(buffer)
    assert native.buffer_dims(buffer) == (count,)
    assert words[Buffer.data] % 64 == 0
    assert loaded.native.statistics()[0] == before + 4 * count
    loaded.native.destroy(buffer)
    assert loaded.native.statistics()[0] == before


def test_an_external_reference_keeps_deleted_elements(loaded: Loaded) -> None:
    before = loaded.native.statistics()[0]
    buffer = loaded.native.make(F32, (2000,), 8000, 1, 2)
    loaded.call("Buffer_IncreaseExternalReferenceCount", buffer=buffer)
    loaded.call("Buffer_Delete", buffer=buffer)
    assert loaded.call("Buffer_IsDeleted", buffer=buffer).is_deleted
    assert loaded.native.statistics()[0] == before + 8000
    loaded.call("Buffer_DecreaseExternalReferenceCount", buffer=buffer)
    assert loaded.native.statistics()[0] == before
    loaded.call("Buffer_Destroy", buffer=buffer)


def test_an_aligned_array_is_shared_until_its_buffer_goes(loaded: Loaded, device: ctypes.Array) -> None:
    array, told = aligned(1000), []
    args = from_host(loaded, array, device, c_api.ZERO_COPY)
    assert native.buffer_words(args.buffer)[Buffer.data] == array.ctypes.data
    assert native.buffer_words(args.buffer)[Buffer.memory] == 64
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda _, argument: told.append(argument))
    event, function = args.done_with_host_buffer, ctypes.cast(callback, ctypes.c_void_p).value
    for number in (1, 2):
        loaded.call("Event_OnReady", event=event, callback=function, user_arg=number)
    assert not loaded.call("Event_IsReady", event=event).is_ready
    loaded.call("Buffer_Destroy", buffer=args.buffer)
    assert sorted(told) == [1, 2]
    assert loaded.call("Event_IsReady", event=event).is_ready
    loaded.call("Event_OnReady", event=event, callback=function, user_arg=3)
    assert told[-1] == 3
    loaded.call("Event_Await", event=event)
    loaded.call("Event_Destroy", event=event)


@pytest.mark.parametrize(("shift", "semantics"), [(0, c_api.DURING_CALL), (1, c_api.ZERO_COPY)])
def test_other_arrays_are_copied(loaded: Loaded, device: ctypes.Array, shift: int, semantics: int) -> None:
    array = aligned(1001)[shift:][:1000]
    array[:] = np.arange(1000)
    args = from_host(loaded, array, device, semantics)
    array[:] = 0
    np.testing.assert_array_equal(buffers.elements(args.buffer), np.arange(1000))
    assert loaded.call("Event_IsReady", event=args.done_with_host_buffer).is_ready
    loaded.call("Buffer_Destroy", buffer=args.buffer)


def test_strides_and_layouts_are_left_to_python(loaded: Loaded, device: ctypes.Array) -> None:
    before = loaded.unusual_calls
    from_host(loaded, np.ones((4, 6), np.float32)[:, ::2], device, c_api.ZERO_COPY)
    assert loaded.unusual_calls == before + 1


def test_elements_go_back_to_the_host(loaded: Loaded, device: ctypes.Array) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    buffer = from_host(loaded, array, device, c_api.DURING_CALL).buffer
    assert loaded.call("Buffer_ToHostBuffer", src=buffer).dst_size == 48
    got = np.empty_like(array)
    order = (ctypes.c_int64 * 2)(1, 0)
    layout = c_api.Tiled(80, None, 56, None, ctypes.addressof(order), 2, None, None, 0, 0)
    fields = {"src": buffer, "dst": got.ctypes.data, "dst_size": 48}
    args = loaded.call("Buffer_ToHostBuffer", host_layout=ctypes.addressof(layout), **fields)
    np.testing.assert_array_equal(got, array)
    assert loaded.call("Event_IsReady", event=args.event).is_ready
    before = loaded.unusual_calls
    order[:] = [0, 1]
    loaded.call("Buffer_ToHostBuffer", host_layout=ctypes.addressof(layout), **fields)
    assert loaded.unusual_calls == before + 1
    loaded.call("Buffer_Destroy", buffer=buffer)


def test_errors_carry_code_and_message(loaded: Loaded) -> None:
    error = error_of(UnimplementedError("no such thing: é"))
    assert error is not None
    assert loaded.call("Error_GetCode", error=error).code == c_api.UNIMPLEMENTED
    args = c_api.arguments("Error_Message")(24, None, error)
    words = (ctypes.c_int64 * 5).from_buffer(bytearray(40))
    words[2] = error
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.native.functions["Error_Message"])(ctypes.addressof(words))
    assert c_api.text_at(words[3], words[4]).decode() == "no such thing: é"
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.native.functions["Error_Destroy"])(ctypes.addressof(args))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ArgumentError("x"), c_api.INVALID_ARGUMENT),
        (MemoryError(), c_api.RESOURCE_EXHAUSTED),
        (CallbackError("x"), c_api.INTERNAL),
    ],
)
def test_exceptions_have_their_codes(loaded: Loaded, error: BaseException, code: int) -> None:
    assert loaded.call("Error_GetCode", error=error_of(error)).code == code


def test_arguments_of_an_older_framework_are_refused(loaded: Loaded) -> None:
    function = as_callback("Client_Devices", lambda _: None)
    args = c_api.arguments("Client_Devices")(16, None)
    error = function(ctypes.addressof(args))
    assert loaded.call("Error_GetCode", error=error).code == c_api.INVALID_ARGUMENT


def test_executables_destroyed_in_other_threads_are_dropped_by_the_main_thread(loaded: Loaded) -> None:
    blocks = [(ctypes.c_int64 * len(words.Loaded))() for _ in range(3)]
    destroy = loaded.native.functions["LoadedExecutable_Destroy"]
    args = [c_api.arguments("LoadedExecutable_Destroy")(24, None, ctypes.addressof(b)) for b in blocks]
    # without a Python frame: start_routine of a thread of C
    libc, made = ctypes.PyDLL(None), ctypes.c_void_p()
    for each in args:
        assert libc.pthread_create(ctypes.byref(made), None, ctypes.c_void_p(destroy), ctypes.byref(each)) == 0
        assert libc.pthread_join(made, None) == 0  # PyDLL keeps the GIL: destroying must not wait for it
    for _ in range(1000):  # the main thread sees a pending call when it takes the GIL
        time.sleep(0)
    assert sorted(loaded.dropped) == sorted(map(ctypes.addressof, blocks))
    assert list(loaded.native.take_destroyed()) == []
