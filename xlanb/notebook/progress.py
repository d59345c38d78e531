"""A line of progress below a cell with long compilations: the last pass, the number done, the
time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from IPython.display import display

from xlanb.explorer.coming import coming_stages
from xlanb.explorer.recorder import Recorder
from xlanb.notebook.saved import in_notebook
from xlanb.tracing import Event, StageFinished, observing

PATIENCE_SECONDS = 1.0
_REST_SECONDS = 0.2


class _CellProgress:
    """Report each stage that `recorder` received, once the cell has run for more than a second."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._begin = self._told = time.monotonic()
        self._line: Any = None

    def on_event(self, event: Event) -> None:
        """Take one event of the compiler."""
        now = time.monotonic()
        if not isinstance(event, StageFinished) or now - self._begin < PATIENCE_SECONDS:
            return
        if self._line is None or now - self._told >= _REST_SECONDS:
            self._told = now
            self._show(self._text(event.stage.name, now - self._begin))

    def _text(self, done: str, seconds: float) -> str:
        trace = self._recorder.traces[-1]
        left = coming_stages(trace, trace.pipeline) if trace.pipeline is not None else ()
        following = f", next {left[0].name}" if left else ""
        count = f"{len(trace)} of about {len(trace) + len(left)} stages"
        return (
            f"compiling {trace.name}: {count}, {done} done{following}, {seconds:.1f} s (interrupt the kernel to stop)"
        )

    def _show(self, text: str) -> None:
        data = {"text/plain": text, "text/html": f'<pre role="status" style="margin:0">{escape(text)}</pre>'}
        if self._line is None:
            self._line = display(data, raw=True, display_id=True)
        else:
            self._line.update(data, raw=True)

    def end(self) -> None:
        """Take the line away."""
        if self._line is not None:
            self._line.update({"text/plain": "", "text/html": ""}, raw=True)


@contextmanager
def cell_progress(recorder: Recorder) -> Iterator[None]:
    """Show the progress of this block's compilations in a notebook.

    `recorder` must be observing already.
    """
    if not in_notebook():
        yield
        return
    progress = _CellProgress(recorder)
    try:
        with observing(progress):
            yield
    finally:
        progress.end()
