"""Replace grouped convolutions by ungrouped ones, as XLA:CPU does.

    convolution(x, k), batch_group_count=2, dim_labels=f01b_i01o->01bf
      =>  the same with x[b = g * n] as features of g groups, feature_group_count=2
    convolution(x, k), feature_group_count=2 over i features each
      =>  convolution(x, k over all features, 0 for features of other groups)

The second is for types that the fast kernels do not support; f16 and f32 keep their groups.
Source: xla/service/convolution_group_converter.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.verdict import Loss, exact_except

_GROUPS_KEPT = frozenset({PrimitiveType.F16, PrimitiveType.F32})


class ConvolutionGroupConverter(HloPass):
    """Replaces batch groups by feature groups, and feature groups by zeros in the kernel."""

    name = "convolution-group-converter"
    keeps = exact_except(Loss.NAN | Loss.ZERO_SIGN, note="another group's infinity or NaN, times 0, is NaN")

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is not O.CONVOLUTION or any(o.array_shape.is_dynamic for o in i.operands):
                    continue
                if i.get("batch_group_count") > 1:
                    c.replace(i, _by_features(i))
                elif i.get("feature_group_count") > 1 and i.shape.element_type not in _GROUPS_KEPT:
                    c.replace(i, _without_groups(i))


def _by_features(i: HloInstruction) -> HloInstruction:
    """Replace batch groups: batch b of group g becomes batch b mod n of feature group g."""
    b, (x, k) = Builder(i), i.operands
    n: ConvolutionDimensionNumbers = i.attributes["dim_labels"]
    groups: int = i.get("batch_group_count")
    dims = list(x.array_shape.dimensions)
    batch, feature = n.input_batch, n.input_feature
    split = b.reshape(x, (*dims[:batch], groups, dims[batch] // groups, *dims[batch + 1 :]))
    # Insert the group before the feature dimension, then merge the two.
    place = {d: d if d < batch else d + 1 for d in range(len(dims))}
    order = []
    for d in range(len(dims)):
        order += [batch, place[d]] if d == feature else [place[d]]
    dims[batch] //= groups
    dims[feature] *= groups
    merged = b.reshape(b.transpose(split, order), dims)
    attributes = {**i.attributes, "batch_group_count": 1, "feature_group_count": groups}
    return b.add(O.CONVOLUTION, (merged, k), i.shape, **attributes)


def _without_groups(i: HloInstruction) -> HloInstruction:
    """Replace feature groups by a kernel over all input features.

    The kernel is repeated for every group, and 0 where input and output feature differ in group.
    """
    b, (x, k) = Builder(i), i.operands
    n: ConvolutionDimensionNumbers = i.attributes["dim_labels"]
    groups: int = i.get("feature_group_count")
    inner, outer = n.kernel_input_feature, n.kernel_output_feature
    dims = k.array_shape.dimensions
    wide = array(k.shape.element_type, [s * groups if d == inner else s for d, s in enumerate(dims)])
    repeated = b.broadcast(
        k,
        [d if d < inner else d + 1 for d in range(len(dims))],
        array(k.shape.element_type, (*dims[:inner], groups, *dims[inner:])),
    )
    repeated = b.reshape(repeated, wide.dimensions)
    kind = wide.with_type(PrimitiveType.S32)
    own = [
        b.binary(O.DIVIDE, b.add(O.IOTA, (), kind, iota_dimension=d), b.full(size, kind))
        for d, size in ((inner, dims[inner]), (outer, dims[outer] // groups))
    ]
    kernel = b.select(b.compare(own[0], "EQ", own[1]), repeated, b.full(0, wide))
    return b.add(O.CONVOLUTION, (x, kernel), i.shape, **{**i.attributes, "feature_group_count": 1})
