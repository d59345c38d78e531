"""Assign layouts: row-major, except where entry layouts or free bitcasts suggest another.

    t = f32[3,2] transpose(f32[2,3]{1,0} x), dimensions={1,0}
      =>  t = f32[3,2]{0,1} transpose(x), dimensions={1,0};  each user but a tuple reads copy(t)
    custom-call(exponential(x)), operand_layout_constraints={f32[2,3]{0,1}}
      =>  exponential, and all elementwise instructions before it, in {0,1}

- Entry parameters, entry results and custom calls have their given layouts. all-gather and
  reduce-scatter join arrays along the most major dimension.
- A layout that a custom call requires of its operands propagates up through instructions that keep
  elements in place. It stops at instructions that may have any layout (constants, broadcasts,
  reductions), or that have their own, where a copy is inserted.
- All other instructions read row-major operands, as XLA:CPU's code requires. A transpose or reshape
  gets the layout that moves no bytes.
- Tuples hold elements in any layout; loops carry row-major values.
- A module that already has bitcasts has its layouts (XLA refuses it): only missing layouts are set,
  and copies inserted where a value is passed on in another one (layout_agreement).

Source: xla/service/layout_assignment.h, cpu_layout_assignment.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.analysis.dataflow import in_place_pairs
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Layout, Literal, Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.bitcasts import aligned_layout
from xlanb.transforms.layout.layout_agreement import agree, parts, relayout, set_layouts
from xlanb.transforms.reason import reason

if TYPE_CHECKING:
    from xlanb.transforms.layout.layout_constraints import LayoutWishes

# The layouts of their results are given.
_FIXED = frozenset((O.CUSTOM_CALL, O.INFEED, O.RECV, O.RECV_DONE))
# They hold or pass on their operands unchanged.
_FORWARDING = frozenset((O.TUPLE, O.GET_TUPLE_ELEMENT, O.OPT_BARRIER, O.ADD_DEPENDENCY, O.DOMAIN))
# Result and operands of the same rank have one layout (LayoutAssignment::InstructionCanChangeLayout
# is false).
_KEEPING = frozenset(
    (
        O.COPY,
        O.CONCATENATE,
        O.DYNAMIC_SLICE,
        O.DYNAMIC_UPDATE_SLICE,
        O.MAP,
        O.PAD,
        O.REDUCE_WINDOW,
        O.REVERSE,
        O.SELECT_AND_SCATTER,
        O.SET_DIMENSION_SIZE,
        O.SLICE,
        O.SORT,
    )
)
# They may have any layout, whatever the operands' layouts.
_FREE = frozenset((O.BROADCAST, O.CONSTANT, O.IOTA, O.REDUCE, O.RESHAPE))
# By opcode, the attribute that names the dimension along which a collective joins or splits arrays.
_JOINED_ALONG = {O.ALL_GATHER: "dimensions", O.REDUCE_SCATTER: "dimensions"}
_ALIGNED_BYTES = 64  # smaller arrays are not aligned for the matrix library, so a plain loop multiplies them


@dataclass(frozen=True)
class LayoutAssignment(HloPass):
    """Gives every array a layout: row-major as in XLA:CPU, or by the `wishes` of another target.

    With `any_dots` a dot that is a result of the entry is computed in the caller's layout. XLA:CPU
    copies it.
    """

    name = "layout-assignment"
    assigns_layouts = True
    wishes: LayoutWishes | None = None
    any_dots: bool = False

    def apply(self, module: HloModule) -> None:
        if any(i.opcode is O.BITCAST for i in module.instructions()):
            for i in module.instructions():
                _set_shape(i, i.shape.with_default_layout())
            agree(module)
            return
        parameters, result = _entry_shapes(module)
        if self.wishes is not None and not any(i.opcode is O.FUSION for i in module.instructions()):
            for i in module.instructions():
                if i.opcode is O.CUSTOM_CALL and i.get("operand_layout_constraints"):
                    _separate_aliased(i)
            from xlanb.transforms.layout.layout_constraints import assign_layouts

            assign_layouts(module, self.wishes, parameters, result)
            return
        for c in module.post_order():
            assignment = _Assignment(c, parameters if c.is_entry else None)
            if self.any_dots and c.is_entry:
                assignment.fix_dots(result)
            assignment.run()
            _fix_result(c, result if c.is_entry else row_major(c.root.shape))


def row_major(shape: Shape) -> Shape:
    """The same shape with all arrays row-major, without memory spaces and tiles."""
    if isinstance(shape, TupleShape):
        return tuple_of(row_major(s) for s in shape.shapes)
    return shape.with_layout(Layout.default(shape.rank)) if isinstance(shape, ArrayShape) and shape.is_array else shape


def _entry_shapes(module: HloModule) -> tuple[tuple[Shape, ...], Shape]:
    """The shapes of the entry's parameters and result as callers see them."""
    if module.entry_layout is not None:
        parameters, result = module.entry_layout
        return tuple(p.with_default_layout() for p in parameters), result.with_default_layout()
    entry = module.entry_computation
    return tuple(p.shape.with_default_layout() for p in entry.parameters), entry.root.shape.with_default_layout()


