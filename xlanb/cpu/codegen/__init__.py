"""From optimised HLO to LLVM IR as text: one function per fusion, and `run`, which calls them in schedule order."""
