"""Kernels of linear algebra.

routine   the tables of ways to compute an instruction, and the kernel: the loop over a batch
lapack    calls of LAPACK and BLAS by SciPy, their arguments as data
table     each routine: signature, arguments, XLA's conventions for results and failures
systems   triangular systems as trsm has them
"""

from xlanb.cpu.emitters.linalg import table as _table  # noqa: F401 - fills the tables
from xlanb.cpu.emitters.linalg.routine import has_kernel, is_in_place, rounds, scratch_bytes

__all__ = ["has_kernel", "is_in_place", "rounds", "scratch_bytes"]
