"""A call of a JAX function as a module with the flat arrays that it takes, and the way back to what the function gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from xlanb.errors import MissingPeerError, XlanbError
from xlanb.frontends.jax import from_jax
from xlanb.hlo import HloModule


@dataclass(frozen=True)
class JaxCall:
    """`module(*arguments)` gives the leaves that `assemble` makes the function's own result of."""

    module: HloModule
    arguments: tuple[Any, ...]
    assemble: Callable[[Sequence[Any]], Any]


def jax_call(function: Callable[..., Any], *args: Any, **named: Any) -> JaxCall:
    """What JAX makes of a call before any pass of XLA.

    Raises:
        MissingPeerError: JAX is not installed.
        XlanbError: it is no function, or takes arguments that are no arrays.
    """
    try:
        jax = import_module("jax")
    except ModuleNotFoundError:
        raise MissingPeerError("JAX is not installed: pip install 'xlanb[peers]'") from None
    if not callable(function):
        raise XlanbError(
            f"a {type(function).__name__} is nothing that JAX compiles: end the cell in a function or a call"
        )
    jitted = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True)
    lowered = jitted.lower(*args, **named)
    module = from_jax(lowered)
    leaves = jax.tree_util.tree_leaves((args, named))
    count = len(module.entry_computation.parameters)
    if len(leaves) != count:
        raise XlanbError(
            f"the function has {len(leaves)} arrays for arguments, its HLO takes {count}: arguments that are static, or not used "
            "within jax.jit, cannot be told apart here; give the function without jax.jit"
        )

    def assemble(results: Sequence[Any]) -> Any:
        return jax.tree_util.tree_unflatten(lowered.out_tree, list(results))

    shapes = [p.shape.as_array() for p in module.entry_computation.parameters]
    arrays = tuple(np.asarray(leaf).astype(s.dtype, copy=False) for leaf, s in zip(leaves, shapes, strict=True))
    return JaxCall(module, arrays, assemble)
