"""algsimp: algebraic rewrite rules, one file per subject.

Source: xla/hlo/transforms/simplifiers/algebraic_simplifier.h.
"""
