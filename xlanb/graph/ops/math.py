"""Elementwise math, reductions, comparisons, Fourier transforms, bits: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
Abs(x: T) -> (y: T) [T: type in {bf16, f16, f32, f64, s8, s16, s32, s64}]
    |x|.
Acos(x: T) -> (y: T) [T: type in INEXACT]
    Inverse cosine.
Acosh(x: T) -> (y: T) [T: type in INEXACT]
    Inverse hyperbolic cosine.
Add(x: T, y: T) -> (z: T) [T: type in {bf16, f16, f32, f64, u8, s8, s16, s32, s64, c64, c128, string}]
    x + y, with broadcasting; joins strings.
AddN(inputs: N * T) -> (sum: T)
    [N: int >= 1; T: type in {f32, f64, s32, u8, s16, s8, c64, s64, qs8, qu8, qs32, bf16, qs16, qu16, u16, c128, f16,
     u32, u64, variant}] commutative
    Sum of N tensors of one shape.
AddV2(x: T, y: T) -> (z: T)
    [T: type in {bf16, f16, f32, f64, u8, u16, u32, u64, s8, s16, s32, s64, c64, c128}] commutative
    x + y, with broadcasting.
All(input: pred, reduction_indices: Tidx) -> (output: pred) [keep_dims: bool = false; Tidx: type in INDEX = s32]
    Logical and over dimensions.
Angle(input: T) -> (output: Tout) [T: type in COMPLEX = c64; Tout: type in {f32, f64} = f32]
    Argument of complex numbers, in radians.
Any(input: pred, reduction_indices: Tidx) -> (output: pred) [keep_dims: bool = false; Tidx: type in INDEX = s32]
    Logical or over dimensions.
ApproximateEqual(x: T, y: T) -> (z: pred) [T: type in NUMBER; tolerance: float = 1e-05] commutative
    |x - y| < tolerance.
ArgMax(input: T, dimension: Tidx) -> (output: output_type)
    [T: type in {f32, f64, s32, u8, s16, s8, s64, bf16, u16, f16, u32, u64, qs8, qu8, qs32, qs16, qu16, pred}; Tidx:
     type in {s16, s32, s64} = s32; output_type: type in {s16, u16, s32, s64} = s64]
    Index of the largest element along a dimension, the first where several are.
ArgMin(input: T, dimension: Tidx) -> (output: output_type)
    [T: type in {f32, f64, s32, u8, s16, s8, s64, bf16, u16, f16, u32, u64, qs8, qu8, qs32, qs16, qu16, pred}; Tidx:
     type in INDEX = s32; output_type: type in INDEX = s64]
    Index of the smallest element along a dimension, the first where several are.
Asin(x: T) -> (y: T) [T: type in INEXACT]
    Inverse sine.
Asinh(x: T) -> (y: T) [T: type in INEXACT]
    Inverse hyperbolic sine.
Atan(x: T) -> (y: T) [T: type in INEXACT]
    Inverse tangent.
Atan2(y: T, x: T) -> (z: T) [T: type in FLOAT]
    Angle of the point (x, y), all four quadrants.
Atanh(x: T) -> (y: T) [T: type in INEXACT]
    Inverse hyperbolic tangent.
BatchMatMul(x: T, y: T) -> (output: T)
    [T: type in {bf16, f16, f32, f64, s32, s64, c64, c128}; adj_x: bool = false; adj_y: bool = false; grad_x: bool =
     false; grad_y: bool = false]
    Products of matrices in the last two dimensions, batches of one shape.
BatchMatMulV2(x: T, y: T) -> (output: T)
    [T: type in {bf16, f16, f32, f64, s16, s32, s64, u8, u16, u32, u64, c64, c128}; adj_x: bool = false; adj_y: bool =
     false; grad_x: bool = false; grad_y: bool = false]
    Products of matrices in the last two dimensions; batch dimensions broadcast.
BatchMatMulV3(x: Ta, y: Tb) -> (output: Tout)
    [Ta: type in {bf16, f16, f32, f64, u8, s8, s16, s32, s64, c64, c128}; Tb: type in {bf16, f16, f32, f64, u8, s8,
     s16, s32, s64, c64, c128}; Tout: type in {bf16, f16, f32, f64, s16, s32, s64, c64, c128}; adj_x: bool = false;
     adj_y: bool = false; grad_x: bool = false; grad_y: bool = false]
    As BatchMatMulV2, with a result type of its own.
BesselI0(x: T) -> (y: T) [T: type in FLOAT]
BesselI0e(x: T) -> (y: T) [T: type in FLOAT]
    Modified Bessel function of order 0, times exp(-|x|).
BesselI1(x: T) -> (y: T) [T: type in FLOAT]
BesselI1e(x: T) -> (y: T) [T: type in FLOAT]
    Modified Bessel function of order 1, times exp(-|x|).
BesselJ0(x: T) -> (y: T) [T: type in FLOAT]
BesselJ1(x: T) -> (y: T) [T: type in FLOAT]
BesselK0(x: T) -> (y: T) [T: type in FLOAT]
BesselK1(x: T) -> (y: T) [T: type in FLOAT]
BesselY0(x: T) -> (y: T) [T: type in FLOAT]
BesselY1(x: T) -> (y: T) [T: type in FLOAT]
Betainc(a: T, b: T, x: T) -> (z: T) [T: type in {f32, f64}]
    Regularised incomplete beta function.
Bincount(arr: s32, size: s32, weights: T) -> (bins: T) [T: type in {s32, s64, f32, f64}]
    How often each integer occurs, or the sum of its weights.
BitwiseAnd(x: T, y: T) -> (z: T) [T: type in INTEGER] commutative
    Bitwise and.
BitwiseOr(x: T, y: T) -> (z: T) [T: type in INTEGER] commutative
    Bitwise or.
BitwiseXor(x: T, y: T) -> (z: T) [T: type in INTEGER] commutative
    Bitwise exclusive or.
Bucketize(input: T) -> (output: s32) [T: type in {s32, s64, f32, f64}; boundaries: list(float)]
    Index of the interval between boundaries that each element falls into.
Cast(x: SrcT) -> (y: DstT) [SrcT: type; DstT: type; Truncate: bool = false]
    The values as another type; floats to integers towards zero.
Ceil(x: T) -> (y: T) [T: type in FLOAT]
    Smallest integer not below x.
ClipByValue(t: T, clip_value_min: T, clip_value_max: T) -> (output: T) [T: type in NUMBER]
    min(max(x, low), high).
Complex(real: T, imag: T) -> (out: Tout) [T: type in {f32, f64} = f32; Tout: type in COMPLEX = c64]
    real + i * imag.
ComplexAbs(x: T) -> (y: Tout) [T: type in COMPLEX = c64; Tout: type in {f32, f64} = f32]
    Magnitude of complex numbers.
Conj(input: T) -> (output: T) [T: type in {c64, c128, variant} = c64]
    Complex conjugate.
Cos(x: T) -> (y: T) [T: type in INEXACT]
    Cosine.
Cosh(x: T) -> (y: T) [T: type in INEXACT]
    Hyperbolic cosine.
Cross(a: T, b: T) -> (product: T) [T: type in REAL]
    Cross product of vectors of three.
Cumprod(x: T, axis: Tidx) -> (out: T)
    [exclusive: bool = false; reverse: bool = false; T: type in NUMBER; Tidx: type in INDEX = s32]
    Running product along a dimension.
Cumsum(x: T, axis: Tidx) -> (out: T)
    [exclusive: bool = false; reverse: bool = false; T: type in NUMBER; Tidx: type in INDEX = s32]
    Running sum along a dimension.
CumulativeLogsumexp(x: T, axis: Tidx) -> (out: T)
    [exclusive: bool = false; reverse: bool = false; T: type in FLOAT; Tidx: type in INDEX = s32]
    Running log(sum(exp(x))) along a dimension.
Dawsn(x: T) -> (y: T) [T: type in FLOAT]
DenseBincount(input: Tidx, size: Tidx, weights: T) -> (output: T)
    [Tidx: type in INDEX; T: type in {s32, s64, f32, f64}; binary_output: bool = false]
Digamma(x: T) -> (y: T) [T: type in FLOAT]
    Derivative of the logarithm of the gamma function.
Div(x: T, y: T) -> (z: T) [T: type in {bf16, f16, f32, f64, u8, s8, u16, s16, s32, u32, u64, s64, c64, c128}]
    x / y; integers towards zero.
DivNoNan(x: T, y: T) -> (z: T) [T: type in INEXACT]
    x / y, 0 where y is 0.
Equal(x: T, y: T) -> (z: pred) [T: type; incompatible_shape_error: bool = true] commutative
    x == y.
Erf(x: T) -> (y: T) [T: type in FLOAT]
    Error function.
Erfc(x: T) -> (y: T) [T: type in FLOAT]
    1 - erf(x).
Erfinv(x: T) -> (y: T) [T: type in FLOAT]
    Inverse of the error function.
EuclideanNorm(input: T, reduction_indices: Tidx) -> (output: T)
    [keep_dims: bool = false; T: type in NUMBER; Tidx: type in INDEX = s32]
Exp(x: T) -> (y: T) [T: type in INEXACT]
    Exponential.
Expint(x: T) -> (y: T) [T: type in FLOAT]
Expm1(x: T) -> (y: T) [T: type in INEXACT]
    exp(x) - 1, accurate near 0.
FFT(input: Tcomplex) -> (output: Tcomplex) [Tcomplex: type in COMPLEX = c64]
    Discrete Fourier transform along the last dimension.
FFT2D(input: Tcomplex) -> (output: Tcomplex) [Tcomplex: type in COMPLEX = c64]
    Discrete Fourier transform along the last two dimensions.
FFT3D(input: Tcomplex) -> (output: Tcomplex) [Tcomplex: type in COMPLEX = c64]
    Discrete Fourier transform along the last three dimensions.
FFTND(input: Tcomplex, fft_length: s32, axes: s32) -> (output: Tcomplex) [Tcomplex: type in COMPLEX = c64]
Floor(x: T) -> (y: T) [T: type in FLOAT]
    Largest integer not above x.
FloorDiv(x: T, y: T) -> (z: T) [T: type in {bf16, f16, f32, f64, u8, s8, u16, s16, s32, u32, u64, s64, c64, c128}]
    floor(x / y).
FloorMod(x: T, y: T) -> (z: T) [T: type in REAL]
    x - floor(x / y) * y: the remainder with y's sign.
FresnelCos(x: T) -> (y: T) [T: type in FLOAT]
FresnelSin(x: T) -> (y: T) [T: type in FLOAT]
Greater(x: T, y: T) -> (z: pred) [T: type in REAL]
    x > y.
GreaterEqual(x: T, y: T) -> (z: pred) [T: type in REAL]
    x >= y.
IFFT(input: Tcomplex) -> (output: Tcomplex) [Tcomplex: type in COMPLEX = c64]
    Inverse of FFT.
IFFT2D(input: Tcomplex) -> (output: Tcomplex) [Tcomplex: type in COMPLEX = c64]
    Inverse of FFT2D.
IFFT3D(input: Tcomplex) -> (output: Tcomplex) [Tcomplex: type in COMPLEX = c64]
    Inverse of FFT3D.
IRFFT(input: Tcomplex, fft_length: s32) -> (output: Treal)
    [Treal: type in {f32, f64} = f32; Tcomplex: type in COMPLEX = c64]
    Inverse of RFFT.
IRFFT2D(input: Tcomplex, fft_length: s32) -> (output: Treal)
    [Treal: type in {f32, f64} = f32; Tcomplex: type in COMPLEX = c64]
    Inverse of RFFT2D.
IRFFT3D(input: Tcomplex, fft_length: s32) -> (output: Treal)
    [Treal: type in {f32, f64} = f32; Tcomplex: type in COMPLEX = c64]
    Inverse of RFFT3D.
Igamma(a: T, x: T) -> (z: T) [T: type in FLOAT]
    Lower regularised incomplete gamma function.
IgammaGradA(a: T, x: T) -> (z: T) [T: type in {f32, f64}]
    Derivative of Igamma by a.
Igammac(a: T, x: T) -> (z: T) [T: type in FLOAT]
    Upper regularised incomplete gamma function.
Imag(input: T) -> (output: Tout) [T: type in COMPLEX = c64; Tout: type in {f32, f64} = f32]
    Imaginary part.
Inv(x: T) -> (y: T) [T: type in {bf16, f16, f32, f64, s8, s16, s32, s64, c64, c128}]
    1 / x.
Invert(x: T) -> (y: T) [T: type in INTEGER]
    Bitwise not.
IsFinite(x: T) -> (y: pred) [T: type in FLOAT]
    Neither NaN nor infinite.
IsInf(x: T) -> (y: pred) [T: type in FLOAT]
    Infinite.
IsNan(x: T) -> (y: pred) [T: type in FLOAT]
    NaN.
LeftShift(x: T, y: T) -> (z: T) [T: type in INTEGER]
    x << y.
Less(x: T, y: T) -> (z: pred) [T: type in REAL]
    x < y.
LessEqual(x: T, y: T) -> (z: pred) [T: type in REAL]
    x <= y.
Lgamma(x: T) -> (y: T) [T: type in FLOAT]
    Logarithm of the absolute value of the gamma function.
LinSpace(start: T, stop: T, num: Tidx) -> (output: T) [T: type in FLOAT; Tidx: type in INDEX = s32]
    num values evenly from start to stop.
Log(x: T) -> (y: T) [T: type in INEXACT]
    Natural logarithm.
Log1p(x: T) -> (y: T) [T: type in INEXACT]
    log(1 + x), accurate near 0.
LogicalAnd(x: pred, y: pred) -> (z: pred) commutative
    Both.
LogicalNot(x: pred) -> (y: pred)
    Not.
LogicalOr(x: pred, y: pred) -> (z: pred) commutative
    Either.
MatMul(a: T, b: T) -> (product: T)
    [transpose_a: bool = false; transpose_b: bool = false; T: type in {bf16, f16, f32, f64, s32, s64, u8, u16, u32,
     u64, c64, c128}; grad_a: bool = false; grad_b: bool = false]
    Product of two matrices, each transposed if asked.
Max(input: T, reduction_indices: Tidx) -> (output: T)
    [keep_dims: bool = false; T: type in {f32, f64, s32, u8, s16, s8, s64, bf16, u16, f16, u32, u64, qs8, qu8, qs32,
     qs16, qu16}; Tidx: type in INDEX = s32]
    Largest element over dimensions.
Maximum(x: T, y: T) -> (z: T) [T: type in REAL]
    The larger of x and y.
Mean(input: T, reduction_indices: Tidx) -> (output: T)
    [keep_dims: bool = false; T: type in NUMBER; Tidx: type in INDEX = s32]
    Mean over dimensions.
Min(input: T, reduction_indices: Tidx) -> (output: T)
    [keep_dims: bool = false; T: type in {f32, f64, s32, u8, s16, s8, s64, bf16, u16, f16, u32, u64, qs8, qu8, qs32,
     qs16, qu16}; Tidx: type in INDEX = s32]
    Smallest element over dimensions.
Minimum(x: T, y: T) -> (z: T) [T: type in REAL]
    The smaller of x and y.
Mod(x: T, y: T) -> (z: T) [T: type in {s32, s64, f16, f16, bf16, f32, f64}]
    Remainder with x's sign.
Mul(x: T, y: T) -> (z: T)
    [T: type in {bf16, f16, f32, f64, u8, s8, u16, s16, s32, u32, u64, s64, c64, c128}] commutative
    x * y, with broadcasting.
MulNoNan(x: T, y: T) -> (z: T) [T: type in INEXACT]
    x * y, 0 where y is 0 even if x is not finite.
Ndtri(x: T) -> (y: T) [T: type in FLOAT]
    Quantile function of the standard normal distribution.
Neg(x: T) -> (y: T) [T: type in {bf16, f16, f32, f64, s8, s16, s32, s64, c64, c128}]
    -x.
NextAfter(x1: T, x2: T) -> (output: T) [T: type in {f64, f32} = f32]
    The next number after x1 towards x2.
NotEqual(x: T, y: T) -> (z: pred) [T: type; incompatible_shape_error: bool = true] commutative
    x != y.
Polygamma(a: T, x: T) -> (z: T) [T: type in {f32, f64}]
    Derivative of order a of digamma.
PopulationCount(x: T) -> (y: u8) [T: type in INTEGER]
    Number of bits that are set.
Pow(x: T, y: T) -> (z: T) [T: type in {bf16, f32, f16, f64, s8, s16, s32, s64, c64, c128}]
    x to the power of y.
Prod(input: T, reduction_indices: Tidx) -> (output: T)
    [keep_dims: bool = false; T: type in NUMBER; Tidx: type in INDEX = s32]
    Product over dimensions.
RFFT(input: Treal, fft_length: s32) -> (output: Tcomplex)
    [Treal: type in {f32, f64} = f32; Tcomplex: type in COMPLEX = c64]
    Fourier transform of real values: the first half of the coefficients.
RFFT2D(input: Treal, fft_length: s32) -> (output: Tcomplex)
    [Treal: type in {f32, f64} = f32; Tcomplex: type in COMPLEX = c64]
    Fourier transform of real values along two dimensions.
RFFT3D(input: Treal, fft_length: s32) -> (output: Tcomplex)
    [Treal: type in {f32, f64} = f32; Tcomplex: type in COMPLEX = c64]
    Fourier transform of real values along three dimensions.
Range(start: Tidx, limit: Tidx, delta: Tidx) -> (output: Tidx)
    [Tidx: type in {bf16, f16, f32, f64, s8, s16, s32, s64, u16, u32, u64} = s32]
    start, start + delta, ... up to but without limit.
Real(input: T) -> (output: Tout) [T: type in COMPLEX = c64; Tout: type in {f32, f64} = f32]
    Real part.
RealDiv(x: T, y: T) -> (z: T) [T: type in {bf16, f16, f32, f64, u8, s8, u16, s16, s32, u32, u64, s64, c64, c128}]
    x / y of real or complex numbers.
Reciprocal(x: T) -> (y: T) [T: type in {bf16, f16, f32, f64, s8, s16, s32, s64, c64, c128}]
    1 / x.
ReciprocalGrad(y: T, dy: T) -> (z: T) [T: type in INEXACT]
    -dy * y^2.
RightShift(x: T, y: T) -> (z: T) [T: type in INTEGER]
    x >> y, keeping the sign.
Rint(x: T) -> (y: T) [T: type in FLOAT]
    Nearest integer, halves to the even one.
Round(x: T) -> (y: T) [T: type in {bf16, f16, f32, f64, s8, s16, s32, s64, c64, c128}]
    Nearest integer, halves to the even one.
Rsqrt(x: T) -> (y: T) [T: type in INEXACT]
    1 / sqrt(x).
RsqrtGrad(y: T, dy: T) -> (z: T) [T: type in INEXACT]
    dy * -0.5 * y^3.
SegmentMax(data: T, segment_ids: Tindices) -> (output: T) [T: type in REAL; Tindices: type in INDEX]
    Maximum of runs of rows with equal ids.
SegmentMaxV2(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> (output: T)
    [T: type in REAL; Tindices: type in INDEX; Tnumsegments: type in INDEX = s32]
SegmentMean(data: T, segment_ids: Tindices) -> (output: T) [T: type in NUMBER; Tindices: type in INDEX]
    Mean of runs of rows with equal ids.
SegmentMin(data: T, segment_ids: Tindices) -> (output: T) [T: type in REAL; Tindices: type in INDEX]
    Minimum of runs of rows with equal ids.
SegmentMinV2(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> (output: T)
    [T: type in REAL; Tindices: type in INDEX; Tnumsegments: type in INDEX = s32]
SegmentProd(data: T, segment_ids: Tindices) -> (output: T) [T: type in NUMBER; Tindices: type in INDEX]
    Product of runs of rows with equal ids.
SegmentProdV2(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> (output: T)
    [T: type in NUMBER; Tindices: type in INDEX; Tnumsegments: type in INDEX = s32]
SegmentSum(data: T, segment_ids: Tindices) -> (output: T) [T: type in NUMBER; Tindices: type in INDEX]
    Sum of runs of rows with equal ids.
SegmentSumV2(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> (output: T)
    [T: type in NUMBER; Tindices: type in INDEX; Tnumsegments: type in INDEX = s32]
Select(condition: pred, t: T, e: T) -> (output: T) [T: type]
    t where the condition holds, e elsewhere; the condition may be one for each row.
SelectV2(condition: pred, t: T, e: T) -> (output: T) [T: type]
    t where the condition holds, e elsewhere, all three broadcast.
Sigmoid(x: T) -> (y: T) [T: type in INEXACT]
    1 / (1 + exp(-x)).
SigmoidGrad(y: T, dy: T) -> (z: T) [T: type in INEXACT]
    dy * y * (1 - y).
Sign(x: T) -> (y: T) [T: type in {bf16, f16, f32, f64, s8, s16, s32, s64, c64, c128}]
    -1, 0 or 1; of complex numbers x / |x|.
Sin(x: T) -> (y: T) [T: type in INEXACT]
    Sine.
Sinh(x: T) -> (y: T) [T: type in INEXACT]
    Hyperbolic sine.
SparseMatMul(a: Ta, b: Tb) -> (product: f32)
    [transpose_a: bool = false; transpose_b: bool = false; a_is_sparse: bool = false; b_is_sparse: bool = false; Ta:
     type in {f32, bf16} = f32; Tb: type in {f32, bf16} = f32]
    Product of two matrices that hold many zeros.
SparseSegmentMean(data: T, indices: Tidx, segment_ids: Tsegmentids) -> (output: T)
    [T: type in FLOAT; Tidx: type in INDEX = s32; Tsegmentids: type in INDEX = s32; sparse_gradient: bool = false]
SparseSegmentSum(data: T, indices: Tidx, segment_ids: Tsegmentids) -> (output: T)
    [T: type in REAL; Tidx: type in INDEX = s32; Tsegmentids: type in INDEX = s32; sparse_gradient: bool = false]
Spence(x: T) -> (y: T) [T: type in FLOAT]
Sqrt(x: T) -> (y: T) [T: type in INEXACT]
    Square root.
SqrtGrad(y: T, dy: T) -> (z: T) [T: type in INEXACT]
    dy * 0.5 / y.
Square(x: T) -> (y: T) [T: type in {bf16, f16, f32, f64, s8, s16, s32, s64, u8, u16, u32, u64, c64, c128}]
    x * x.
SquaredDifference(x: T, y: T) -> (z: T) [T: type in {bf16, f16, f32, f64, s32, s64, c64, c128}] commutative
    (x - y)^2.
Sub(x: T, y: T) -> (z: T) [T: type in {bf16, f16, f32, f64, u8, s8, u16, s16, s32, s64, c64, c128, u32, u64}]
    x - y, with broadcasting.
Sum(input: T, reduction_indices: Tidx) -> (output: T)
    [keep_dims: bool = false; T: type in NUMBER; Tidx: type in INDEX = s32]
    Sum over dimensions.
Tan(x: T) -> (y: T) [T: type in INEXACT]
    Tangent.
Tanh(x: T) -> (y: T) [T: type in INEXACT]
    Hyperbolic tangent.
TanhGrad(y: T, dy: T) -> (z: T) [T: type in INEXACT]
    dy * (1 - y^2).
TruncateDiv(x: T, y: T) -> (z: T) [T: type in {bf16, f16, f32, f64, u8, s8, u16, s16, s32, u32, u64, s64, c64, c128}]
    x / y towards zero.
TruncateMod(x: T, y: T) -> (z: T) [T: type in {s32, s64, bf16, f16, f32, f64}]
    Remainder with x's sign.
UniformDequantize(input: Tin, scales: f32, zero_points: s32) -> (output: Tout)
    [Tin: type in {qs8, qu8, qs32}; Tout: type in {f32}; quantization_axis: int = -1; quantization_min_val: int;
     quantization_max_val: int]
UniformQuantize(input: Tin, scales: f32, zero_points: s32) -> (output: Tout)
    [Tin: type in {f32}; Tout: type in {qs8, qu8, qs32}; quantization_axis: int = -1; quantization_min_val: int;
     quantization_max_val: int]
UniformQuantizedAdd(lhs: T, rhs: T, lhs_scales: f32, lhs_zero_points: s32, rhs_scales: f32, rhs_zero_points: s32, output_scales: f32, output_zero_points: s32) -> (output: T)
    [lhs_quantization_axis: int = -1; lhs_quantization_min_val: int; lhs_quantization_max_val: int;
     rhs_quantization_axis: int = -1; rhs_quantization_min_val: int; rhs_quantization_max_val: int;
     output_quantization_axis: int = -1; output_quantization_min_val: int; output_quantization_max_val: int; T: type
     in {qs32}]
UniformQuantizedClipByValue(operand: T, min: T, max: T, scales: f32, zero_points: s32) -> (output: T)
    [T: type in {qs32}; quantization_axis: int = -1; quantization_min_val: int; quantization_max_val: int]
UniformQuantizedConvolution(lhs: Tin, rhs: Tin, lhs_scales: f32, lhs_zero_points: s32, rhs_scales: f32, rhs_zero_points: s32, output_scales: f32, output_zero_points: s32) -> (output: Tout)
    [Tin: type in {qs8}; Tout: type in {qs32}; window_strides: list(int) = []; padding: string; explicit_padding:
     list(int) = []; lhs_dilation: list(int) = []; rhs_dilation: list(int) = []; batch_group_count: int = 1;
     feature_group_count: int = 1; dimension_numbers: string = ""; lhs_quantization_axis: int = -1;
     lhs_quantization_min_val: int; lhs_quantization_max_val: int; rhs_quantization_axis: int = -1;
     rhs_quantization_min_val: int; rhs_quantization_max_val: int; output_quantization_axis: int = -1;
     output_quantization_min_val: int; output_quantization_max_val: int]
UniformQuantizedDot(lhs: Tin, rhs: Tin, lhs_scales: f32, lhs_zero_points: s32, rhs_scales: f32, rhs_zero_points: s32, output_scales: f32, output_zero_points: s32) -> (output: Tout)
    [Tin: type in {qs8}; Tout: type in {qs32}; lhs_quantization_axis: int = -1; lhs_quantization_min_val: int;
     lhs_quantization_max_val: int; rhs_quantization_axis: int = -1; rhs_quantization_min_val: int;
     rhs_quantization_max_val: int; output_quantization_axis: int = -1; output_quantization_min_val: int;
     output_quantization_max_val: int]
UniformRequantize(input: Tin, input_scales: f32, input_zero_points: s32, output_scales: f32, output_zero_points: s32) -> (output: Tout)
    [Tin: type in {qs8, qs32}; Tout: type in {qs8, qs32}; input_quantization_axis: int = -1;
     input_quantization_min_val: int; input_quantization_max_val: int; output_quantization_axis: int = -1;
     output_quantization_min_val: int; output_quantization_max_val: int]
UnsortedSegmentMax(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> (output: T)
    [T: type in REAL; Tindices: type in INDEX; Tnumsegments: type in INDEX = s32]
    Maximum of rows by segment id.
UnsortedSegmentMin(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> (output: T)
    [T: type in REAL; Tindices: type in INDEX; Tnumsegments: type in INDEX = s32]
    Minimum of rows by segment id.
UnsortedSegmentProd(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> (output: T)
    [T: type in NUMBER; Tindices: type in INDEX; Tnumsegments: type in INDEX = s32]
    Product of rows by segment id.
UnsortedSegmentSum(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> (output: T)
    [T: type in NUMBER; Tindices: type in {s16, s32, s64}; Tnumsegments: type in INDEX = s32]
    Sum of rows by segment id; negative ids are left out.
Xdivy(x: T, y: T) -> (z: T) [T: type in INEXACT]
    x / y, 0 where x is 0.
Xlog1py(x: T, y: T) -> (z: T) [T: type in INEXACT]
    x * log1p(y), 0 where x is 0.
Xlogy(x: T, y: T) -> (z: T) [T: type in INEXACT]
    x * log(y), 0 where x is 0.
Zeta(x: T, q: T) -> (z: T) [T: type in {f32, f64}]
    Hurwitz zeta function.
"""
