"""`evaluate`: the reference interpreter's result for anything that can be compiled."""

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
    """The value of a program for the given arguments, by the reference interpreter: slow, and the meaning of every opcode as XLA has it.

    Args:
        x: an HloModule, a computation of one, HLO or StableHLO text, or what else `xlanb.compile` takes.
        *args: arrays, one for each parameter, of its shape and dtype (ml_dtypes for those that NumPy lacks); of a JAX function its own arguments.
        feeds: the host's side of infeed and outfeed.
        **named: named arguments of a JAX function.

    Returns:
        An array; a tuple, nested as the result's shape is; of a JAX function what it returns.

    Raises:
        HloVerifierError: a text breaks a rule of HLO.
        EvaluationError: the arguments do not fit the parameters, or an instruction has no value; the message shows it.
        XlanbError: `x` cannot be understood or lowered.
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
