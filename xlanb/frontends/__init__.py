"""Front ends that convert programs of other systems to HLO: JAX functions, StableHLO. They import
those systems only when used.
"""
