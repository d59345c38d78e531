"""tf.py_func: functions of Python as nodes, run on the host (python/ops/script_ops.py)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from xlanb.graph.dtypes import as_dtype
from xlanb.graph.op_library import call_op
from xlanb.graph.operation import Operation
from xlanb.runtime.host.strings import register_function

_numbers = itertools.count()


def py_func(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str | None = None
) -> Any:
    """Call `func` with the tensors' arrays; return a tensor of type Tout.

    If Tout is a list, a list of tensors is returned; if it is empty, the operation. A saved graph
    has only the function's token, not the function.
    """
    listed = isinstance(Tout, list | tuple)
    types = [as_dtype(t) for t in (Tout if listed else [Tout])]
    token = f"pyfunc_{next(_numbers)}"
    register_function(token, func)
    op: Operation = call_op("PyFunc" if stateful else "PyFuncStateless", list(inp), token=token, Tout=types, name=name)
    if not types:
        return op
    return list(op.outputs) if listed else op.outputs[0]


def py_function(func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None = None) -> Any:
    """As `py_func`: the function gets arrays, for there are no eager tensors here."""
    return py_func(func, inp, Tout, stateful=True, name=name)


def numpy_function(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str | None = None
) -> Any:
    """As `py_func`."""
    return py_func(func, inp, Tout, stateful, name)


def print_tensor(
    input_: Any,
    data: Sequence[Any],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Any:
    """tf.Print: the tensor, and `data` on stderr each time it is computed."""
    op = call_op(
        "Print",
        input_,
        list(data),
        message=message or "",
        first_n=-1 if first_n is None else first_n,
        summarize=summarize or 3,
        name=name,
    )
    return op.outputs[0]
