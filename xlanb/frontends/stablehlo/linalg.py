"""Products, convolutions, transforms, solvers and batch normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.frontends.stablehlo.elements import Elements
from xlanb.frontends.stablehlo.ir import ScalarType, StablehloOperation
from xlanb.frontends.stablehlo.reductions import make_window, pairs
from xlanb.frontends.stablehlo.scope import Instructions, RegionScope, rule
from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.text.parse_attributes import DOT_ALGORITHMS

_O = HloOpcode
_SIDES = ("lhs", "rhs")


def precisions(s: RegionScope, op: StablehloOperation) -> tuple[str, ...] | None:
    """The precision of each operand; None where all are the default."""
    value = op.attributes.get("precision_config", ())
    if not isinstance(value, tuple) or any(not isinstance(v, str) for v in value):
        s.fail(op, "expected a list such as [DEFAULT, HIGHEST] as 'precision_config'")
    words = tuple(v.lower() for v in value)
    return words if any(w != "default" for w in words) else None


@rule("stablehlo.dot")
def _dot(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, y = s.operands(op, 2)
    lhs, rhs = (x.array_shape.rank - 1,), (0,)
    return _product(s, op, x, y, {"lhs_contracting_dims": lhs, "rhs_contracting_dims": rhs})


@rule("stablehlo.dot_general")
def _dot_general(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, y = s.operands(op, 2)
    return _product(s, op, x, y, _dot_dimensions(s, op))


def _dot_dimensions(s: RegionScope, op: StablehloOperation) -> dict[str, tuple[int, ...]]:
    """Return dimension numbers by HLO's names; the short form has both operands' in pairs."""
    fields = s.fields(op, "dot_dimension_numbers")
    found: dict[str, tuple[int, ...]] = {}
    for kind, pair in (("batch", "batching_dims"), ("contracting", "contracting_dims")):
        both = op.attributes.get(pair)
        if both is not None and (not isinstance(both, tuple) or len(both) != len(_SIDES)):
            s.fail(op, f"expected the dimensions of both operands as '{pair}'")
        for n, side in enumerate(_SIDES):
            long = "batching" if kind == "batch" else kind
            given = fields if both is None else {f"{side}_{long}_dimensions": both[n]}
            found[f"{side}_{kind}_dims"] = s.dims(op, given, f"{side}_{long}_dimensions")
    return found


def _product(
    s: RegionScope, op: StablehloOperation, x: HloInstruction, y: HloInstruction, dims: dict[str, tuple[int, ...]]
) -> HloInstruction:
    named: dict[str, Any] = {name: value or None for name, value in dims.items()}
    made = s.instruction(
        _O.DOT,
        (x, y),
        **named,
        operand_precision=precisions(s, op),
        algorithm=_algorithm(s, op),
    )
    return _typed(s, op, made)


def _typed(s: RegionScope, op: StablehloOperation, made: HloInstruction) -> HloInstruction:
    """Return a sum of products in the element type of the text's result."""
    element = s.result_element(op)
    if element is not made.array_shape.element_type:
        s.b.computation.update(made, shape=made.array_shape.with_type(element))
    return made


def _algorithm(s: RegionScope, op: StablehloOperation) -> str | None:
    """XLA's name of an algorithm, from its types and how many products it takes."""
    fields = s.fields(op, "algorithm")
    if not fields:
        return None
    types = [fields.get(f"{n}_type", "") for n in ("lhs_precision", "rhs_precision", "accumulation")]
    names = [t.name if isinstance(t, ScalarType) else str(t) for t in types]
    count = fields.get("num_primitive_operations", 1)
    tail = f"_x{count}" if count != 1 else ""
    if all(n.startswith("f8") for n in names[:2]):
        fast = "_fast_accum" if fields.get("allow_imprecise_accumulation") is True else ""
        name = f"any_f8_any_f8_{names[2]}{fast}"
    else:
        name = "_".join(names) + tail
    if name not in DOT_ALGORITHMS:
        s.refuse(op, f"the algorithm {name} is not one of XLA's")
    return f"dot_{name}"


