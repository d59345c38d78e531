"""Records as pictures and text; only this room knows HTML."""
