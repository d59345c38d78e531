"""Kernels of TensorFlow ops that run on the host and never become HLO."""
