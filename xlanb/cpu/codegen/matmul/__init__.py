"""Vectors of elements and shared routines of the emitters that write text."""
