"""StepWidget: the step view with a kernel behind it, so that Next compiles and Run runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import anywidget
import traitlets
from IPython.display import publish_display_data

from xlanb.errors import XlanbError
from xlanb.explorer.live import Compilation
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.explorer.workbench import Workbench
from xlanb.explorer.worth import Worth
from xlanb.notebook.origin import origin_of
from xlanb.notebook.positions import op_name, overlay_values, stage_position, trace_number
from xlanb.notebook.requests import Requests
from xlanb.notebook.saved import SavedPage, in_notebook, is_interactive
from xlanb.notebook.start import StageName, start_at
from xlanb.notebook.work import SlicedWork
from xlanb.view import assets
from xlanb.view.outline.opening import MOST
from xlanb.view.page import passes_html, saved_html
from xlanb.view.payload_builder import PayloadBuilder
from xlanb.view.text import traces_text

Traces = Sequence[Trace] | Callable[[], Sequence[Trace]]
_PLACES = ("branch", "stage", "selected", "pinned")
_READ_BYTES = 1 << 20
"""Bytes of a dump to read before the view opens (some tenths of a second); the rest is lazy."""
_MOST_OPS = 12_000
"""Different ops to show before the view opens (two seconds); the rest follows while it is open."""
_FILL_AFTER = 0.3
"""Seconds for the view to open."""


class StepWidget(anywidget.AnyWidget):
    """The step view of one or several traces, live if `compilation` or `on_step` is given.

    `traces` is a sequence of traces, or a function that returns the current one (a live compilation
    may begin further traces). `on_step` advances the compilation by one stage and returns it, None
    at the end; `on_run` runs the program with the user's inputs; by default `compilation` does
    both. Branches made by the reader are further traces. Failures are shown in the widget and kept
    in `error`. Pictures hold at most `max_nodes` nodes.

    The state of the views are traits, which can be observed, linked and set: `branch` (the number
    of the trace that is shown; a name may be set), `stage` (a position in it; a stage's name may be
    set), `pinned` and `selected` (the instruction or node that is pinned, and the one under the
    pointer; "" for none). `stale` says why the view is outdated, or "".
    """

    _esm = traitlets.Unicode(assets.esm()).tag(sync=True)
    css = traitlets.Unicode(assets.css()).tag(sync=True)
    payload = traitlets.Dict().tag(sync=True)
    can = traitlets.Dict().tag(sync=True)
    ident = traitlets.Unicode().tag(sync=True)
    branch = traitlets.Union([traitlets.Int(), traitlets.Unicode()], default_value=0).tag(sync=True)
    stage = traitlets.Union([traitlets.Int(), traitlets.Unicode()], default_value=0).tag(sync=True)
    selected = traitlets.Unicode().tag(sync=True)
    pinned = traitlets.Unicode().tag(sync=True)
    overlays = traitlets.Dict().tag(sync=True)
    origin = traitlets.Dict().tag(sync=True)
    start = traitlets.Dict().tag(sync=True)
    stale = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        traces: Traces,
        on_step: Callable[[], Stage | None] | None = None,
        on_run: Callable[[], Any] | None = None,
        *,
        compilation: Compilation | None = None,
        max_nodes: int | None = None,
    ) -> None:
        self._filling: SlicedWork | None = None
        source: Callable[[], Sequence[Trace]] = traces if callable(traces) else lambda: traces
        self.bench = Workbench(source, compilation, on_step, on_run)
        self._builder = PayloadBuilder(read_bytes=_READ_BYTES, nodes=max_nodes or MOST, most_ops=_MOST_OPS)
        self.error: BaseException | None = None
        self.result: Any = None
        self._names: frozenset[str] = frozenset()
        self._named = -1
        self._builder.update(self.bench.traces, live=self.bench.is_live, coming=self.bench.coming)
        super().__init__(payload=self._builder.payload, can=self._possible(), ident=uuid4().hex)
        # Runners without a browser keep the sent state, and ignore deltas.
        self._saved = SavedPage(
            lambda: saved_html(self._payload_to_save(), self.traces, self.ident),
            lambda: self.send_state("payload"),
        )
        self.on_msg(Requests(self).handle)
        self.origin = origin_of(self)

    @property
    def traces(self) -> list[Trace]:
        """The traces that it shows, those of branches last."""
        return self.bench.traces

    # -- where the views stand ---------------------------------------------------------------------

    @traitlets.validate("branch")
    def _check_branch(self, proposal: Any) -> int:
        return trace_number(proposal["value"], self.bench.numbered)

    @traitlets.observe("branch")
    def _fit_stage(self, change: Any) -> None:
        """Another branch may have fewer stages."""
        last = max(len(self.bench.trace(change["new"])) - 1, 0)
        self.stage = min(int(self.stage), last)

    @traitlets.validate("stage")
    def _check_stage(self, proposal: Any) -> int:
        traces = self.bench.numbered
        return stage_position(proposal["value"], traces[int(self.branch)] if traces else None)

    @traitlets.validate("selected", "pinned")
    def _check_op(self, proposal: Any) -> str:
        return op_name(proposal["value"], self._op_names)

    @property
    def _op_names(self) -> frozenset[str]:
        """The names of all instructions and nodes of all stages."""
        items = self._builder.payload["items"]
        if self._named != len(items):
            self._names, self._named = frozenset(i["n"] for i in items) | self._builder.waiting_names, len(items)
        return self._names

    def open_at(
        self,
        stage: StageName | None = None,
        pane: str = "",
        pinned: str | Sequence[str] = (),
        against: StageName | None = None,
        predict: bool = False,
    ) -> None:
        """Set the initial state of views that open from now on, with the arguments of `explore`.

        Raises:
            ArgumentError: there is no such pane, stage or op.
            XlanbError: there is no stage of that name; the message has the nearest.
        """
        start = start_at(
            self.bench.numbered,
            self._op_names,
            stage=stage,
            pane=pane,
            pinned=pinned,
            against=against,
            predict=predict,
        )
        self.branch, self.stage = start["branch"], start["stage"]
        self.pinned = start.get("pinned", "")
        self.start = start

    def overlay(self, values: Any, name: str = "overlay") -> None:
        """Colour and label the nodes by user data, as an additional colour mode; None removes it.

        `values` is a dict or pandas Series from names of instructions or nodes to numbers (a scale)
        or texts (a colour each). A closed group shows the largest number in it, or the most
        frequent text.

        Raises:
            ArgumentError: it is neither, or has an unknown op name.
        """
        others = {n: v for n, v in self.overlays.items() if n != name}
        self.overlays = others if values is None else {**others, name: overlay_values(values, self._op_names)}
        self._saved.touch()

    @property
    def saved_payload(self) -> dict[str, Any]:
        """Return the data of a saved page: the whole payload, the initial state, and the
        overlays.
        """
        for delta in self._builder.fill():
            self._send_delta(delta)
        return self._payload_so_far()

    def _payload_so_far(self) -> dict[str, Any]:
        return {**self._builder.payload, "start": self.start, "overlays": self.overlays}

    def close(self) -> None:
        """Close the widget and its views; what was not added yet is left out."""
        if self._filling is not None:
            self._filling.cancel()
        super().close()

    def _payload_to_save(self) -> dict[str, Any]:
        """While the rest is being added the saved page does without; it is written again then."""
        return self.saved_payload if self._filling is None else self._payload_so_far()

    def _fill(self) -> None:
        """Begin to add the rest of a large payload, between cells."""
        if self._filling is not None or self._builder.is_complete or not is_interactive():
            return

        def end(_: BaseException | None) -> None:
            self._filling = None
            if not work.is_cancelled:
                self._saved.touch()

        self._filling = work = SlicedWork(
            self._builder.fill(), on_step=self._send_new, on_pause=lambda: None, on_end=end
        )
        work.start(_FILL_AFTER)

    def refresh(self, *, to_end: bool = True, branch: Trace | None = None) -> None:
        """Show the traces' current content; a view at the end moves to the new end, or the first
        new stage.

        If a `branch` is given, the view moves to it.
        """
        # The payload grows in place and only the delta is sent: later views still get all of it.
        delta = self._builder.update(self.bench.traces, live=self.bench.is_live, coming=self.bench.coming)
        message: dict[str, Any] = {"type": "delta", "delta": delta, "jump": "last" if to_end else "first"}
        if branch is not None:
            message["trace"] = self.bench.number(branch)
        self.send(message)
        self.can = self._possible()
        self._saved.touch()

    def step(self, trace: Trace | None = None) -> Stage | None:
        """Advance the compilation (or the branch of `trace`) by one stage, like Next at the end.

        Returns None if none is left.

        Raises:
            XlanbError: the stage failed; or there is nothing to step.
        """
        if not self.bench.can_step:
            raise XlanbError("this widget shows a finished trace: it cannot be stepped")
        try:
            return self.bench.step(trace)
        finally:
            self.refresh(to_end=False)

    def run(self, trace: Trace | None = None) -> Any:
        """Run the program like the button, after compiling the rest; return the value, kept in
        `result`.

        Raises:
            XlanbError: there is nothing to run, or the run failed.
        """
        if not self.bench.can_run:
            raise XlanbError("this widget has no program to run")
        try:
            self.result = self.bench.run(trace)
        finally:
            self.refresh()
        return self.result

    def fork(self, trace: Trace, at: int, text: str | None = None) -> Trace:
        """Compile from a stage as a new branch, with an edited text if given and without disabled
        passes.

        Raises:
            HloEditError: the text is malformed, or breaks a rule of HLO.
            XlanbError: there is no HLO at the stage, or the branch cannot be compiled.
        """
        return self._branched(lambda: self.bench.fork(trace, at, text))

    def reorder(self, trace: Trace, at: int, order: Sequence[Any]) -> Trace:
        """Compile from a stage as a new branch, with the remaining passes in another order.

        See `explorer.order.reordered`.

        Raises:
            XlanbError: the order is invalid, there is no HLO at the stage, or the branch cannot be
                compiled.
        """
        return self._branched(lambda: self.bench.reorder(trace, at, order))

    def _branched(self, make: Callable[[], Trace]) -> Trace:
        """Make a branch and show it, even if it failed."""
        known = len(self.bench.branches)
        try:
            return make()
        finally:
            made = self.bench.branches[known:]
            self.refresh(to_end=False, branch=made[0].trace if made else None)

    # -- what the views ask for --------------------------------------------------------------------

    def show_new(self) -> None:
        """Show the traces' current content; views keep their positions."""
        delta = self._builder.update(self.bench.traces, live=self.bench.is_live, coming=self.bench.coming)
        self._send_delta(delta)

    def refresh_can(self) -> None:
        """Update the actions that the views offer."""
        self.can = self._possible()

    def measure_numerics(self, trace: Trace) -> None:
        """Measure the results after every pass, and show them.

        Raises:
            XlanbError: there is no HLO, or the interpreter cannot evaluate it.
        """
        found = self.bench.numerics(trace)
        self._send_delta(self._builder.set_numerics(self.bench.number(trace), found.data))

    def show_worth(self, trace: Trace, worth: Worth) -> None:
        """Show what passes were measured to be worth."""
        self._send_delta(self._builder.set_worth(self.bench.number(trace), worth.data))

    def load(self, trace: Trace, position: int) -> None:
        """Read a stage's deferred content, and show it."""
        self._send_delta(self._builder.load(self.bench.number(trace), position))

    def _send_delta(self, delta: dict[str, Any]) -> None:
        self._send_new(delta)
        self._saved.touch()

    def _send_new(self, delta: dict[str, Any]) -> None:
        self.send({"type": "delta", "delta": delta, "jump": "none"})

    def _handle_msg(self, msg: Any) -> None:
        """Handle a message of the comm.

        Of ipywidgets' own messages, a view may request the state and set its position; all else is
        read-only. Malformed messages are ignored.
        """
        content = msg.get("content") if isinstance(msg, dict) else None
        data = content.get("data") if isinstance(content, dict) else None
        if not isinstance(data, dict):
            return
        if data.get("method") == "custom":
            self._handle_custom_msg(data.get("content"), msg.get("buffers") or [])
        elif data.get("method") == "request_state":
            self.send_state()
        elif data.get("method") == "update":
            self._place(data.get("state"))

    def _place(self, state: Any) -> None:
        """Move a view; answer an invalid position with the current one."""
        places = {k: v for k, v in state.items() if k in _PLACES} if isinstance(state, dict) else {}
        if not places:
            return
        try:
            self.set_state(places)
        except traitlets.TraitError:
            self.send_state(list(places))

    def _possible(self) -> dict[str, Any]:
        """Return the actions that the front end may offer."""
        has_hlo = self.bench.has_hlo
        return {
            "step": self.bench.can_step,
            "run": self.bench.can_run,
            **dict.fromkeys(("numerics", "edit", "toggle", "fork", "reorder"), has_hlo),
            **dict.fromkeys(("attempt", "worth"), self.bench.has_passes),
            "load": True,
            "off": list(self.bench.off),
        }

    def _ipython_display_(self, **_: Any) -> None:
        """Show the widget, and below it the page for viewers without widgets: see `saved`."""
        bundle = super()._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        whole = traces_text(self.traces)
        words = whole.splitlines()[0] if in_notebook() else whole  # there the rest is in the page
        publish_display_data({**(data or {}), "text/plain": words}, metadata)
        self._fill()
        self._saved.show()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Return the widget, with the passes as an HTML table and plain text for viewers without
        widgets.
        """
        bundle = super()._repr_mimebundle_(**options)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data is not None:
            data["text/plain"] = traces_text(self.traces)
            data["text/html"] = "\n".join(passes_html(t) for t in self.traces)
        return bundle
