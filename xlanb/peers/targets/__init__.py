"""The real XLA for hardware that is not here: XLA:GPU and XLA:TPU compile ahead of time for a described device."""
