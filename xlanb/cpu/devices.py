"""Compiled programs on several devices: partition a module, and run a thread per device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xlanb.codegen.signature import ArraySpec
from xlanb.cpu.calls import Calls
from xlanb.debug_options import current
from xlanb.errors import ArgumentError, DeviceError, UnimplementedError
from xlanb.evaluator.participant import Participant
from xlanb.hlo.devices import is_per_device, why_several
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_metadata import parse_frontend_attributes
from xlanb.shape import ArrayShape
from xlanb.spmd.devices import transport
from xlanb.spmd.devices.distribution import Distribution
from xlanb.spmd.devices.evaluation import checked_grid
from xlanb.spmd.devices.not_merged import NotMergedError
from xlanb.spmd.devices.threads import Visit, run_on_threads
from xlanb.spmd.mesh import parse_meshes
from xlanb.spmd.sdy import MESHES

if TYPE_CHECKING:
    import pandas as pd

_FEEDS: Final = frozenset((Op.INFEED, Op.OUTFEED))
_PARTITIONS: Final = "spmd-partitioning"
_PLACING: Final = ("shardy-xla", _PARTITIONS)
"""Passes after which a module's entry says how its arrays are distributed over the devices."""

_MOST_MERGED: Final = 2000
"""The most instructions of a merged program of all devices; larger ones compile too slowly."""

TIMELINE: Final = Visit._fields


class DevicePlacement:
    """Follows a module through its passes to learn how whole arrays are distributed over devices.

    Args:
        module: The module being compiled. Its header is updated with its number of devices if only
            its meshes or groups give it.
    """

    def __init__(self, module: HloModule) -> None:
        partitions = _partitions_of_meshes(module)
        if partitions > 1:
            module.header["num_partitions"] = str(partitions)
        self.grid = checked_grid(module)
        if self.grid.partitions > 1:
            module.header["num_partitions"] = str(self.grid.partitions)
        if self.grid.replicas > 1:
            module.header["replica_count"] = str(self.grid.replicas)
        self.is_whole = self.grid.partitions > 1 and not is_per_device(module) and _is_annotated(module)
        self._found = (
            Distribution.of_whole(module, self.grid) if self.is_whole else Distribution.of_each(module, self.grid)
        )
        self._feeds = any(i.opcode in _FEEDS for i in module.instructions())
        self._program = None if self.is_whole else self._small(module)

    def _small(self, module: HloModule) -> HloModule | None:
        """A copy of each device's program, if it may be merged with those of the others."""
        return module.clone() if self.grid.count > 1 and module.instruction_count <= _MOST_MERGED else None

    @property
    def partitions(self) -> int:
        """The number of partitions of the module."""
        return self.grid.partitions if self.is_whole else 1

    def passed(self, name: str, module: HloModule) -> None:
        """Inspect a module after a pass."""
        if self.is_whole and name in _PLACING and not module.entry_computation.name.endswith("_spmd"):
            self._found = Distribution.of_whole(module, self.grid)
        if self.is_whole and name == _PARTITIONS:
            self._program = self._small(module)

    def merged(self) -> HloModule:
        """The programs of all devices as one.

        Raises:
            NotMergedError: They are too long, or cannot be a single program.
        """
        if self._program is None:
            raise NotMergedError(f"more than {_MOST_MERGED} instructions on each device")
        from xlanb.spmd.devices.merging import merged  # not loaded for one device

        return merged(self._program, self._found, _MOST_MERGED)

    def distribution(self) -> Distribution | None:
        """How arrays are distributed; None if the program runs on one device.

        Raises:
            UnimplementedError: The program runs on several devices and has infeeds or outfeeds, of
                which each device would need its own.
        """
        if self.grid.count == 1:
            return None
        if self._feeds:
            raise UnimplementedError(
                f"infeed and outfeed on {self.grid.count} devices: each device would need its own queues"
            )
        return self._found


def _is_annotated(module: HloModule) -> bool:
    """Whether a module has any sharding; if not, each device runs all of it."""
    return MESHES in module.header.get("frontend_attributes", "") or any(i.sharding for i in module.instructions())


def _partitions_of_meshes(module: HloModule) -> int:
    """The devices in Shardy's meshes if the header does not say; 1 if there are none."""
    text = module.header.get("frontend_attributes")
    if not text or "num_partitions" in module.header or MESHES not in text:
        return 1
    meshes = dict(parse_frontend_attributes(Cursor(text))).get(MESHES)
    return max((m.num_devices for m in parse_meshes(meshes).values()), default=1) if meshes else 1


