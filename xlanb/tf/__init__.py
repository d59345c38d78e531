"""`import xlanb.tf as tf`: TensorFlow 1's names, for programs of its time."""

# ruff: noqa: F401, N813 - names for programs to use, under TensorFlow's spelling

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from xlanb import tf2xla as _shapes
from xlanb.graph import dtypes as _dtypes
from xlanb.graph.builders import initializers as _initializers
from xlanb.graph.builders import nest as _nest
from xlanb.graph.builders.array_ops import (
    boolean_mask,
    broadcast_to,
    concat,
    expand_dims,
    fill,
    gather,
    identity,
    matrix_transpose,
    one_hot,
    ones,
    ones_like,
    pad,
    placeholder,
    placeholder_with_default,
    rank,
    reshape,
    reverse,
    shape,
    shape_n,
    size,
    split,
    squeeze,
    stack,
    stop_gradient,
    strided_slice,
    tile,
    transpose,
    unstack,
    where,
    where_v2,
    zeros,
    zeros_like,
)
from xlanb.graph.builders.array_ops import slice_ as slice  # noqa: A004
from xlanb.graph.builders.clip_ops import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm
from xlanb.graph.builders.control_flow import assert_that as Assert  # noqa: N812
from xlanb.graph.builders.control_flow import case, cond, while_loop
from xlanb.graph.builders.control_ops import group, no_op
from xlanb.graph.builders.control_ops import tuple_ as tuple  # noqa: A004
from xlanb.graph.builders.functional import foldl, foldr, map_fn, scan
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.builders.initializers import (
    Constant as constant_initializer,
)
from xlanb.graph.builders.initializers import (
    Ones as ones_initializer,
)
from xlanb.graph.builders.initializers import (
    Orthogonal as orthogonal_initializer,
)
from xlanb.graph.builders.initializers import (
    RandomNormal as random_normal_initializer,
)
from xlanb.graph.builders.initializers import (
    RandomUniform as random_uniform_initializer,
)
from xlanb.graph.builders.initializers import (
    TruncatedNormal as truncated_normal_initializer,
)
from xlanb.graph.builders.initializers import (
    VarianceScaling as variance_scaling_initializer,
)
from xlanb.graph.builders.initializers import (
    Zeros as zeros_initializer,
)
from xlanb.graph.builders.initializers import (
    glorot_normal as glorot_normal_initializer,
)
from xlanb.graph.builders.initializers import (
    glorot_uniform as glorot_uniform_initializer,
)
from xlanb.graph.builders.loss_ops import log_softmax as _log_softmax
from xlanb.graph.builders.loss_ops import softmax as _softmax
from xlanb.graph.builders.math_ops import (
    abs,  # noqa: A004
    add,
    add_n,
    argmax,
    argmin,
    cast,
    complex,  # noqa: A004
    conj,
    cumprod,
    cumsum,
    div,
    div_no_nan,
    divide,
    floordiv,
    imag,
    log_sigmoid,
    logical_xor,
    matmul,
    pow,  # noqa: A004
    range,  # noqa: A004
    real,
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    round,  # noqa: A004
    scalar_mul,
    sigmoid,
    sign,
    tensordot,
    truediv,
)
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.nn_ops import l2_normalize as _l2_normalize
from xlanb.graph.builders.nn_ops import sequence_mask
from xlanb.graph.builders.random_ops import (
    get_seed,
    random_normal,
    random_shuffle,
    random_uniform,
    set_random_seed,
    truncated_normal,
)
from xlanb.graph.builders.tensor_array import TensorArray
from xlanb.graph.builders.variable_scope import (
    AUTO_REUSE,
    VariableScope,
    disable_resource_variables,
    enable_resource_variables,
    get_variable,
    get_variable_scope,
    variable_scope,
)
from xlanb.graph.builders.variables import (
    GraphKeys,
    Variable,
    global_variables,
    global_variables_initializer,
    local_variables,
    local_variables_initializer,
    model_variables,
    moving_average_variables,
    trainable_variables,
    variables_initializer,
)
from xlanb.graph.constant_value import constant_value as _constant_value
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph, reset_default_graph
from xlanb.graph.default_session import get_default_session
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.gradients import AggregationMethod, gradients
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.tensor_shape import Dimension, TensorShape
from xlanb.runtime.config import (
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RunMetadata,
    RunOptions,
)
from xlanb.runtime.registered_ops import registered_ops
from xlanb.runtime.session import InteractiveSession, Session
from xlanb.tf import (
    contrib,
    data,
    distributions,
    errors,
    estimator,
    flags,
    gfile,
    image,
    keras,
    layers,
    logging,
    losses,
    metrics,
    nn,
    profiler,
    python,
    summary,
    test,
    train,
)
from xlanb.tf import tables as _lookup
from xlanb.tf.arrays import (
    accumulate_n,
    argsort,
    batch_gather,
    broadcast_dynamic_shape,
    broadcast_static_shape,
    confusion_matrix,
    count_nonzero,
    dynamic_partition,
    einsum,
    eye,
    hessians,
    identity_n,
    linspace,
    matrix_diag,
    matrix_diag_part,
    matrix_set_diag,
    meshgrid,
    multinomial,
    norm,
    parallel_stack,
    random_crop,
    repeat,
    roll,
    saturate_cast,
    searchsorted,
    sort,
    trace,
    unravel_index,
)
from xlanb.tf.arrays import (
    categorical as _categorical,
)
from xlanb.tf.checks import (
    add_check_numerics_ops,
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_integer,
    assert_less,
    assert_less_equal,
    assert_near,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
    assert_proper_iterable,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
    assert_same_float_dtype,
    assert_scalar,
    assert_type,
    assert_variables_initialized,
    is_non_decreasing,
    is_numeric_tensor,
    is_strictly_increasing,
    is_variable_initialized,
    report_uninitialized_variables,
    verify_tensor_all_finite,
)
from xlanb.tf.custom import NoGradient, NotDifferentiable, RegisterGradient, custom_gradient, grad_pass_through
from xlanb.tf.deprecated import (
    batch_to_space,
    op_scope,
    space_to_batch,
    to_bfloat16,
    to_complex64,
    to_complex128,
    variable_op_scope,
)
from xlanb.tf.fourier import fftshift, ifftshift, irfft, irfft2d, irfft3d, rfft, rfft2d, rfft3d
from xlanb.tf.function import TensorSpec, function
from xlanb.tf.generated import ARRAY, LINALG, MATH, QUANTIZATION, SPECTRAL, STRINGS, functions
from xlanb.tf.graph_defs import (
    GraphDef,
    convert_variables_to_constants,
    extract_sub_graph,
    import_graph_def,
    make_ndarray,
    make_tensor_proto,
)
from xlanb.tf.graph_defs import (
    as_graph_def as _as_graph_def,
)
from xlanb.tf.histograms import (
    bincount,
    histogram_fixed_width,
    histogram_fixed_width_bins,
    unsorted_segment_mean,
    unsorted_segment_sqrt_n,
)
from xlanb.tf.initializers import Identity, UniformUnitScaling, he_normal, he_uniform, lecun_normal, lecun_uniform
from xlanb.tf.linalg import (
    adjoint,
    cholesky_solve,
    logdet,
    matrix_rank,
    matrix_solve_ls,
    matvec,
    normalize_by_norm,
    pinv,
    self_adjoint_eig,
    self_adjoint_eigvals,
    slogdet,
    svd,
    tridiagonal_solve,
)
from xlanb.tf.math_functions import (
    clip_by_average_norm,
    erfcinv,
    lbeta,
    polyval,
    reciprocal_no_nan,
    reduce_euclidean_norm,
    reduce_std,
    reduce_variance,
)
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest
from xlanb.tf.namespaces import Namespace, namespaces
from xlanb.tf.queues import FIFOQueue, PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
from xlanb.tf.scripts import numpy_function, print_tensor, py_func, py_function
from xlanb.tf.sparse import (
    SparseTensor,
    SparseTensorValue,
    sparse_add,
    sparse_placeholder,
    sparse_reduce_sum,
    sparse_reorder,
    sparse_reshape,
    sparse_retain,
    sparse_softmax,
    sparse_tensor_dense_matmul,
    sparse_tensor_to_dense,
    sparse_to_dense,
    sparse_transpose,
)
from xlanb.tf.sparse import dense_to_sparse as _dense_to_sparse
from xlanb.tf.stateless import (
    stateless_multinomial,
    stateless_random_normal,
    stateless_random_uniform,
    stateless_truncated_normal,
)
from xlanb.tf.states import (
    scatter_add,
    scatter_div,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_nd_add,
    scatter_nd_sub,
    scatter_nd_update,
    scatter_sub,
    scatter_update,
)
from xlanb.tf.strings import decode_raw, reduce_join, split_strings, string_format, string_split
from xlanb.tf.strings import print_ as print  # noqa: A004
from xlanb.tf.tables import tables_initializer
from xlanb.tf.template import make_template
from xlanb.tf.versions import COMPILER_VERSION, GIT_VERSION, GRAPH_DEF_VERSION, VERSION

