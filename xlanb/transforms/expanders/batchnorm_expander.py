"""Expand batch normalization into reductions and arithmetic.

batch-norm-inference(x, scale, offset, mean, variance)
  =>  x * s + (offset - mean * s) with s = scale * rsqrt(variance + epsilon)
batch-norm-training(x, scale, offset)
  =>  ((x - mean) * rsqrt(variance + epsilon)) * scale + offset, mean, variance
      with the batch's own mean E[x] and variance E[x^2] - E[x]^2
batch-norm-grad(x, scale, mean, variance, dy)
  =>  (dx, dscale, doffset)

A narrow float is computed in the wider type that XLA:CPU's float-normalization passes, which run
before, have converted it to.
Source: batchnorm_expander.h in xla/hlo/transforms/expanders; Ioffe and Szegedy 2015.
"""

from __future__ import annotations

from xlanb.analysis.mixed_precision import WIDER
from xlanb.hlo import regions
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.precision.float_normalization import widened


class BatchNormExpander(HloPass):
    """Expands the three batch normalization opcodes."""

    name = "batchnorm_expander"
    triggers = frozenset((O.BATCH_NORM_INFERENCE, O.BATCH_NORM_TRAINING, O.BATCH_NORM_GRAD))

    def apply(self, module: HloModule) -> None:
        cache: regions.Cache = {}
        for c in module.post_order():
            for i in c.post_order():
                expand = _EXPANDERS.get(i.opcode)
                if expand is not None:
                    wide = _widened(i)
                    c.replace(wide, expand(_BatchNormParts(wide, cache)))


def _widened(i: HloInstruction) -> HloInstruction:
    for low in {o.array_shape.element_type for o in i.operands} & WIDER.keys():
        i = widened(i, low, WIDER[low])
    return i


class _BatchNormParts:
    """One batch normalization: its operands, and what all three expansions share."""

    def __init__(self, i: HloInstruction, cache: regions.Cache) -> None:
        self.i, self.b = i, Builder(i)
        self.x = i.operands[0]
        self.feature: int = i.get("feature_index")
        self._sum: HloComputation = regions.binary_region(i.parent.module, cache, O.ADD, self.x.shape.element_type)
        self.others = tuple(d for d in range(self.x.array_shape.rank) if d != self.feature)
        size = self.x.array_shape.dimensions[self.feature]
        self.count = self.x.array_shape.element_count // max(1, size)
        self.narrow = array(self.x.shape.element_type, (size,))

    def no_narrower(self, v: HloInstruction) -> HloInstruction:
        """Convert a value per feature to the type of x if its own type is narrower."""
        mine = self.x.shape.element_type
        return self.b.convert(v, mine) if v.shape.element_type.bits < mine.bits else v

    def wide(self, v: HloInstruction) -> HloInstruction:
        """A value per feature, broadcast to the shape of x."""
        return self.b.broadcast(v, (self.feature,), self.x.array_shape)

    def total(self, v: HloInstruction) -> HloInstruction:
        """The sum per feature."""
        zero = self.b.scalar(0, v.shape.element_type)
        return self.b.add(O.REDUCE, (v, zero), self.narrow, dimensions=self.others, to_apply=self._sum)

    def mean(self, v: HloInstruction) -> HloInstruction:
        """The mean per feature."""
        return self.b.binary(O.DIVIDE, self.total(v), self.b.full(self.count, self.narrow))

    def raised(self, variance: HloInstruction) -> HloInstruction:
        """variance + epsilon, per feature."""
        return self.b.binary(O.ADD, variance, self.b.full(self.i.get("epsilon"), self.narrow))

    def inverse_deviation(self, variance: HloInstruction) -> HloInstruction:
        """1 / sqrt(variance + epsilon), per feature."""
        return self.b.unary(O.RSQRT, self.raised(variance))

    def normalized(
        self, mean: HloInstruction, variance: HloInstruction, scale: HloInstruction, offset: HloInstruction
    ) -> HloInstruction:
        """(x - mean) / sqrt(variance + epsilon) * scale + offset."""
        b = self.b
        centred = b.binary(O.SUBTRACT, self.x, self.wide(mean))
        unit = b.binary(O.MULTIPLY, centred, self.wide(self.inverse_deviation(variance)))
        return b.binary(O.ADD, b.binary(O.MULTIPLY, unit, self.wide(scale)), self.wide(offset))


def _inference(n: _BatchNormParts) -> HloInstruction:
    b = n.b
    x = n.x
    scale, offset, mean, variance = map(n.no_narrower, n.i.operands[1:])
    factor = b.binary(O.MULTIPLY, scale, n.inverse_deviation(variance))
    shift = b.binary(O.SUBTRACT, offset, b.binary(O.MULTIPLY, mean, factor))
    return b.binary(O.ADD, b.binary(O.MULTIPLY, x, n.wide(factor)), n.wide(shift))


def _training(n: _BatchNormParts) -> HloInstruction:
    _, scale, offset = n.i.operands
    mean = n.mean(n.x)
    square = n.mean(n.b.binary(O.MULTIPLY, n.x, n.x))
    variance = n.b.binary(O.SUBTRACT, square, n.b.binary(O.MULTIPLY, mean, mean))
    return n.b.tuple((n.normalized(mean, variance, scale, offset), mean, variance))


def _gradient(n: _BatchNormParts) -> HloInstruction:
    b = n.b
    x, scale, mean, variance, dy = n.i.operands
    inverse = n.inverse_deviation(variance)
    centred = b.binary(O.SUBTRACT, x, n.wide(mean))
    product = n.total(b.binary(O.MULTIPLY, dy, centred))
    doffset = n.total(dy)
    dscale = b.binary(O.MULTIPLY, product, inverse)
    # dx = scale * inverse / count * (count * dy - sum(dy) - sum(dy * centred) * centred / (variance
    # + epsilon))
    pull = b.binary(O.DIVIDE, b.binary(O.MULTIPLY, n.wide(product), centred), n.wide(n.raised(variance)))
    count = b.full(n.count, x.array_shape)
    inner = b.binary(
        O.SUBTRACT,
        b.binary(O.SUBTRACT, b.binary(O.MULTIPLY, count, dy), n.wide(doffset)),
        pull,
    )
    factor = b.binary(O.DIVIDE, b.binary(O.MULTIPLY, scale, inverse), b.full(n.count, n.narrow))
    return b.tuple((b.binary(O.MULTIPLY, n.wide(factor), inner), dscale, doffset))


_EXPANDERS = {O.BATCH_NORM_INFERENCE: _inference, O.BATCH_NORM_TRAINING: _training, O.BATCH_NORM_GRAD: _gradient}
