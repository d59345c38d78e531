"""The one table of TensorFlow op types: inputs, outputs, attributes with their defaults, and a line on the meaning."""

from xlanb.graph.ops.op_def import ArgDef, AttrDef, OpDef
from xlanb.graph.ops.table import find_op, get_op, op_names

__all__ = ["ArgDef", "AttrDef", "OpDef", "find_op", "get_op", "op_names"]