globals().update(functions(MATH))
globals().update(functions(ARRAY))
globals().update(functions(LINALG))
globals().update(functions(STRINGS))
globals().update(functions(SPECTRAL))
globals().update(functions(QUANTIZATION))
globals().update({name: t for name, t in _dtypes.BY_NAME.items() if "_ref" not in name})

all_variables = global_variables
initialize_all_variables = global_variables_initializer
initialize_variables = variables_initializer
initialize_local_variables = local_variables_initializer
reverse_v2 = reverse
lin_space = linspace
arg_max, arg_min = argmax, argmin
Print = print_tensor
newaxis = None
initializers = SimpleNamespace(
    zeros=_initializers.Zeros, ones=_initializers.Ones, constant=_initializers.Constant,
    random_uniform=_initializers.RandomUniform,
    random_normal=_initializers.RandomNormal, truncated_normal=_initializers.TruncatedNormal,
    variance_scaling=_initializers.VarianceScaling,
    glorot_uniform=_initializers.glorot_uniform, glorot_normal=_initializers.glorot_normal,
    orthogonal=_initializers.Orthogonal,
    identity=Identity, he_normal=he_normal, he_uniform=he_uniform, lecun_normal=lecun_normal,
    lecun_uniform=lecun_uniform,
    global_variables=global_variables_initializer, local_variables=local_variables_initializer,
    variables=variables_initializer,
)  # fmt: skip


