"""Kernels of the GPU back end: what is planned and written for an instruction or fusion, by its kind."""
