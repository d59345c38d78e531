"""Passes that compute in another element type, or round."""
