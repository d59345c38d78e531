"""tf.contrib.compiler."""

from xlanb.tf.contrib.compiler import jit

__all__ = ["jit"]
