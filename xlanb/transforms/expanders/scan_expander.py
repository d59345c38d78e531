"""Expand scans into loops (xla/hlo/transforms/expanders/scan_expander.h).

    scan(f32[n] x, f32[] c), dimensions={0}, num_carries=1, to_apply=f
      =>  while(tuple(0, c, x, zeros)), body={y, c' = f(x[k], c);
            tuple(k + 1, c', x, dynamic-update-slice(out, y, k))}

A reverse scan goes from the last slice to the first.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape
from xlanb.shape.shape import array, tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.inlining import copy_body

_COUNTER = PrimitiveType.S64


class ScanExpander(HloPass):
    """Expands every scan. The loop's tuple holds carries, then inputs, then outputs."""

    name = "scan_expander"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.SCAN:
                    c.replace(i, _expanded(i))


@dataclass(frozen=True)
class _ScanParts:
    """The parts of a scan: input arrays, carried values, output arrays."""

    instruction: HloInstruction
    inputs: tuple[HloInstruction, ...]
    carries: tuple[HloInstruction, ...]
    outputs: tuple[ArrayShape, ...]

    @property
    def dimension(self) -> int:
        return self.instruction.dimensions[0]

    @property
    def length(self) -> int:
        return self.inputs[0].array_shape.dimensions[self.dimension]

    def state(self) -> TupleShape:
        """Counter, carries, inputs, outputs."""
        return tuple_of((array(_COUNTER), *(x.shape for x in (*self.carries, *self.inputs)), *self.outputs))


def _expanded(i: HloInstruction) -> HloInstruction:
    scan = _parts(i)
    b, module, state = Builder(i), i.parent.module, scan.state()
    condition, body = (module.add_computation(f"{i.name}_{end}") for end in ("condition", "body"))
    _fill_condition(condition, state, scan.length)
    _fill_body(body, state, scan)
    zeros = [b.full(0, s) for s in scan.outputs]
    start = b.add(O.TUPLE, (b.scalar(0, _COUNTER), *scan.carries, *scan.inputs, *zeros), state)
    loop = b.add(O.WHILE, (start,), state, condition=condition, body=body)
    first = 1 + len(scan.carries) + len(scan.inputs)
    outputs = [b.element(loop, first + n) for n in range(len(scan.outputs))]
    results = outputs + [b.element(loop, 1 + n) for n in range(len(scan.carries))]
    return b.add(O.TUPLE, results, i.shape) if isinstance(i.shape, TupleShape) else results[0]


def _parts(i: HloInstruction) -> _ScanParts:
    count = len(i.operands) - (i.get("num_carries") or 0)
    shapes: tuple[Shape, ...] = i.shape.shapes if isinstance(i.shape, TupleShape) else (i.shape,)
    carries = i.operands[count:]
    outputs = tuple(s.as_array() for s in shapes[: len(shapes) - len(carries)])
    return _ScanParts(i, i.operands[:count], carries, outputs)


def _fill_condition(c: HloComputation, state: TupleShape, length: int) -> None:
    p = c.add(O.PARAMETER, (), state, name="loop_state", parameter_number=0)
    b = Builder(p)
    c.set_root(b.compare(b.element(p, 0), "LT", b.scalar(length, _COUNTER)))


def _fill_body(c: HloComputation, state: TupleShape, scan: _ScanParts) -> None:
    p = c.add(O.PARAMETER, (), state, name="loop_state", parameter_number=0)
    b = Builder(p)
    counter, *rest = (b.element(p, n) for n in range(len(state.shapes)))
    carried, read = len(scan.carries), len(scan.inputs)
    carries, inputs, outputs = rest[:carried], rest[carried : carried + read], rest[carried + read :]
    at = counter
    if scan.instruction.get("is_reverse"):
        at = b.binary(O.SUBTRACT, b.scalar(scan.length - 1, _COUNTER), counter)
    slices = [_slice(b, x, scan.dimension, at) for x in inputs]
    made = copy_body(scan.instruction.to_apply, c, [*slices, *carries], scan.instruction)
    row = [b.element(made, n) for n in range(len(made.shape.shapes))] if isinstance(made.shape, TupleShape) else [made]
    written = [_updated(b, o, r, scan.dimension, at) for o, r in zip(outputs, row, strict=False)]
    next_round = b.binary(O.ADD, counter, b.scalar(1, _COUNTER))
    c.set_root(b.add(O.TUPLE, (next_round, *row[len(outputs) :], *inputs, *written), state))


def _starts(b: Builder, rank: int, d: int, at: HloInstruction) -> list[HloInstruction]:
    return [at if n == d else b.scalar(0, _COUNTER) for n in range(rank)]


def _slice(b: Builder, x: HloInstruction, d: int, at: HloInstruction) -> HloInstruction:
    dims = x.array_shape.dimensions
    sizes = (*dims[:d], 1, *dims[d + 1 :])
    one = b.add(
        O.DYNAMIC_SLICE,
        (x, *_starts(b, len(dims), d, at)),
        array(x.array_shape.element_type, sizes),
        dynamic_slice_sizes=sizes,
    )
    return b.reshape(one, (*dims[:d], *dims[d + 1 :]))


def _updated(b: Builder, out: HloInstruction, row: HloInstruction, d: int, at: HloInstruction) -> HloInstruction:
    dims = out.array_shape.dimensions
    update = b.reshape(row, (*dims[:d], 1, *dims[d + 1 :]))
    return b.add(O.DYNAMIC_UPDATE_SLICE, (out, update, *_starts(b, len(dims), d, at)), out.shape)
