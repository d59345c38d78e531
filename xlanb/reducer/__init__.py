"""Reduce a module as long as a test holds: delta debugging that knows HLO.

case.py      a module and its test arrays
cutting.py   some instructions of the entry, with the rest as parameters
simpler.py   calls inlined, instructions bypassed, attributes dropped
sizes.py     smaller dimensions
search.py    the search, and its result
"""

from xlanb.reducer.search import ReducedModule, reduction

__all__ = ["ReducedModule", "reduction"]
