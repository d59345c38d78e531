"""StepWidget: the step view with a kernel behind it, so that Next compiles and Run runs."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import anywidget
import traitlets
from IPython.display import publish_display_data

from xlanb.boundary import boundary
from xlanb.errors import InternalError, XlanbError
from xlanb.explorer.branches import HloEditError
from xlanb.explorer.live import Compilation
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.explorer.workbench import Workbench
from xlanb.notebook.saved import SavedPage, in_notebook
from xlanb.view import assets
from xlanb.view.page import page_html, passes_html, saved_html
from xlanb.view.payload import PayloadBuilder
from xlanb.view.pool import LEVELS
from xlanb.view.text import traces_text

Traces = Sequence[Trace] | Callable[[], Sequence[Trace]]
_PROGRESS_SECONDS = 0.05
_READ_BYTES = 1 << 20
"""Of a dump so much is read before the view opens, some tenths of a second: with a kernel behind it the rest is read when one gets there."""


class StepWidget(anywidget.AnyWidget):
    """The step view of one or several traces, live where `compilation` or `on_step` is given.

    `traces` is a sequence of traces, or a function that gives the current one (a live compilation may begin further traces). `on_step` advances the compilation by one
    stage and returns it, None at the end; `on_run` runs the program with the user's inputs; without them `compilation` does both. Branches that the reader makes are further traces. What fails is
    shown in the widget and kept in `error`. Pictures hold at most `max_nodes` nodes.
    """

    _esm = traitlets.Unicode(assets.esm()).tag(sync=True)
    css = traitlets.Unicode(assets.css()).tag(sync=True)
    payload = traitlets.Dict().tag(sync=True)
    can = traitlets.Dict().tag(sync=True)
    ident = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        traces: Traces,
        on_step: Callable[[], Stage | None] | None = None,
        on_run: Callable[[], Any] | None = None,
        *,
        compilation: Compilation | None = None,
        max_nodes: int | None = None,
    ) -> None:
        source: Callable[[], Sequence[Trace]] = traces if callable(traces) else lambda: traces
        self.bench = Workbench(source, compilation, on_step, on_run)
        limits = None if max_nodes is None else replace(LEVELS[0], nodes=max_nodes)
        self._builder = PayloadBuilder(limits, read_bytes=_READ_BYTES)
        self.error: BaseException | None = None
        self.result: Any = None
        self._told = 0.0
        self._builder.update(self.bench.traces, live=self.bench.is_live)
        super().__init__(payload=self._builder.payload, can=self._possible(), ident=uuid4().hex)
        # Who runs notebooks without a browser keeps the state that was sent, and knows nothing of deltas.
        self._saved = SavedPage(
            lambda: saved_html(self._builder.payload, self.traces, self.ident), lambda: self.send_state("payload")
        )
        self.on_msg(self._handle)

    @property
    def traces(self) -> list[Trace]:
        """The traces that it shows, those of branches last."""
        return self.bench.traces

    def refresh(self, *, to_end: bool = True, branch: Trace | None = None) -> None:
        """Show what the traces hold by now; a view that stood at the end goes on to the new end, or to the first new stage. A `branch` is gone to."""
        # The payload grows in place and only the delta travels: a view that opens later still gets the whole.
        delta = self._builder.update(self.bench.traces, live=self.bench.is_live)
        message: dict[str, Any] = {"type": "delta", "delta": delta, "jump": "last" if to_end else "first"}
        if branch is not None:
            message["trace"] = self.bench.number(branch)
        self.send(message)
        self.can = self._possible()
        self._saved.touch()

    def step(self, trace: Trace | None = None) -> Stage | None:
        """Advance the compilation (or the branch that `trace` belongs to) by one stage, as Next does at the end; None where none is left.

        Raises:
            XlanbError: the stage failed; or there is nothing to step.
        """
        if not self.bench.can_step:
            raise XlanbError("this widget shows a finished trace: there is nothing to step")
        try:
            return self.bench.step(trace)
        finally:
            self.refresh(to_end=False)

    def run(self, trace: Trace | None = None) -> Any:
        """Run the program, as the button does, compiled to the end where it was not; what it gives, which is kept in `result`.

        Raises:
            XlanbError: there is nothing to run, or the run failed.
        """
        if not self.bench.can_run:
            raise XlanbError("this widget has nothing to run")
        try:
            self.result = self.bench.run(trace, self._progress)
        finally:
            self.refresh()
        return self.result

    def fork(self, trace: Trace, at: int, text: str | None = None) -> Trace:
        """Compile on from a stage as a new branch: with an edited text where one is given, without the passes that are switched off.

        Raises:
            HloEditError: the text is no module, or breaks a rule of HLO.
            XlanbError: there is no HLO at the stage, or the branch cannot be compiled.
        """
        return self._branched(lambda: self.bench.fork(trace, at, text, self._progress))

    def reorder(self, trace: Trace, at: int, order: Sequence[Any]) -> Trace:
        """Compile on from a stage as a new branch, the passes that are left in another order: see `explorer.order.reordered`.

        Raises:
            XlanbError: that is no order, there is no HLO at the stage, or the branch cannot be compiled.
        """
        return self._branched(lambda: self.bench.reorder(trace, at, order, self._progress))

    def _branched(self, make: Callable[[], Trace]) -> Trace:
        """Make a branch and go to it, also where it failed."""
        known = len(self.bench.branches)
        try:
            return make()
        finally:
            made = self.bench.branches[known:]
            self.refresh(to_end=False, branch=made[0].trace if made else None)

    # -- messages ---------------------------------------------------------------------------------------------------

    def _handle_msg(self, msg: Any) -> None:
        """A message of the comm: of ipywidgets' own, a view may ask for the state, but not set it: it only reads it. What is of no known form is left alone."""
        content = msg.get("content") if isinstance(msg, dict) else None
        data = content.get("data") if isinstance(content, dict) else None
        if not isinstance(data, dict):
            return
        if data.get("method") == "custom":
            self._handle_custom_msg(data.get("content"), msg.get("buffers") or [])
        elif data.get("method") == "request_state":
            self.send_state()

    def _handle(self, _: Any, content: Any, buffers: Any) -> None:
        """A message from the front end: {"type": ..., "trace": number, "stage": position, ...}."""
        if not isinstance(content, dict):
            return
        if content.get("type") == "hello":  # a view that was just opened asks whether there is a kernel
            self.send({"type": "here"})
            return
        action = self._actions().get(str(content.get("type")))
        if action is None:
            return
        try:
            with boundary(f"answer the message {content['type']!r}"):
                action(content)
        except HloEditError as error:
            self.error = error
            self.send({"type": "edit-error", "line": error.line, "column": error.column, "message": str(error)})
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever comes up is shown where the user looks
            self.error = error
            self.send({"type": "error", "message": _message(error)})
        else:
            self.send({"type": "done"})

    def _actions(self) -> Mapping[str, Callable[[dict[str, Any]], Any]]:
        return {
            "step": lambda m: self.step(self._trace(m)),
            "run": lambda m: self.run(self._trace(m)),
            "edit": lambda m: self.fork(self._trace(m), self._stage(m), _text(m)),
            "fork": lambda m: self.fork(self._trace(m), self._stage(m)),
            "passes": self._passes,
            "reorder": lambda m: self.reorder(self._trace(m), self._stage(m), self._order(m)),
            "toggle": self._toggle,
            "numerics": self._numerics,
            "load": self._load,
            "export": self._export,
            "sync": lambda _: self.send_state("payload"),
        }

    def _trace(self, message: dict[str, Any]) -> Trace:
        number = message.get("trace")
        return self.bench.trace(number if type(number) is int else None)

    def _stage(self, message: dict[str, Any]) -> int:
        """The position of a stage of the trace; -1, the last, where the message names none."""
        stage, count = message.get("stage"), len(self._trace(message))
        if type(stage) is not int or stage < 0:
            return -1
        if stage >= count:
            raise XlanbError(f"there is no stage {stage}: there are {count}")
        return stage

    def _order(self, message: dict[str, Any]) -> Sequence[Any]:
        order = message.get("order") or ()
        if not isinstance(order, list | tuple):
            raise XlanbError(f"no order of passes: {type(order).__name__} is no list of entries")
        return order

    def _toggle(self, message: dict[str, Any]) -> None:
        off = message.get("off")
        self.bench.toggle(str(message.get("name", "")), off=off if isinstance(off, bool) else None)
        self.can = self._possible()

    def _passes(self, message: dict[str, Any]) -> None:
        trace, at = self._trace(message), self._stage(message)
        self.send({"type": "passes", "stage": at, "tree": self.bench.left(trace, at)})

    def _numerics(self, message: dict[str, Any]) -> None:
        trace = self._trace(message)
        found = self.bench.numerics(trace)
        self._send_delta(self._builder.set_numerics(self.bench.number(trace), found.data))

    def _load(self, message: dict[str, Any]) -> None:
        self._send_delta(self._builder.load(self.bench.number(self._trace(message)), self._stage(message)))

    def _send_delta(self, delta: dict[str, Any]) -> None:
        self.send({"type": "delta", "delta": delta, "jump": "none"})
        self._saved.touch()

    def _progress(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        if now - self._told >= _PROGRESS_SECONDS:
            self._told = now
            self.send({"type": "progress", "done": done, "total": total, "name": name})

    def _export(self, _: dict[str, Any]) -> None:
        traces = self.traces
        name = f"{traces[0].name if traces else 'xlanb'}.html"
        self.send({"type": "page", "html": page_html(traces), "name": name})

    def _possible(self) -> dict[str, Any]:
        """What the front end may offer."""
        has_hlo = self.bench.has_hlo
        return {
            "step": self.bench.can_step,
            "run": self.bench.can_run,
            **dict.fromkeys(("numerics", "edit", "toggle", "fork", "reorder"), has_hlo),
            "load": True,
            "off": list(self.bench.off),
        }

    def _ipython_display_(self, **_: Any) -> None:
        """The widget, and below it what shows itself where the widget cannot: see `saved`."""
        bundle = super()._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        whole = traces_text(self.traces)
        words = whole.splitlines()[0] if in_notebook() else whole  # there the rest stands in the page
        publish_display_data({**(data or {}), "text/plain": words}, metadata)
        self._saved.show()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget; the passes as a table and as plain text for whoever shows no widgets (a page of a repository, a terminal)."""
        bundle = super()._repr_mimebundle_(**options)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data is not None:
            data["text/plain"] = traces_text(self.traces)
            data["text/html"] = "\n".join(passes_html(t) for t in self.traces)
        return bundle


def _text(message: dict[str, Any]) -> str:
    return str(message.get("text", ""))


def _message(error: BaseException) -> str:
    """What the widget shows: our own errors by their message, others (bugs of xlanb, errors of the user's functions) with the traceback."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, XlanbError) and not isinstance(error, InternalError):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error))
