"""tf.compat: texts as bytes and back, and `tf.compat.v1`, which is tf itself."""

from __future__ import annotations

import sys
from typing import Any

from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest

v1 = sys.modules["xlanb.tf"]
sys.modules[f"{__name__}.v1"] = v1
bytes_or_text_types = (bytes, str)


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """As bytes."""
    return bytes_or_text.encode(encoding) if isinstance(bytes_or_text, str) else bytes(bytes_or_text)


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """As text."""
    return bytes_or_text.decode(encoding) if isinstance(bytes_or_text, bytes) else str(bytes_or_text)


as_str = as_str_any = as_text
__getattr__ = _naming_the_nearest(__name__)
