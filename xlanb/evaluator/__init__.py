"""The reference interpreter: what every opcode means, plain and slow, in NumPy."""

from xlanb.evaluator import (
    bits,
    collectives,
    control,
    convolution,
    custom_calls,
    data_movement,
    dynamic,
    elementwise,
    indexing,
    linalg,
    dot,
    nn,
    random,
    reductions,
    scan,
    sort,
    windows,
)
from xlanb.evaluator.interpreter import Evaluator, evaluate, evaluate_instruction
from xlanb.evaluator.registry import RULES

__all__ = ["RULES", "Evaluator", "evaluate", "evaluate_instruction"]
