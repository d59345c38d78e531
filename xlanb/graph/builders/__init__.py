"""Functions that build nodes: TensorFlow's python/ops, with its names for nodes."""
