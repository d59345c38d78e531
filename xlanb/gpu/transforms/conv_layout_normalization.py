"""Give cuDNN convolutions row-major operands and results, for layout_normalization.

Follows conv_layout_normalization.cc.

    (f32[2,8,8,16]{2,1,3,0}, u8[0]) custom-call(x, k), dim_labels=b01f_01io->b01f,
        custom_call_target="__cudnn$convForward"
    =>  (f32[2,16,8,8]{3,2,1,0}, u8[0]) custom-call(bitcast(x), bitcast(k)),
        dim_labels=bf01_oi01->bf01, ...

Bytes stay in place: the dimension numbers change as the layouts require. The elements of the new
result are bitcast to the shapes of the old one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, TupleShape
from xlanb.transforms.layout.layout_normalization import (
    CustomCallNormalization,
    inverse,
    normalized_shape,
    permutation,
    row_major,
)
from xlanb.transforms.reason import reason

# By target: which arrays are input, kernel and output (an operand's number, -1: the result).
_ROLES: Final = {
    "__cudnn$convForward": (0, 1, -1),
    "__cudnn$convForwardGraph": (0, 1, -1),
    "__cudnn$convBiasActivationForward": (0, 1, -1),
    "__cudnn$convBackwardInput": (-1, 1, 0),
    "__cudnn$convBackwardFilter": (0, -1, 1),
}


@reason("cuDNN accepts the dimensions in any order")
def normalize_convolution(call: HloInstruction) -> HloInstruction | None:
    """Return the replacement of a cuDNN convolution with other layouts, or None."""
    roles = _ROLES.get(str(call.attributes.get("custom_call_target")))
    if roles is None or not all(o.shape.is_array for o in call.operands):
        return None
    c, shape = call.parent, call.shape
    results = shape.shapes if isinstance(shape, TupleShape) else (shape,)
    arrays = [results[0].as_array() if n < 0 else call.operands[n].array_shape for n in roles]
    # As in XLA, add the bitcasts before it is known whether they are needed; dce removes dead ones.
    operands = [c.add(O.BITCAST, (o,), row_major(o.array_shape)) for o in call.operands]
    numbers = call.attributes["dim_labels"]
    normalized = _renumbered(numbers, *arrays)
    made_shape = normalized_shape(shape)
    if made_shape == shape and normalized == numbers:
        return None
    attributes = {**call.attributes, "dim_labels": normalized, "operand_layout_constraints": None}
    made = c.add(O.CUSTOM_CALL, operands, made_shape, name=call.name, like=call, **attributes)
    c.update(made, backend_config=call.backend_config)
    if not isinstance(made_shape, TupleShape):
        return c.add(O.BITCAST, (made,), shape)
    elements = [c.add(O.GET_TUPLE_ELEMENT, (made,), index=n) for n in range(len(results))]
    return c.add(O.TUPLE, [c.add(O.BITCAST, (e,), s) for e, s in zip(elements, results, strict=True)], shape)


def _renumbered(
    numbers: ConvolutionDimensionNumbers, source: ArrayShape, kernel: ArrayShape, output: ArrayShape
) -> ConvolutionDimensionNumbers:
    """Return the numbers of the same dimensions in the row-major shapes."""
    of_source, of_kernel, of_output = (inverse(permutation(s)) for s in (source, kernel, output))
    return replace(
        numbers,
        input_batch=of_source[numbers.input_batch],
        input_feature=of_source[numbers.input_feature],
        input_spatial=tuple(of_source[d] for d in numbers.input_spatial),
        kernel_input_feature=of_kernel[numbers.kernel_input_feature],
        kernel_output_feature=of_kernel[numbers.kernel_output_feature],
        kernel_spatial=tuple(of_kernel[d] for d in numbers.kernel_spatial),
        output_batch=of_output[numbers.output_batch],
        output_feature=of_output[numbers.output_feature],
        output_spatial=tuple(of_output[d] for d in numbers.output_spatial),
    )


CUDNN_CONVOLUTIONS: Final = CustomCallNormalization("cudnn", normalize_convolution)
