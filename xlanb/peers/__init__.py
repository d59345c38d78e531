"""The real XLA and TensorFlow, when they are installed."""
