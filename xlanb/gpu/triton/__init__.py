"""What XLA:GPU's Triton emitters take, and how a dot's tiles are followed through the instructions around it."""
