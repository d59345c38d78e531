"""Run short programs of several devices in one thread, each device on its own stack.

A device runs until it calls the runtime, then the next one continues. A thread per device would
cost some hundred microseconds, more than a short program takes. Here `xlanb.host`, through which
machine code calls the runtime, records the call and switches back to the thread's stack (glibc's
swapcontext). Python then performs the call, a collective once all members of its group have
arrived, and switches to the next device.

Invariants
- The stacks of devices run only machine code. No Python frame and no call of Python's C API is ever
  on them: `resume` is called with the GIL, and machine code never releases it.
- A set of stacks is used by one run at a time. It is discarded after a failed run, whose devices
  are still in the middle of the program.
"""

from __future__ import annotations

import ctypes
import mmap
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xlanb.codegen import jit
from xlanb.codegen.function import Function
from xlanb.codegen.host_call import CallbackCall, HostCall
from xlanb.codegen.native import NativeModule, null
from xlanb.codegen.places import Fields
from xlanb.codegen.types import I32, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_units
from xlanb.cpu.runtime.guard import HOST
from xlanb.evaluator.collectives import is_plain_collective
from xlanb.evaluator.participant import running_on
from xlanb.hlo.device_groups import DeviceGrid, device_groups, group_of
from xlanb.hlo.devices import why_several
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.spmd.devices.rendezvous import Rendezvous
from xlanb.spmd.devices.threads import ThreadParticipant, meeting_key

if TYPE_CHECKING:
    from xlanb.cpu.calls import Calls
    from xlanb.cpu.library import ProgramCode

MOST: Final = 64
"""The most devices, each of which has a stack."""
_STACK: Final = 8 << 20
"""Bytes of a stack, the same as a thread's; unused pages take no memory."""
_CONTEXT: Final = 8192
"""Bytes for a ucontext_t, enough for any machine."""
_UC_LINK, _UC_STACK = 8, 16
"""Offsets of uc_link and uc_stack (address, flags, size) on 64-bit Linux."""
_NUMBERS: Final = frozenset((Op.PARTITION_ID, Op.REPLICA_ID))
_ASIDE: Final = frozenset((Op.ASYNC_START, Op.ASYNC_UPDATE, Op.ASYNC_DONE))
"""Collectives in these run in the evaluator, which would block the only thread."""
_RESUME, _BODY = "xlanb.fiber.resume", "xlanb.fiber.body"


class Fiber(ctypes.Structure):
    """A device: the thread's context and its own; the program and its arguments; its runtime call.

    `function` and `table` are the runtime function to call and its argument; 0 if the program has
    ended.
    """

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in ("main", "own", "run", "args", "results", "temp", "steps", "function", "table")
    )


def fits(module: HloModule, grid: DeviceGrid) -> bool:
    """Whether a program can run on fibers.

    Its collectives must be plain ones whose groups include every device, and the machine must be
    able to switch stacks.
    """
    several = [i for i in module.instructions() if why_several(i) and i.opcode not in _NUMBERS]
    if any(i.opcode in _ASIDE for i in module.instructions()):
        return False
    if grid.count > MOST or not all(map(is_plain_collective, several)) or _libc() is None:
        return False
    members = (sorted(d for group in device_groups(i, grid) for d in group) for i in several)
    return all(m == list(range(grid.count)) for m in members)


@cache
def _libc() -> Any:
    """The C library with its context functions; None if it lacks them."""
    library = ctypes.PyDLL(None)
    has_all = all(hasattr(library, n) for n in ("getcontext", "makecontext", "swapcontext", "gnu_get_libc_version"))
    return library if has_all and ctypes.sizeof(ctypes.c_void_p) == 8 else None


def _text(target: Any) -> str:
    """The LLVM IR of the three functions."""
    m = NativeModule("xlanb.fibers", target)
    current = m.variable("current", PTR)

    def switch(f: Function, fiber: Value, leaves: str, enters: str) -> None:
        fields = Fields(fiber, Fiber)
        f.call(I32, "swapcontext", fields[leaves].load(), fields[enters].load())

    @m.define(HOST, VOID, exported=True, function=PTR, table=PTR)
    def host(f: Function, function: Value, table: Value) -> None:
        """Called by a program on a device's stack: request a call of a runtime function."""
        fiber = current(f).load()
        fields = Fields(fiber, Fiber)
        fields["function"].store(function)
        fields["table"].store(table)
        switch(f, fiber, "own", "main")

    @m.define(_BODY, VOID, exported=True)
    def body(f: Function) -> None:
        """The entry of a device's stack: run the program, report its end, and run the next one."""
        with f.rounds([f.const(I32, 0)]) as forever:
            fiber = current(f).load()
            fields = Fields(fiber, Fiber)
            f.call_pointer(*(fields[n].load() for n in ("run", "args", "results", "temp", "steps")))
            ended = current(f).load()
            Fields(ended, Fiber)["function"].store(null(f))
            switch(f, ended, "own", "main")
            forever.next, forever.again = [forever.values[0]], forever.values[0].equals(0)

    @m.define(_RESUME, VOID, exported=True, fiber=PTR)
    def resume(f: Function, fiber: Value) -> None:
        """Called on the thread's stack: run a device until its next request."""
        current(f).store(fiber)
        switch(f, fiber, "main", "own")

    return m.text()


@cache
def _code() -> jit.LoadedCode:
    library = _libc()
    swap = ctypes.cast(library.swapcontext, ctypes.c_void_p).value or 0
    target = jit.host()
    unit = Unit(_text(target), ready=False, weight=0, everywhere=True)
    return jit.LoadedCode(compile_units([unit], target), [HOST, _BODY, _RESUME], {"swapcontext": swap})


