"""Modules of TensorFlow below tensorflow.tools, by the names that programs import them by."""
