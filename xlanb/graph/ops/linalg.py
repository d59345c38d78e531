"""Linear algebra: rows of the op table (see op_def for their form; facts of tensorflow/core/ops)."""

from __future__ import annotations

ROWS = r"""
Cholesky(input: T) -> (output: T) [T: type in {f64, f32, f16, c64, c128}]
Eig(input: T) -> (e: Tout, v: Tout) [compute_v: bool = true; T: type in {f32, f64, c64, c128}; Tout: type in COMPLEX]
Einsum(inputs: N * T) -> (output: T) [equation: string; N: int >= 1; T: type]
Lu(input: T) -> (lu: T, p: output_idx_type) [T: type in {f64, f32, f16, c64, c128}; output_idx_type: type in INDEX = s32]
MatrixInverse(input: T) -> (output: T) [adjoint: bool = false; T: type in {f64, f32, f16, c64, c128}]
MatrixSolve(matrix: T, rhs: T) -> (output: T) [adjoint: bool = false; T: type in {f64, f32, f16, c64, c128}]
MatrixTriangularSolve(matrix: T, rhs: T) -> (output: T) [lower: bool = true; adjoint: bool = false; T: type in INEXACT]
Qr(input: T) -> (q: T, r: T) [full_matrices: bool = false; T: type in {f64, f32, f16, c64, c128}]
SelfAdjointEigV2(input: T) -> (e: T, v: T) [compute_v: bool = true; T: type in {f64, f32, f16, c64, c128}]
Svd(input: T) -> (s: T, u: T, v: T) [compute_uv: bool = true; full_matrices: bool = false; T: type in {f64, f32, f16, c64, c128}]
TridiagonalMatMul(superdiag: T, maindiag: T, subdiag: T, rhs: T) -> (output: T) [T: type in {f64, f32, c64, c128}]
TridiagonalSolve(diagonals: T, rhs: T) -> (output: T) [partial_pivoting: bool = true; perturb_singular: bool = false; T: type in {f64, f32, c64, c128}]
"""
