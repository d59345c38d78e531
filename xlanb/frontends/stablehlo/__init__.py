"""StableHLO text as HLO, without JAX: what `jax.jit(f).lower(x).as_text()` prints, and what IREE, torch-xla and TensorFlow write.

lexer, types, elements, attributes, locations, pretty, parser: text to operations. scope, lower and the files of rules: operations to HLO.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xlanb.frontends.stablehlo.source import BYTECODE
from xlanb.hlo import HloModule, parse
from xlanb.hlo.text.lexer import check_characters

_BEGINNING = re.compile(
    r"(?:[ \t\r\n\ufeff]|//[^\n]*)*"
    r'(?:module(?=[\s@{])|func\.func\b|"builtin\.module"|"func\.func"|[#!][\w$.]+[ \t]*=|builtin\.module\b|\{-#)'
)


def is_stablehlo(text: str) -> bool:
    """Whether a text is one of MLIR by its beginning: a module, a function or an alias, behind comments. HLO text begins with none of them."""
    return _BEGINNING.match(text) is not None


def from_stablehlo(text: str | bytes, entry: str = "", *, arguments: Sequence[Any] = ()) -> HloModule:
    """The HLO of StableHLO: of its text, which needs no JAX, or of its bytecode, which jaxlib reads.

    The program begins at the function `main`, at the only public one where there is no `main`, or at `entry`. Operations of CHLO come in too, and `func.call`.
    Sizes that are operands (`dynamic_reshape`) must depend on constants, and on sizes of the arguments, alone. Sharding annotations of Shardy are left out, those of mhlo kept.

    Args:
        text: StableHLO as MLIR text, generic or pretty, or bytecode (a portable artifact).
        entry: the function to begin with; of text alone.
        arguments: arrays, or what else has a shape, one for each parameter: where the text leaves a size open (`tensor<?x4xf32>`) it becomes that of the
            argument, and the sizes that follow from it are known; of text alone.

    Raises:
        HloParseError: the text is not well formed; the message has line and column.
        HloVerifierError: operands, types or attributes do not fit an operation.
        UnimplementedError: an operation, a type (quantized ones) or an unknown size that cannot be lowered.
        LiteralError: elements do not fit their type.
        MissingPeerError: it is bytecode, and JAX is not installed.
    """
    module: HloModule
    if isinstance(text, bytes) and text.startswith(BYTECODE):
        from xlanb.frontends.jax import jax_module  # late: only bytecode is read by JAX

        module = jax_module(text)
    else:
        source = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        check_characters(source)
        from xlanb.frontends.stablehlo.lower import module_of  # late: HLO text, the usual case, needs no rules

        module = module_of(source, entry, arguments)
    return module


def parse_text(text: str, arguments: Sequence[Any] = ()) -> HloModule:
    """The module of a text: of StableHLO where it begins as MLIR does, for arguments of these shapes, of HLO else."""
    return from_stablehlo(text, arguments=arguments) if is_stablehlo(text) else parse(text)


__all__ = ["BYTECODE", "from_stablehlo", "is_stablehlo", "parse_text"]
