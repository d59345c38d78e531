"""Functions of the runtime that machine code calls: rare opcodes fall back to NumPy.

The kernel of such an instruction calls `host.OPCODE` (also its name in the LLVM IR, the list of
kernels and the profile) with the addresses of operands and results.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.boundary import internal_error, is_foreign
from xlanb.codegen.dynamic import packed, unpacked
from xlanb.codegen.indexing import strides
from xlanb.evaluator import host, participant
from xlanb.evaluator.collectives import collective_results
from xlanb.evaluator.control import map_leaves
from xlanb.evaluator.feeds import Feeds, RaisedError
from xlanb.evaluator.interpreter import Evaluator
from xlanb.hlo.device_groups import DeviceGrid
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, BufferShape, Shape, TupleShape

Array = NDArray[Any]

_SHARED = frozenset(
    {
        Op.COLLECTIVE_PERMUTE,
        Op.COLLECTIVE_PERMUTE_START,
        Op.ALL_TO_ALL,
        Op.COLLECTIVE_BROADCAST,
        Op.COLLECTIVE_REDUCE,
        Op.ASYNC_START,
        Op.SEND,
    }
)
"""Opcodes that pass an operand itself, not a function of it, to another device."""


class HiddenState:
    """State that an executable's instructions keep between calls.

    It consists of infeed and outfeed, and the state of the random number generators.
    """

    def __init__(self) -> None:
        self.feeds = Feeds()
        self._rng_states: dict[int, int] = {}  # of each device
        self._lock = threading.RLock()  # a signal handler may run the same executable

    def apply(self, i: HloInstruction, operands: tuple[Any, ...]) -> Any:
        """The value of an instruction."""
        evaluator = Evaluator(feeds=self.feeds)
        if i.opcode not in (Op.RNG, Op.RNG_GET_AND_UPDATE_STATE):
            return evaluator.apply(i, operands)
        here = participant.current()
        device = here.device if here is not None else 0
        with self._lock:
            evaluator.rng_state = self._rng_states.get(device, evaluator.rng_state)
            value = evaluator.apply(i, operands)
            self._rng_states[device] = evaluator.rng_state
        return value

    def checked(self, i: HloInstruction, value: Any) -> Any:
        """Check a value that a Python function returned for an instruction.

        Raises:
            EvaluationError: It does not have the instruction's shape.
        """
        return Evaluator(feeds=self.feeds).checked(i, value)


class HostCall:
    """The function of one instruction; it takes a table of addresses.

    The table holds the operands' leaves, then the result's. Machine code calls this object through
    CPython's C API and stops if it raises (see `xlanb.host` in xlanb.cpu.runtime.guard). A ctypes
    callback would lose an exception that a signal handler raises before its first or after its last
    line.
    """

    def __init__(self, i: HloInstruction, hidden: HiddenState) -> None:
        self.instruction = i
        self.hidden = hidden
        self.leaves = leaf_count(i)
        self.shares = i.opcode in _SHARED  # other devices get the operands themselves

    @property
    def address(self) -> int:
        """The address of the object, which must outlive the code that calls it."""
        return id(self)

    def __call__(self, table: int) -> None:
        try:
            addresses = iter((ctypes.c_uint64 * self.leaves).from_address(table))
            operands = tuple(_read(o.shape, addresses) for o in self.instruction.operands)
            if self.shares:  # others may read them after this device has continued and overwritten them
                operands = map_leaves(np.array, operands)
            with np.errstate(all="ignore"):
                result = self.hidden.apply(self.instruction, operands)
            _write(self.instruction.shape, _copy_shared(result, list(_arrays(operands))), addresses)
        except RaisedError as raised:
            users = raised.error
        except Exception as error:
            if is_foreign(error):
                raise internal_error(error, "run") from error
            raise
        else:
            return
        raise users

    @staticmethod
    def meet(members: Sequence[tuple[HostCall, int]], group: Sequence[int], grid: DeviceGrid) -> None:
        """Perform a collective of a group: each member's call with its table, in order."""
        first = members[0][0]
        i = first.instruction
        places = [iter((ctypes.c_uint64 * h.leaves).from_address(table)) for h, table in members]
        rows = [[_read(o.shape, addresses) for o in i.operands] for addresses in places]
        if first.shares:  # a result may alias another member's operand
            rows = [[np.array(a) for a in row] for row in rows]
        evaluator = Evaluator(feeds=first.hidden.feeds)
        with np.errstate(all="ignore"):
            results = collective_results(evaluator, i, group, rows, grid)
        is_tuple = isinstance(i.shape, TupleShape)
        for (h, _), addresses, result in zip(members, places, results, strict=True):
            _write(h.instruction.shape, tuple(result) if is_tuple else result[0], addresses)


