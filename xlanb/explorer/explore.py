"""`trace`: a whole compilation, recorded."""

from __future__ import annotations

from typing import Any

from xlanb.explorer.live import Compilation
from xlanb.explorer.trace import Trace


def trace(x: Any, *args: Any, **named: Any) -> Trace:
    """Compile `x` as `Compilation` does, to the end; the record of every stage.

    Raises:
        XlanbError: the compilation fails.
    """
    compilation = Compilation(x, *args, **named)
    compilation.finish()
    return compilation.trace
