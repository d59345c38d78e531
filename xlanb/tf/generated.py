"""Functions of TensorFlow that are one op each: made from the op table."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from xlanb.errors import GraphTypeError
from xlanb.graph.op_library import call_op
from xlanb.graph.operation import Tensor
from xlanb.graph.ops import get_op

# tf.<name> and tf.math.<name> -> op type.
MATH = {
    "subtract": "Sub", "multiply": "Mul", "maximum": "Maximum", "minimum": "Minimum", "mod": "FloorMod",
    "floormod": "FloorMod",
    "realdiv": "RealDiv", "truncatediv": "TruncateDiv", "truncatemod": "TruncateMod", "floor_div": "FloorDiv",
    "squared_difference": "SquaredDifference",
    "exp": "Exp", "expm1": "Expm1", "log": "Log", "log1p": "Log1p", "sqrt": "Sqrt", "rsqrt": "Rsqrt",
    "square": "Square", "negative": "Neg",
    "reciprocal": "Reciprocal", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos",
    "atan": "Atan", "atan2": "Atan2",
    "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
    "erfc": "Erfc",
    "lgamma": "Lgamma", "digamma": "Digamma", "igamma": "Igamma", "igammac": "Igammac", "zeta": "Zeta",
    "polygamma": "Polygamma", "betainc": "Betainc",
    "floor": "Floor", "ceil": "Ceil", "rint": "Rint", "is_nan": "IsNan", "is_inf": "IsInf", "is_finite": "IsFinite",
    "equal": "Equal", "not_equal": "NotEqual", "less": "Less", "less_equal": "LessEqual", "greater": "Greater",
    "greater_equal": "GreaterEqual",
    "logical_and": "LogicalAnd", "logical_or": "LogicalOr", "logical_not": "LogicalNot",
    "segment_sum": "SegmentSum", "unsorted_segment_sum": "UnsortedSegmentSum", "cross": "Cross", "xlogy": "Xlogy",
    "xdivy": "Xdivy",
    "bincount_op": "Bincount", "angle": "Angle", "segment_max": "SegmentMax", "segment_min": "SegmentMin",
    "segment_mean": "SegmentMean",
    "segment_prod": "SegmentProd", "unsorted_segment_max": "UnsortedSegmentMax",
    "unsorted_segment_min": "UnsortedSegmentMin",
    "unsorted_segment_prod": "UnsortedSegmentProd", "multiply_no_nan": "MulNoNan", "ndtri": "Ndtri",
    "erfinv": "Erfinv", "nextafter": "NextAfter",
    "bessel_i0e": "BesselI0e", "bessel_i1e": "BesselI1e", "xlog1py": "Xlog1py",
    "sparse_segment_sum": "SparseSegmentSum",
    "sparse_segment_mean": "SparseSegmentMean", "sparse_segment_sqrt_n": "SparseSegmentSqrtN",
}  # fmt: skip

ARRAY = {
    "gather_nd": "GatherNd", "scatter_nd": "ScatterNd", "invert_permutation": "InvertPermutation", "unique": "Unique",
    "batch_to_space_nd": "BatchToSpaceND",
    "space_to_batch_nd": "SpaceToBatchND", "space_to_depth": "SpaceToDepth", "depth_to_space": "DepthToSpace",
    "reverse_sequence": "ReverseSequence",
    "diag": "Diag", "diag_part": "DiagPart", "matrix_band_part": "MatrixBandPart", "check_numerics": "CheckNumerics",
    "bitcast": "Bitcast",
    "dynamic_stitch": "DynamicStitch", "parallel_dynamic_stitch": "ParallelDynamicStitch",
    "ensure_shape": "EnsureShape",
    "setdiff1d": "ListDiff", "unique_with_counts": "UniqueWithCounts", "guarantee_const": "GuaranteeConst",
    "tensor_scatter_sub": "TensorScatterSub", "tensor_scatter_max": "TensorScatterMax",
    "tensor_scatter_min": "TensorScatterMin",
    "extract_image_patches": "ExtractImagePatches", "mirror_pad": "MirrorPad",
    "tensor_scatter_nd_update": "TensorScatterUpdate",
    "tensor_scatter_nd_add": "TensorScatterAdd", "tensor_scatter_nd_sub": "TensorScatterSub",
    "tensor_scatter_update": "TensorScatterUpdate", "tensor_scatter_add": "TensorScatterAdd",
    "tensor_scatter_nd_max": "TensorScatterMax", "tensor_scatter_nd_min": "TensorScatterMin",
}  # fmt: skip

NN = {
    "relu": "Relu", "elu": "Elu", "selu": "Selu", "softplus": "Softplus", "softsign": "Softsign", "l2_loss": "L2Loss",
    "lrn": "LRN", "local_response_normalization": "LRN", "conv3d": "Conv3D", "max_pool3d": "MaxPool3D",
    "avg_pool3d": "AvgPool3D",
}  # fmt: skip

STRINGS = {
    "as_string": "AsString", "string_join": "StringJoin", "string_to_number": "StringToNumber", "substr": "Substr",
    "string_to_hash_bucket_fast": "StringToHashBucketFast", "regex_replace": "RegexReplace",
    "string_strip": "StringStrip",
    "string_to_hash_bucket": "StringToHashBucket", "string_to_hash_bucket_strong": "StringToHashBucketStrong",
    "string_length": "StringLength",
    "encode_base64": "EncodeBase64", "decode_base64": "DecodeBase64",
}  # fmt: skip

LINALG = {"matrix_determinant": "MatrixDeterminant",
          "cholesky": "Cholesky", "matrix_inverse": "MatrixInverse", "matrix_solve": "MatrixSolve",
          "matrix_triangular_solve": "MatrixTriangularSolve", "qr": "Qr", "svd_op": "Svd"}  # fmt: skip


QUANTIZATION = {
    "fake_quant_with_min_max_args": "FakeQuantWithMinMaxArgs",
    "fake_quant_with_min_max_args_gradient": "FakeQuantWithMinMaxArgsGradient",
    "fake_quant_with_min_max_vars": "FakeQuantWithMinMaxVars",
    "fake_quant_with_min_max_vars_gradient": "FakeQuantWithMinMaxVarsGradient",
    "fake_quant_with_min_max_vars_per_channel": "FakeQuantWithMinMaxVarsPerChannel",
    "fake_quant_with_min_max_vars_per_channel_gradient": "FakeQuantWithMinMaxVarsPerChannelGradient",
}  # fmt: skip

SPECTRAL = {"fft": "FFT", "ifft": "IFFT", "fft2d": "FFT2D", "ifft2d": "IFFT2D", "fft3d": "FFT3D", "ifft3d": "IFFT3D"}

IMAGE = {
    "crop_and_resize": "CropAndResize", "draw_bounding_boxes": "DrawBoundingBoxes",
    "extract_glimpse": "ExtractGlimpse",
}  # fmt: skip


def function_of(op_type: str, name: str) -> Callable[..., Any]:
    """Make the function that builds a node of this type.

    It takes inputs and attributes by position or by the op table's names, and `name`. It returns
    the output, a tuple of several, or the operation if there is none.
    """
    op_def = get_op(op_type)
    order = [a.name for a in op_def.inputs]
    free = [a for a in op_def.attrs if a.name not in op_def.inferred_attrs]
    order += [a.name for a in sorted(free, key=lambda a: a.has_default)]

    several: Any = namedtuple(op_type, [a.name for a in op_def.outputs], rename=True)  # type: ignore[misc]  # noqa: PYI024 - fields are the table's

    def function(*args: Any, name: str | None = None, **named: Any) -> Any:
        if len(args) > len(order):
            raise GraphTypeError(f"{function.__name__} takes at most {len(order)} arguments: {', '.join(order)}")
        given = {**dict(zip(order, args, strict=False)), **named}
        inputs = {a.name: given.pop(a.name) for a in op_def.inputs if a.name in given}
        missing = [a.name for a in op_def.inputs if a.name not in inputs]
        if missing:
            raise GraphTypeError(f"{function.__name__} lacks {', '.join(missing)}")
        outputs = call_op(op_type, *(inputs[a.name] for a in op_def.inputs), name=name, **given).outputs
        return _results(outputs, op_def.outputs, several)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{op_def.doc or op_type} Arguments: {', '.join(order)}."
    return function


def _results(outputs: list[Tensor], definitions: Any, several: Any) -> Any:
    if len(definitions) == 1:
        return list(outputs) if definitions[0].is_list else outputs[0]
    if any(d.is_list for d in definitions):
        return tuple(outputs)
    return several(*outputs)


def functions(table: dict[str, str]) -> dict[str, Callable[..., Any]]:
    """All functions of one of the tables above."""
    return {name: function_of(op_type, name) for name, op_type in table.items()}
