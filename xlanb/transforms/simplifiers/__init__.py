"""Passes that make a module smaller or more uniform, of any opcode."""