class CallbackCall:
    """A HostCall of a Python function of JAX (pure_callback, io_callback, debug.print).

    It does not use the evaluator. All its operands and results are static arrays or tokens. The
    function gets read-only copies of the operands.
    """

    def __init__(self, i: HloInstruction, hidden: HiddenState) -> None:
        self.instruction = i
        self.hidden = hidden
        self._general = HostCall(i, hidden)
        self._operands = tuple(_Leaf.of(o.shape) for o in i.operands)
        self._results = tuple(_Leaf.of(shape) for _, shape in i.shape.leaves())
        self._table = ctypes.c_uint64 * (len(self._operands) + len(self._results))

    @staticmethod
    def fits(i: HloInstruction) -> bool:
        """Whether an instruction can be called this way."""
        if i.attributes.get("custom_call_target") not in host.CALLBACKS:
            return False
        results = i.shape.shapes if isinstance(i.shape, TupleShape) else (i.shape,)
        return all(isinstance(s, ArrayShape) and not s.is_dynamic for s in (*results, *(o.shape for o in i.operands)))

    @property
    def address(self) -> int:
        """The address of the object, which must outlive the code that calls it."""
        return id(self)

    def __call__(self, table: int) -> None:
        function = host.callback_function(self.instruction)
        if function is None:  # raises an error that says so
            return self._general(table)
        addresses = self._table.from_address(table)[:]
        given = function(*[leaf and leaf.copied(a) for leaf, a in zip(self._operands, addresses, strict=False)])
        self._write(given, addresses[len(self._operands) :])
        return None

    def _write(self, given: Sequence[Any], addresses: Sequence[int]) -> None:
        if len(given) != len(self._results) or not all(map(_takes, self._results, given)):
            given = self._checked([None if v is None else np.asarray(v) for v in given])
        for leaf, value, address in zip(self._results, given, addresses, strict=True):
            if leaf is not None:
                leaf.write(value, address)

    def _checked(self, values: list[Array | None]) -> list[Array | None]:
        is_tuple = isinstance(self.instruction.shape, TupleShape) or len(values) != 1
        value = self.hidden.checked(self.instruction, tuple(values) if is_tuple else values[0])
        return list(value) if isinstance(value, tuple) else [value]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An array passed to or from machine code: shape, dtype, byte strides and byte size.

    `dynamic` is its shape if that is dynamic.
    """

    dynamic: ArrayShape | None
    dimensions: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    memory: Any
    size: int

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(shape: Shape) -> _Leaf | None:
        """The leaf of an array shape; None for a token."""
        array = shape.array if isinstance(shape, BufferShape) else shape
        if not isinstance(array, ArrayShape) or not array.is_array:
            return None
        places = tuple(n * array.dtype.itemsize for n in strides(array))
        memory, size = ctypes.c_uint8 * array.byte_size, array.byte_size if array.element_count else 0
        return _Leaf(array if array.is_dynamic else None, array.dimensions, array.dtype, places, memory, size)

    def view(self, address: int) -> Array:
        """A view of the elements."""
        return np.ndarray(self.dimensions, self.dtype, self.memory.from_address(address), 0, self.strides)

    def read(self, address: int) -> Array:
        """The array; a view if it has elements."""
        if self.dynamic is not None:
            return unpacked(self.dynamic, address)
        return self.view(address) if self.size else np.empty(self.dimensions, self.dtype)

    def write(self, value: Array, address: int) -> None:
        """Store the array."""
        if self.dynamic is not None:
            packed(self.dynamic, value, address)
        elif self.size:
            self.view(address)[...] = value

    def copied(self, address: int) -> Array:
        """A read-only, row-major copy, which a function may keep."""
        copy = np.array(self.read(address), order="C")
        copy.flags.writeable = False
        return copy


def _takes(leaf: _Leaf | None, value: Any) -> bool:
    """Whether a value is an array that can be stored to a result as it is."""
    if leaf is None:
        return value is None
    return isinstance(value, np.ndarray) and value.shape == leaf.dimensions and value.dtype == leaf.dtype


def leaf_count(i: HloInstruction) -> int:
    """The number of arrays that an instruction reads and writes."""
    return sum(1 for shape in (*(o.shape for o in i.operands), i.shape) for _ in shape.leaves())


def _read(shape: Shape, addresses: Iterator[int]) -> Any:
    """The value at the next addresses; tuples as tuples."""
    if isinstance(shape, TupleShape):
        return tuple(_read(s, addresses) for s in shape.shapes)
    leaf, address = _Leaf.of(shape), next(addresses)
    return None if leaf is None else leaf.read(address)


def _write(shape: Shape, value: Any, addresses: Iterator[int]) -> None:
    """Store a value at the next addresses."""
    if isinstance(shape, TupleShape):
        for s, v in zip(shape.shapes, value, strict=True):
            _write(s, v, addresses)
        return
    leaf, address = _Leaf.of(shape), next(addresses)
    if leaf is not None:
        leaf.write(value, address)


def _arrays(value: Any) -> Iterator[Array]:
    if isinstance(value, tuple):
        for v in value:
            yield from _arrays(v)
    elif isinstance(value, np.ndarray):
        yield value


def _copy_shared(value: Any, operands: Sequence[Array]) -> Any:
    """Copy results that share memory with operands if there are several results.

    Otherwise one result could be written over the operand that another result is.
    """
    if not isinstance(value, tuple):
        return value
    return tuple(
        v.copy()
        if isinstance(v, np.ndarray) and any(np.may_share_memory(v, o) for o in operands)
        else _copy_shared(v, operands)
        for v in value
    )


def make_host_calls(instructions: dict[str, HloInstruction], hidden: HiddenState) -> dict[str, HostCall | CallbackCall]:
    """A function for each symbol."""
    if instructions:
        # Import these now, not on first use during a run: importlib loses interrupts in its weak
        # references' callbacks.
        scipy = ["scipy.fft"] if any(i.opcode is Op.FFT for i in instructions.values()) else []
        for name in ("numpy.ctypeslib", "numpy.random", *scipy):
            importlib.import_module(name)
    return {
        symbol: CallbackCall(i, hidden) if CallbackCall.fits(i) else HostCall(i, hidden)
        for symbol, i in instructions.items()
    }


__all__ = [
    "CallbackCall",
    "HiddenState",
    "HostCall",
    "leaf_count",
    "make_host_calls",
]
