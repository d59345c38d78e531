"""The reference interpreter on several devices, with whole arrays or shards as arguments.

Runs one evaluator per device, each in its own thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.errors import ArgumentError, UnimplementedError
from xlanb.evaluator.feeds import Feeds
from xlanb.evaluator.interpreter import Evaluator, on_devices
from xlanb.evaluator.participant import Participant
from xlanb.evaluator.values import Value
from xlanb.hlo.device_groups import DeviceGrid, device_grid
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.devices import transport
from xlanb.spmd.devices.distribution import Distribution
from xlanb.spmd.devices.rendezvous import TIMEOUT
from xlanb.spmd.devices.threads import Visit

MOST_DEVICES = 1024
"""The most devices that one process simulates; each is a thread."""


def evaluate_shards(
    module: HloModule,
    arguments: Sequence[Sequence[Any]],
    *,
    timeout: float = TIMEOUT,
    visits: list[Visit] | None = None,
    feeds: Feeds | None = None,
) -> list[Value]:
    """Evaluate a module, which is the program of each device, and return each device's result.

    Args:
        module: the program of each device.
        arguments: the arguments of each device, ordered by replica, then by partition.
        timeout: seconds without an arrival at any collective after which a missing device counts as
            late.
        visits: receives a record of each collective on each device.
        feeds: the host's side of infeed and outfeed.

    Raises:
        DeviceError: a device fails, is late, or waits for others that never arrive.
        ArgumentError: the number of argument rows is not the number of devices.
    """
    grid = checked_grid(module)
    if len(arguments) != grid.count:
        raise ArgumentError(
            f"{module.name} runs on {grid.count} devices: expected arguments for each of them, got {len(arguments)}"
        )
    evaluators = [Evaluator(feeds=feeds) for _ in range(grid.count)]

    def work(here: Participant) -> Value:
        return evaluators[here.device].run(module.entry_computation, arguments[here.device])

    def cancel() -> None:
        for ev in evaluators:
            ev.abandon()

    return transport.current()(work, grid, timeout=timeout, visits=visits, cancel=cancel)


def checked_grid(module: HloModule) -> DeviceGrid:
    """Return the device grid that a module runs on.

    Raises:
        UnimplementedError: it needs more devices than one process simulates.
    """
    grid = device_grid(module)
    if grid.count > MOST_DEVICES:
        raise UnimplementedError(f"{module.name} needs {grid.count:,} devices, more than the limit of {MOST_DEVICES:,}")
    return grid


@on_devices.implement
def evaluate_on_devices(module: HloModule, arrays: Sequence[Any], feeds: Feeds | None = None) -> Value:
    """Evaluate a partitioned module on whole arrays; see xlanb.evaluate."""
    if any(i.opcode in (HloOpcode.INFEED, HloOpcode.OUTFEED) for i in module.instructions()) and feeds is not None:
        raise UnimplementedError(
            f"{module.name}: infeed and outfeed are not supported on several devices, each of which has its own queues"
        )
    distribution = Distribution.of_each(module, checked_grid(module))
    labels = [f"argument {p.parameter_number} ({p.name})" for p in module.entry_computation.parameters]
    return distribution.join(evaluate_shards(module, distribution.split(arrays, labels)))
