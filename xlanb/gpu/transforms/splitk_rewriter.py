"""Split dots with a large contracting dimension into parts that are summed.

Follows xla/backends/gpu/transforms/splitk_rewriter.cc.

    f32[32,32] dot(f32[32,4096] a, f32[4096,32] b)
    =>  reduce(f32[8,32,32] dot(f32[32,8,512] a, f32[8,512,32] b)), dimensions={0}

A dot with few rows and columns has too few tiles for all multiprocessors; splitting adds tiles. A
cost model chooses the number of parts: arithmetic or memory, whichever takes longer, plus the
launch and the memory of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from math import ceil
from typing import Final, NamedTuple

import numpy as np

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.operand_use import is_elementwise
from xlanb.conditions import Condition, decide
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.triton.support_legacy import UNSET, dot_sizes, has_triton
from xlanb.hlo.attributes import PaddingDimension
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Layout
from xlanb.shape import PrimitiveType as T
from xlanb.shape.primitive_type import BY_TEXT
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL

_TILE: Final = 128
"""Rows, and columns, of a tile."""
_PARTS: Final = tuple(1 << n for n in range(12))
_ALIGNED_BITS: Final = 128
_OPERATIONS: Final = {
    "dot_bf16_bf16_f32_x3": 12,
    "dot_tf32_tf32_f32_x3": 12,
    "dot_bf16_bf16_f32_x6": 20,
    "dot_bf16_bf16_f32_x9": 28,
}
"""Floating-point operations per pair of elements, by algorithm; 2 without one."""


class _Weights(NamedTuple):
    """Relative costs of an operation, a byte of the dot, a byte of the sum, and a launch."""

    operation: float
    byte: float
    summed_byte: float
    launch: float


_BLACKWELL: Final = _Weights(100.0, 0.0848863, 189.711, 1.21563e08)
_HOPPER: Final = _Weights(100.0, 0.194136, 193.1384, 4.36e07)
_AMPERE: Final = _Weights(100.0, 0.0666955, 467.815, 5.65307e07)


def _weights(device: GpuDevice) -> _Weights:
    major = device.architecture.capability[0]
    return _BLACKWELL if major >= 10 else _HOPPER if major == 9 else _AMPERE


@dataclass(frozen=True)
class SplitkRewriter(HloPass):
    """Splits contracting dimensions if that lowers the cost, on devices with Triton kernels."""

    name = "splitk-rewriter"
    triggers = frozenset((O.DOT,))
    keeps = REAL
    ulps = 16.0
    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))

    def apply(self, module: HloModule) -> None:
        if not has_triton(self.device):
            return
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.DOT and _is_worth_splitting(d := _SplitDot(i, self.device)):
                    _split(i, d.best_parts)


@dataclass(frozen=True)
class _SplitDot:
    """A dot as the cost model sees it."""

    dot: HloInstruction
    device: GpuDevice

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, rows, columns, and contracting size."""
        return dot_sizes(self.dot)

    @cached_property
    def operand_bytes(self) -> tuple[float, float]:
        """Bytes per element of each operand in memory, before unary elementwise instructions."""
        left, right = (_bits(_source(o)) / 8 for o in self.dot.operands[:2])
        return left, right

    def cost(self, parts: int) -> float:
        """Return the dot's cost in this many parts, including the sum if there are several."""
        weights = _weights(self.device)
        batches, rows, columns, length = self.sizes
        tiles = batches * parts * ceil(rows / _TILE) * ceil(columns / _TILE)
        tile = min(rows, _TILE) * min(columns, _TILE)
        at_once = self.device.cores * (_TILE * _TILE / max(tile, 1))
        operations = _OPERATIONS.get(self.dot.get("algorithm"), 2) * tile * ceil(length / parts)
        left, right = self.operand_bytes
        summed, result = (t.byte_size for t in (accumulator_type(self.dot), self.dot.shape.element_type))
        written = batches * parts * rows * columns * (summed if parts > 1 else result)
        moved = (rows * left + columns * right) * length * batches + written
        cost = max(operations * max(1.0, tiles / at_once) * weights.operation, moved * weights.byte)
        if parts == 1:
            return cost
        return cost + weights.launch + (written + batches * rows * columns * result) * weights.summed_byte

    @cached_property
    def best_parts(self) -> int:
        """Return the cheapest number of parts, the smallest if several are."""
        return min(_PARTS, key=self.cost)


def _source(i: HloInstruction) -> HloInstruction:
    while len(i.operands) == 1 and is_elementwise(i):
        i = i.operands[0]
    return i


def _bits(i: HloInstruction) -> int:
    t = i.shape.element_type
    return 4 if t in (T.S4, T.U4) else 8 * t.byte_size


def accumulator_type(dot: HloInstruction) -> T:
    """Return the type in which a dot accumulates.

    Its algorithm names it ("dot_bf16_bf16_f32_x3"); else f32 for floats of at most 32 bits.
    """
    algorithm: str = dot.get("algorithm")
    if algorithm != UNSET and (named := BY_TEXT.get(algorithm.split("_")[3])) is not None:
        return named
    own = dot.shape.element_type
    return T.F32 if own.is_floating and own.byte_size <= T.F32.byte_size else own


