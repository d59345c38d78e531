"""The film: a whole compilation as one moving picture."""
