"""Kernels of the CPU backend: what is planned and written for an instruction or fusion, by its kind."""
