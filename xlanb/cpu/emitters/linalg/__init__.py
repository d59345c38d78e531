"""Kernels of linear algebra.

routine       LAPACK's routines as data, the strategies for an instruction, the loop over a batch
lapack        calls of LAPACK and BLAS through SciPy, and checks before iterations
table         each routine: operands, results, arguments, XLA's conventions for results and failures
side_by_side  small matrices of a batch, one in each lane of a vector
small         Cholesky and LU factors and triangular systems, one matrix per lane
columns       columns of matrices in scratch memory: the vocabulary of the routines below
padded        copies of matrices to scratch memory and back
reflections   Householder reflections of columns
rotations     plane rotations of columns
qr, eigh      factors and eigenvalues of small matrices, where LAPACK's calls cost more
"""

from xlanb.cpu.emitters.linalg import eigh, qr, small, table

__all__ = ["eigh", "qr", "small", "table"]
