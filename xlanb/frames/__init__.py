"""Tables with untruncated cells; pandas is imported when the first one is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xlanb.frames.frame import Frame


def framed(rows: Any, columns: Sequence[str] | None = None, index: Any = None) -> Frame:
    """Make a table of rows; `columns` names and orders them, even without rows."""
    from xlanb.frames.frame import Frame

    return Frame(rows, columns=None if columns is None else list(columns), index=index)
