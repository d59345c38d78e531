"""Variables of a session, and the changes of one run: kept only when the whole run succeeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xlanb.errors import UninitializedError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class VariableHandle:
    """The value of a variable's handle or reference: it names the variable, and the node that owns it."""

    name: str
    node: str


class VariableStore:
    """The variables of a session by name."""

    def __init__(self) -> None:
        self._values: dict[str, Array] = {}

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

    def write(self, name: str, value: Array) -> None:
        """Set the value; the array belongs to the store from then on."""
        value = np.asarray(value)
        value.flags.writeable = False
        self._values[name] = value

    def begin(self) -> Transaction:
        """A view to read and write in one run."""
        return Transaction(self)


class Transaction:
    """The variables as one run sees them; `commit` makes its writes last."""

    def __init__(self, store: VariableStore) -> None:
        self._store = store
        self._written: dict[str, Array] = {}

    def has(self, handle: VariableHandle) -> bool:
        """Whether the variable has a value."""
        return handle.name in self._written or handle.name in self._store

    def read(self, handle: VariableHandle) -> Array:
        """The value, as this run left it so far. Raises UninitializedError where there is none."""
        found = self._written.get(handle.name)
        return self._store.read(handle) if found is None else found

    def write(self, handle: VariableHandle, value: Array) -> None:
        """Set the value for the rest of this run."""
        self._written[handle.name] = value

    def commit(self) -> None:
        """Make all writes last."""
        for name, value in self._written.items():
            self._store.write(name, value)
        self._written.clear()
