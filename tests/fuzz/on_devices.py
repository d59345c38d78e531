"""Evaluators for a module on the number of devices that it runs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xlanb.evaluator import Evaluator
from xlanb.evaluator.participant import Participant
from xlanb.explorer.numbers import leaves_of
from xlanb.hlo import HloModule
from xlanb.hlo.device_groups import device_grid
from xlanb.hlo.devices import is_per_device
from xlanb.spmd.devices.threads import run_on_threads

E = TypeVar("E", bound=Evaluator)


def device_count(module: HloModule) -> int:
    """The number of devices that each run a module; 1 for a program yet to be partitioned."""
    return device_grid(module).count if is_per_device(module) else 1


def evaluated(make: Callable[[], E], module: HloModule, arguments: Sequence[Any]) -> tuple[list[Any], list[E]]:
    """The leaves of the results, device by device, and the evaluators that computed them.

    Args:
        make: Makes an evaluator; called once per device.
        module: The program of each device.
        arguments: The program's arguments; if it runs on several devices, a row for each.
    """
    grid, entry = device_grid(module), module.entry_computation
    evaluators = [make() for _ in range(device_count(module))]
    if len(evaluators) == 1:
        return leaves_of(evaluators[0].run(entry, arguments)), evaluators

    def work(here: Participant) -> Any:
        return evaluators[here.device].run(entry, arguments[here.device])

    def cancel() -> None:
        for evaluator in evaluators:
            evaluator.abandon()

    return leaves_of(run_on_threads(work, grid, cancel=cancel)), evaluators
