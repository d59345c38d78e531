"""Read the scoped VMEM of each HLO instruction, from vmem_report.html.

It is what the instruction's program uses while it runs.
"""

from __future__ import annotations

import json
from typing import Any, Final

from xlanb.errors import DumpError

MAX_CHARACTERS: Final = 64 << 20

_START: Final = "const DATA ="
_SCOPED: Final = "SCOPED"


def parse_vmem_report(text: str) -> dict[str, int]:
    """Parse bytes of scoped VMEM by HLO instruction, for those that use some.

    It holds the program's buffers, spans of operands, and spilled registers.

    Raises:
        DumpError: the data is missing, or not as expected.
    """
    at = text.find(_START)
    if at < 0 or len(text) > MAX_CHARACTERS:
        raise DumpError(f"not a VMEM report: expected {_START!r} in a page of at most {MAX_CHARACTERS:,} characters")
    try:
        data, _ = json.JSONDecoder().raw_decode(text, at + len(_START) + (text[at + len(_START)] == " "))
        return {name: size for name, found in data["hlo_breakdowns"].items() if (size := _scoped(found)) > 0}
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise DumpError(f"the data of the VMEM report cannot be read: {type(error).__name__}: {error}") from error


def _scoped(found: dict[str, Any]) -> int:
    return sum(int(b["block_size"]) for b in found["blocks"] if b["block_type"] == _SCOPED)
