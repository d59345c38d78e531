"""The Python functions that programs call: pure_callback, io_callback, debug.print.

JAX identifies a function by its number in the calling module. For this backend, numbers are unique
in the process, because the functions do not pass through the C API with the program. JAX keeps a
function alive as long as what it has lowered; then the compiled program does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from weakref import WeakValueDictionary

from xlanb.evaluator.host import CALLBACKS, callback_number
from xlanb.hlo import HloModule

Function = Callable[..., object]

_FUNCTIONS: WeakValueDictionary[int, Function] = WeakValueDictionary()
_NUMBERS = itertools.count()
_INDEX = re.compile(r"\bindex\s*=\s*\d+")


class Numbered:
    """A stand-in for a module's list of functions while JAX lowers one call.

    The function added to it gets the next number.
    """

    def __init__(self) -> None:
        self._length = 0

    def append(self, function: Function) -> None:
        """Assign a number to a function; the caller keeps the function alive."""
        number = next(_NUMBERS)
        _FUNCTIONS[number] = function
        self._length = number + 1

    def __len__(self) -> int:
        return self._length


def bind(module: HloModule) -> None:
    """Set a module's functions as its `host_callbacks`, and number them there."""
    kept: dict[int, tuple[int, Function]] = {}
    for i in list(module.instructions()):
        number = callback_number(i) if i.attributes.get("custom_call_target") in CALLBACKS else None
        function = _FUNCTIONS.get(number) if number is not None else None
        if number is None or function is None:
            continue
        index, _ = kept.setdefault(number, (len(kept), function))
        i.parent.update(i, backend_config=_INDEX.sub(f"index = {index}", i.backend_config))
    module.host_callbacks = tuple(function for _, function in kept.values())


__all__ = ["Numbered", "bind"]
