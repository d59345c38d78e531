"""Run a GPU program's kernels on the CPU: the same LLVM IR with NVVM intrinsics replaced."""
