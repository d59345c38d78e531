"""Variables of a session, and the changes of one run, which are undone if the run fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import numpy as np

from xlanb.errors import UninitializedError
from xlanb.lazy_dataclass import dataclass

Array = np.ndarray[Any, Any]
_T = TypeVar("_T")
_STRIPES: Final = 32  # locks of a session; variables whose names hash alike share one


@dataclass(frozen=True, slots=True)
class VariableHandle:
    """A variable's handle or reference: the names of the variable, and of the node that owns it."""

    name: str
    node: str


class VariableStore:
    """The variables of a session by name, shared by its threads.

    An array in the store never changes; an update replaces it. Code that reads a variable and
    writes it back must run in `exclusively`, so that no update in between is lost.
    """

    def __init__(self) -> None:
        self._values: dict[str, Array] = {}
        self._writers: dict[str, object] = {}
        self._locks = tuple(threading.RLock() for _ in range(_STRIPES))
        self._publishing = threading.Lock()

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def names(self) -> list[str]:
        """Names of all variables that have a value."""
        return sorted(self._values)

    def read(self, handle: VariableHandle) -> Array:
        """The value.

        Raises:
            UninitializedError: It has none yet; names the node.
        """
        found = self._values.get(handle.name)
        if found is None:
            raise UninitializedError(
                f"Attempting to use uninitialized value {handle.node}; run tf.global_variables_initializer() first, "
                "or load_variables()"
            )
        return found

    def get(self, names: Collection[str]) -> dict[str, Array | None]:
        """A consistent snapshot of values, None for a variable without one.

        Values that `publish` writes at once are seen at once.
        """
        values = self._values
        if len(names) < 2:
            return {name: values.get(name) for name in names}
        with self._publishing:
            return {name: values.get(name) for name in names}

    def load(self, values: Mapping[str, Any]) -> None:
        """Set variables from outside a run, all at once; the store then owns the arrays."""
        self.exclusively(values, lambda: self.publish(values, None, {}))

    def publish(self, values: Mapping[str, Any], writer: object, before: dict[str, Array | None]) -> None:
        """Replace values, all at once; the caller runs in `exclusively` for these names.

        `writer` identifies the run. Previous values that it did not write itself are added to
        `before`.
        """
        arrays = {name: np.asarray(value) for name, value in values.items()}
        for name, array in arrays.items():
            array.flags.writeable = False
            if self._writers.get(name) is not writer:
                before[name] = self._values.get(name)
        with self._publishing:
            for name, array in arrays.items():
                self._writers[name] = writer
                self._values[name] = array

    def restore(self, before: Mapping[str, Array | None], writer: object) -> None:
        """Restore the previous values (None: none) of variables last written by `writer`."""

        def step() -> None:
            with self._publishing:
                for name in [n for n in before if self._writers.get(n) is writer]:
                    value = before[name]
                    if value is None:
                        self._values.pop(name, None)
                    else:
                        self._values[name] = value

        self.exclusively(before, step)

    def exclusively(self, names: Iterable[str], action: Callable[[], _T]) -> _T:
        """Call `action` while no other thread updates these variables (TensorFlow's LockVariables).

        Returns its result. Locks are taken in the same order by all callers, so that there are no
        deadlocks.
        `action` must not wait for another run.
        """
        taken = {hash(name) % _STRIPES for name in names}
        return _holding([self._locks[i] for i in sorted(taken)], action)

    def begin(self) -> Transaction:
        """A view to read and write in one run."""
        return Transaction(self)


def _holding(locks: Sequence[AbstractContextManager[Any]], action: Callable[[], _T]) -> _T:
    """Call `action` with all locks held.

    It uses one `with` statement per lock: CPython does not check for signals between taking a lock
    and entering the block, nor between leaving it and releasing the lock, so that an interrupt
    leaves no lock held. ExitStack does not guarantee that.
    """
    if not locks:
        return action()
    with locks[0]:
        return _holding(locks[1:], action)


class Transaction:
    """The variables as one run sees them.

    Others see its writes at once, as in TensorFlow. `roll_back` undoes them, except for variables
    that another run has written since.
    """

    def __init__(self, store: VariableStore) -> None:
        self._store = store
        self._writer = object()
        self._before: dict[str, Array | None] = {}

    def has(self, handle: VariableHandle) -> bool:
        """Whether the variable has a value."""
        return handle.name in self._store

    def read(self, handle: VariableHandle) -> Array:
        """The value. Raises UninitializedError if there is none."""
        return self._store.read(handle)

    def get(self, names: Collection[str]) -> dict[str, Array | None]:
        """A consistent snapshot of values by name, None for a variable without one."""
        return self._store.get(names)

    def exclusively(self, names: Iterable[str], action: Callable[[], _T]) -> _T:
        """Call `action`, which may read and write these variables; return its result.

        No other thread updates them in the meantime.
        """
        return self._store.exclusively(names, action)

    def write(self, values: Mapping[str, Any]) -> None:
        """Replace values by name, all at once, within `exclusively`."""
        self._store.publish(values, self._writer, self._before)

    def commit(self) -> None:
        """Make all writes permanent."""
        self._before = {}

    def roll_back(self) -> None:
        """Undo the writes since the last `commit`, except to variables written by others since."""
        if self._before:
            self._store.restore(self._before, self._writer)
            self._before = {}
