"""Linear algebra: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
Cholesky(input: T) -> (output: T) [T: type in {f64, f32, f16, c64, c128}]
    Lower triangular factor of symmetric positive definite matrices.
Eig(input: T) -> (e: Tout, v: Tout) [compute_v: bool = true; T: type in {f32, f64, c64, c128}; Tout: type in COMPLEX]
Einsum(inputs: N * T) -> (output: T) [equation: string; N: int >= 1; T: type]
    Sums of products written as an equation.
LogMatrixDeterminant(input: T) -> (sign: T, log_abs_determinant: T) [T: type in {f16, f32, f64, c64, c128}]
Lu(input: T) -> (lu: T, p: output_idx_type)
    [T: type in {f64, f32, f16, c64, c128}; output_idx_type: type in INDEX = s32]
MatrixDeterminant(input: T) -> (output: T) [T: type in {f16, f32, f64, c64, c128}]
    Determinant of square matrices.
MatrixExponential(input: T) -> (output: T) [T: type in {f64, f32, f16, c64, c128}]
MatrixInverse(input: T) -> (output: T) [adjoint: bool = false; T: type in {f64, f32, f16, c64, c128}]
    Inverse of square matrices.
MatrixSolve(matrix: T, rhs: T) -> (output: T) [adjoint: bool = false; T: type in {f64, f32, f16, c64, c128}]
    x with A x = b.
MatrixTriangularSolve(matrix: T, rhs: T) -> (output: T)
    [lower: bool = true; adjoint: bool = false; T: type in INEXACT]
    x with A x = b for triangular A.
Qr(input: T) -> (q: T, r: T) [full_matrices: bool = false; T: type in {f64, f32, f16, c64, c128}]
    Orthogonal and triangular factors of matrices.
SelfAdjointEigV2(input: T) -> (e: T, v: T) [compute_v: bool = true; T: type in {f64, f32, f16, c64, c128}]
    Eigenvalues and eigenvectors of self-adjoint matrices.
Svd(input: T) -> (s: T, u: T, v: T)
    [compute_uv: bool = true; full_matrices: bool = false; T: type in {f64, f32, f16, c64, c128}]
    Singular value decomposition of matrices.
TridiagonalMatMul(superdiag: T, maindiag: T, subdiag: T, rhs: T) -> (output: T) [T: type in {f64, f32, c64, c128}]
TridiagonalSolve(diagonals: T, rhs: T) -> (output: T)
    [partial_pivoting: bool = true; perturb_singular: bool = false; T: type in {f64, f32, c64, c128}]
    x with A x = b for tridiagonal A.
"""
