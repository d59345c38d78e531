"""Runs a GPU program's kernels on the CPU: the same LLVM IR, its NVVM intrinsics given a meaning, compiled for this machine."""
