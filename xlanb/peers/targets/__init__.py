"""The real XLA:GPU and XLA:TPU, compiling ahead of time for a described device that is absent."""
