"""Convert StableHLO text to HLO, without JAX.

The text is what `jax.jit(f).lower(x).as_text()` prints, and what IREE, torch-xla and TensorFlow
write. lexer, types, elements, attributes, locations, pretty and parser convert text to operations;
scope, lower and the rule files convert operations to HLO.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.frontends.stablehlo.source import BYTECODE
from xlanb.graph.extensions import stablehlo_module
from xlanb.hlo import HloModule, parse
from xlanb.hlo.text.lexer import check_characters
from xlanb.patterns import pattern

_BEGINNING = pattern(
    r"(?:[ \t\r\n\ufeff]|//[^\n]*)*"
    r'(?:module(?=[\s@{])|func\.func\b|"builtin\.module"|"func\.func"|[#!][\w$.]+[ \t]*=|builtin\.module\b|\{-#)'
)


def is_stablehlo(text: str) -> bool:
    """Whether a text begins like MLIR: with a module, a function or an alias, after comments.

    HLO text begins with none of them.
    """
    return _BEGINNING.match(text) is not None


def from_stablehlo(text: str | bytes, entry: str = "", *, arguments: Sequence[Any] = ()) -> HloModule:
    """Convert StableHLO text, which needs no JAX, or bytecode, which jaxlib reads, to HLO.

    The entry is the function `main`, the only public one if there is no `main`, or `entry`. CHLO
    operations and `func.call` are supported. Sizes that are operands (`dynamic_reshape`) must
    depend only on constants and on the arguments' sizes. Sharding annotations of Shardy are
    dropped, those of mhlo kept.

    Args:
        text: StableHLO as MLIR text, generic or pretty, or bytecode (a portable artifact).
        entry: the entry function; for text only.
        arguments: arrays, or other objects with a shape, one for each parameter. A size that the
            program leaves open (`tensor<?x4xf32>`) becomes that of the argument, and the sizes that
            follow from it are known.

    Raises:
        HloParseError: the text is malformed; the message has line and column.
        HloVerifierError: operands, types or attributes do not fit an operation.
        UnimplementedError: an operation, a type (quantized ones) or an unknown size that cannot be
            lowered.
        LiteralError: elements do not fit their type.
        MissingPeerError: it is bytecode, and JAX is not installed.
    """
    module: HloModule
    if isinstance(text, bytes) and text.startswith(BYTECODE):
        from xlanb.frontends.jax import jax_module, text_of_bytecode  # late: only bytecode is read by JAX

        if not arguments:
            module = jax_module(text)
        else:
            module = from_stablehlo(text_of_bytecode(text), arguments=arguments)
    else:
        source = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        check_characters(source)
        from xlanb.frontends.stablehlo.lower import module_of  # late: HLO text, the usual case, needs no rules

        module = module_of(source, entry, arguments)
    return module


@stablehlo_module.implement
def _for_arguments(source: bytes, arguments: Sequence[Any]) -> HloModule:
    return from_stablehlo(source, arguments=arguments)


def parse_text(text: str, arguments: Sequence[Any] = ()) -> HloModule:
    """Parse StableHLO, for arguments of these shapes, or HLO, by the beginning of the text."""
    return from_stablehlo(text, arguments=arguments) if is_stablehlo(text) else parse(text)


__all__ = ["BYTECODE", "from_stablehlo", "is_stablehlo", "parse_text"]
