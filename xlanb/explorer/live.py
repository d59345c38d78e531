"""Compilation: a compilation that is stepped by hand, one stage at a time, and recorded as it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlanb.debug_options import current
from xlanb.display import Displayable
from xlanb.dump.writer import dumping
from xlanb.errors import XlanbError
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.graph.operation import Operation, Tensor
from xlanb.runtime.compiler import Stages, module_stages
from xlanb.runtime.program import to_module
from xlanb.runtime.session import Session
from xlanb.tracing import observing, unobserved


class Compilation(Displayable):
    """The live stepper: `step()` runs exactly one more stage of the compiler.

    `x` is an HloModule, HLO text, a function with example arguments, or tensors and operations of a graph with a feed dictionary; a graph is run in `session`, a
    new one by default, and then walks through clustering and execution too. `result` is what came out: an Executable, or what Session.run gives.
    """

    def __init__(self, x: Any, *args: Any, session: Session | None = None, **named: Any) -> None:
        self._recorder = Recorder()
        self._flags = current()
        self.result: Any = None
        self.is_done = False
        with observing(self._recorder), dumping(self._flags):
            self._stages: Stages[Any] = self._start(x, args, session, named)

    def _start(self, x: Any, args: tuple[Any, ...], session: Session | None, named: dict[str, Any]) -> Stages[Any]:
        if _is_graph(x) and (session is not None or args):
            graph = (x[0] if isinstance(x, list | tuple) else x).graph
            feeds = args[0] if args else {}
            if not isinstance(feeds, Mapping):
                raise TypeError(f"tensors are compiled with a feed dictionary, not a {type(feeds).__name__}")
            return (session or Session(graph)).run_stages(x, feeds)
        with unobserved():  # making the module is not yet compiling it
            module = to_module(x, *args, **named)
        return module_stages(module)

    @property
    def traces(self) -> list[Trace]:
        """One trace per compilation so far."""
        return self._recorder.traces

    @property
    def trace(self) -> Trace:
        """The trace of the compilation that is under way (the latest)."""
        return self.traces[-1] if self.traces else Trace("nothing yet")

    def step(self) -> Stage | None:
        """Run one more stage; None where none is left.

        Raises:
            XlanbError: the stage failed; it stands in the trace, as failed, with what was good before it.
        """
        if self.is_done:
            return None
        with observing(self._recorder), dumping(self._flags):
            try:
                next(self._stages)
            except StopIteration as end:
                self.result = end.value
                self.is_done = True
                return None
            except BaseException:
                self.is_done = True
                raise
        return self.trace.stages[-1]

    def run_to(self, name: str) -> Stage:
        """Step until a stage of this name (or kind) has run.

        Raises:
            XlanbError: the compilation ended without one.
        """
        while (stage := self.step()) is not None:
            if name in (stage.name, stage.kind):
                return stage
        raise XlanbError(f"no stage {name!r} came; there were: {', '.join(dict.fromkeys(s.name for s in self.trace))}")

    def finish(self) -> Any:
        """Run all that is left; the result."""
        while self.step() is not None:
            pass
        return self.result

    def __str__(self) -> str:
        return str(self.trace)

    def __repr__(self) -> str:
        return f"<Compilation {self.trace.name}: {len(self.trace)} stages{', done' if self.is_done else ''}>"


def _is_graph(x: Any) -> bool:
    items = x if isinstance(x, list | tuple) else [x]
    return bool(items) and all(isinstance(i, Tensor | Operation) for i in items)