class DeviceCalls:
    """Runs a compiled program on several devices of this process.

    `in_one_thread` does so if the program is short. `merge` returns the calls of one program for
    all devices, or None if there is none. Calls with whole arrays use it; the first such call waits
    for it, so that all calls give identical bits.
    """

    def __init__(
        self,
        calls: Calls,
        distribution: Distribution,
        module: HloModule,
        in_one_thread: Callable[..., list[Any]] | None = None,
        merge: Callable[[], Calls | None] | None = None,
    ) -> None:
        self.calls = calls
        self.merged: Calls | None = None
        self._merge = merge
        self._merging = threading.Lock()
        self._whole: Callable[..., Any] = self._first
        self.in_one_thread = in_one_thread
        self.distribution = distribution
        self.meets = any(why_several(i) for i in module.instructions())
        self._call: Callable[..., Any] = calls.entry()
        names = [name for name, _ in calls.signature.parameters]
        self._labels = [f"argument {n} ({name})" for n, name in enumerate(names)]
        shapes = distribution.parameters
        self._specs = [
            ArraySpec.of(label, s) if isinstance(s, ArrayShape) and not s.is_dynamic else None
            for label, s in zip(self._labels, shapes, strict=True)
        ]

    def __call__(self, *arrays: Any) -> Any:
        """Run with whole arrays; return whole arrays.

        Raises:
            ArgumentError: The arrays do not fit.
            DeviceError: A device fails, is late, or waits for others that never arrive.
        """
        return self._whole(*arrays) if transport.current() is run_on_threads else self._by_devices(*arrays)

    def _first(self, *arrays: Any) -> Any:
        """The first call: compile the programs of all devices as one if possible, then run."""
        with self._merging:
            if self._merge is not None:
                self.merged = self._merge()
                self._merge = None
        self._whole = self._by_devices if self.merged is None else self.merged.entry(self._unusual)
        return self._whole(*arrays)

    def _unusual(self, *arrays: Any) -> Any:
        """Call the merged program with arrays that must be copied or rejected."""
        if self.merged is None or len(arrays) != len(self._specs):
            return self._by_devices(*arrays)
        known = [(a, s) for a, s in zip(arrays, self._specs, strict=True) if s is not None]
        if len(known) < len(arrays) or any(self._may_be_shorter(a, s) for a, s in known):
            return self._by_devices(*arrays)
        return self.merged.unusual(*(s.taken(a) for a, s in known))

    def cancel(self) -> int:
        """Stop other threads' calls of the merged program; return how many there were."""
        return self.merged.cancel() if self.merged is not None else 0

    def _by_devices(self, *arrays: Any) -> Any:
        """Run with whole arrays: split them, run each device, join the results."""
        whole = arrays
        if len(arrays) == len(self._specs):
            whole = tuple(
                a if spec is None or self._may_be_shorter(a, spec) else spec.taken(a)
                for a, spec in zip(arrays, self._specs, strict=True)
            )
        return self.distribution.join(self.run_shards(self.distribution.split(whole, self._labels)))

    def _may_be_shorter(self, array: Any, spec: ArraySpec) -> bool:
        """Whether an array may fill the last tile partly: the module only gives the tile's size."""
        return (
            self.distribution.result is None
            and isinstance(array, np.ndarray)
            and array.dtype == spec.dtype
            and array.shape != spec.dimensions
        )

    def run_shards(self, arguments: Sequence[Sequence[Any]], visits: list[Visit] | None = None) -> list[Any]:
        """The results of each device for its own arguments.

        `visits` receives a record of each collective on each device.

        Raises:
            ArgumentError: The number of rows is not the number of devices, or an array does not
                fit.
            DeviceError: A device fails, is late, or waits for others that never arrive.
        """
        grid = self.distribution.grid
        if len(arguments) != grid.count:
            raise ArgumentError(f"expected arguments for each of {grid.count} devices, not for {len(arguments)}")
        if transport.current() is run_on_threads and visits is None and not self.calls.is_long:
            if not self.meets:
                return [self._call(*row) for row in arguments]
            if self.in_one_thread is not None:
                return self.in_one_thread([self.calls.signature.flatten(row) for row in arguments])

        def work(here: Participant) -> Any:
            return self._call(*arguments[here.device])

        timeout = current().xla_cpu_collective_call_terminate_timeout_seconds
        try:
            return transport.current()(work, grid, timeout=timeout, visits=visits, cancel=self.calls.cancel)
        except DeviceError as error:
            if isinstance(error.__cause__, ArgumentError):  # the caller's fault, not the device's
                raise error.__cause__ from None
            raise

    def run_timed(self, arrays: Sequence[Any], function: int, counters: Any) -> None:
        """Run a profiling variant of the program with whole arrays.

        The counters of device 0 are added to `counters`, an array of numbers.
        """
        rows = self.distribution.split(arrays, self._labels)

        def work(here: Participant) -> None:
            own = counters if here.device == 0 else np.zeros_like(counters)
            self.calls.run_with(function, self.calls.signature.flatten(rows[here.device]), own.ctypes.data)

        run_on_threads(work, self.distribution.grid, cancel=self.calls.cancel)

    def timeline(self, *arrays: Any) -> pd.DataFrame:
        """Run with whole arrays; return a table with a row for each collective on each device.

        Columns: device, collective, opcode; came, complete and ended in seconds since the start of
        the run: when the device arrived, when the last one of its group did, and when it continued.
        """
        import pandas as pd

        visits: list[Visit] = []
        self.run_shards(self.distribution.split(arrays, self._labels), visits)
        return pd.DataFrame(sorted(visits), columns=TIMELINE)
