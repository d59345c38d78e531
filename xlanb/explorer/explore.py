"""`trace`: record a whole compilation."""

from __future__ import annotations

from typing import Any

from xlanb.boundary import filtered_traceback
from xlanb.explorer.live import Compilation
from xlanb.explorer.trace import Trace


@filtered_traceback()
def trace(x: Any, /, *args: Any, **named: Any) -> Trace:
    """Compile `x` as `Compilation` does, to the end, and return the record of every stage.

    Args:
        x: an HloModule; HLO text; a function over `xlanb.tf` or JAX, or JAX's jitted, traced or
            lowered form; tensors or operations of a graph (then `args` is a dictionary of feeds,
            and the graph is run); a TensorFlow program.
        *args: example arguments of a function; only their shapes and dtypes matter.
        **named: as for `Compilation`; `target="a100"` compiles for a GPU, which need not be
            present.

    Returns:
        The Trace. `trace[7]`, `trace["fusion"]` are stages, `trace.changed` those that changed
        something; `why`,
        `lineage`, `diff`, `bisect` query it, and `to_html` writes it. Times are in seconds.

    Raises:
        XlanbError: the compilation fails; the message shows the instruction or node.
    """
    compilation = Compilation(x, *args, **named)
    compilation.finish()
    return compilation.trace