@cache
def _resume() -> Any:
    return ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_code().address(_RESUME))


def host_address() -> int:
    """The address of the function that replaces `xlanb.host` in programs that run on fibers."""
    return _code().address(HOST)


class _Set:
    """Stacks, tables of pointers and arenas for all devices of a program."""

    def __init__(self, count: int, code: ProgramCode, arguments: int, results: int, temp: int) -> None:
        self.tables = [
            ((ctypes.c_void_p * max(arguments, 1))(), (ctypes.c_void_p * max(results, 1))()) for _ in range(count)
        ]
        self.fibers = [Fiber() for _ in range(count)]
        self._memory: list[Any] = []
        main = self._kept(ctypes.create_string_buffer(_CONTEXT))
        for fiber, (args, outs) in zip(self.fibers, self.tables, strict=True):
            arena = np.empty(temp + 64, np.uint8)
            self._memory.append(arena)
            base = arena.ctypes.data
            fiber.main, fiber.own = main, self._context()
            fiber.run, fiber.steps = code.run, code.table
            fiber.args, fiber.results = ctypes.addressof(args), ctypes.addressof(outs)
            fiber.temp = base + -base % 64

    def _kept(self, buffer: Any) -> int:
        self._memory.append(buffer)
        return ctypes.addressof(buffer)

    def _context(self) -> int:
        """A context that starts the body on a new stack."""
        context = self._kept(ctypes.create_string_buffer(_CONTEXT))
        stack = mmap.mmap(-1, _STACK)
        self._memory.append(stack)
        library = _libc()
        library.getcontext(ctypes.c_void_p(context))
        place = ctypes.addressof(ctypes.c_char.from_buffer(stack))
        ctypes.c_void_p.from_address(context + _UC_LINK).value = None
        for n, word in enumerate((place, 0, _STACK)):
            ctypes.c_uint64.from_address(context + _UC_STACK + 8 * n).value = word
        library.makecontext(ctypes.c_void_p(context), ctypes.c_void_p(_code().address(_BODY)), 0)
        return context


class FiberRunner:
    """Runs a program on all devices in the calling thread.

    Args:
        calls: The program's calls; its code is `code`, in which `host_address` replaces
            `xlanb.host`.
        hosts: The runtime functions that the code calls.
        grid: The devices.
    """

    def __init__(
        self, calls: Calls, code: ProgramCode, hosts: Sequence[HostCall | CallbackCall], grid: DeviceGrid
    ) -> None:
        self._calls, self._code, self._grid = calls, code, grid
        self._hosts: dict[int, HostCall] = {id(h): h for h in hosts}  # type: ignore[misc]  # of both kinds; only the first meets
        self._groups = {
            id(h): [group_of(h.instruction, d, grid) for d in range(grid.count)]
            for h in hosts
            if isinstance(h, HostCall) and why_several(h.instruction) and h.instruction.opcode not in _NUMBERS
        }
        self._numbers = {
            id(h): [grid.of(d)[h.instruction.opcode is Op.PARTITION_ID] for d in range(grid.count)]
            for h in hosts
            if h.instruction.opcode in _NUMBERS
        }
        self._participants = [ThreadParticipant(d, grid, Rendezvous(grid.count)) for d in range(grid.count)]
        self._free: list[_Set] = []

    def __call__(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """The results of each device for its arguments.

        Raises:
            ArgumentError: An array does not fit.
            DeviceError: Devices wait for others that never arrive.
        """
        calls = self._calls
        try:
            stacks = self._free.pop()
        except IndexError:
            sizes = len(calls.arguments), len(calls.results), calls.temp_size
            stacks = _Set(self._grid.count, self._code, *sizes)
        prepared = [calls.prepare(row, *tables) for row, tables in zip(rows, stacks.tables, strict=True)]
        self._run(stacks)
        self._free.append(stacks)
        return [calls.given(outputs) for _, outputs in prepared]

    def _run(self, stacks: _Set) -> None:
        resume = _resume()
        ready = deque(range(self._grid.count))
        waiting: dict[Any, dict[int, tuple[HostCall, int]]] = {}
        while ready:
            device = ready.popleft()
            fiber = stacks.fibers[device]
            place = ctypes.addressof(fiber)
            resume(place)
            while (groups := self._groups.get(function := fiber.function)) is None and function is not None:
                self._ask(function, fiber.table, device)
                resume(place)
            if function is None or groups is None:
                continue
            host, table = self._hosts[function], fiber.table
            group = groups[device]
            key = meeting_key(host.instruction), group
            came = waiting.setdefault(key, {})
            came[device] = host, table
            if len(came) == len(group):
                del waiting[key]
                HostCall.meet([came[d] for d in group], group, self._grid)
                ready.extend(group)
        if waiting:
            raise _stuck(waiting, self._grid.count)

    def _ask(self, function: int, table: int, device: int) -> None:
        """Perform a request of a single device."""
        numbers = self._numbers.get(function)
        if numbers is not None:
            result = ctypes.c_uint64.from_address(table).value
            ctypes.c_uint32.from_address(result).value = numbers[device]
            return
        with running_on(self._participants[device]):
            self._hosts[function](table)


def _stuck(waiting: dict[Any, dict[int, tuple[HostCall, int]]], count: int) -> BaseException:
    """The reason for the deadlock."""
    places = {
        d: (host.instruction.name, group) for (_, group), came in waiting.items() for d, (host, _) in came.items()
    }
    return Rendezvous(count).stuck(places)
