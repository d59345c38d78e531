"""Whole programs as one HloModule.

They are HLO text, a TensorFlow graph with its fetches, or a Python function over arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlanb.errors import XlanbError
from xlanb.frontends.mistakes import check_no_named, no_program
from xlanb.frontends.stablehlo import BYTECODE, parse_text
from xlanb.hlo import HloModule


def to_module(x: Any, /, *args: Any, **named: Any) -> HloModule:
    """The HloModule of a user's program.

    `x` is an HloModule, HLO or StableHLO text, a tensor, operation or list of them, a function over
    `xlanb.tf` or JAX with example arguments in `args`, anything else that `xlanb.from_jax` takes,
    or a TensorFlow program as `Graph.from_tensorflow` takes it, with its arguments. For tensors,
    `named` gives values of placeholders (and of variables) by name if their shape is unknown in the
    graph.

    Raises:
        HloVerifierError: The module violates a rule of HLO.
        XlanbError: It is unsupported or cannot be lowered.
        TypeError: It is none of these.
    """
    if isinstance(x, HloModule) or (isinstance(x, str) and "\n" in x):  # a one-line string may be a path
        return _of_text_or_module(x, args, named)
    from xlanb.frontends.jax import is_jax, jax_module
    from xlanb.runtime import graph_program  # all of TensorFlow's ops: not loaded for HLO
    from xlanb.runtime.functions import as_tf_function, tuple_module

    x = as_tf_function(x)
    if graph_program.is_foreign(x):
        batch = named.pop("batch", None)
        return verified(graph_program.foreign_module(x, args, named, batch))
    if isinstance(x, str):
        return _of_text_or_module(x, args, named)
    if fetches := graph_program.fetches_of(x):
        return graph_program.extract_module(fetches, named)
    if isinstance(x, bytes | bytearray) and x.startswith(BYTECODE):
        return verified(jax_module(x, *args, **named))
    if callable(x) or is_jax(x):
        return verified(tuple_module(x, args, named))
    raise no_program(x)


def _of_text_or_module(x: HloModule | str, args: Sequence[Any], named: Mapping[str, Any]) -> HloModule:
    check_no_named(named)
    return verified(_parsed(x, args) if isinstance(x, str) else x)


def _parsed(text: str, args: Sequence[Any]) -> HloModule:
    try:
        return parse_text(text, args)
    except XlanbError as error:
        if "\n" not in text and "{" not in text:
            error.add_note(
                "A str is parsed as HLO or StableHLO text; to use a file, pass its content: Path(name).read_text()"
            )
        raise


def verified(module: HloModule) -> HloModule:
    """Verify the module and return it.

    Compiled code trusts its shapes, and would read out of bounds if they were inconsistent.

    Raises:
        HloVerifierError: The module violates a rule of HLO.
    """
    module.verify(executable=True)
    return module
