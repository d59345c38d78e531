"""Run devices as MPI processes, with MPI's own collectives (mpi4py; `pip install xlanb[mpi]`).

Every process compiles the same program and runs one device: its rank in MPI's world. Collectives
start without blocking, so that one that does not finish within the timeout raises an error in each
waiting process instead of hanging. The first process that fails aborts all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from xlanb.errors import DeviceError, MissingLibraryError
from xlanb.evaluator.collectives import reduction
from xlanb.evaluator.participant import Meaning, Participant, running_on
from xlanb.evaluator.values import Array, Value, narrow, widen
from xlanb.hlo.device_groups import DeviceGrid, device_pairs
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.spmd.devices.rendezvous import TIMEOUT
from xlanb.spmd.devices.threads import Visit

_REDUCES: Final = frozenset((Op.ALL_REDUCE, Op.ALL_REDUCE_START))
_PERMUTES: Final = frozenset((Op.COLLECTIVE_PERMUTE, Op.COLLECTIVE_PERMUTE_START))
_OPERATIONS: Final = {
    Op.ADD: "SUM",
    Op.MULTIPLY: "PROD",
    Op.MAXIMUM: "MAX",
    Op.MINIMUM: "MIN",
    Op.AND: "BAND",
    Op.OR: "BOR",
    Op.XOR: "BXOR",
}
_OF_BOOLS: Final = {
    Op.ADD: "LOR",
    Op.MULTIPLY: "LAND",
    Op.MAXIMUM: "LOR",
    Op.MINIMUM: "LAND",
    Op.AND: "LAND",
    Op.OR: "LOR",
    Op.XOR: "LXOR",
}
_ORDERED: Final = frozenset((Op.MAXIMUM, Op.MINIMUM))
"""Reductions that MPI does not define for complex numbers, and that drop NaN, unlike HLO."""


def mpi() -> Any:
    """Return the module mpi4py.MPI.

    Raises:
        MissingLibraryError: mpi4py or an MPI library is not installed.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise MissingLibraryError(
            f"running devices as MPI processes needs mpi4py and an MPI library: pip install xlanb[mpi] ({error})"
        ) from error
    return MPI


