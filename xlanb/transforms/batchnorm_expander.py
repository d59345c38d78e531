"""Batch normalisation in terms of reductions and arithmetic (xla/hlo/transforms/expanders/... batchnorm_expander.h; Ioffe and Szegedy 2015).

batch-norm-inference(x, scale, offset, mean, variance)    =>    (x - mean) * rsqrt(variance + epsilon) * scale + offset
batch-norm-training(x, scale, offset)                     =>    the same over the batch's own mean E[x] and variance E[x^2] - E[x]^2, and both of them
batch-norm-grad(x, scale, mean, variance, dy)             =>    (dx, dscale, doffset)
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.hlo import regions
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


@dataclass(frozen=True)
class BatchNormExpander(HloPass):
    """Expands the three batch normalisation opcodes."""

    name = "batchnorm_expander"
    triggers = frozenset((O.BATCH_NORM_INFERENCE, O.BATCH_NORM_TRAINING, O.BATCH_NORM_GRAD))

    def apply(self, module: HloModule) -> None:
        cache: regions.Cache = {}
        for c in module.post_order():
            for i in c.post_order():
                expand = _EXPANDERS.get(i.opcode)
                if expand is not None:
                    c.replace(i, expand(_Norm(i, cache)))


class _Norm:
    """One batch normalisation: its operands, and what all three expansions build with."""

    def __init__(self, i: HloInstruction, cache: regions.Cache) -> None:
        self.i, self.b = i, Builder(i)
        self.x = i.operands[0]
        self.feature: int = i.get("feature_index")
        self._sum: HloComputation = regions.binary_region(i.parent.module, cache, O.ADD, self.x.shape.element_type)
        self.others = tuple(d for d in range(self.x.array_shape.rank) if d != self.feature)
        size = self.x.array_shape.dimensions[self.feature]
        self.count = self.x.array_shape.element_count // max(1, size)
        self.narrow = array(self.x.shape.element_type, (size,))

    def wide(self, v: HloInstruction) -> HloInstruction:
        """A value per feature, spread over x."""
        return self.b.broadcast(v, (self.feature,), self.x.array_shape)

    def total(self, v: HloInstruction) -> HloInstruction:
        """The sum per feature."""
        zero = self.b.scalar(0, v.shape.element_type)
        return self.b.add(O.REDUCE, (v, zero), self.narrow, dimensions=self.others, to_apply=self._sum)

    def mean(self, v: HloInstruction) -> HloInstruction:
        """The mean per feature."""
        return self.b.binary(O.DIVIDE, self.total(v), self.b.full(self.count, self.narrow))

    def inverse_deviation(self, variance: HloInstruction) -> HloInstruction:
        """1 / sqrt(variance + epsilon), per feature."""
        epsilon = self.b.full(self.i.get("epsilon"), self.narrow)
        return self.b.unary(O.RSQRT, self.b.binary(O.ADD, variance, epsilon))

    def normalized(
        self, mean: HloInstruction, variance: HloInstruction, scale: HloInstruction, offset: HloInstruction
    ) -> HloInstruction:
        """(x - mean) / sqrt(variance + epsilon) * scale + offset."""
        b = self.b
        centred = b.binary(O.SUBTRACT, self.x, self.wide(mean))
        unit = b.binary(O.MULTIPLY, centred, self.wide(self.inverse_deviation(variance)))
        return b.binary(O.ADD, b.binary(O.MULTIPLY, unit, self.wide(scale)), self.wide(offset))


def _inference(n: _Norm) -> HloInstruction:
    _, scale, offset, mean, variance = n.i.operands
    return n.normalized(mean, variance, scale, offset)


def _training(n: _Norm) -> HloInstruction:
    _, scale, offset = n.i.operands
    mean = n.mean(n.x)
    square = n.mean(n.b.binary(O.MULTIPLY, n.x, n.x))
    variance = n.b.binary(O.SUBTRACT, square, n.b.binary(O.MULTIPLY, mean, mean))
    return n.b.tuple((n.normalized(mean, variance, scale, offset), mean, variance))


def _gradient(n: _Norm) -> HloInstruction:
    b = n.b
    x, scale, mean, variance, dy = n.i.operands
    inverse = n.inverse_deviation(variance)
    centred = b.binary(O.SUBTRACT, x, n.wide(mean))
    product = n.total(b.binary(O.MULTIPLY, dy, centred))
    doffset = n.total(dy)
    dscale = b.binary(O.MULTIPLY, product, inverse)
    # dx = scale * inverse / count * (count * dy - sum(dy) - centred * inverse^2 * sum(dy * centred))
    pull = n.wide(b.binary(O.MULTIPLY, product, b.binary(O.MULTIPLY, inverse, inverse)))
    count = b.full(n.count, x.array_shape)
    inner = b.binary(
        O.SUBTRACT,
        b.binary(O.SUBTRACT, b.binary(O.MULTIPLY, count, dy), n.wide(doffset)),
        b.binary(O.MULTIPLY, centred, pull),
    )
    factor = b.binary(O.DIVIDE, b.binary(O.MULTIPLY, scale, inverse), b.full(n.count, n.narrow))
    return b.tuple((b.binary(O.MULTIPLY, n.wide(factor), inner), dscale, doffset))


_EXPANDERS = {O.BATCH_NORM_INFERENCE: _inference, O.BATCH_NORM_TRAINING: _training, O.BATCH_NORM_GRAD: _gradient}
