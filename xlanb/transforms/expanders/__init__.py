"""Passes that express an opcode in terms of others."""
