"""StepWidget: the step view with a kernel behind it, so that Next compiles and Run runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import anywidget
import traitlets

from xlanb.errors import XlanbError
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.view import assets
from xlanb.view.page import page_html
from xlanb.view.payload import PayloadBuilder
from xlanb.view.text import trace_text

Traces = Sequence[Trace] | Callable[[], Sequence[Trace]]


class StepWidget(anywidget.AnyWidget):
    """The step view of one or several traces, live where `on_step` is given.

    `traces` is a sequence of traces, or a function that gives the current one (a live compilation may begin further traces). `on_step` advances the compilation by one
    stage and returns it, None at the end; `on_run` runs the program with the user's inputs. What a callback raises is shown in the widget and kept in `error`.
    """

    _esm = traitlets.Unicode(assets.esm()).tag(sync=True)
    css = traitlets.Unicode(assets.css()).tag(sync=True)
    payload = traitlets.Dict().tag(sync=True)
    can = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        traces: Traces,
        on_step: Callable[[], Stage | None] | None = None,
        on_run: Callable[[], Any] | None = None,
    ) -> None:
        self._source: Callable[[], Sequence[Trace]] = traces if callable(traces) else lambda: traces
        self._on_step = on_step
        self._on_run = on_run
        self._ended = on_step is None
        self._builder = PayloadBuilder()
        self.error: BaseException | None = None
        self._builder.update(self._source(), live=self._is_live)
        super().__init__(
            payload=self._builder.payload,
            can={"step": on_step is not None, "run": on_run is not None},
        )
        self.on_msg(self._handle)

    @property
    def traces(self) -> list[Trace]:
        """The traces that it shows."""
        return list(self._source())

    def refresh(self, *, to_end: bool = True) -> None:
        """Show what the traces hold by now; a view that stood at the end goes on to the new end, or to the first new stage."""
        # The payload grows in place and only the delta travels: a view that opens later still gets the whole.
        delta = self._builder.update(self._source(), live=self._is_live)
        self.send({"type": "delta", "delta": delta, "jump": "last" if to_end else "first"})

    def step(self) -> Stage | None:
        """Advance the compilation by one stage, as Next does at the end; None where none is left.

        Raises:
            XlanbError: the stage failed; or there is nothing to step.
        """
        if self._on_step is None:
            raise XlanbError("this widget shows a finished trace: there is nothing to step")
        try:
            stage = None if self._ended else self._on_step()
        except BaseException:
            self._ended = True
            raise
        finally:
            self.refresh(to_end=False)
        if stage is None and not self._ended:
            self._ended = True
            self.refresh(to_end=False)
        return stage

    def run(self) -> Any:
        """Run the program, as the button does; what `on_run` gives.

        Raises:
            XlanbError: there is nothing to run, or the run failed.
        """
        if self._on_run is None:
            raise XlanbError("this widget has nothing to run")
        try:
            return self._on_run()
        finally:
            self.refresh()

    def _is_live(self, trace: Trace) -> bool:
        if self._ended:
            return False
        traces = self._source()
        return not traces or trace is traces[-1]

    def _handle(self, _: Any, content: dict[str, Any], buffers: Any) -> None:
        """A message from the front end: {"type": "step" | "run" | "export" | "sync"}."""
        actions = {"step": self.step, "run": self.run, "export": self._export, "sync": self._sync}
        action = actions.get(str(content.get("type")))
        if action is None:
            return
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever the user's callback raises is shown where the user looks
            self.error = error
            self.send({"type": "error", "message": _message(error)})
        else:
            self.send({"type": "done"})

    def _export(self) -> None:
        traces = self.traces
        self.send(
            {
                "type": "page",
                "html": page_html(traces),
                "name": f"{traces[0].name if traces else 'xlanb'}.html",
            }
        )

    def _sync(self) -> None:
        self.send_state("payload")

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget, and the trace as plain text for whoever shows no widgets."""
        bundle = super()._repr_mimebundle_(**options)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data is not None:
            data["text/plain"] = "\n\n".join(trace_text(t) for t in self.traces)
        return bundle


def _message(error: BaseException) -> str:
    """What the widget shows: our own errors by their message, others with the traceback."""
    if isinstance(error, XlanbError):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error))
