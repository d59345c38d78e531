"""Interaction of a program with its host: infeed, outfeed, and JAX's Python callbacks."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.feeds import RaisedError
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import TOKEN, Value
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.patterns import pattern
from xlanb.shape import TupleShape
from xlanb.shape.shape import subshape

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator

CALLBACKS = ("xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback")
"""Targets by which JAX calls Python (pure_callback, io_callback, debug.print).

The backend_config holds the function's number in `HloModule.host_callbacks`.
"""
_OLD_CALLBACK = "xla_python_cpu_callback"
_NUMBER = pattern(r"\bindex\s*=\s*(\d+)")
_FEEDS = frozenset({Op.INFEED, Op.OUTFEED})
_TRANSFERS = frozenset({Op.SEND, Op.SEND_DONE, Op.RECV, Op.RECV_DONE})


def acts(i: HloInstruction) -> bool:
    """Whether an instruction, or a computation it calls, has an effect on the host.

    It must then run even if its value is unused.
    """
    if not i.has_side_effect:
        return False
    if _acts_itself(i):
        return True
    seen: set[HloComputation] = set()
    todo = list(i.called_computations)
    while todo:
        computation = todo.pop()
        if computation not in seen:
            seen.add(computation)
            if any(_acts_itself(j) for j in computation):
                return True
            todo += [c for j in computation for c in j.called_computations]
    return False


def _acts_itself(i: HloInstruction) -> bool:
    if i.opcode in _FEEDS or i.opcode in _TRANSFERS:
        return True
    return bool(i.attributes.get("custom_call_has_side_effect")) and i.attributes.get("custom_call_target") in CALLBACKS


@rule("infeed")
def _infeed(ev: Evaluator, i: HloInstruction, token: Value) -> Value:
    if ev.feeds is None:
        raise EvaluationError("needs data from the host: pass evaluate(..., feeds=...)")
    return ev.feeds.take(i, subshape(i.shape, (0,))), TOKEN


@rule("outfeed")
def _outfeed(ev: Evaluator, i: HloInstruction, value: Value, token: Value) -> Value:
    if ev.feeds is not None:
        ev.feeds.give(value)
    return TOKEN


def callback(i: HloInstruction, *operands: Any) -> Value:
    """The value of a custom call that calls a Python function.

    The function gets copies of the operands, which it may keep.

    Raises:
        EvaluationError: the function is not known in this process.
        RaisedError: with the error that the function raises.
    """
    function = callback_function(i)
    if function is None:
        raise _unknown(i)
    try:
        results = function(*map(_kept, operands))
    except Exception as error:
        raise RaisedError(error) from error
    values = tuple(TOKEN if v is None else np.asarray(v) for v in results)
    if isinstance(i.shape, TupleShape):
        return values
    if len(values) != 1:
        raise EvaluationError(f"the function returned {len(values)} values, expected one")
    return values[0]


def callback_function(i: HloInstruction) -> Callable[..., Any] | None:
    """The Python function of a custom call of `CALLBACKS`; None if not known in this process."""
    number, functions = callback_number(i), i.parent.module.host_callbacks
    return functions[number] if number is not None and number < len(functions) else None


def callback_number(i: HloInstruction) -> int | None:
    """The number of the function of a custom call of `CALLBACKS`; None if it has none."""
    return _index(i.backend_config)


@lru_cache(maxsize=1024)
def _index(backend_config: str) -> int | None:
    found = _NUMBER.search(backend_config)
    return int(found[1]) if found is not None else None


def _unknown(i: HloInstruction) -> EvaluationError:
    number, functions = callback_number(i), i.parent.module.host_callbacks
    which = f"number {number}" if number is not None else "that the backend_config does not name"
    has = f"has {len(functions)} functions" if functions else "came without its functions"
    return EvaluationError(
        f'"{i.attributes["custom_call_target"]}" calls function {which} of the process that created the module, which '
        f"{has} here: create the module with xlanb.from_jax in this process, or set the module's host_callbacks"
    )


def old_callback(i: HloInstruction, *operands: Any) -> Value:
    """Raise for JAX before version 0.6, whose operand is an address in another process."""
    raise EvaluationError(
        f'"{_OLD_CALLBACK}" calls an address in the process that created the module: newer '
        "releases of JAX call it by name"
    )


TARGETS = {**dict.fromkeys(CALLBACKS, callback), _OLD_CALLBACK: old_callback}


def _kept(value: Value) -> Value:
    """A copy for the function, which may keep it; writing to it has no effect."""
    if value is TOKEN:
        return TOKEN
    copy = np.array(value, order="C")
    copy.flags.writeable = False
    return copy
