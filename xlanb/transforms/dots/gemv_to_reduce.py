"""Compute matrix-vector products by products and sums where a kernel of products would need a copy.

    f32[n] dot(f32[k] v, f32[k,n] convert(s8[k,n] a))
      =>  reduce(multiply(broadcast(v), convert(a))), dimensions={0}
    f32[b,n] dot(f32[b,k] v, f32[n,b,k] a), rhs_batch_dims={1}, rhs_contracting_dims={2}
      =>  transpose(reduce(multiply(broadcast(v), a))), dimensions={2}
    f32[n] dot(f32[k] v, f32[k,n]{1,0} copy(f32[k,n]{0,1} a))
      =>  f32[n] dot(v, a)

Fusion then compiles all of it as one loop, which reads what the matrix is computed from once, in
the order of memory: the weights of a quantized layer as bytes, those of one layer in place from an
array of all layers, the keys of all heads side by side. XLA:CPU fuses a computed matrix into the
product itself, and copies one whose batch dimensions are not the first; our kernels of products
read their operands from memory, in any layout. Sums of narrow floats are computed in f32, as
products do.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.dot_dimensions import free_dimensions
from xlanb.conditions import Condition, decide, objecting
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.algebraic_simplifier.facts import PLAIN_ALGORITHMS, sum_of, sum_type
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.precision.operand_upcaster import computed_in
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL

_SIDES = ("lhs", "rhs")
_SHAPES_ONLY = frozenset((O.BITCAST, O.RESHAPE))
_READ_ELSEWHERE = frozenset((O.BROADCAST, O.DYNAMIC_SLICE, O.IOTA, O.PAD, O.SLICE))
"""Opcodes of matrices whose elements a loop finds elsewhere."""


@dataclass(frozen=True)
class GemvToReduce(HloPass):
    """Replaces dots of a vector by a computed matrix that has no other user.

    With `transposed` it replaces those whose matrix would have to be transposed.
    """

    name = "gemv-to-reduce"
    triggers = frozenset((O.DOT,))
    keeps = REAL
    ulps = 16.0
    transposed: bool = False

    def apply(self, module: HloModule) -> None:
        conditions = _TRANSPOSED if self.transposed else _COMPUTED
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is not O.DOT or len(i.operands) != len(_SIDES):
                    continue
                if not self.transposed:
                    _read_in_place(i)
                gemv = _gemv_of(i)
                if gemv is not None and decide("reduce instead", (i.name,), conditions, gemv):
                    _reduce(gemv)


@dataclass(frozen=True, eq=False)
class _Gemv:
    """A dot of a vector, perhaps one for each of a batch, by the operand number `side`.

    `matrix` is that operand, or what it transposes; `batch` and `contracted` are its dimensions.
    """

    dot: HloInstruction
    side: int
    matrix: HloInstruction
    batch: tuple[int, ...]
    contracted: tuple[int, ...]
    free: tuple[int, ...]


def _gemv_of(dot: HloInstruction) -> _Gemv | None:
    """The product, if one operand has no free dimensions and the other has."""
    n = _matrix(dot)
    if n is None:
        return None
    matrix, batch, contracted, free = dot.operands[n], *_taken(dot, n), tuple(free_dimensions(dot, _SIDES[n]))
    while matrix.opcode is O.TRANSPOSE and matrix.user_count == 1:
        batch, contracted, free = (tuple(matrix.dimensions[d] for d in dims) for dims in (batch, contracted, free))
        matrix = matrix.operands[0]
    return _Gemv(dot, n, matrix, batch, contracted, free)


def _matrix(dot: HloInstruction) -> int | None:
    """The number of the only operand with free dimensions."""
    found = [n for n, side in enumerate(_SIDES) if free_dimensions(dot, side)]
    return found[0] if len(found) == 1 else None


def _taken(dot: HloInstruction, side: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The batch and the contracting dimensions of an operand."""
    batch, contracted = (dot.ints(f"{_SIDES[side]}_{kind}_dims") for kind in ("batch", "contracting"))
    return batch, contracted


@reason("dot(copy(A), v) => dot(A, v): the layout of A does not matter")
def _read_in_place(dot: HloInstruction) -> None:
    n = _matrix(dot)
    while n is not None and (copy := dot.operands[n]).opcode is O.COPY:
        dot.parent.replace_operand(dot, n, copy.operands[0])
        dot.parent.remove_dead(copy)


def _form(x: _Gemv) -> str:
    dot, kind = x.dot, computed_in(x.dot)
    if dot.get("algorithm") not in PLAIN_ALGORITHMS:
        return f"it requires the algorithm {dot.get('algorithm')}"
    if dot.control_predecessors or dot.control_successors:
        return "it has control dependencies"
    if any(o.array_shape.is_dynamic for o in dot.operands):
        return "it has dynamic dimensions"
    return "" if kind.is_floating or kind.is_integral else f"it multiplies {kind}"


def _stored(x: _Gemv) -> str:
    """Why its matrix is not computed by a loop for this product alone."""
    i = x.matrix
    while i.user_count == 1 and i.opcode in _SHAPES_ONLY:
        i = i.operands[0]
    if i.user_count != 1:
        return f"`{i.name}` has {i.user_count} users"
    if not (i.opcode.is_elementwise or i.opcode in _READ_ELSEWHERE):
        return f"`{i.name}` is a {i.opcode}"
    turned = next((o for o in i.operands if o.opcode in (O.COPY, O.TRANSPOSE) and o.user_count == 1), None)
    return "" if turned is None else f"`{turned.name}` would be read across its lines"


def _in_order(x: _Gemv) -> str:
    """How its matrix is in order: batch dimensions, then rows and columns."""
    groups = (x.free, x.contracted), (x.contracted, x.free)
    alike = any((*x.batch, *a, *b) == tuple(range(x.matrix.array_shape.rank)) for a, b in groups)
    return f"`{x.matrix.name}` has its batch dimensions first" if alike else ""


_FORM = objecting("it is computed by products and a sum", _form)
_COMPUTED: tuple[Condition[_Gemv], ...] = (objecting("a loop computes its matrix, for it alone", _stored), _FORM)
_TRANSPOSED: tuple[Condition[_Gemv], ...] = (objecting("its matrix would be transposed", _in_order), _FORM)


@reason("dot(A, v) => reduce(A * broadcast(v))")
def _reduce(x: _Gemv) -> None:
    dot, b, kind = x.dot, Builder(x.dot), sum_type(computed_in(x.dot))
    matrix, vector = b.as_type(x.matrix, kind), b.as_type(dot.operands[1 - x.side], kind)
    batch, contracted = _taken(dot, 1 - x.side)
    to = {**dict(zip(batch, x.batch, strict=True)), **dict(zip(contracted, x.contracted, strict=True))}
    spread = b.broadcast(vector, [to[d] for d in range(vector.array_shape.rank)], matrix.array_shape)
    flow = sum_of(b, b.binary(O.MULTIPLY, matrix, spread), sorted(x.contracted))
    left, goal = sorted((*x.batch, *x.free)), (*x.batch, *x.free)
    if tuple(left) != goal:
        flow = b.transpose(flow, [left.index(d) for d in goal])
    dot.parent.replace(dot, b.as_type(flow, dot.shape.element_type))