_CONDITIONS: Final[tuple[Condition[_SplitDot], ...]] = (
    Condition("it has no control dependencies", lambda d: not (d.dot.control_predecessors or d.dot.control_successors)),
    Condition(
        "each of its two operands has one contracting dimension",
        lambda d: len(d.dot.operands) == 2 and len(d.dot.ints("lhs_contracting_dims")) == 1,
    ),
    Condition("its sizes are static", lambda d: not any(o.array_shape.is_dynamic for o in d.dot.operands)),
    Condition("it is not empty", lambda d: all(d.sizes), lambda d: "x".join(map(str, d.sizes))),
    Condition(
        "no operand is s32, which has no fast kernels",
        lambda d: all(o.shape.element_type is not T.S32 for o in d.dot.operands),
    ),
    Condition(
        "splitting and summing costs less",
        lambda d: d.best_parts > 1,
        lambda d: f"{d.best_parts} cost {d.cost(d.best_parts):.4g}, one {d.cost(1):.4g}, two {d.cost(2):.4g}",
        lambda d: f"increase the contracting dimension of `{d.dot.name}`, or reduce its result",
    ),
)


def _is_worth_splitting(d: _SplitDot) -> bool:
    return decide("split the contracting dimension", (d.dot.name,), _CONDITIONS, d)


@reason("dot(A, B) => reduce(dot(split A, split B))")
def _split(dot: HloInstruction, parts: int) -> None:
    c, attributes = dot.parent, dict(dot.attributes)
    per_part = parts * _ALIGNED_BITS // min(_ALIGNED_BITS, *(_bits(_source(o)) for o in dot.operands))
    operands, place = [], None
    for side, operand in zip(("lhs", "rhs"), dot.operands, strict=True):
        (along,) = dot.ints(f"{side}_contracting_dims")
        operands.append(_in_parts(operand, along, parts, per_part))
        batch = [d + (d >= along) for d in dot.ints(f"{side}_batch_dims")]
        if place is None:
            place = sum(d < along for d in batch)
        attributes[f"{side}_batch_dims"] = (*batch[:place], along, *batch[place:])
        attributes[f"{side}_contracting_dims"] = (along + 1,)
    sizes = list(dot.array_shape.dimensions)
    sizes.insert(place or 0, parts)
    summed, own = accumulator_type(dot), dot.array_shape
    product = c.add(O.DOT, operands, array(summed, sizes), metadata=dot.metadata, **attributes)
    total = c.add(
        O.REDUCE,
        (product, c.constant(np.zeros((), summed.dtype))),
        own.with_type(summed),
        metadata=dot.metadata,
        dimensions=(place or 0,),
        to_apply=sum_computation(c, f"{product.name}.reduce_sub_computation", summed, ("lhs", "rhs")),
    )
    c.replace(dot, total if summed is own.element_type else c.add(O.CONVERT, (total,), own, metadata=dot.metadata))


def _in_parts(operand: HloInstruction, along: int, parts: int, multiple: int) -> HloInstruction:
    """Split an operand's dimension into parts, padded with zeros to a multiple."""
    c, shape = operand.parent, operand.array_shape
    size = shape.dimensions[along]
    padded = -(-size // multiple) * multiple
    if padded != size:
        config = tuple(PaddingDimension(0, padded - size if d == along else 0, 0) for d in range(shape.rank))
        zero = c.constant(np.zeros((), shape.dtype))
        shape = _resized(shape, along, [padded])
        operand = c.add(O.PAD, (operand, zero), shape, padding=config)
    order = tuple(n for d in shape.minor_to_major for n in _places_in_parts(d, along))
    return c.add(O.RESHAPE, (operand,), _resized(shape, along, [parts, padded // parts], order))


def _places_in_parts(d: int, along: int) -> tuple[int, ...]:
    """Return the dimensions after dimension `along` becomes two, the minor one first."""
    return (d + 1, d) if d == along else (d + (d > along),)


def _resized(shape: ArrayShape, along: int, sizes: Sequence[int], order: tuple[int, ...] = ()) -> ArrayShape:
    """Return a shape with one dimension replaced by `sizes`, in layout `order` or its own."""
    dims = shape.dimensions
    layout = replace(shape.layout or Layout.default(shape.rank), minor_to_major=order) if order else shape.layout
    return ArrayShape(shape.element_type, (*dims[:along], *sizes, *dims[along + 1 :]), layout)


def sum_computation(c: HloComputation, name: str, t: T, parameters: tuple[str, str]) -> HloComputation:
    """Return a computation that adds two scalars, with these parameter names."""
    made = c.module.add_computation(name, execution_thread=c.execution_thread)
    operands = [made.add(O.PARAMETER, (), array(t), name=n, parameter_number=k) for k, n in enumerate(parameters)]
    made.set_root(made.add(O.ADD, operands))
    return made
