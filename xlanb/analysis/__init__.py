"""Analyses that do not change a module: reachability, calls, induction variables, cost."""
