"""The transport: what runs the devices of a program, by default threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from xlanb.contexts import bound
from xlanb.evaluator.participant import Participant
from xlanb.hlo.device_groups import DeviceGrid
from xlanb.spmd.devices.rendezvous import TIMEOUT
from xlanb.spmd.devices.threads import Visit, run_on_threads


class Transport(Protocol):
    """Calls a function for each device and returns the results in device order.

    See threads.run_on_threads for the arguments.
    """

    def __call__(
        self,
        work: Callable[[Participant], Any],
        grid: DeviceGrid,
        *,
        timeout: float = TIMEOUT,
        visits: list[Visit] | None = None,
        cancel: Callable[[], object] = ...,
    ) -> list[Any]: ...


_CURRENT: Final[ContextVar[Transport]] = ContextVar("xlanb.transport", default=run_on_threads)


def current() -> Transport:
    """Return the transport that runs this thread's programs."""
    return _CURRENT.get()


@contextmanager
def running_by(transport: Transport) -> Iterator[None]:
    """Run the programs in the block by another transport, such as `mpi.run_on_mpi`."""
    with bound(_CURRENT, transport):
        yield
