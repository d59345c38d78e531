"""The reference interpreter: the semantics of every opcode, plain and slow, in NumPy."""

# Importing a file of rules registers them.
import xlanb.evaluator.bits
import xlanb.evaluator.collectives
import xlanb.evaluator.control
import xlanb.evaluator.convolution
import xlanb.evaluator.custom_calls
import xlanb.evaluator.data_movement
import xlanb.evaluator.dot
import xlanb.evaluator.dynamic
import xlanb.evaluator.elementwise
import xlanb.evaluator.host
import xlanb.evaluator.indexing
import xlanb.evaluator.linalg
import xlanb.evaluator.nn
import xlanb.evaluator.random
import xlanb.evaluator.reductions
import xlanb.evaluator.scan
import xlanb.evaluator.sort
import xlanb.evaluator.windows  # noqa: F401
from xlanb.evaluator.feeds import Feeds, RaisedError
from xlanb.evaluator.interpreter import Evaluator, evaluate, evaluate_instruction
from xlanb.evaluator.registry import RULES

__all__ = ["RULES", "Evaluator", "Feeds", "RaisedError", "evaluate", "evaluate_instruction"]
