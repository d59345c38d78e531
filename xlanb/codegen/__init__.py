"""Emit code for any LLVM target: typed values with operators, loops, vectors.

Knows no HLO passes, and knows a target only by its description.
"""
