"""algsimp: algebra over HLO, as rules by subject (xla/hlo/transforms/simplifiers/algebraic_simplifier.h)."""
