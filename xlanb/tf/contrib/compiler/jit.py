"""tf.contrib.compiler.jit: which nodes are compiled, said by scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.operation import Operation

_KEY = "__xla_scope_counter"


@contextmanager
def experimental_jit_scope(
    compile_ops: bool | Callable[[Operation], bool] = True, separate_compiled_gradients: bool = False
) -> Iterator[None]:
    """Mark the nodes made inside as compiled (attributes _XlaCompile and _XlaScope), or not.

    `compile_ops` may be a function of the node. Each outermost scope has its own number, which
    nested ones share.
    """
    graph = get_default_graph()
    counter = graph.get_collection_ref(_KEY)
    if not counter:
        counter += [0, 0]  # scopes opened, depth
    wanted: Any = (lambda op: bool(compile_ops(op))) if callable(compile_ops) else bool(compile_ops)
    attrs: dict[str, Any] = {"_XlaCompile": wanted, "_XlaSeparateCompiledGradients": bool(separate_compiled_gradients)}
    if counter[1] == 0:
        attrs["_XlaScope"] = f"jit_scope_{counter[0]}"
        counter[0] += 1
    counter[1] += 1
    try:
        with graph.attr_scope(attrs):
            yield
    finally:
        counter[1] -= 1
