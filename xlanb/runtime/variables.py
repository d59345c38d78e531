"""Variables of a session, and the changes of one run: taken back when the run fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from xlanb.errors import UninitializedError

Array = np.ndarray[Any, Any]
_T = TypeVar("_T")
_STRIPES: Final = 32  # locks of a session; variables whose names hash alike share one


@dataclass(frozen=True, slots=True)
class VariableHandle:
    """The value of a variable's handle or reference: it names the variable, and the node that owns it."""

    name: str
    node: str


class VariableStore:
    """The variables of a session by name, shared by its threads.

    An array in the store never changes; an update replaces it. What reads a variable and writes it back runs in
    `exclusively`, so that no update between the two is lost.
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
            UninitializedError: it has none yet; names the node.
        """
        found = self._values.get(handle.name)
        if found is None:
            raise UninitializedError(
                f"Attempting to use uninitialized value {handle.node}; run tf.global_variables_initializer() first, or load_variables()"
            )
        return found

    def get(self, names: Collection[str]) -> dict[str, Array | None]:
        """The values of one moment, None of a variable without one: what `publish` writes at once is seen at once."""
        values = self._values
        if len(names) < 2:
            return {name: values.get(name) for name in names}
        with self._publishing:
            return {name: values.get(name) for name in names}

    def load(self, values: Mapping[str, Any]) -> None:
        """Set variables from outside of any run, all at once; the arrays belong to the store from then on."""
        self.exclusively(values, lambda: self.publish(values, None, {}))

    def publish(self, values: Mapping[str, Any], writer: object, before: dict[str, Array | None]) -> None:
        """Replace values, all at once; the caller runs in `exclusively` for these names.

        `writer` stands for the run. What variables held that it did not write last is put into `before`.
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
        """Give variables that `writer` wrote last the values they had before, None: none."""

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
        """Call `action` while no other thread updates these variables (TensorFlow's LockVariables); its result.

        Locks are taken in one order for all callers, so that two callers never wait for each other. `action` must
        wait for no other run.
        """
        taken = {hash(name) % _STRIPES for name in names}
        return _holding([self._locks[i] for i in sorted(taken)], action)

    def begin(self) -> Transaction:
        """A view to read and write in one run."""
        return Transaction(self)


def _holding(locks: Sequence[AbstractContextManager[Any]], action: Callable[[], _T]) -> _T:
    """Call `action` with all locks held.

    One `with` statement for each: CPython looks for signals neither between taking a lock and entering the block nor
    between leaving it and releasing the lock, so an interrupt leaves none behind. ExitStack does not promise that.
    """
    if not locks:
        return action()
    with locks[0]:
        return _holding(locks[1:], action)


class Transaction:
    """The variables as one run sees them.

    Others see its writes at once, as in TensorFlow. `roll_back` takes them back, but for variables that another run
    has written since: that run's update counts.
    """

    def __init__(self, store: VariableStore) -> None:
        self._store = store
        self._writer = object()
        self._before: dict[str, Array | None] = {}

    def has(self, handle: VariableHandle) -> bool:
        """Whether the variable has a value."""
        return handle.name in self._store

    def read(self, handle: VariableHandle) -> Array:
        """The value. Raises UninitializedError where there is none."""
        return self._store.read(handle)

    def get(self, names: Collection[str]) -> dict[str, Array | None]:
        """The values of one moment by name, None of a variable without one."""
        return self._store.get(names)

    def exclusively(self, names: Iterable[str], action: Callable[[], _T]) -> _T:
        """Call `action`, which reads and writes these variables, while no other thread updates them; its result."""
        return self._store.exclusively(names, action)

    def write(self, values: Mapping[str, Any]) -> None:
        """Replace values by name, all at once, within `exclusively`."""
        self._store.publish(values, self._writer, self._before)

    def commit(self) -> None:
        """Make all writes last."""
        self._before = {}

    def roll_back(self) -> None:
        """Take back the writes since the last `commit`, but for variables that others have written since."""
        if self._before:
            self._store.restore(self._before, self._writer)
            self._before = {}
