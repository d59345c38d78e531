"""The table of TensorFlow op types: inputs, outputs, attributes with defaults, and
documentation.
"""

from xlanb.graph.ops.op_def import ArgDef, AttrDef, OpDef
from xlanb.graph.ops.table import find_op, get_op, op_names

__all__ = ["ArgDef", "AttrDef", "OpDef", "find_op", "get_op", "op_names"]
