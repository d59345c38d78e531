"""Compute a matrix-vector product by products and a sum if its matrix is computed.

    f32[n] dot(f32[k] v, f32[k,n] convert(s8[k,n] a))
      =>  reduce(multiply(broadcast(v), convert(a))), dimensions={0}

Fusion then compiles all of it as one loop, which reads what the matrix is computed from once: the
weights of a quantized layer as bytes, those of one layer in place from an array of all layers.
XLA:CPU fuses such a matrix into the product itself; our kernels of products read their operands
from memory. Sums of narrow floats are computed in f32, as products do.
"""

from __future__ import annotations

import numpy as np

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.conditions import Condition, decide, objecting
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType
from xlanb.transforms.algebraic_simplifier.facts import scalar_reducer
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.precision.operand_upcaster import computed_in
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL

_SIDES = ("lhs", "rhs")
_PLAIN = (None, "unset", "dot_f32_f32_f32")
"""Algorithms that ask for no less precision than that of sums in f32."""
_READ_ELSEWHERE = frozenset(
    (O.BITCAST, O.BROADCAST, O.COPY, O.DYNAMIC_SLICE, O.IOTA, O.PAD, O.RESHAPE, O.SLICE, O.TRANSPOSE)
)
"""Opcodes of matrices whose elements a loop computes or finds elsewhere."""
_SHAPES_ONLY = frozenset((O.BITCAST, O.RESHAPE))


class GemvToReduce(HloPass):
    """Replaces dots of a vector by a computed matrix that has no other user."""

    name = "gemv-to-reduce"
    triggers = frozenset((O.DOT,))
    keeps = REAL
    ulps = 16.0

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is not O.DOT or len(i.operands) != len(_SIDES):
                    continue
                gemv = _gemv_of(i)
                if gemv is not None and decide("reduce instead", (i.name,), _CONDITIONS, gemv):
                    _reduce(gemv)


@dataclass(frozen=True, eq=False)
class _Gemv:
    dot: HloInstruction
    matrix: int
    """The number of the operand with free dimensions."""

    @property
    def batch(self) -> tuple[int, ...]:
        """The matrix's batch dimensions."""
        return self.dot.ints(f"{_SIDES[self.matrix]}_batch_dims")

    @property
    def contracted(self) -> tuple[int, ...]:
        """Its contracting dimensions."""
        return self.dot.ints(f"{_SIDES[self.matrix]}_contracting_dims")

    @property
    def free(self) -> tuple[int, ...]:
        """Its other dimensions."""
        taken = (*self.batch, *self.contracted)
        return tuple(d for d in range(self.dot.operands[self.matrix].array_shape.rank) if d not in taken)


def _gemv_of(dot: HloInstruction) -> _Gemv | None:
    """The product, if one operand has no free dimensions and the other has."""
    found = [
        n
        for n, side in enumerate(_SIDES)
        if dot.operands[n].array_shape.rank
        > len(dot.ints(f"{side}_batch_dims")) + len(dot.ints(f"{side}_contracting_dims"))
    ]
    return _Gemv(dot, found[0]) if len(found) == 1 else None


def _computes(x: _Gemv) -> str:
    """Why its matrix is not computed by a loop for this product alone."""
    i = x.dot.operands[x.matrix]
    while i.user_count == 1 and i.opcode in _SHAPES_ONLY:
        i = i.operands[0]
    if i.user_count != 1:
        return f"`{i.name}` has {i.user_count} users"
    return "" if i.opcode.is_elementwise or i.opcode in _READ_ELSEWHERE else f"`{i.name}` is a {i.opcode}"


def _form(x: _Gemv) -> str:
    dot, kind = x.dot, computed_in(x.dot)
    if dot.get("algorithm") not in _PLAIN:
        return f"it requires the algorithm {dot.get('algorithm')}"
    if dot.control_predecessors or dot.control_successors:
        return "it has control dependencies"
    if any(o.array_shape.is_dynamic for o in dot.operands):
        return "it has dynamic dimensions"
    if not (kind.is_floating or kind.is_integral):
        return f"it multiplies {kind}"
    ordered = (*x.batch, *x.free)
    return "" if ordered == tuple(sorted(ordered)) else "its batch dimensions are not the first"


_CONDITIONS: tuple[Condition[_Gemv], ...] = (
    objecting("its matrix is computed by a loop for it alone", _computes),
    objecting("it is computed by products and a sum", _form),
)


@reason("dot(A, v) => reduce(A * broadcast(v))")
def _reduce(x: _Gemv) -> None:
    dot, b, kind = x.dot, Builder(x.dot), computed_in(x.dot)
    if kind.is_floating and kind.bits < PrimitiveType.F32.bits:
        kind = PrimitiveType.F32
    matrix, vector = (_as(b, dot.operands[n], kind) for n in (x.matrix, 1 - x.matrix))
    side = _SIDES[1 - x.matrix]
    batch, contracted = dot.ints(f"{side}_batch_dims"), dot.ints(f"{side}_contracting_dims")
    to = {**dict(zip(batch, x.batch, strict=True)), **dict(zip(contracted, x.contracted, strict=True))}
    spread = b.broadcast(vector, [to[d] for d in range(vector.array_shape.rank)], matrix.array_shape)
    total = b.add(
        O.REDUCE,
        (b.binary(O.MULTIPLY, matrix, spread), b.computation.constant(np.zeros((), kind.dtype), like=dot)),
        dot.array_shape.with_type(kind),
        dimensions=x.contracted,
        to_apply=scalar_reducer(dot.parent.module, O.ADD, kind),
    )
    dot.parent.replace(dot, _as(b, total, dot.shape.element_type))


def _as(b: Builder, i: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    return i if i.shape.element_type is kind else b.convert(i, kind)
