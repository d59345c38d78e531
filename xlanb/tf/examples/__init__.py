"""Modules of TensorFlow below tensorflow.examples, by the names that programs import them by."""
