"""tensorflow.examples.tutorials.mnist: handwritten digits."""

from xlanb.tf.examples.tutorials.mnist import input_data

__all__ = ["input_data"]
