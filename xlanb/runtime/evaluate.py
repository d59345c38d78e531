"""`evaluate`: the reference interpreter, for anything that can be compiled."""

from __future__ import annotations

from typing import Any

from xlanb.boundary import filtered_traceback
from xlanb.evaluator import Feeds
from xlanb.evaluator import evaluate as evaluate_module
from xlanb.frontends.stablehlo import parse_text
from xlanb.hlo import HloModule
from xlanb.hlo.computation import HloComputation
from xlanb.runtime.program import to_module


@filtered_traceback()
def evaluate(x: Any, /, *args: Any, feeds: Feeds | None = None, **named: Any) -> Any:
    """Evaluate a program with the reference interpreter: slow, with XLA's semantics throughout.

    Args:
        x: An HloModule, one of its computations, HLO or StableHLO text, or anything that
            `xlanb.compile` takes.
        *args: Arrays, one per parameter, of its shape and dtype (from ml_dtypes for those that
            NumPy lacks); for a JAX function its own arguments.
        feeds: The host's side of infeed and outfeed.
        **named: Keyword arguments of a JAX function.

    Returns:
        An array, or a tuple nested like the result's shape; for a JAX function its result.

    Raises:
        HloVerifierError: A text violates a rule of HLO.
        EvaluationError: The arguments do not fit the parameters, or an instruction has no value;
            the message shows it.
        XlanbError: `x` is unsupported or cannot be lowered.
    """
    if isinstance(x, HloModule | HloComputation):
        return evaluate_module(x, *args, feeds=feeds)
    if isinstance(x, str):
        parsed = parse_text(x, args)
        parsed.verify()
        return evaluate_module(parsed, *args, feeds=feeds)
    module = to_module(x, *args, **named)
    calling = module.calling
    if calling is None:
        return evaluate_module(module, *args, feeds=feeds)
    value = evaluate_module(module, *calling.flatten(args, named), feeds=feeds)
    return calling.assemble(value if isinstance(value, tuple) else (value,), args, named)
