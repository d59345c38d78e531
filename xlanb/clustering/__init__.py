"""Which nodes of a TensorFlow graph are compiled together, and why (TensorFlow's compiler/jit)."""
