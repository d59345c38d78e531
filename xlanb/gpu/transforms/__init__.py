"""Passes of XLA:GPU, one file a pass under the name of XLA's file (xla/service/gpu/transforms)."""
