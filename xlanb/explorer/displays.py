"""Hooks through which view and notebook display this package's objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xlanb.hooks import Hook

if TYPE_CHECKING:
    from xlanb.explorer.film import Film
    from xlanb.explorer.trace import Trace

trace_text: Final[Hook[[Trace], str]] = Hook("explorer.trace_text")
"""Returns a trace as plain text."""

write_page: Final[Hook[[Sequence[Trace], str | Path], None]] = Hook("explorer.write_page")
"""Writes the step view of traces to a file, as one self-contained page."""

write_film: Final[Hook[[Film, str | Path], None]] = Hook("explorer.write_film")
"""Writes a film to a file, as one self-contained page."""

explore_traces: Final[Hook[[Sequence[Trace]], Any]] = Hook("explorer.explore_traces")
"""Returns the step widget for traces."""

__all__ = ["explore_traces", "trace_text", "write_film", "write_page"]
