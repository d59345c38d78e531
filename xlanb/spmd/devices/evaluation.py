"""The reference interpreter on several devices: one evaluator in each thread, with whole arrays or shards in and out."""

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
"""Devices that one process plays: each is a thread."""


def evaluate_shards(
    module: HloModule,
    arguments: Sequence[Sequence[Any]],
    *,
    timeout: float = TIMEOUT,
    visits: list[Visit] | None = None,
    feeds: Feeds | None = None,
) -> list[Value]:
    """The results of each device of a module that is the program of each, for the arguments of each.

    Args:
        module: the program of each device.
        arguments: for each device, replica after replica and in each partition after partition, its arguments.
        timeout: seconds without any device's coming to a collective after which one that others wait for is late.
        visits: takes a record of each collective on each device.
        feeds: the host's side of infeed and outfeed.

    Raises:
        DeviceError: a device fails, is late, or waits for others that do not come.
        ArgumentError: there are not as many rows of arguments as devices.
    """
    grid = checked_grid(module)
    if len(arguments) != grid.count:
        raise ArgumentError(f"{module.name} runs on {grid.count} devices: expected arguments for each of them, got {len(arguments)}")  # fmt: skip
    evaluators = [Evaluator(feeds=feeds) for _ in range(grid.count)]

    def work(here: Participant) -> Value:
        return evaluators[here.device].run(module.entry_computation, arguments[here.device])

    def cancel() -> None:
        for ev in evaluators:
            ev.abandon()

    return transport.current()(work, grid, timeout=timeout, visits=visits, cancel=cancel)


def checked_grid(module: HloModule) -> DeviceGrid:
    """On how many devices a module runs.

    Raises:
        UnimplementedError: more than threads of one process should play.
    """
    grid = device_grid(module)
    if grid.count > MOST_DEVICES:
        raise UnimplementedError(f"{module.name} needs {grid.count:,} devices, more than the limit of {MOST_DEVICES:,}")  # fmt: skip
    return grid


@on_devices.implement
def evaluate_on_devices(module: HloModule, arrays: Sequence[Any], feeds: Feeds | None = None) -> Value:
    """The value of a partitioned module for whole arrays; see xlanb.evaluate."""
    if any(i.opcode in (HloOpcode.INFEED, HloOpcode.OUTFEED) for i in module.instructions()) and feeds is not None:
        raise UnimplementedError(
            f"{module.name}: infeed and outfeed are not supported on several devices, each of which has its own queues"
        )
    distribution = Distribution.of_each(module, checked_grid(module))
    labels = [f"argument {p.parameter_number} ({p.name})" for p in module.entry_computation.parameters]
    return distribution.join(evaluate_shards(module, distribution.split(arrays, labels)))
