"""Generate the code texts of traces in another thread, while this one converts their programs.

LLVM runs without the interpreter's lock. In a training step of some thousand instructions it takes
as long as the rest of a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context

from xlanb.explorer.stage import CODE_KINDS, Deferred
from xlanb.explorer.trace import Trace
from xlanb.lazy_logging import logger
from xlanb.threads import HAS_THREADS, Helper, Latch

_LOG = logger("xlanb.view")


@contextmanager
def reading_ahead(traces: Sequence[Trace], read_bytes: int) -> Iterator[None]:
    """Read the code of compiled programs, unless it has more than `read_bytes` bytes.

    Whoever asks for a text that is being read waits for it. What cannot be read raises its error
    there.
    """
    stages = [s for t in traces if t.program is not None for s in t.stages if s.kind in CODE_KINDS]
    texts = [s.given_after for s in stages if isinstance(s.given_after, Deferred) and not s.given_after.is_read]
    if not HAS_THREADS or not texts or sum(t.size for t in texts) > read_bytes:
        yield
        return
    context, is_over = copy_context(), Latch()

    def read() -> None:
        for text in texts:
            if is_over.is_set():
                return
            try:
                context.run(text.get)
            except Exception as error:  # noqa: BLE001 - raised again where it is read
                _LOG.info("cannot read a text ahead: %s", error)
                return

    try:
        Helper(read, daemon=True).start()  # an interrupt of the page does not wait for LLVM
    except RuntimeError as error:
        _LOG.info("no thread to read texts ahead: %s", error)
    try:
        yield
    finally:
        is_over.set()
