"""tensorflow.python.client: the timeline."""

from xlanb.tf.python.client import timeline

__all__ = ["timeline"]
