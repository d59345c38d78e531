"""Requests of the step view to the kernel: the messages of the front end, and their handlers."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xlanb.boundary import boundary
from xlanb.errors import InternalError, XlanbError
from xlanb.explorer.attempt import refused_fusion
from xlanb.explorer.branches import HloEditError
from xlanb.explorer.trace import Trace
from xlanb.explorer.worth import Worth, measured_worth
from xlanb.notebook.work import SlicedWork
from xlanb.view.page import page_html

if TYPE_CHECKING:
    from xlanb.notebook.widget import StepWidget

Message = dict[str, Any]
_PROGRESS_SECONDS = 0.05
_WORTH_SECONDS = 1.0


class Requests:
    """Answer messages of a widget's views: {"type": ..., "trace": number, "stage": position, ...}.

    Long work runs as `SlicedWork`, one at a time, and reports its progress; "cancel" ends it after
    the running stage. Every request is finally answered by "done", or by "error" with a message.
    """

    def __init__(self, widget: StepWidget) -> None:
        self._widget = widget
        self._work: SlicedWork | None = None
        self._long: Mapping[str, Callable[[Message], Iterator[Any]]] = {
            "to": self._to,
            "run": self._run,
            "edit": self._edit,
            "fork": self._fork,
            "reorder": self._reorder,
            "attempt": self._attempt,
            "worth": self._worth,
        }
        self._short: Mapping[str, Callable[[Message], None]] = {
            "step": self._step,
            "toggle": self._toggle,
            "passes": self._passes,
            "numerics": self._numerics,
            "load": self._load,
            "export": self._export,
            "sync": self._sync,
        }

    def handle(self, _: Any, content: Any, buffers: Any) -> None:
        """Take one message."""
        if not isinstance(content, dict):
            return
        kind = str(content.get("type"))
        if kind == "hello":  # a view that was just opened asks whether there is a kernel
            self._widget.send({"type": "here", "revision": self._widget.payload["revision"]})
        elif kind == "weigh":  # beside any work
            self._weigh(content)
        elif kind == "cancel":
            if self._work is not None:
                self._work.cancel()
        elif kind in self._long:
            self._begin(kind, content)
        elif kind in self._short:
            self._answer(kind, content)

    def _answer(self, kind: str, content: Message) -> None:
        try:
            with boundary(f"answer the message {kind!r}"):
                self._short[kind](content)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever comes up is shown where the user looks
            self._tell(error)
        else:
            self._widget.send({"type": "done"})

    def _tell(self, error: BaseException) -> None:
        self._widget.error = error
        if isinstance(error, HloEditError):
            place = {"line": error.line, "column": error.column}
            self._widget.send({"type": "edit-error", **place, "message": str(error)})
        else:
            self._widget.send({"type": "error", "message": _message(error)})

    # -- work --------------------------------------------------------------------------------------

    def _begin(self, kind: str, content: Message) -> None:
        """Begin a piece of work, unless one is under way."""
        if self._work is not None and not self._work.is_done:
            self._tell(XlanbError("the kernel is still processing the last request: cancel it first, or wait"))
            return
        progress = _Progress(self._widget)

        def end(error: BaseException | None) -> None:
            branch = progress.branch
            self._widget.refresh(to_end=branch is None, branch=branch)
            if error is None:
                self._widget.send({"type": "done"})
            else:
                self._tell(error)

        def pause() -> None:
            if progress.branch is None:  # a view goes to a branch when all of it is there
                self._widget.show_new()

        self._work = SlicedWork(self._guarded(kind, content), on_step=progress.count, on_pause=pause, on_end=end)
        self._work.start()

    def _guarded(self, kind: str, content: Message) -> Iterator[Any]:
        with boundary(f"answer the message {kind!r}"):
            yield from self._long[kind](content)

    def _to(self, m: Message) -> Iterator[Any]:
        position = m.get("position")
        return self._widget.bench.steps(self._trace(m), position if type(position) is int else None)

    def _run(self, m: Message) -> Iterator[Any]:
        if not self._widget.bench.can_run:
            raise XlanbError("this widget has no program to run")
        self._widget.result = yield from self._widget.bench.running(self._trace(m))

    def _edit(self, m: Message) -> Iterator[Any]:
        return self._widget.bench.forking(self._trace(m), self._stage(m), str(m.get("text", "")))

    def _fork(self, m: Message) -> Iterator[Any]:
        return self._widget.bench.forking(self._trace(m), self._stage(m))

    def _reorder(self, m: Message) -> Iterator[Any]:
        return self._widget.bench.reordering(self._trace(m), self._stage(m), self._order(m))

    def _attempt(self, m: Message) -> Iterator[Any]:
        a, b = (str(m.get(k, "")) for k in "ab")
        made = yield from self._widget.bench.attempting(self._trace(m), a, b)
        at = made.refused.stage
        self._widget.send(
            {"type": "attempted", "a": a, "b": b, "stage": at, "text": str(made), "speedup": made.speedup}
        )

    def _worth(self, m: Message) -> Iterator[Any]:
        trace = self._trace(m)
        if trace.program is None:
            yield from self._widget.bench.steps(trace)
        told = time.monotonic()
        worth = None
        try:
            for worth in measured_worth(trace):
                if time.monotonic() - told > _WORTH_SECONDS:
                    told = time.monotonic()
                    self._widget.show_worth(trace, worth)
                yield worth
        finally:
            if worth is not None:
                self._widget.show_worth(trace, worth)

    # -- short answers -----------------------------------------------------------------------------

    def _step(self, m: Message) -> None:
        self._widget.step(self._trace(m))

    def _weigh(self, m: Message) -> None:
        """Send what is known about a rejected fusion; the answer is "weighed" only."""
        a, b = (str(m.get(k, "")) for k in "ab")
        try:
            found = refused_fusion(self._trace(m), a, b)
        except XlanbError as error:
            text, possible = str(error), False
        else:
            text, possible = str(found), not found.impossible
        self._widget.send({"type": "weighed", "a": a, "b": b, "text": text, "possible": possible})

    def _toggle(self, m: Message) -> None:
        off = m.get("off")
        self._widget.bench.toggle(str(m.get("name", "")), off=off if isinstance(off, bool) else None)
        self._widget.refresh_can()

    def _passes(self, m: Message) -> None:
        trace, at = self._trace(m), self._stage(m)
        self._widget.send({"type": "passes", "stage": at, "tree": self._widget.bench.left(trace, at)})

    def _numerics(self, m: Message) -> None:
        self._widget.measure_numerics(self._trace(m))

    def _load(self, m: Message) -> None:
        self._widget.load(self._trace(m), self._stage(m))

    def _export(self, _: Message) -> None:
        traces = self._widget.traces
        name = f"{traces[0].name if traces else 'xlanb'}.html"
        self._widget.send({"type": "page", "html": page_html(traces), "name": name})

    def _sync(self, _: Message) -> None:
        self._widget.send_state("payload")

    # -- what a message names ----------------------------------------------------------------------

    def _trace(self, message: Message) -> Trace:
        number = message.get("trace")
        return self._widget.bench.trace(number if type(number) is int else None)

    def _stage(self, message: Message) -> int:
        """Return the position of a stage of the trace; by default -1, the last."""
        stage, count = message.get("stage"), len(self._trace(message))
        if type(stage) is not int or stage < 0:
            return -1
        if stage >= count:
            raise XlanbError(f"no stage {stage}: there are {count}")
        return stage

    def _order(self, message: Message) -> Sequence[Any]:
        order = message.get("order") or ()
        if not isinstance(order, list | tuple):
            raise XlanbError(f"invalid order of passes: expected a list of entries, got {type(order).__name__}")
        return order


class _Progress:
    """Report the progress of work to the views.

    That is: finished stages, remaining ones, the next one, and the seconds so far.
    """

    def __init__(self, widget: StepWidget) -> None:
        self._widget = widget
        self._branches = len(widget.bench.branches)
        self._begin = time.monotonic()
        self._last_progress = 0.0
        self._done = 0

    @property
    def branch(self) -> Trace | None:
        """The branch that the work made, if any."""
        made = self._widget.bench.branches[self._branches :]
        return made[-1].trace if made else None

    def count(self, step: Any) -> None:
        """One more step is done: a stage ran, or one more thing was measured."""
        self._done += 1
        now = time.monotonic()
        trace = self.branch or next(iter(self._widget.bench.traces[-1:]), None)
        if trace is None or now - self._last_progress < _PROGRESS_SECONDS:
            return
        self._last_progress = now
        if isinstance(step, Worth):
            counts = {"done": step.done, "total": step.total}
            self._send(counts, f"without {step.name}" if step.name else "all passes", now)
            return
        coming = self._widget.bench.coming(trace)
        name = coming[0].name if coming else trace.stages[-1].name
        counts = {"done": self._done, "total": self._done + len(coming)}
        self._send(counts, name, now)

    def _send(self, counts: dict[str, int], name: str, now: float) -> None:
        self._widget.send({"type": "progress", **counts, "name": name, "seconds": now - self._begin})


def _message(error: BaseException) -> str:
    """Return the text of an error for the widget.

    Errors of xlanb have their message, others (bugs of xlanb, errors of user functions) the
    traceback.
    """
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, XlanbError) and not isinstance(error, InternalError):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error))
