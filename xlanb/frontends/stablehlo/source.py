"""The kind of a source, and positions for messages: `line:column: error`, and the line with a
caret.
"""

from __future__ import annotations

from xlanb.errors import HloParseError

BYTECODE = b"ML\xefR"
"""The beginning of MLIR bytecode: StableHLO serialized by JAX, TensorFlow or IREE."""


def placed(text: str, offset: int, message: str) -> str:
    """The message with its place before it and the line of the text below it."""
    return str(HloParseError(message, text, offset))
