"""Arrays of any layout as row-major ones of permuted dimensions (xla/service/layout_normalization.h).

    a = f32[2,3]{0,1} add(x, y)    =>    a = f32[2,3]{0,1} bitcast(f32[3,2]{1,0} add(bitcast(x), bitcast(y)))

The bytes stay where they are. XLA:GPU runs it before it makes kernels; XLA:CPU does not, nor does our default pipeline: their loops take layouts as they are. Only what
treats all elements alike is brought to row-major form (elementwise instructions, transposes that leave bytes in place, copies); anything else keeps its layout and is read through bitcasts.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.operand_use import is_elementwise
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Layout
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder

_PLAIN_LAYOUT = frozenset((O.PARAMETER, O.CONSTANT, O.FUSION, O.RNG, O.RNG_BIT_GENERATOR))


@dataclass(frozen=True)
class LayoutNormalization(HloPass):
    """Puts a bitcast around every elementwise instruction whose layout is not row major, and computes it row major."""

    name = "layout-normalization"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if (
                    _is_odd(i.shape)
                    and not i.has_side_effect
                    and not i.control_predecessors
                    and not i.control_successors
                ):
                    _normalize(i)


def _is_odd(shape: object) -> bool:
    if not isinstance(shape, ArrayShape) or not shape.is_array or shape.layout is None or shape.is_dynamic:
        return False
    plain = Layout(shape.layout.minor_to_major)
    return shape.layout == plain and shape.minor_to_major != tuple(reversed(range(shape.rank)))


def _normalize(i: HloInstruction) -> None:
    b, shape = Builder(i), i.array_shape
    if i.opcode is O.TRANSPOSE and is_bitcast_transpose(i):
        i.parent.replace(i, b.bitcast(_row_major(b, i.operands[0]), shape))
    elif is_elementwise(i) and i.operands and i.opcode not in _PLAIN_LAYOUT and _all_alike(i):
        made = i.parent.clone_instruction(i, [_row_major(b, o) for o in i.operands], row_major(shape))
        i.parent.replace(i, b.bitcast(made, shape))


def is_bitcast_transpose(i: HloInstruction) -> bool:
    """Whether the layout of a transpose undoes its permutation."""
    order = tuple(i.dimensions[d] for d in i.array_shape.minor_to_major)
    return order == i.operands[0].array_shape.minor_to_major


def _all_alike(i: HloInstruction) -> bool:
    """Whether all operands have the dimensions and the order of the result."""
    return all(
        o.shape.is_array
        and o.array_shape.dimensions == i.array_shape.dimensions
        and o.array_shape.minor_to_major == i.array_shape.minor_to_major
        for o in i.operands
    )


def row_major(shape: ArrayShape) -> ArrayShape:
    """The row-major shape whose bytes mean the same: its dimensions from the slowest to the fastest."""
    dims = tuple(shape.dimensions[d] for d in reversed(shape.minor_to_major))
    return ArrayShape(shape.element_type, dims, Layout.default(shape.rank))


def _row_major(b: Builder, x: HloInstruction) -> HloInstruction:
    wanted = row_major(x.array_shape)
    if x.shape == wanted:
        return x
    if x.opcode is O.BITCAST and x.operands[0].shape == wanted:
        return x.operands[0]
    return b.bitcast(x, wanted)
