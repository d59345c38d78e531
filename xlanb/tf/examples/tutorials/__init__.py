"""Modules of tensorflow.examples.tutorials, under the names that programs import."""
