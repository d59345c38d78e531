"""The one table of HLO opcodes: name, arity, kind, attributes, a one-line description.

Parser, printer, verifier, builder, shape inference, evaluator and the documentation read this
table. Opcode names and arities are those of xla/hlo/ir/hlo_opcode.h. Attributes are in the order in
which XLA prints them (hlo_instructions.cc). Semantics are XLA's
(openxla.org/xla/operation_semantics).
"""

from __future__ import annotations

from enum import Enum
from functools import cache

from xlanb.lazy_dataclass import dataclass

VARIADIC = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an opcode.

    `kind` says how its text is parsed and printed, and what the value is:

    - "int", "bool", "float", "string" (quoted in the text).
    - "ints" and "int_lists" (tuples of int, and of such tuples).
    - "window", "padding", "slices", "dim_labels" (attributes.py).
    - "computation", "computations" (a tuple), "literal", "shape", "shapes" (a tuple),
      "precisions" (a tuple of str).
    - The keywords of parse_attributes.WORDS, as str: "direction", "comparison_type",
      "comparison_order", "fft_type", "fusion_kind", "distribution", "rng_algorithm",
      "dot_algorithm", "padding_type", "schedule", "api_version", "transpose", "conv_kind",
      "group_mode".
    - XLA's canonical text, as str: "replica_groups", "aliasing", "bools", "accuracy", "domain",
      "sparsity", "scaling".

    `default` is the value if the attribute is absent, and is not printed. `required` attributes
    must be present.
    """

    name: str
    kind: str
    default: object = None
    required: bool = False


@cache
def _attributes(spec: str) -> tuple[Attribute, ...]:
    return tuple(map(_attribute, spec.split()))


@cache
def _attribute(text: str) -> Attribute:
    """`name:kind`, with `!` if required and `=value` for a default that is not printed."""
    name, _, rest = text.partition(":")
    kind, _, default = rest.partition("=")
    value: object = None
    if default:
        value = {"true": True, "false": False, "()": ()}.get(default, default)
        value = int(default) if default.lstrip("-").isdigit() else value
    return Attribute(name, kind.rstrip("!"), value, kind.endswith("!"))


_WINDOW = "window:window"
_CONV = (
    "window:window dim_labels:dim_labels! feature_group_count:int=1 batch_group_count:int=1 "
    "operand_precision:precisions convolution_kind:conv_kind=unset sparsity_config:sparsity "
    "block_scaling_config:scaling algorithm:dot_algorithm=unset"
)
_GROUPS = "channel_id:int replica_groups:replica_groups"
_COLLECTIVE = f"{_GROUPS} constrain_layout:bool=false use_global_device_ids:bool=false"
_GATHERING = f"{_GROUPS} constrain_layout:bool=false dimensions:ints! use_global_device_ids:bool=false"
_PERMUTE = "channel_id:int source_target_pairs:int_lists! slice_sizes:int_lists"
_REDUCING = f"{_COLLECTIVE} to_apply:computation! mode:group_mode"
_ASYNC = "async_execution_thread:string=main calls:computation output_to_operand_aliasing:aliasing"
_DOT = "lhs_batch_dims:ints=() lhs_contracting_dims:ints rhs_batch_dims:ints=() rhs_contracting_dims:ints"
_CUSTOM = (
    "window:window dim_labels:dim_labels feature_group_count:int=1 batch_group_count:int=1 "
    "operand_precision:precisions padding_type:padding_type=PADDING_INVALID "
    "custom_call_target:string! operand_layout_constraints:shapes "
    "custom_call_has_side_effect:bool=false literal:literal "
    "output_to_operand_aliasing:aliasing schedule:schedule=SCHEDULE_NONE api_version:api_version=API_VERSION_ORIGINAL "
    "to_apply:computation called_computations:computations"
)

_COMMUTATIVE = frozenset("add multiply mulhi maximum minimum and or xor".split())
_SIDE_EFFECT = frozenset(
    "infeed outfeed send send-done recv recv-done rng-get-and-update-state domain "
    "all-gather-start all-gather-done all-reduce-start all-reduce-done".split()
)


class HloOpcode(Enum):
    """Every HLO opcode: text, arity (None: variadic), kind, attributes, description.

    Each member has these as fields; `str(opcode)` is XLA's text.
    """

    def __init__(self, text: str, arity: int | None, kind: str, attributes: str, summary: str) -> None:
        self.text = text
        self.arity = arity
        self.kind = kind
        self.attributes = _attributes(attributes)
        self.attribute = {a.name: a for a in self.attributes}
        self.summary = summary
        self.is_elementwise = kind == "elementwise"
        self.may_call = any(a.kind in {"computation", "computations"} for a in self.attributes)
        self.is_commutative = text in _COMMUTATIVE
        self.has_side_effect = text in _SIDE_EFFECT

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    # Members are equal only if identical. Enum's own __hash__ is a Python call, too slow for hot
    # dictionaries.
    __hash__ = object.__hash__

    # fmt: off
    ABS = "abs", 1, "elementwise", "", "absolute value; of a complex number its modulus, real"
    ACOS = "acos", 1, "elementwise", "result_accuracy:accuracy", "arc cosine"
    ACOSH = "acosh", 1, "elementwise", "result_accuracy:accuracy", "inverse hyperbolic cosine"
    ADD = "add", 2, "elementwise", "", "sum; logical or for pred"
    ADD_DEPENDENCY = "add-dependency", 2, "token", "", "the first operand, after the token is available"
    AFTER_ALL = "after-all", VARIADIC, "token", "", "a token that waits for all operands"
    ALL_GATHER = (
        "all-gather",
        VARIADIC,
        "collective",
        _GATHERING,
        "concatenation of all participants' operands along a dimension",
    )
    ALL_GATHER_DONE = "all-gather-done", 1, "async", "", "the result of an all-gather-start"
    ALL_GATHER_START = "all-gather-start", VARIADIC, "async", _GATHERING, "starts an all-gather"
    ALL_REDUCE = "all-reduce", VARIADIC, "collective", _REDUCING, "reduction over all participants"
    ALL_REDUCE_DONE = "all-reduce-done", 1, "async", "", "the result of an all-reduce-start"
    ALL_REDUCE_START = "all-reduce-start", VARIADIC, "async", _REDUCING, "starts an all-reduce"
    ALL_TO_ALL = (
        "all-to-all", VARIADIC, "collective",
        f"{_GROUPS} constrain_layout:bool=false dimensions:ints",
        "each participant sends one piece of its operand to every participant",
    )
    AND = "and", 2, "elementwise", "", "bitwise and; logical for pred"
    ASIN = "asin", 1, "elementwise", "result_accuracy:accuracy", "arc sine"
    ASINH = "asinh", 1, "elementwise", "result_accuracy:accuracy", "inverse hyperbolic sine"
    ASYNC_DONE = "async-done", 1, "async", _ASYNC, "the result of an async-start"
    ASYNC_START = "async-start", VARIADIC, "async", _ASYNC, "starts a computation that may run asynchronously"
    ASYNC_UPDATE = "async-update", VARIADIC, "async", _ASYNC, "a step of an asynchronous computation"
    ATAN = "atan", 1, "elementwise", "", "arc tangent"
    ATAN2 = "atan2", 2, "elementwise", "", "angle of the point (second, first)"
    ATANH = "atanh", 1, "elementwise", "result_accuracy:accuracy", "inverse hyperbolic tangent"
    BATCH_NORM_GRAD = (
        "batch-norm-grad", 5, "nn", "epsilon:float! feature_index:int!",
        "gradients of batch normalisation",
    )
    BATCH_NORM_INFERENCE = (
        "batch-norm-inference", 5, "nn", "epsilon:float! feature_index:int!",
        "batch normalisation with given mean and variance",
    )
    BATCH_NORM_TRAINING = (
        "batch-norm-training",
        3,
        "nn",
        "epsilon:float! feature_index:int!",
        "batch normalisation with the batch's mean and variance, which are also returned",
    )
    BITCAST = "bitcast", 1, "data", "", "the same bytes under another shape and layout"
    BITCAST_CONVERT = "bitcast-convert", 1, "data", "", "the same bits under another element type"
    BROADCAST = (
        "broadcast", 1, "data", "dimensions:ints",
        "operand dimension i becomes result dimension dimensions[i]; others are broadcast",
    )
    CALL = (
        "call", VARIADIC, "control", "to_apply:computation! is_composite:bool=false",
        "the computation applied to the operands",
    )
    CBRT = "cbrt", 1, "elementwise", "result_accuracy:accuracy", "cube root"
    CEIL = "ceil", 1, "elementwise", "", "round up"
    CHOLESKY = "cholesky", 1, "linalg", "lower:bool=false", "Cholesky factor of a batch of matrices"
    CLAMP = "clamp", 3, "elementwise", "", "the second operand clamped to between the first and the third"
    COLLECTIVE_BROADCAST = (
        "collective-broadcast", VARIADIC, "collective", f"{_GROUPS} has_dynamic_root:bool=false",
        "one participant's operand, sent to all participants",
    )
    COLLECTIVE_PERMUTE = (
        "collective-permute",
        VARIADIC,
        "collective",
        _PERMUTE,
        "operands sent from sources to targets",
    )
    COLLECTIVE_PERMUTE_DONE = "collective-permute-done", 1, "async", "", "the result of a collective-permute-start"
    COLLECTIVE_PERMUTE_START = (
        "collective-permute-start",
        VARIADIC,
        "async",
        _PERMUTE,
        "begins a collective-permute",
    )
    COLLECTIVE_REDUCE = (
        "collective-reduce",
        VARIADIC,
        "collective",
        f"{_COLLECTIVE} to_apply:computation has_dynamic_root:bool=false",
        "reduction over all participants, returned by one",
    )
    COMPARE = (
        "compare", 2, "elementwise",
        "direction:direction! type:comparison_type order:comparison_order",
        "predicate: EQ NE GE GT LE LT, by float, total order, signed or unsigned",
    )
    COMPLEX = "complex", 2, "elementwise", "", "complex number of a real and an imaginary part"
    CONCATENATE = "concatenate", VARIADIC, "data", "dimensions:ints!", "operands concatenated along a dimension"
    CONDITIONAL = (
        "conditional",
        VARIADIC,
        "control",
        "true_computation:computation false_computation:computation branch_computations:computations",
        "the branch that the first operand selects, applied to its own operand",
    )
    CONSTANT = "constant", 0, "leaf", "literal:literal!", "a literal"
    CONVERT = "convert", 1, "elementwise", "", "the same values in another element type"
    CONVOLUTION = (
        "convolution", VARIADIC, "nn", _CONV,
        "convolution as in neural networks (no reversal unless the window says so)",
    )
    COPY = "copy", 1, "data", "cross_program_prefetch_index:int", "a copy, possibly in another layout"
    COPY_DONE = "copy-done", 1, "async", "", "the result of a copy-start"
    COPY_START = "copy-start", 1, "async", "cross_program_prefetch_index:int", "begins a copy"
    COSH = "cosh", 1, "elementwise", "result_accuracy:accuracy", "hyperbolic cosine"
    COSINE = "cosine", 1, "elementwise", "result_accuracy:accuracy", "cosine"
    COUNT_LEADING_ZEROS = "count-leading-zeros", 1, "elementwise", "", "number of zero bits above the highest one"
    CUSTOM_CALL = "custom-call", VARIADIC, "control", _CUSTOM, "a function known to the backend by name"
    DIVIDE = (
        "divide", 2, "elementwise", "",
        "quotient; integers round towards zero, x/0 is -1 (all ones), lowest/-1 is lowest",
    )
    DOMAIN = "domain", 1, "control", "domain:domain!", "marks the border between two domains"
    DOT = (
        "dot",
        2,
        "linalg",
        f"{_DOT} operand_precision:precisions sparsity_config:sparsity "
        "block_scaling_config:scaling algorithm:dot_algorithm=unset",
        "sum of products over contracting dimensions; batch dimensions first, then the lhs' rest, then the rhs'",
    )
    DYNAMIC_RESHAPE = "dynamic-reshape", VARIADIC, "dynamic", "", "reshape to sizes known at run time"
    DYNAMIC_SLICE = (
        "dynamic-slice", VARIADIC, "data", "dynamic_slice_sizes:ints!",
        "a slice at start indices, which are clamped to fit",
    )
    DYNAMIC_UPDATE_SLICE = (
        "dynamic-update-slice", VARIADIC, "data", "",
        "the first operand with a slice overwritten at clamped start indices",
    )
    ERF = "erf", 1, "elementwise", "result_accuracy:accuracy", "error function"
    EXPONENTIAL = "exponential", 1, "elementwise", "result_accuracy:accuracy", "e to the power of the operand"
    EXPONENTIAL_MINUS_ONE = (
        "exponential-minus-one", 1, "elementwise", "result_accuracy:accuracy",
        "e to the power, minus one, accurate near zero",
    )
    FFT = "fft", 1, "linalg", "fft_type:fft_type! fft_length:ints!", "FFT, IFFT, RFFT or IRFFT over the last dimensions"
    FLOOR = "floor", 1, "elementwise", "", "round down"
    FUSION = (
        "fusion", VARIADIC, "control",
        "kind:fusion_kind! output_to_operand_aliasing:aliasing calls:computation!",
        "a computation compiled into one kernel",
    )
    GATHER = (
        "gather",
        2,
        "data",
        "offset_dims:ints! collapsed_slice_dims:ints! start_index_map:ints! operand_batching_dims:ints=() "
        "start_indices_batching_dims:ints=() index_vector_dim:int! slice_sizes:ints! indices_are_sorted:bool=false",
        "slices of the operand at the given, clamped indices",
    )
    GET_DIMENSION_SIZE = "get-dimension-size", 1, "dynamic", "dimensions:ints!", "size of a dimension at run time, s32"
    GET_TUPLE_ELEMENT = "get-tuple-element", 1, "data", "index:int!", "one element of a tuple"
    IMAG = "imag", 1, "elementwise", "", "imaginary part"
    INFEED = "infeed", 1, "side", "infeed_config:string", "data from the host"
    IOTA = "iota", 0, "leaf", "iota_dimension:int!", "the index along a dimension"
    IS_FINITE = "is-finite", 1, "elementwise", "", "whether neither infinite nor NaN"
    LOG = "log", 1, "elementwise", "result_accuracy:accuracy", "natural logarithm"
    LOG_PLUS_ONE = (
        "log-plus-one", 1, "elementwise", "result_accuracy:accuracy",
        "logarithm of one plus, accurate near zero",
    )
    LOGISTIC = "logistic", 1, "elementwise", "result_accuracy:accuracy", "1 / (1 + exp(-x))"
    MAP = (
        "map", VARIADIC, "control", "dimensions:ints to_apply:computation!",
        "a scalar computation applied to every element",
    )
    MAXIMUM = "maximum", 2, "elementwise", "", "the larger; NaN if either is NaN"
    MINIMUM = "minimum", 2, "elementwise", "", "the smaller; NaN if either is NaN"
    MULHI = "mulhi", 2, "elementwise", "", "upper half of the product"
    MULTIPLY = "multiply", 2, "elementwise", "", "product; logical and for pred"
    NEGATE = "negate", 1, "elementwise", "", "minus"
    NOT = "not", 1, "elementwise", "", "bitwise not; logical for pred"
    OPT_BARRIER = "opt-barrier", 1, "control", "", "the operand; prevents optimizations across it"
    OR = "or", 2, "elementwise", "", "bitwise or; logical for pred"
    OUTFEED = "outfeed", 2, "side", "outfeed_shape:shape outfeed_config:string", "data to the host"
    PAD = "pad", 2, "data", "padding:padding!", "the operand padded with a scalar; negative padding removes elements"
    PARAMETER = (
        "parameter", 0, "leaf", "parameter_number:int! parameter_replication:bools",
        "argument of the computation",
    )
    PARTITION_ID = "partition-id", 0, "leaf", "", "number of this partition, u32"
    POPCNT = "popcnt", 1, "elementwise", "", "number of one bits"
    POWER = "power", 2, "elementwise", "", "first to the power of the second"
    RAGGED_ALL_TO_ALL = (
        "ragged-all-to-all", 6, "collective", f"{_GROUPS} dimensions:ints",
        "all-to-all of slices with sizes and offsets known at run time",
    )
    RAGGED_DOT = (
        "ragged-dot",
        3,
        "linalg",
        f"{_DOT} lhs_ragged_dims:ints=() rhs_group_dims:ints=() operand_precision:precisions "
        "algorithm:dot_algorithm=unset",
        "dot with one group of rows per matrix",
    )
    REAL = "real", 1, "elementwise", "", "real part"
    RECV = "recv", 1, "side", "channel_id:int is_host_transfer:bool=false", "starts to receive"
    RECV_DONE = "recv-done", 1, "side", "channel_id:int is_host_transfer:bool=false", "the received data"
    REDUCE = (
        "reduce", VARIADIC, "reduction", "dimensions:ints! to_apply:computation!",
        "dimensions reduced by a computation from initial values",
    )
    REDUCE_PRECISION = (
        "reduce-precision", 1, "elementwise", "exponent_bits:int! mantissa_bits:int!",
        "rounded to the given number of exponent and mantissa bits",
    )
    REDUCE_SCATTER = (
        "reduce-scatter",
        VARIADIC,
        "collective",
        f"{_COLLECTIVE} dimensions:ints! to_apply:computation! mode:group_mode",
        "reduction over all participants, each keeping its piece",
    )
    REDUCE_WINDOW = (
        "reduce-window",
        VARIADIC,
        "reduction",
        f"{_WINDOW} to_apply:computation!",
        "each window reduced by a computation from initial values",
    )
    REMAINDER = "remainder", 2, "elementwise", "", "remainder with the dividend's sign; x%0 is x"
    REPLICA_ID = "replica-id", 0, "leaf", "", "number of this replica, u32"
    RESHAPE = (
        "reshape", 1, "data", "inferred_dimension:int",
        "the same elements in row-major order under other dimensions",
    )
    REVERSE = "reverse", 1, "data", "dimensions:ints!", "dimensions reversed"
    RNG = "rng", VARIADIC, "random", "distribution:distribution!", "random numbers of a distribution, from hidden state"
    RNG_BIT_GENERATOR = (
        "rng-bit-generator", 1, "random", "algorithm:rng_algorithm!",
        "new state and random bits from a state",
    )
    RNG_GET_AND_UPDATE_STATE = "rng-get-and-update-state", 0, "random", "delta:int!", "hidden state, advanced by delta"
    ROUND_NEAREST_AFZ = "round-nearest-afz", 1, "elementwise", "", "round to nearest, ties away from zero"
    ROUND_NEAREST_EVEN = "round-nearest-even", 1, "elementwise", "", "round to nearest, ties to even"
    RSQRT = "rsqrt", 1, "elementwise", "result_accuracy:accuracy", "1 / sqrt(x)"
    SCALED_DOT = (
        "scaled-dot", 4, "linalg",
        f"{_DOT} operand_precision:precisions algorithm:dot_algorithm=unset",
        "dot of operands that are scaled block by block",
    )
    SCAN = (
        "scan",
        VARIADIC,
        "reduction",
        "dimensions:ints! num_carries:int! is_reverse:bool=false is_associative:bool to_apply:computation!",
        "running reduction along a dimension",
    )
    SCATTER = (
        "scatter",
        VARIADIC,
        "data",
        "update_window_dims:ints! inserted_window_dims:ints! scatter_dims_to_operand_dims:ints! "
        "input_batching_dims:ints=() scatter_indices_batching_dims:ints=() index_vector_dim:int! "
        "indices_are_sorted:bool=false unique_indices:bool=false to_apply:computation!",
        "updates combined into the operand at indices; those out of bounds are skipped",
    )
    SELECT = "select", 3, "elementwise", "", "the second operand where the first is true, else the third"
    SELECT_AND_SCATTER = (
        "select-and-scatter",
        3,
        "reduction",
        f"{_WINDOW} select:computation! scatter:computation!",
        "each source element combined in at the position selected in its window",
    )
    SEND = "send", 2, "side", "channel_id:int is_host_transfer:bool=false", "starts to send"
    SEND_DONE = "send-done", 1, "side", "channel_id:int is_host_transfer:bool=false", "completes a send"
    SET_DIMENSION_SIZE = (
        "set-dimension-size", 2, "dynamic", "dimensions:ints!",
        "the operand with a dimension's size set",
    )
    SHIFT_LEFT = "shift-left", 2, "elementwise", "", "shift left; 0 if the shift is at least the width"
    SHIFT_RIGHT_ARITHMETIC = (
        "shift-right-arithmetic", 2, "elementwise", "",
        "arithmetic shift right; 0 or -1 if the shift is at least the width",
    )
    SHIFT_RIGHT_LOGICAL = (
        "shift-right-logical", 2, "elementwise", "",
        "logical shift right; 0 if the shift is at least the width",
    )
    SHUFFLE = (
        "shuffle", 1, "data", "dimensions:ints! mode:shuffle_mode! shifts:ints",
        "elements rotated along dimensions",
    )
    SIGN = "sign", 1, "elementwise", "", "-1, 0 or 1; NaN for NaN; z/|z| for complex numbers"
    SINE = "sine", 1, "elementwise", "result_accuracy:accuracy", "sine"
    SINH = "sinh", 1, "elementwise", "result_accuracy:accuracy", "hyperbolic sine"
    SLICE = "slice", 1, "data", "slice:slices!", "elements from start to limit by stride"
    SORT = (
        "sort",
        VARIADIC,
        "data",
        "dimensions:ints! is_stable:bool=false to_apply:computation!",
        "operands sorted together along a dimension by a comparison",
    )
    SQRT = "sqrt", 1, "elementwise", "result_accuracy:accuracy", "square root"
    STOCHASTIC_CONVERT = (
        "stochastic-convert", 2, "elementwise", "",
        "conversion rounded up or down according to random bits",
    )
    SUBTRACT = "subtract", 2, "elementwise", "", "difference"
    TAN = "tan", 1, "elementwise", "result_accuracy:accuracy", "tangent"
    TANH = "tanh", 1, "elementwise", "result_accuracy:accuracy", "hyperbolic tangent"
    TOPK = (
        "topk", 1, "data", "k:int! largest:bool is_stable:bool",
        "the k largest of the last dimension, and their indices",
    )
    TRANSPOSE = "transpose", 1, "data", "dimensions:ints!", "result dimension i is operand dimension dimensions[i]"
    TRIANGULAR_SOLVE = (
        "triangular-solve",
        2,
        "linalg",
        "left_side:bool=false lower:bool=false unit_diagonal:bool=false transpose_a:transpose=TRANSPOSE_INVALID",
        "x with a x = b, or x a = b, a triangular",
    )
    TUPLE = "tuple", VARIADIC, "data", "", "operands as a tuple"
    WHILE = (
        "while", 1, "control", "condition:computation! body:computation!",
        "the body applied while the condition is true",
    )
    XOR = "xor", 2, "elementwise", "", "bitwise exclusive or"
    # fmt: on


BY_TEXT: dict[str, HloOpcode] = {o.text: o for o in HloOpcode}
