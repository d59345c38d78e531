"""Kernels of the CPU backend: plan and emit the code of instructions and fusions, by kind."""
