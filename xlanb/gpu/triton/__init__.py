"""XLA:GPU's Triton emitters: supported instructions, and propagation of a dot's tiling."""
