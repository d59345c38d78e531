"""tf.math, tf.linalg, tf.strings and further namespaces that are collections of names.

Source: the public names of TensorFlow 1.15's API and of tf.compat.v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from xlanb.graph.ops import find_op
from xlanb.tf.generated import function_of
from xlanb.tf.missing import missing_name


class Namespace(SimpleNamespace):
    """The members of one namespace.

    An unknown name raises an AttributeError with the reason or the nearest names.
    """

    def __init__(self, namespace: str, members: Mapping[str, Any]) -> None:
        super().__init__(**members)
        self.__dict__["__name__"] = namespace

    def __getattr__(self, name: str) -> Any:
        raise missing_name(self.__dict__.get("__name__", "tf"), name, self.__dict__)


# Each entry is a name of the top level, or `name=source`, where the source is a dotted name of the
# top level or an op type.
_TABLES = {
    "math": """
        abs accumulate_n acos acosh add add_n angle argmax argmin asin asinh atan atan2 atanh bessel_i0=BesselI0
        bessel_i0e bessel_i1=BesselI1 bessel_i1e betainc bincount bincount_op ceil confusion_matrix conj cos cosh
        count_nonzero cross cumprod cumsum cumulative_logsumexp=CumulativeLogsumexp digamma divide
        divide_no_nan=div_no_nan equal erf erfc erfcinv erfinv exp expm1 floor floor_div floordiv floormod greater
        greater_equal igamma igammac imag in_top_k=nn.in_top_k invert_permutation is_finite is_inf is_nan
        is_non_decreasing is_strictly_increasing l2_normalize=nn.l2_normalize lbeta less less_equal lgamma log log1p
        log_sigmoid log_softmax=nn.log_softmax logical_and logical_not logical_or logical_xor maximum minimum mod
        multiply multiply_no_nan ndtri negative nextafter not_equal polygamma polyval pow real realdiv reciprocal
        reciprocal_no_nan reduce_all reduce_any reduce_euclidean_norm reduce_logsumexp reduce_max reduce_mean
        reduce_min reduce_prod reduce_std reduce_sum reduce_variance rint round rsqrt scalar_mul segment_max
        segment_mean segment_min segment_prod segment_sum sigmoid sign sin sinh softmax=nn.softmax
        softplus=nn.softplus softsign=nn.softsign sparse_segment_mean sparse_segment_sqrt_n sparse_segment_sum sqrt
        square squared_difference subtract tan tanh top_k=nn.top_k truediv truncatediv truncatemod
        unsorted_segment_max unsorted_segment_mean unsorted_segment_min unsorted_segment_prod
        unsorted_segment_sqrt_n unsorted_segment_sum xdivy xlog1py xlogy zero_fraction=nn.zero_fraction zeta
    """,
    "linalg": """
        adjoint band_part=matrix_band_part cholesky cholesky_solve cross det=matrix_determinant diag=matrix_diag
        diag_part=matrix_diag_part eigh=self_adjoint_eig eigvalsh=self_adjoint_eigvals einsum eye global_norm
        inv=matrix_inverse l2_normalize=nn.l2_normalize logdet lstsq=matrix_solve_ls matmul matrix_determinant
        matrix_inverse matrix_rank matrix_solve matrix_transpose matrix_triangular_solve matvec norm
        normalize=normalize_by_norm pinv qr set_diag=matrix_set_diag slogdet solve=matrix_solve svd svd_op
        tensor_diag=diag tensor_diag_part=diag_part tensordot trace transpose=matrix_transpose
        triangular_solve=matrix_triangular_solve tridiagonal_matmul=TridiagonalMatMul
        tridiagonal_solve=tridiagonal_solve
    """,
    "strings": """
        as_string format=string_format join=string_join length=string_length lower=StringLower reduce_join
        regex_full_match=RegexFullMatch regex_replace split=split_strings strip=string_strip substr
        to_hash_bucket=string_to_hash_bucket to_hash_bucket_fast=string_to_hash_bucket_fast
        to_hash_bucket_strong=string_to_hash_bucket_strong to_number=string_to_number upper=StringUpper
    """,
    "bitwise": """
        bitwise_and=BitwiseAnd bitwise_or=BitwiseOr bitwise_xor=BitwiseXor invert=Invert left_shift=LeftShift
        right_shift=RightShift
    """,
    "spectral": "fft fft2d fft3d ifft ifft2d ifft3d irfft irfft2d irfft3d rfft rfft2d rfft3d",
    "signal": """
        fft fft2d fft3d fftshift ifft ifft2d ifft3d ifftshift irfft irfft2d irfft3d rfft rfft2d rfft3d
    """,
    "quantization": """
        dequantize=Dequantize fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient
        fake_quant_with_min_max_vars fake_quant_with_min_max_vars_gradient fake_quant_with_min_max_vars_per_channel
        fake_quant_with_min_max_vars_per_channel_gradient
    """,
    "random": """
        all_candidate_sampler=AllCandidateSampler categorical=_categorical
        fixed_unigram_candidate_sampler=nn.fixed_unigram_candidate_sampler get_seed
        learned_unigram_candidate_sampler=nn.learned_unigram_candidate_sampler
        log_uniform_candidate_sampler=nn.log_uniform_candidate_sampler multinomial normal=random_normal
        set_random_seed shuffle=random_shuffle stateless_categorical=stateless_multinomial
        stateless_multinomial stateless_normal=stateless_random_normal
        stateless_truncated_normal stateless_uniform=stateless_random_uniform truncated_normal
        uniform=random_uniform uniform_candidate_sampler=nn.uniform_candidate_sampler
    """,
    "sparse": """
        SparseTensor add=sparse_add fill_empty_rows=SparseFillEmptyRows from_dense=_dense_to_sparse
        matmul=sparse_tensor_dense_matmul placeholder=sparse_placeholder reduce_sum=sparse_reduce_sum
        reorder=sparse_reorder reshape=sparse_reshape retain=sparse_retain segment_mean=sparse_segment_mean
        segment_sqrt_n=sparse_segment_sqrt_n segment_sum=sparse_segment_sum softmax=sparse_softmax
        sparse_dense_matmul=sparse_tensor_dense_matmul to_dense=sparse_tensor_to_dense transpose=sparse_transpose
    """,
    "debugging": """
        Assert assert_all_finite=verify_tensor_all_finite assert_equal assert_greater assert_greater_equal
        assert_integer assert_less assert_less_equal assert_near assert_negative assert_non_negative
        assert_non_positive assert_none_equal assert_positive assert_proper_iterable assert_rank
        assert_rank_at_least assert_rank_in assert_same_float_dtype assert_scalar assert_type check_numerics
        is_finite is_inf is_nan is_non_decreasing is_numeric_tensor is_strictly_increasing
    """,
    "io": "decode_base64 decode_raw encode_base64 gfile write_graph=train.write_graph",
    "queue": "FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue",
    "manip": """
        batch_to_space_nd gather_nd reshape reverse roll scatter_nd space_to_batch_nd tile
    """,
    "graph_util": """
        as_graph_def=_as_graph_def convert_variables_to_constants extract_sub_graph import_graph_def
    """,
    "version": "COMPILER_VERSION GIT_VERSION GRAPH_DEF_VERSION VERSION",
}


def namespaces(top: Mapping[str, Any]) -> dict[str, Namespace]:
    """Make all namespaces from the names of the top level."""
    return {namespace: Namespace(f"tf.{namespace}", dict(_members(table, top))) for namespace, table in _TABLES.items()}


def _members(table: str, top: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, _find(source or name, name, top)) for name, _, source in (e.partition("=") for e in table.split())]


def _find(source: str, name: str, top: Mapping[str, Any]) -> Any:
    first, _, rest = source.partition(".")
    if first in top:
        return getattr(top[first], rest) if rest else top[first]
    if find_op(source) is None:
        raise LookupError(f"{name}: neither a name of the top level nor an op type: {source}")
    return function_of(source, name)
