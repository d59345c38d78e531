"""Who plays the devices of a program: the threads of this process, unless a block says otherwise."""

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
    """Calls a function for each device and gives the results of all of them in order; see threads.run_on_threads for the arguments."""

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
    """What plays the devices of programs that this thread runs."""
    return _CURRENT.get()


@contextmanager
def running_by(transport: Transport) -> Iterator[None]:
    """Let programs that run in the block have their devices played by another transport, as `mpi.run_on_mpi`."""
    with bound(_CURRENT, transport):
        yield
