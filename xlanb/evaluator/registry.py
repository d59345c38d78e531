"""The rules of the interpreter: one function per opcode, registered by their files.

A rule is called with the evaluator, the instruction and its operand values, and returns the value.
A `lifted` rule may also be called for a scalar instruction with arrays in place of scalars, one
element per independent evaluation. It then returns an array (of the operands' broadcast shape), or
a scalar if all evaluations give the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from xlanb.evaluator.values import Value
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import BY_TEXT, HloOpcode
from xlanb.late_registry import LateRegistry

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


class EvaluationRule(Protocol):
    """The semantics of an opcode."""

    def __call__(self, ev: Evaluator, i: HloInstruction, /, *operands: Any) -> Value: ...


_FILES = (
    "bits collectives control convolution custom_calls data_movement dot dynamic elementwise host indexing linalg nn "
    "random reductions scan sort windows"
).split()
"""The files of rules. Those that folding constants needs are imported with the interpreter."""


@cache
def _import_all() -> None:
    for name in _FILES:
        import_module(f"{__package__}.{name}")


RULES: dict[HloOpcode, EvaluationRule] = LateRegistry(lambda _: _import_all())
LIFTED: dict[HloOpcode, EvaluationRule] = LateRegistry(lambda _: _import_all())


def rule(*opcodes: str, lifted: bool = False) -> Callable[[EvaluationRule], EvaluationRule]:
    """Register a function as the rule of opcodes; `lifted`: also for scalars stored as arrays."""

    def register(function: EvaluationRule) -> EvaluationRule:
        for text in opcodes:
            RULES[BY_TEXT[text]] = function
            if lifted:
                LIFTED[BY_TEXT[text]] = function
        return function

    return register


def lifted_rule(*opcodes: str) -> Callable[[EvaluationRule], EvaluationRule]:
    """Register a function as the rule of scalar instructions with operands stored as arrays."""

    def register(function: EvaluationRule) -> EvaluationRule:
        LIFTED.update({BY_TEXT[text]: function for text in opcodes})
        return function

    return register
