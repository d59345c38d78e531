"""Calls of a compiled module without LLVM: the evaluator runs the module after the passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn

import numpy as np

from xlanb.codegen import llvm
from xlanb.codegen.signature import Signature
from xlanb.evaluator import Feeds, evaluate
from xlanb.evaluator.control import map_leaves
from xlanb.hlo.module import HloModule
from xlanb.lazy_logging import logger

_LOG = logger("xlanb.cpu")


@cache
def warn_once() -> None:
    """Log, once per process, that the evaluator runs compiled programs."""
    _LOG.warning(
        "llvmlite is not installed: the evaluator runs compiled programs, slowly; there is no optimized "
        "LLVM IR, no assembly and no time of a kernel"
    )


class InterpretedCalls:
    """The counterpart of `Calls` without machine code, with the same checks, shapes and dtypes.

    The evaluator computes the values instruction by instruction with NumPy: correct but slow. Calls
    cannot be cancelled, and there is no code to profile.
    """

    is_long = True
    running = 0

    def __init__(self, module: HloModule, signature: Signature, temp: int, feeds: Feeds) -> None:
        warn_once()
        self.signature = signature
        self.temp_size = temp
        self._module = module
        self._feeds = feeds
        self._arguments = signature.arguments()

    def entry(self, unusual: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """The function to call."""
        return unusual or self.unusual

    def unusual(self, *arrays: Any) -> Any:
        """Evaluate the module; the result is a fresh array, or a (nested) tuple of them."""
        flat = self.signature.flatten(arrays)
        taken = iter([s if s is None else s.given(s.taken(v)) for s, v in zip(self._arguments, flat, strict=True)])
        nested = [map_leaves(lambda _: next(taken), shape) for _, shape in self.signature.parameters]
        return map_leaves(_fresh, evaluate(self._module, *nested, feeds=self._feeds))

    def run_with(self, function: int, flat: Sequence[Any], extra: int = 0) -> NoReturn:
        """Raise an error: there is no machine code.

        Raises:
            MissingLibraryError: Always.
        """
        raise llvm.missing("running a program's kernels")

    def cancel(self) -> int:
        """Return 0: no call can be stopped."""
        return 0


def _fresh(value: Any) -> Any:
    return value if value is None else np.array(value)
