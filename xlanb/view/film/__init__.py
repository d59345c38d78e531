"""The film: a whole compilation as an animation."""
