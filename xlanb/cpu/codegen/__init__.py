"""Emit LLVM IR from optimized HLO: a function per fusion, and `run`, which calls them in order."""
