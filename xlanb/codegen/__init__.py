"""Emit code for any LLVM target: typed values whose operators write instructions, loops, vectors. Knows no HLO pass, and a target only by its description."""