def _set_shape(i: HloInstruction, shape: Shape) -> None:
    if shape == i.shape:
        return
    literal = (
        Literal(shape, i.literal.array, is_elided=i.literal.is_elided)
        if i.opcode is O.CONSTANT and shape.is_array
        else None
    )
    i.parent.update(i, shape=shape, attributes={"literal": literal} if literal is not None else {})


@reason("a custom call overwrites its operand")
def _separate_aliased(call: HloInstruction) -> None:
    """Copy each operand that the call overwrites, so that its layout affects no other user."""
    for n, _ in in_place_pairs(call):
        o = call.operands[n]
        if o.shape.is_array:
            call.parent.replace_operand(call, n, call.parent.add(O.COPY, (o,), o.shape, metadata=o.metadata))


def _fix_result(c: HloComputation, wanted: Shape) -> None:
    if c.root.shape != wanted:
        c.set_root(relayout(c.root, wanted))


class _Assignment:
    """The layouts of one computation: required layouts, then the shapes and copies that follow."""

    def __init__(self, computation: HloComputation, outside: tuple[Shape, ...] | None) -> None:
        self.computation = computation
        self.outside = outside
        self.results: dict[HloInstruction, Layout] = {}
        self.operands: dict[tuple[HloInstruction, int], Layout] = {}

    def fix_dots(self, wanted: Shape) -> None:
        """Choose the wanted layouts for dots that are results only."""
        root = self.computation.root
        results = zip(root.operands, parts(wanted), strict=True) if root.opcode is O.TUPLE else [(root, wanted)]
        for i, s in results:
            is_only_result = i.opcode is O.DOT and (i is root or i.user_count == 1)
            if is_only_result and isinstance(s, ArrayShape) and s.layout is not None:
                columns = s.layout.minor_to_major[:1]
                if columns and columns[0] >= len(i.ints("lhs_batch_dims")):
                    self.results[i] = s.layout

    def run(self) -> None:
        for i in self.computation.post_order():
            if i.opcode is O.CUSTOM_CALL:
                _separate_aliased(i)
                self._constrain(i)
            elif i.opcode in _JOINED_ALONG and i.shape.is_array:
                self._join_outermost(i)
        for i in self.computation.post_order():
            self._read(i)
            _set_shape(i, self._shape(i))

    def _constrain(self, call: HloInstruction) -> None:
        constraints: tuple[Shape, ...] = call.attributes.get("operand_layout_constraints") or ()
        for n, s in enumerate(constraints[: len(call.operands)]):
            if isinstance(s, ArrayShape) and s.is_array:
                self._demand(call, n, s.layout or Layout.default(s.rank))

    def _join_outermost(self, collective: HloInstruction) -> None:
        """Make the dimension along which a collective joins shards the most major one.

        The shards of all devices are then contiguous, one after another.
        """
        rank, d = collective.array_shape.rank, int(collective.attributes[_JOINED_ALONG[collective.opcode]][0])
        layout = Layout((*(k for k in reversed(range(rank)) if k != d), d))
        self.results[collective] = layout
        self._demand(collective, 0, layout)

    def _demand(self, user: HloInstruction, number: int, layout: Layout) -> None:
        """Require a layout of an operand, and of its producer's operands in turn.

        The first requirement of a value wins.
        """
        todo = [(user, number, layout)]
        while todo:
            user, number, layout = todo.pop()
            self.operands[user, number] = layout
            i = user.operands[number]
            if i in self.results or not _may_have(i, layout):
                continue
            self.results[i] = layout
            asked = [(i, n, s) for n, o in enumerate(i.operands) if (s := _operand_layout(i, o, layout)) is not None]
            todo.extend(reversed(asked))

    def _read(self, i: HloInstruction) -> None:
        """Make an instruction read each operand in its required layout, with a copy if needed."""
        for n, o in enumerate(i.operands):
            if i.opcode is O.CONDITIONAL and n and o.users == (i,) and i.operands.count(o) == 1:
                # other branches need no copy then
                set_layouts(i.called_computations[n - 1].parameters[0], o.shape)
                continue
            wanted = self._operand_shape(i, n)
            if o.shape != wanted:
                self.computation.replace_operand(i, n, relayout(o, wanted))

    def _operand_shape(self, i: HloInstruction, number: int) -> Shape:
        shape = i.operands[number].shape
        layout = self.operands.get((i, number))
        if layout is not None and isinstance(shape, ArrayShape):
            return shape.with_layout(layout)
        if i.opcode in _FORWARDING:
            return shape
        constraints = i.attributes.get("operand_layout_constraints") if i.opcode is O.CUSTOM_CALL else None
        if constraints and number < len(constraints):
            given: Shape = constraints[number].with_default_layout()
            return given
        return row_major(shape)

    def _shape(self, i: HloInstruction) -> Shape:
        shape = i.shape
        layout = self.results.get(i)
        if layout is not None and isinstance(shape, ArrayShape):
            return shape.with_layout(layout)
        if i.opcode is O.PARAMETER and self.outside is not None:
            return self.outside[i.parameter_number]
        if i.opcode is O.TUPLE:
            return tuple_of(o.shape for o in i.operands)
        if i.opcode is O.GET_TUPLE_ELEMENT:
            return parts(i.operands[0].shape)[i.tuple_index]
        if i.opcode in _FORWARDING:
            return i.operands[0].shape
        if i.opcode in _FIXED:
            return shape.with_default_layout()
        if i.opcode is O.TRANSPOSE:
            return i.array_shape.with_layout(_same_bytes(i))
        if i.opcode is O.RESHAPE:
            aligned = aligned_layout(i.operands[0].array_shape, i.array_shape.dimensions)
            return i.array_shape.with_layout(aligned or Layout.default(i.array_shape.rank))
        return row_major(shape)


