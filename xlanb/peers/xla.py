"""The real XLA:CPU, through JAX, when it is installed: what it says of a module, and what it computes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from xlanb.errors import MissingPeerError, XlanbError
from xlanb.hlo import HloModule, parse


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingPeerError("JAX is not installed: pip install 'xlanb[peers]'") from None


def from_jax(function: Callable[..., Any], *args: Any) -> HloModule:
    """The HLO that JAX hands to XLA for a function with these example arguments, before any pass.

    Raises:
        MissingPeerError: JAX is not installed.
    """
    jax = _import("jax")
    return parse(jax.jit(function).lower(*args).as_text(dialect="hlo"))


def canonical_text(text: str) -> str:
    """HLO text as the real parser and printer give it back.

    Raises:
        XlanbError: the real parser refuses it, with its message.
    """
    hlo = _import("jaxlib._hlo")
    try:
        canonical: str = hlo.hlo_module_from_text(text).to_string()
    except Exception as error:  # the extension raises its own kinds
        raise XlanbError(f"the real XLA refuses the text: {error}") from error
    return canonical


class RealExecutable:
    """A module compiled by the real XLA:CPU. Call it with arrays; `optimized_text` is its HLO after all passes."""

    def __init__(self, module: HloModule | str) -> None:
        hlo, jaxlib = _import("jaxlib._hlo"), _import("jaxlib._jax")
        proto = hlo.hlo_module_from_text(str(module)).as_serialized_hlo_module_proto()
        mlir = jaxlib.mlir.xla_computation_to_mlir_module(hlo.XlaComputation(proto))
        client = _import("jax").devices("cpu")[0].client
        devices = jaxlib.DeviceList((client.local_devices()[0],))
        self._client = client
        self._loaded = client.compile_and_load(mlir, devices, jaxlib.CompileOptions())

    @property
    def optimized_text(self) -> str:
        """The module after the real pipeline."""
        text: str = self._loaded.hlo_modules()[0].to_string()
        return text

    def __call__(self, *args: Any) -> list[np.ndarray[Any, Any]]:
        """Run; the leaves of the result, in order."""
        jax = _import("jax")
        device = self._client.local_devices()[0]
        return [np.asarray(r) for r in self.run([jax.device_put(np.asarray(a), device) for a in args])]

    def run(self, buffers: list[Any]) -> list[Any]:
        """Run on arrays that are JAX's already; results that are JAX's, ready to read."""
        results = self._loaded.execute_sharded(buffers).disassemble_into_single_device_arrays()
        ready: list[Any] = _import("jax").block_until_ready([r[0] for r in results])
        return ready