class MpiParticipant(Participant):
    """The device that this process runs."""

    def __init__(self, grid: DeviceGrid, timeout: float, visits: list[Visit] | None = None) -> None:
        self.mpi = mpi()
        self.world = self.mpi.COMM_WORLD
        super().__init__(self.world.rank, grid)
        self._timeout = timeout
        self._visits = visits
        self._began = time.perf_counter()
        self._sent: list[Any] = []  # pending messages must not be freed

    def meet(self, i: HloInstruction, group: tuple[int, ...], value: Value, meaning: Meaning) -> Value:
        """See Participant."""
        came = time.perf_counter() - self._began
        operands: tuple[Array, ...] = tuple(np.ascontiguousarray(a) for a in value)
        results = self._exchanged(i, group, operands, meaning)
        if self._visits is not None:
            ended = time.perf_counter() - self._began
            self._visits.append(Visit(self.device, i.name, i.opcode.text, came, ended, ended))
        return results

    def _exchanged(
        self, i: HloInstruction, group: tuple[int, ...], operands: tuple[Array, ...], meaning: Meaning
    ) -> Value:
        if len(group) == 1:
            return meaning([operands])[0]
        if i.opcode in _PERMUTES:
            return self._permuted(i, operands)
        comm = _communicator(group)
        if i.opcode in _REDUCES and all(self._operation(i, a) for a in operands):
            return tuple(self._all_reduced(i, comm, a) for a in operands)
        if i.opcode is Op.ALL_TO_ALL:
            return self._all_to_all(i, comm, len(group), operands)
        rows = list(zip(*(self._all_gathered(i, comm, len(group), a) for a in operands), strict=True))
        return meaning(rows)[group.index(self.device)]

    # -- MPI calls ---------------------------------------------------------------------------------

    def _operation(self, i: HloInstruction, array: Array) -> Any:
        """Return MPI's operation for a reduction, or None if it has none for this element type."""
        opcode = reduction(i.to_apply)
        wide = widen(array).dtype
        if opcode is None or (opcode in _ORDERED and wide.kind not in "iub") or wide.kind not in "iubfc":
            return None
        return getattr(self.mpi, (_OF_BOOLS if wide.kind == "b" else _OPERATIONS)[opcode])

    def _all_reduced(self, i: HloInstruction, comm: Any, array: Array) -> Array:
        wide = np.ascontiguousarray(widen(array))
        total = np.empty_like(wide)
        self._wait(i, [comm.Iallreduce(wide, total, self._operation(i, array))])
        return narrow(total, array.dtype)

    def _all_gathered(self, i: HloInstruction, comm: Any, count: int, array: Array) -> list[Array]:
        """Return what each member sent."""
        table = np.empty((count, array.nbytes), np.uint8)
        sizes = [array.nbytes] * count
        places = [array.nbytes * k for k in range(count)]
        self._wait(i, [comm.Iallgatherv(_bytes(array), [table.reshape(-1), sizes, places, self.mpi.BYTE])])
        return [_array(row, array) for row in table]

    def _all_to_all(self, i: HloInstruction, comm: Any, count: int, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        dims = i.ints("dimensions")
        pieces = np.split(operands[0], count, dims[0]) if dims else operands
        sent = np.concatenate([_bytes(np.ascontiguousarray(p)) for p in pieces])
        got = np.empty_like(sent)
        size = pieces[0].nbytes
        counts = ([size] * count, [size * k for k in range(count)])
        self._wait(i, [comm.Ialltoallv([sent, *counts, self.mpi.BYTE], [got, *counts, self.mpi.BYTE])])
        arrays = [_array(row, pieces[0]) for row in got.reshape(count, size)]
        return (np.concatenate(arrays, dims[0]),) if dims else tuple(arrays)

    def _permuted(self, i: HloInstruction, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        results = tuple(map(np.zeros_like, operands))
        requests = []
        for source, target in device_pairs(i, self.device, self.grid):
            for tag, (given, result) in enumerate(zip(operands, results, strict=True)):
                if source == self.device:
                    requests.append(self.world.Isend([_bytes(given), self.mpi.BYTE], target, tag))
                if target == self.device:
                    requests.append(self.world.Irecv([_bytes(result), self.mpi.BYTE], source, tag))
        self._wait(i, requests)
        return results

    def send(self, i: HloInstruction, target: int, channel: int, value: Value) -> None:
        """See Participant."""
        self._sent.append(self.world.isend(value, target, _MESSAGES + channel))

    def receive(self, i: HloInstruction, source: int, channel: int) -> Value:
        """See Participant."""
        deadline = time.monotonic() + self._timeout
        while not self.world.iprobe(source, _MESSAGES + channel):
            self._check(i, deadline)
        return self.world.recv(source=source, tag=_MESSAGES + channel)

    # -- waiting -----------------------------------------------------------------------------------

    def _wait(self, i: HloInstruction, requests: Sequence[Any]) -> None:
        """Wait until all requests have completed.

        Raises:
            DeviceError: they do not complete within the timeout.
        """
        deadline = time.monotonic() + self._timeout
        left = list(requests)
        while left := [r for r in left if not r.Test()]:
            self._check(i, deadline)

    def _check(self, i: HloInstruction, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise DeviceError(
                f"device {self.device} of {self.grid.count} waited {self._timeout:g} s at "
                f"{i.name} for other devices, which never arrived:\n  {i}"
            )
        time.sleep(0)


_MESSAGES: Final = 1 << 14
"""The tag of messages on channel 0."""


def _bytes(array: Array) -> Array:
    """Return the memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


def _array(memory: Array, like: Array) -> Array:
    """Return bytes as an array with another array's dtype and dimensions."""
    return np.ascontiguousarray(memory).view(like.dtype).reshape(like.shape)


@lru_cache(maxsize=256)
def _communicator(group: tuple[int, ...]) -> Any:
    """Return the MPI communicator of a group's members, in the group's order."""
    world = mpi().COMM_WORLD
    if group == tuple(range(world.size)):
        return world
    return world.Create_group(world.group.Incl(list(group)))


def run_on_mpi(
    work: Callable[[Participant], Any],
    grid: DeviceGrid,
    *,
    timeout: float = TIMEOUT,
    visits: list[Visit] | None = None,
    cancel: Callable[[], object] = lambda: None,
) -> list[Any]:
    """Run this process's device and return the results of all devices, in every process.

    Raises:
        DeviceError: the number of processes is not the number of devices, or others did not arrive
            at a collective in time.
    """
    world = mpi().COMM_WORLD
    if world.size != grid.count:
        raise DeviceError(
            f"the program runs on {grid.count} devices, but there are {world.size} MPI "
            f"processes: run mpiexec -n {grid.count} python -m xlanb run --devices mpi ..."
        )
    here = MpiParticipant(grid, timeout, visits)
    with running_on(here):
        result = work(here)
    results: list[Any] = world.allgather(result)
    return results
