"""The smallest case: a module made smaller as long as a test holds (delta debugging that knows HLO).

case.py      a module and the arrays that it is tried with
cutting.py   some instructions of the entry, the rest as parameters
simpler.py   calls opened, instructions passed over, attributes dropped
sizes.py     smaller dimensions
search.py    the search, and its result
"""

from xlanb.reducer.search import ReducedModule, reduction

__all__ = ["ReducedModule", "reduction"]
