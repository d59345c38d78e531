"""Whether one node can be compiled: an ordered list of named conditions, each with TensorFlow's own words where it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xlanb.graph.operation import Operation
from xlanb.tf2xla.registry import kernel
from xlanb.tracing import Predicate

_ARGUMENTS = frozenset({"_Arg", "_Retval", "Placeholder", "PlaceholderV2"})
_RANDOM = frozenset(
    {
        "RandomUniform",
        "RandomStandardNormal",
        "TruncatedNormal",
        "RandomUniformInt",
        "Multinomial",
        "RandomShuffle",
        "RandomGamma",
    }
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a node: it holds, or the reason is what TensorFlow logs."""

    name: str
    holds: Callable[[Operation], bool]
    reason: Callable[[Operation], str]


def _has_kernel(op: Operation) -> bool:
    found = kernel(op.type)
    return found is not None and found.is_compilable


CONDITIONS: tuple[Condition, ...] = (
    Condition("is no argument or result", lambda op: op.type not in _ARGUMENTS, lambda _: "top level _Arg or _Retval"),
    Condition("is no stateful random op", lambda op: op.type not in _RANDOM, lambda _: "stateful random op"),
    Condition(
        "has a kernel for XLA_CPU_JIT",
        _has_kernel,
        lambda op: f"No registered '{op.type}' OpKernel for XLA_CPU_JIT devices compatible with node {op.name}",
    ),
    Condition(
        "holds no strings",
        lambda op: all(t.dtype.name != "string" for t in (*op.inputs, *op.outputs)),
        lambda op: f"{op.type} op with type DT_STRING is not supported by XLA.",
    ),
    Condition(
        "reads no variable by reference",
        lambda op: not any(t.dtype.is_ref_dtype for t in op.inputs),
        lambda _: "Identity with unsafe cast.",
    ),
    Condition(
        "_XlaCompile is not false",
        lambda op: op.attrs.get("_XlaCompile") is not False,
        lambda _: "kXlaCompileAttr(_XlaCompile) is false.",
    ),
)


def evaluate(op: Operation) -> list[Predicate]:
    """Every condition with its outcome, to the end: what `why` shows."""
    return [Predicate(c.name, held, "" if held else c.reason(op)) for c in CONDITIONS for held in (c.holds(op),)]


def reason_against(op: Operation) -> str:
    """The first reason why the node cannot be compiled, "" if it can."""
    return next((c.reason(op) for c in CONDITIONS if not c.holds(op)), "")
