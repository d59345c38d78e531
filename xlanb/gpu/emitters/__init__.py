"""Emitters of the GPU back end: plan and write kernels, by kind of instruction or fusion."""