@rule("stablehlo.convolution")
def _convolution(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, kernel = s.operands(op, 2)
    return convolution(s, op, x, kernel, None)


def convolution(
    s: RegionScope,
    op: StablehloOperation,
    x: HloInstruction,
    kernel: HloInstruction,
    padding: list[tuple[int, int]] | None,
) -> HloInstruction:
    """A convolution, with the padding that its attribute says or another."""
    labels = _labels(s, op)
    count = len(labels.kernel_spatial)
    sizes = kernel.array_shape.dimensions
    if any(not 0 <= d < len(sizes) for d in labels.kernel_spatial):
        s.fail(op, f"the dimension numbers do not match a kernel of {len(sizes)} dimensions")
    ones = (1,) * count
    window = make_window(
        s,
        op,
        [sizes[d] for d in labels.kernel_spatial],
        strides=s.ints(op, "window_strides", ones),
        padding=pairs(s, op, "padding", count) if padding is None else padding,
        base=s.ints(op, "lhs_dilation", ones),
        dilation=s.ints(op, "rhs_dilation", ones),
        reversal=[bool(v) for v in _flags(s, op, count)],
    )
    made = s.b.convolution(
        x,
        kernel,
        window,
        labels,
        feature_group_count=s.integer(op, "feature_group_count", 1),
        batch_group_count=s.integer(op, "batch_group_count", 1),
    )
    words = precisions(s, op)
    if words is not None:
        made.attributes["operand_precision"] = words
    return _typed(s, op, made)


def _flags(s: RegionScope, op: StablehloOperation, count: int) -> tuple[int, ...]:
    value = op.attributes.get("window_reversal")
    if isinstance(value, Elements):
        return tuple(int(v) for v in value.full().reshape(-1)[: count + 1])
    if isinstance(value, tuple) and all(isinstance(v, bool) for v in value):
        return tuple(map(int, value))
    return s.ints(op, "window_reversal", (0,) * count)


def _labels(s: RegionScope, op: StablehloOperation) -> ConvolutionDimensionNumbers:
    value: Any = op.attributes.get("dimension_numbers")
    if isinstance(value, ConvolutionDimensionNumbers):
        return value
    if not isinstance(value, dict):
        s.fail(op, "expected the dimension numbers of a convolution")
    names = (
        "input_batch_dimension input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension "
        "kernel_output_feature_dimension kernel_spatial_dimensions output_batch_dimension output_feature_dimension "
        "output_spatial_dimensions"
    ).split()
    found: list[Any] = [s.dims(op, value, n) if n.endswith("s") else s.number(op, value, n) for n in names]
    return ConvolutionDimensionNumbers(*found)


@rule("stablehlo.fft")
def _fft(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return s.instruction(_O.FFT, (x,), fft_type=s.word(op, "fft_type"), fft_length=s.ints(op, "fft_length"))


@rule("stablehlo.cholesky")
def _cholesky(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return s.instruction(_O.CHOLESKY, (x,), lower=s.flag(op, "lower") or None)


@rule("stablehlo.triangular_solve")
def _triangular_solve(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    return s.instruction(
        _O.TRIANGULAR_SOLVE,
        s.operands(op),
        left_side=s.flag(op, "left_side") or None,
        lower=s.flag(op, "lower") or None,
        unit_diagonal=s.flag(op, "unit_diagonal") or None,
        transpose_a=s.word(op, "transpose_a", "NO_TRANSPOSE"),
    )


_NORMS = {
    "stablehlo.batch_norm_training": _O.BATCH_NORM_TRAINING,
    "stablehlo.batch_norm_inference": _O.BATCH_NORM_INFERENCE,
    "stablehlo.batch_norm_grad": _O.BATCH_NORM_GRAD,
}


@rule(*_NORMS)
def _batch_norm(s: RegionScope, op: StablehloOperation) -> Instructions:
    epsilon = op.attributes.get("epsilon")
    if not isinstance(epsilon, int | float):
        s.fail(op, "expected a number as 'epsilon'")
    made = s.instruction(
        _NORMS[op.name],
        s.operands(op),
        epsilon=float(np.float32(epsilon)),
        feature_index=s.integer(op, "feature_index"),
    )
    return s.unpacked(made, op)


@rule("stablehlo.einsum", "stablehlo.unary_einsum")
def _einsum(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    """Lower to a product, sums over labels of one operand only, and a transpose."""
    inputs, arrow, output = s.word(op, "einsum_config").replace(" ", "").partition("->")
    labels = inputs.split(",")
    operands = s.operands(op)
    plain = all(x.isalpha() or not x for x in (*labels, output))
    if not arrow or len(labels) != len(operands) or not plain or any(len(set(x)) != len(x) for x in (*labels, output)):
        s.refuse(op, "expected letters for each operand, each once, such as ab,bc->ac")
    for x, letters in zip(operands, labels, strict=True):
        if len(letters) != x.array_shape.rank:
            s.fail(op, f"{len(letters)} letters do not match an operand of {x.array_shape.rank} dimensions")
    summed = []
    for n, letters in enumerate(labels):
        kept = set(output).union(*(set(o) for m, o in enumerate(labels) if m != n))
        operands[n], letters = _summed(s, operands[n], letters, kept)
        summed.append(letters)
    made, order = _contracted(s, op, operands, summed, output) if len(operands) == 2 else (operands[0], summed[0])
    if sorted(order) != sorted(output):
        s.fail(op, f"the output {output} has letters that are in no operand")
    return made if order == output else s.b.transpose(made, [order.index(c) for c in output])


def _summed(s: RegionScope, x: HloInstruction, letters: str, kept: set[str]) -> tuple[HloInstruction, str]:
    dims = [i for i, c in enumerate(letters) if c not in kept]
    if not dims:
        return x, letters
    zero = s.b.constant(np.zeros((), x.array_shape.dtype))
    return s.b.reduce(x, zero, dims, _O.ADD), "".join(c for c in letters if c in kept)


def _contracted(
    s: RegionScope, op: StablehloOperation, operands: list[HloInstruction], labels: list[str], output: str
) -> tuple[HloInstruction, str]:
    left, right = labels
    batch = [c for c in left if c in right and c in output]
    gone = [c for c in left if c in right and c not in output]
    made = _product(
        s,
        op,
        operands[0],
        operands[1],
        {
            "lhs_batch_dims": tuple(left.index(c) for c in batch),
            "rhs_batch_dims": tuple(right.index(c) for c in batch),
            "lhs_contracting_dims": tuple(left.index(c) for c in gone),
            "rhs_contracting_dims": tuple(right.index(c) for c in gone),
        },
    )
    rest = [c for c in (*left, *right) if c not in batch and c not in gone]
    return made, "".join((*batch, *rest))
