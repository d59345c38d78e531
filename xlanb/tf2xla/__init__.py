"""TensorFlow ops to HLO: a registry of lowerings, and the compiler that applies it to a function.

Importing this room lets graphs know their tensors' shapes.
"""

from xlanb.graph.shapes import set_shape_function
from xlanb.tf2xla.compiler import Argument, CompilationResult, lower
from xlanb.tf2xla.registry import kernel, register, registered
from xlanb.tf2xla.shapes import constant_value, infer_shapes

set_shape_function(infer_shapes)

__all__ = [
    "Argument",
    "CompilationResult",
    "constant_value",
    "infer_shapes",
    "kernel",
    "lower",
    "register",
    "registered",
]
