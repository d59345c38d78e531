"""Synchronize the threads of several devices for a collective, with deadlock detection.

The last member of a group to arrive computes the results of all members. A device is running,
waiting, or has ended. Waiting devices are released with a DeviceError
- at once, if a required device has ended or failed, or if all devices that have not ended wait and
  none can continue;
- after `timeout` seconds without any arrival, if a device is late.

Invariants
- `_lock` guards all state here; results are computed without it. A complete meeting is no longer in
  `_meetings`, and its members count as running.
- `_failure` is set once. From then on, every device that waits or arrives raises it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from xlanb.errors import CancelledError, DeviceError
from xlanb.lazy_dataclass import dataclass

TIMEOUT: Final = 10.0
"""Seconds without any arrival after which a device counts as late."""

_RUNNING, _WAITING, _ENDED = "running", "waiting", "ended"


@dataclass(slots=True, eq=False)
class _Meeting:
    """One collective of one group, with the values brought so far."""

    name: str
    group: tuple[int, ...]
    changed: threading.Condition
    given: dict[int, Any] = field(default_factory=dict)
    results: Sequence[Any] | None = None
    complete: float = 0.0

    @property
    def missing(self) -> list[int]:
        return [d for d in self.group if d not in self.given]


class Rendezvous:
    """Where the devices of one run synchronize.

    Args:
        count: the number of devices.
        timeout: seconds without any arrival after which a missing device counts as late.
    """

    def __init__(self, count: int, timeout: float = TIMEOUT) -> None:
        self.count = count
        self.timeout = timeout
        self._lock = threading.Lock()
        self._state = [_RUNNING] * count
        self._waits: list[_Meeting | None] = [None] * count
        self._last = ["its beginning"] * count
        self._meetings: dict[Hashable, _Meeting] = {}
        self._posted: dict[Hashable, deque[Any]] = {}
        self._failure: BaseException | None = None
        self._progress = time.monotonic()

    @property
    def failure(self) -> BaseException | None:
        """Return why the run cannot continue, or None while it can."""
        return self._failure

    # -- arrival -----------------------------------------------------------------------------------

    def meet(
        self,
        device: int,
        name: str,
        group: tuple[int, ...],
        value: Any,
        meaning: Callable[[list[Any]], Sequence[Any]],
        key: Hashable = None,
    ) -> tuple[Any, float]:
        """Wait for the group; return this device's result and when the last member arrived.

        The time is time.perf_counter's. Members with the same `key` meet; by default it is the
        name, which messages show.

        Raises:
            DeviceError: the group cannot meet.
        """
        with self._lock:
            place = (name if key is None else key, group)
            meeting = self._arrived(device, name, group, place)
            meeting.given[device] = value
            if meeting.missing:
                return self._wait(device, meeting)[group.index(device)], meeting.complete
            del self._meetings[place]
            meeting.complete = time.perf_counter()
            for d in group:
                self._state[d], self._waits[d] = _RUNNING, None
        try:
            results = meaning([meeting.given[d] for d in group])
        except BaseException as error:
            self.fail(device, error)
            raise
        with self._lock:
            meeting.results = results
            meeting.changed.notify_all()
        return results[group.index(device)], meeting.complete

    def post(self, source: int, target: int, channel: int, value: Any) -> None:
        """Send a value to a device, which may receive it later."""
        key = ("message", source, target, channel)
        with self._lock:
            self._raise_failure()
            self._posted.setdefault(key, deque()).append(value)
            meeting = self._meetings.pop(key, None)
            if meeting is not None:
                self._state[target], self._waits[target] = _RUNNING, None
                meeting.results = ()
                meeting.changed.notify_all()

    def take(self, device: int, name: str, source: int, channel: int) -> Any:
        """Return the next value that a device has sent.

        Raises:
            DeviceError: it can no longer send, or is late.
        """
        key = ("message", source, device, channel)
        with self._lock:
            if not self._posted.get(key):
                meeting = self._arrived(device, name, (source, device), key)
                meeting.given[device] = None
                self._wait(device, meeting)
            return self._posted[key].popleft()

    def leave(self, device: int) -> None:
        """Record that a device has ended."""
        with self._lock:
            self._state[device], self._waits[device] = _ENDED, None
            self._progress = time.monotonic()
            self._check()

    def fail(self, device: int, error: BaseException) -> None:
        """Record that a device has failed, which releases the others."""
        with self._lock:
            self._state[device] = _ENDED
            if self._failure is None:
                self._set_failure(self._failed(device, error))

    def abort(self, error: BaseException) -> None:
        """Release all waiting devices with this device's error."""
        with self._lock:
            if self._failure is None:
                self._set_failure(error)

    def stuck(self, places: Mapping[int, tuple[str, tuple[int, ...]]]) -> BaseException:
        """Return why no device can continue.

        The devices in `places` wait for a collective of a group; all others have ended.
        """
        with self._lock:
            self._state = [_WAITING if d in places else _ENDED for d in range(self.count)]
            for device, (name, group) in places.items():
                meeting = self._meetings.setdefault(
                    (name, group), _Meeting(name, group, threading.Condition(self._lock))
                )
                meeting.given[device] = None
                self._waits[device] = meeting
            self._check()
            return self._failure or DeviceError(self._device_positions())

    # -- with the lock held ------------------------------------------------------------------------

    def _arrived(self, device: int, name: str, group: tuple[int, ...], key: Hashable) -> _Meeting:
        self._raise_failure()
        self._progress = time.monotonic()
        self._last[device] = name
        meeting = self._meetings.get(key)
        if meeting is None:
            meeting = self._meetings[key] = _Meeting(name, group, threading.Condition(self._lock))
        return meeting

    def _wait(self, device: int, meeting: _Meeting) -> Sequence[Any]:
        """Wait for the meeting's results."""
        self._state[device], self._waits[device] = _WAITING, meeting
        self._check()
        while meeting.results is None:
            self._raise_failure()
            left = self._progress + self.timeout - time.monotonic()
            if left <= 0:
                if meeting.missing:
                    self._set_failure(self._late(meeting))
                    continue
                left = self.timeout  # all have arrived, and one computes
            meeting.changed.wait(left)
        return meeting.results

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _set_failure(self, error: BaseException) -> None:
        self._failure = error
        for meeting in self._meetings.values():
            meeting.changed.notify_all()

    def _check(self) -> None:
        """Set the failure if a device waits for one that has ended, or if all wait."""
        if self._failure is not None:
            return
        for meeting in self._meetings.values():
            gone = [d for d in meeting.missing if self._state[d] is _ENDED]
            if gone:
                self._set_failure(
                    DeviceError(
                        f"{_devices(gone)} ended without reaching {meeting.name}, where {_waiting(meeting)}; "
                        + self._device_positions()
                    )
                )
                return
        if self._meetings and _RUNNING not in self._state:
            self._set_failure(DeviceError(f"deadlock: all devices wait for each other; {self._device_positions()}"))

    # -- messages ----------------------------------------------------------------------------------

    def _failed(self, device: int, error: BaseException) -> BaseException:
        if not isinstance(error, Exception) or isinstance(error, CancelledError):
            return error
        found = DeviceError(
            f"device {device} of {self.count} failed after {self._last[device]}: {error}\n{self._device_positions()}"
        )
        found.__cause__ = error
        return found

    def _late(self, meeting: _Meeting) -> DeviceError:
        late = ", ".join(f"device {d}, last seen at {self._last[d]}" for d in meeting.missing)
        return DeviceError(
            f"{meeting.name}: {late}, did not arrive within {self.timeout:g} s, while "
            f"{_waiting(meeting)}; {self._device_positions()}"
        )

    def _device_positions(self) -> str:
        """Format where each device is; group the devices at the same place."""
        places: dict[str, list[int]] = {}
        for d, state in enumerate(self._state):
            meeting = self._waits[d]
            if meeting is not None:
                place = f"waiting at {meeting.name} for {_devices(meeting.missing)}"
            else:
                place = state if state is _ENDED else f"running after {self._last[d]}"
            places.setdefault(place, []).append(d)
        return "; ".join(f"{_devices(ds)}: {place}" for place, ds in places.items())


def _waiting(meeting: _Meeting) -> str:
    return f"{_devices(meeting.given)} waited"


def _devices(numbers: Any) -> str:
    """`device 3`, `devices 0-2, 5`."""
    ordered = sorted(numbers)
    runs: list[list[int]] = []
    for n in ordered:
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"device{'s' * (len(ordered) > 1)} {text}"
