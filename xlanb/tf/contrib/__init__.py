"""tf.contrib: what of it the programs of 2017 use."""

from xlanb.tf.contrib import compiler, layers, rnn

__all__ = ["compiler", "layers", "rnn"]