def _may_have(i: HloInstruction, layout: Layout) -> bool:
    """Whether `i` can produce its result in a layout."""
    if not i.shape.is_array or len(layout.minor_to_major) != i.array_shape.rank:
        return False
    if i.opcode is O.DOT:
        return any(s.array_shape.byte_size < _ALIGNED_BYTES for s in (i, *i.operands))
    return i.opcode in _FREE or _keeps(i)


def _keeps(i: HloInstruction) -> bool:
    if i.opcode is O.BITCAST_CONVERT:
        return i.array_shape.rank == i.operands[0].array_shape.rank
    return i.opcode in _KEEPING or i.opcode.is_elementwise


def _operand_layout(i: HloInstruction, operand: HloInstruction, layout: Layout) -> Layout | None:
    """The layout in which `i` reads an operand if its result is in `layout`; None: row-major."""
    if not operand.shape.is_array:
        return None
    if i.opcode is O.RESHAPE:
        return aligned_layout(i.array_shape.with_layout(layout), operand.array_shape.dimensions)
    return layout if _keeps(i) and operand.array_shape.rank == i.array_shape.rank else None


def _same_bytes(transpose: HloInstruction) -> Layout:
    """The layout of the result for which no bytes move."""
    places = {d: n for n, d in enumerate(transpose.dimensions)}
    return Layout(tuple(places[d] for d in transpose.operands[0].array_shape.minor_to_major))
