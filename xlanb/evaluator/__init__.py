"""The reference interpreter: the semantics of every opcode, plain and slow, in NumPy."""

# The rules that folding constants needs; the others are imported when one is first missing.
import xlanb.evaluator.data_movement
import xlanb.evaluator.elementwise
import xlanb.evaluator.reductions  # noqa: F401
from xlanb.evaluator.feeds import Feeds, RaisedError
from xlanb.evaluator.interpreter import Evaluator, evaluate, evaluate_instruction
from xlanb.evaluator.registry import RULES

__all__ = ["RULES", "Evaluator", "Feeds", "RaisedError", "evaluate", "evaluate_instruction"]
