"""Modules of TensorFlow below tensorflow.python, by the names that programs import them by."""