def device(device_name_or_function: Any) -> Any:
    """Ask for a device for the nodes made inside."""
    return get_default_graph().device(device_name_or_function)


def control_dependencies(control_inputs: Any) -> Any:
    """Let the nodes made inside wait for these."""
    return get_default_graph().control_dependencies(control_inputs)


def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """Place the nodes made inside with another."""
    return get_default_graph().colocate_with(op, ignore_existing)


def add_to_collection(name: str, value: Any) -> None:
    """Append to a collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """A collection of the default graph."""
    return get_default_graph().get_collection(key, scope)


def assign(ref: Any, value: Any, validate_shape: Any = None, use_locking: bool = True, name: str | None = None) -> Any:
    """Set a variable."""
    return ref.assign(value, use_locking=use_locking, name=name)


def assign_add(ref: Any, value: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Add to a variable."""
    return ref.assign_add(value, use_locking=use_locking, name=name)


def assign_sub(ref: Any, value: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Subtract from a variable."""
    return ref.assign_sub(value, use_locking=use_locking, name=name)


def to_float(x: Any, name: str = "ToFloat") -> Any:
    """As float32."""
    return cast(x, _dtypes.float32, name)


def to_double(x: Any, name: str = "ToDouble") -> Any:
    """As float64."""
    return cast(x, _dtypes.float64, name)


def to_int64(x: Any, name: str = "ToInt64") -> Any:
    """As int64."""
    return cast(x, _dtypes.int64, name)


def get_collection_ref(key: str) -> list[Any]:
    """A collection of the default graph itself, not a copy."""
    return get_default_graph().get_collection_ref(key)


def add_to_collections(names: Any, value: Any) -> None:
    """Append to several collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


def get_local_variable(name: str, *args: Any, **kwargs: Any) -> Any:
    """The variable of that name, a local one that is not trained."""
    kwargs.update(trainable=False, collections=[GraphKeys.LOCAL_VARIABLES])
    return get_variable(name, *args, **kwargs)


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """The value of a tensor that is known while the graph is built, else None."""
    return _constant_value(tensor)


def is_tensor(x: Any) -> bool:
    """Whether this is a tensor, a variable or IndexedSlices."""
    return isinstance(x, Tensor | Variable | IndexedSlices)


def executing_eagerly() -> bool:
    """No: there are graphs alone here."""
    return False


def disable_eager_execution() -> None:
    """Do nothing: there is no eager execution."""


def disable_v2_behavior() -> None:
    """Do nothing: this is version 1."""


def to_int32(x: Any, name: str = "ToInt32") -> Any:
    """As int32."""
    return cast(x, _dtypes.int32, name)


def dimension_value(dimension: Any) -> Any:
    """Return a dimension as a number, or None if unknown."""
    return getattr(dimension, "value", dimension)


app = SimpleNamespace(run=flags.run, flags=flags)
uniform_unit_scaling_initializer = UniformUnitScaling
initialize_all_tables = tables_initializer
OpError = errors.OpError
dtypes = Namespace(
    "tf.dtypes",
    {n: x for n, x in vars(_dtypes).items() if not n.startswith("_")}
    | {**_dtypes.BY_NAME, "cast": cast, "complex": complex, "as_string": functions(STRINGS)["as_string"]}
    | {"saturate_cast": saturate_cast, "bool": _dtypes.bool_, "double": _dtypes.float64, "half": _dtypes.float16},
)
nest = _nest
lookup = _lookup
sysconfig = SimpleNamespace(CXX11_ABI_FLAG=0, MONOLITHIC_BUILD=0)
UnconnectedGradients = SimpleNamespace(NONE="none", ZERO="zero")
globals().update(namespaces(globals()))
__version__ = VERSION
__getattr__ = _naming_the_nearest(__name__)

# Last, for it is this module under another name.
from xlanb.tf import compat  # noqa: E402
