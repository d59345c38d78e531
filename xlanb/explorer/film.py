"""Film: a whole compilation as an animation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.boundary import boundary
from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.explorer import displays
from xlanb.hlo.records import ModuleRecord
from xlanb.wording import counted

if TYPE_CHECKING:
    from xlanb.explorer.trace import Trace


class Film(Displayable):
    """The compilation of a trace as an animation.

    Every node of a TensorFlow graph, if it begins with one, and every instruction is a mark, pass
    by pass, down to the kernels. A notebook shows it, even without a kernel; `to_html` writes a
    page, which can save it as WebP or WebM.
    """

    def __init__(self, trace: Trace) -> None:
        """Use the current contents of `trace`.

        Raises:
            XlanbError: it holds no HLO.
        """
        if not any(isinstance(s.after, ModuleRecord) for s in trace):
            kinds = ", ".join(dict.fromkeys(s.kind for s in trace)) or "nothing"
            raise XlanbError(
                f"trace {trace.name!r} holds no HLO to animate, only {kinds}; continue the "
                "compilation, or use a trace of the cluster's compilation"
            )
        self.trace = trace

    @boundary("write a film")
    def to_html(self, path: str) -> None:
        """Write the film as one self-contained page that works from disk with no network."""
        displays.write_film(self, path)

    def __str__(self) -> str:
        first = next(s.after for s in self.trace if isinstance(s.after, ModuleRecord))
        parts = [
            counted(first.instruction_count, "instruction"),
            f"{counted(len(self.trace.changed), 'stage')} of {len(self.trace)} changed something",
        ]
        if kernels := self.trace.kernel_count:
            parts.append(counted(kernels, "kernel"))
        return f"film of {self.trace.name}: {', '.join(parts)}"

    def __repr__(self) -> str:
        return f"<Film of {self.trace.name}>"
