"""`trace`: a whole compilation, recorded."""

from __future__ import annotations

from typing import Any

from xlanb.boundary import filtered_traceback
from xlanb.explorer.live import Compilation
from xlanb.explorer.trace import Trace


@filtered_traceback()
def trace(x: Any, /, *args: Any, **named: Any) -> Trace:
    """Compile `x` as `Compilation` does, to the end; the record of every stage.

    Args:
        x: an HloModule; HLO text; a function over `xlanb.tf` or JAX, or what JAX made of one; tensors or operations of a graph (then `args` is a dictionary of feeds, and the graph is run); a program of TensorFlow.
        *args: example arguments of a function; of these the shapes and dtypes count.
        **named: as `Compilation` takes them; `target="a100"` compiles for a GPU, which need not be here.

    Returns:
        The Trace: `trace[7]`, `trace["fusion"]` are stages, `trace.changed` those that changed something; `why`, `lineage`, `diff`, `bisect` ask it, `to_html` writes it. Times are in seconds.

    Raises:
        XlanbError: the compilation fails; the message shows the instruction or node.
    """
    compilation = Compilation(x, *args, **named)
    compilation.finish()
    return compilation.trace
