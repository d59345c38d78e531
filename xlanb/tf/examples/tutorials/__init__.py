"""Modules of TensorFlow below tensorflow.examples.tutorials, by the names that programs import them by."""
