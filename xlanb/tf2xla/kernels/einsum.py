"""Einsum of one or two operands (tf2xla/kernels/einsum_op.cc; the equation's grammar is that of
tf.einsum).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar
from xlanb.tf2xla.registry import register

Labels = list[str]


@dataclass(slots=True)
class _Operand:
    """A value with a label per dimension; "..0", "..1" are an ellipsis's, counted from its end."""

    value: HloInstruction
    labels: Labels

    def axes(self, wanted: Labels) -> list[int]:
        return [self.labels.index(w) for w in wanted]


def _labels(ctx: OpContext, term: str, rank: int | None) -> Labels:
    """Return the labels of a term; its ellipsis gets the remaining dimensions of `rank`.

    For the result `rank` is None, and the ellipsis is filled in later.
    """
    head, dots, tail = term.replace(" ", "").partition("...")
    if any(not c.isalpha() for c in head + tail):
        ctx.fail(f"malformed einsum term {term!r}")
    if rank is None:
        return [*head, *([dots] if dots else []), *tail]
    hidden = rank - len(head) - len(tail)
    if hidden < 0 or (hidden and not dots):
        ctx.fail(f"einsum term {term!r} does not match {rank} dimensions")
    return [*head, *(f"..{i}" for i in reversed(range(hidden))), *tail]


def _parse(ctx: OpContext) -> tuple[list[_Operand], Labels]:
    equation = str(ctx.attr("equation"))
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != ctx.input_count or len(terms) > 2:
        ctx.fail(
            f"equation {equation!r} must have a result and one operand for each input (one or two), got "
            f"{ctx.input_count}"
        )
    operands = [_Operand(x, _labels(ctx, t, x.array_shape.rank)) for t, x in zip(terms, ctx.inputs, strict=True)]
    hidden = max((sum(label.startswith("..") for label in o.labels) for o in operands), default=0)
    result: Labels = []
    for label in _labels(ctx, right, None):
        result.extend(f"..{i}" for i in reversed(range(hidden))) if label == "..." else result.append(label)
    known = {label for o in operands for label in o.labels}
    if any(label not in known for label in result):
        ctx.fail(f"a label of the result of {equation!r} is in no operand")
    return operands, result


@register("Einsum", "XlaEinsum")
def _einsum(ctx: OpContext) -> HloInstruction:
    operands, result = _parse(ctx)
    for o in operands:
        _take_diagonals(ctx, o)
    _drop_ones(ctx, operands)
    distinct = list(dict.fromkeys(result))
    for index, o in enumerate(operands):
        others = {label for other in operands[:index] + operands[index + 1 :] for label in other.labels}
        _sum_out(ctx, o, [label for label in o.labels if label not in others and label not in distinct])
    made = _product(ctx, operands[0], operands[1], distinct) if len(operands) == 2 else operands[0]
    # a label that only broadcasting of size 1 has left out
    missing = [label for label in distinct if label not in made.labels]
    made = _Operand(
        ctx.b.reshape(made.value, [*made.value.array_shape.dimensions, *(1 for _ in missing)]), [*made.labels, *missing]
    )
    order = made.axes(distinct)
    value = made.value if order == list(range(len(order))) else ctx.b.transpose(made.value, order)
    return _repeat_labels(ctx, _Operand(value, distinct), result)


def _take_diagonals(ctx: OpContext, o: _Operand) -> None:
    """Reduce a label that occurs twice in one operand to its diagonal, by a mask and a sum."""
    for label in list(dict.fromkeys(o.labels)):
        while o.labels.count(label) > 1:
            first = o.labels.index(label)
            second = o.labels.index(label, first + 1)
            shape = o.value.array_shape
            if shape.dimensions[first] != shape.dimensions[second]:
                ctx.fail(
                    f"label {label!r} has different sizes, {shape.dimensions[first]} and {shape.dimensions[second]}"
                )
            masked = ctx.b.select(
                _equal_indices(ctx, shape.dimensions, first, second), o.value, filled(ctx, o.value, 0)
            )
            o.value = ctx.b.reduce(masked, scalar(ctx, masked, 0), [second], HloOpcode.ADD)
            del o.labels[second]


def _equal_indices(ctx: OpContext, dims: tuple[int, ...], first: int, second: int) -> HloInstruction:
    rows, columns = (ctx.b.iota(array(PrimitiveType.S32, dims), d) for d in (first, second))
    return ctx.b.compare(rows, columns, "EQ")


def _drop_ones(ctx: OpContext, operands: list[_Operand]) -> None:
    """Drop a label of size 1 from an operand if the other's size is not 1: it is broadcast."""
    if len(operands) != 2:
        return
    for o, other in (operands, operands[::-1]):
        sizes = dict(zip(o.labels, o.value.array_shape.dimensions, strict=True))
        theirs = dict(zip(other.labels, other.value.array_shape.dimensions, strict=True))
        gone = [label for label, size in sizes.items() if size == 1 and theirs.get(label, 1) != 1]
        o.value = ctx.b.reshape(o.value, [size for label, size in sizes.items() if label not in gone])
        o.labels = [label for label in o.labels if label not in gone]


def _sum_out(ctx: OpContext, o: _Operand, labels: Labels) -> None:
    if labels:
        o.value = ctx.b.reduce(o.value, scalar(ctx, o.value, 0), o.axes(labels), HloOpcode.ADD)
        o.labels = [label for label in o.labels if label not in labels]


def _product(ctx: OpContext, x: _Operand, y: _Operand, result: Labels) -> _Operand:
    shared = [label for label in x.labels if label in y.labels]
    batch = [label for label in shared if label in result]
    summed = [label for label in shared if label not in result]
    for label in shared:
        sizes = [o.value.array_shape.dimensions[o.labels.index(label)] for o in (x, y)]
        if sizes[0] != sizes[1]:
            ctx.fail(f"label {label!r} has different sizes, {sizes[0]} and {sizes[1]}")
    value = ctx.b.dot_general(
        x.value,
        y.value,
        lhs_batch_dims=x.axes(batch),
        rhs_batch_dims=y.axes(batch),
        lhs_contracting_dims=x.axes(summed),
        rhs_contracting_dims=y.axes(summed),
    )
    free = [label for o in (x, y) for label in o.labels if label not in shared]
    return _Operand(value, [*batch, *free])


def _repeat_labels(ctx: OpContext, o: _Operand, result: Labels) -> HloInstruction:
    """A label that occurs twice in the result: the value on that diagonal, 0 elsewhere."""
    if result == o.labels:
        return o.value
    sizes = dict(zip(o.labels, o.value.array_shape.dimensions, strict=True))
    dims = tuple(sizes[label] for label in result)
    value = (
        ctx.b.broadcast_in_dim(o.value, dims, [result.index(label) for label in o.labels])
        if prod(dims)
        else broadcast_to(ctx.b, scalar(ctx, o.value, 0), dims)
    )
    for second, label in enumerate(result):
        first = result.index(label)
        if first != second:
            value = ctx.b.select(_equal_indices(ctx, dims, first, second), value, filled(ctx, value, 0))
    return value
