"""The kind of a source, and positions for messages: `line:column: error`, and the line with a
caret.
"""

from __future__ import annotations

from xlanb.errors import HloParseError

BYTECODE = b"ML\xefR"
"""How MLIR bytecode begins: StableHLO that JAX, TensorFlow or IREE has serialized."""


def placed(text: str, offset: int, message: str) -> str:
    """The message with its place before it and the line of the text below it."""
    return str(HloParseError(message, text, offset))
