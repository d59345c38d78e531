"""Assign layouts by propagating constraints, for targets whose library calls need layouts.

    dot(x, transpose(y)) that requires row-major operands
    =>    transpose in {1,0}; y, and the elementwise instructions before it, in {0,1} unless
          constrained otherwise

Constraints are on results ("buffers") and on operands. First come fixed ones: the entry's
parameters and result, loops, custom calls. Then come those of the target. Each propagates to
operands, users and siblings, depth first, through instructions that keep the layout. Whatever is
left becomes row-major, which propagates too. A copy is inserted where an operand is required in
another layout than it has.
Source: xla/service/layout_assignment.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Protocol, TypeAlias

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.operand_use import is_elementwise
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Layout, Literal, Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.bitcasts import aligned_layout
from xlanb.transforms.layout.layout_agreement import relayout, set_layouts

Order: TypeAlias = tuple[int, ...]
"""A layout: the dimensions from minor to major."""
Leaf: TypeAlias = tuple[int, ...]
Buffer: TypeAlias = tuple[HloInstruction, Leaf]
"""A definition of an array: an instruction and the index of the array in its result."""
Orders: TypeAlias = Mapping[Leaf, Order]

_ROUNDS = 2
_MOST_CHANGES = 2
"""How often an optional constraint may change, so that propagation terminates."""

_FORWARDING = frozenset((O.OPT_BARRIER, O.ADD_DEPENDENCY, O.DOMAIN))
# Result and operands of the same rank have one layout (InstructionCanChangeLayout is false).
_KEEPING = frozenset(
    (
        *(O.BITCAST_CONVERT, O.CONCATENATE, O.ALL_GATHER, O.ALL_TO_ALL, O.COLLECTIVE_PERMUTE, O.DYNAMIC_SLICE),
        *(O.DYNAMIC_UPDATE_SLICE, O.FFT, O.MAP, O.OPT_BARRIER, O.ADD_DEPENDENCY, O.PAD, O.REDUCE_WINDOW, O.REVERSE),
        *(O.SCATTER, O.SELECT_AND_SCATTER, O.SLICE, O.SORT, O.TOPK, O.STOCHASTIC_CONVERT, O.TRIANGULAR_SOLVE),
        *(O.CHOLESKY, O.WHILE, O.SET_DIMENSION_SIZE, O.ALL_REDUCE, O.REDUCE_SCATTER, O.ALL_REDUCE_START),
        *(O.ALL_REDUCE_DONE, O.RAGGED_ALL_TO_ALL, O.REDUCE_PRECISION),
    )
)


class LayoutWishes(Protocol):
    """What a target requires of layouts."""

    def constrain(self, layouts: LayoutConstraints) -> None:
        """Constrain operands and results that the target needs in certain layouts."""

    def keeps_layout(self, i: HloInstruction) -> bool:
        """Whether the target needs one layout for the result and operands of `i`.

        In addition to instructions that always do.
        """

    def reduces_rows(self, i: HloInstruction) -> bool:
        """Whether a reduce prefers the reduced dimensions to be the most minor of its operand."""


@dataclass(eq=False)
class _Constraint:
    """A constraint on a buffer (`number` is None) or on an operand.

    `depth_first` constraints propagate before the queued ones.
    """

    of: HloInstruction
    orders: dict[Leaf, Order]
    mandatory: bool
    depth_first: bool
    priority: int
    leaf: Leaf = ()
    number: int | None = None
    changes: int = 0


@dataclass
class _Outside:
    """The known layouts of a computation's parameters and result."""

    parameters: list[Orders] = field(default_factory=list)
    result: Orders | None = None


class LayoutConstraints:
    """The constraints in one computation, in one round."""

    def __init__(
        self,
        computation: HloComputation,
        wishes: LayoutWishes,
        outside: dict[HloComputation, _Outside],
        priority: int,
    ) -> None:
        self.computation = computation
        self._wishes = wishes
        self._outside = outside
        self._priority = priority
        self._order = list(computation.post_order())
        self._sources: dict[HloInstruction, dict[Leaf, Buffer]] = {}
        self._arrays: dict[Buffer, list[HloInstruction]] = {}
        for i in self._order:
            self._sources[i] = self._sources_of(i)
            if i.shape.is_array:
                self._arrays.setdefault(self._sources[i][()], []).append(i)
        self._buffers: dict[Buffer, _Constraint] = {}
        self._operands: dict[tuple[HloInstruction, int], _Constraint] = {}
        self._added: list[_Constraint | None] = []

    # -- what targets use --------------------------------------------------------------------------

    def operand_order(self, i: HloInstruction, number: int) -> Order | None:
        """The required layout of an array operand of `i`, or None if not known yet."""
        found = self._operands.get((i, number))
        return found.orders.get(()) if found is not None else None

    def set_operand(
        self,
        i: HloInstruction,
        number: int,
        orders: Order | Orders,
        *,
        mandatory: bool = True,
        depth_first: bool = True,
        priority: int | None = None,
    ) -> None:
        """Require an operand in a layout, or its arrays in several."""
        wanted: dict[Leaf, Order] = {(): orders} if isinstance(orders, tuple) else dict(orders)
        priority = self._priority if priority is None else priority
        shape = i.operands[number].shape
        if shape.is_array and not shape.as_array().rank:
            return
        if not mandatory and _is_minor_matter(i, number):
            depth_first, priority = False, priority - 1
        known = self._operands.get((i, number))
        if known is None:
            known = _Constraint(i, wanted, mandatory, depth_first, priority, number=number)
            self._operands[i, number] = known
        elif known.orders == wanted or not mandatory or known.priority > priority:
            return
        else:
            known.orders, known.mandatory, known.depth_first, known.priority = wanted, mandatory, depth_first, priority
        self._push(known)

    def set_result(self, i: HloInstruction, order: Order, leaf: Leaf = ()) -> None:
        """Give the result of `i`, or its array at `leaf`, a layout."""
        self._set_buffer(self._sources[i][leaf], order)
        if not leaf and i.shape.is_array and self._keeps(i) and i.opcode is not O.WHILE:
            for n, o in enumerate(i.operands):
                if o.shape.is_array and o.array_shape.rank == len(order):
                    self.set_operand(i, n, order)

    # -- spreading ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Give every array a layout."""
        self._constrain_fixed()
        self._wishes.constrain(self)
        self._spread()
        for i in self._order:
            for leaf, buffer in self._sources[i].items():
                if buffer == (i, leaf) and buffer not in self._buffers:
                    self._set_buffer(buffer, _given_order(i, leaf), mandatory=False)
                    self._spread()

    def orders_of(self, i: HloInstruction) -> dict[Leaf, Order]:
        """The layouts of the arrays in a result."""
        return {leaf: self._buffers[b].orders[()] for leaf, b in self._sources[i].items()}

    def operand_orders(self, i: HloInstruction, number: int) -> dict[Leaf, Order] | None:
        """The layout required for an operand; None if any is accepted."""
        found = self._operands.get((i, number))
        return found.orders if found is not None else None

    def _sources_of(self, i: HloInstruction) -> dict[Leaf, Buffer]:
        if i.opcode is O.TUPLE:
            return {(n, *leaf): b for n, o in enumerate(i.operands) for leaf, b in self._sources[o].items()}
        if i.opcode is O.GET_TUPLE_ELEMENT:
            whole = self._sources[i.operands[0]]
            return {leaf[1:]: b for leaf, b in whole.items() if leaf[0] == i.tuple_index}
        if i.opcode in _FORWARDING:
            return dict(self._sources[i.operands[0]])
        return {leaf: (i, leaf) for leaf in arrays_of(i.shape)}

    def _keeps(self, i: HloInstruction) -> bool:
        return (is_elementwise(i) and i.opcode is not O.COPY) or i.opcode in _KEEPING or self._wishes.keeps_layout(i)

    def _forwards(self, i: HloInstruction, number: int) -> bool:
        """Whether an array of the operand is passed on unchanged in the result."""
        return not set(self._sources[i].values()).isdisjoint(self._sources[i.operands[number]].values())

    def _set_buffer(
        self,
        buffer: Buffer,
        order: Order,
        *,
        mandatory: bool = True,
        depth_first: bool = True,
        priority: int | None = None,
    ) -> None:
        priority = self._priority if priority is None else priority
        known = self._buffers.get(buffer)
        if known is None:
            known = _Constraint(buffer[0], {(): order}, mandatory, depth_first, priority, leaf=buffer[1])
            self._buffers[buffer] = known
        elif known.orders[()] == order:
            more = (
                known.mandatory or mandatory,
                known.depth_first or depth_first,
                max(known.priority, priority),
            )
            if more == (known.mandatory, known.depth_first, known.priority):
                return
            known.mandatory, known.depth_first, known.priority = more
        else:
            stays = known.changes > _MOST_CHANGES or not buffer[0].shape.is_array or priority <= known.priority
            if stays and not mandatory:
                return
            known.orders, known.mandatory, known.depth_first, known.priority = (
                {(): order},
                mandatory,
                depth_first,
                priority,
            )
            known.changes += 1
        self._push(known)

    def _push(self, constraint: _Constraint) -> None:
        if constraint.depth_first:
            self._added.append(constraint)
            return
        place = len(self._added)
        while place and not self._comes_before(self._added[place - 1], constraint):
            place -= 1
        self._added.insert(place, constraint)

    def _comes_before(self, one: _Constraint | None, other: _Constraint) -> bool:
        return other.priority <= (one.priority if one is not None else self._priority)

    def _constrain_fixed(self) -> None:
        c, outside = self.computation, self._outside.get(self.computation)
        for i in self._order:
            if i.opcode is O.PARAMETER and outside is not None:
                for leaf, order in outside.parameters[i.parameter_number].items():
                    self._set_buffer((i, leaf), order)
            elif i.opcode in (O.INFEED, O.RECV) or _is_constrained_call(i):
                for leaf, s in arrays_of(i.shape).items():
                    self._set_buffer((i, leaf), s.minor_to_major)
                constraints = i.get("operand_layout_constraints") if i.opcode is O.CUSTOM_CALL else None
                for n, s in enumerate(constraints or ()):
                    self.set_operand(i, n, orders_in(s))
        for i in self._order:
            self._constrain_by_callees(i)
        if outside is not None and outside.result is not None and c.root in self._sources:
            self._added.append(None)  # stands for the result's constraint

    def _constrain_by_callees(self, i: HloInstruction) -> None:
        """Give a loop, branch or call the layouts of the computation that it calls."""
        if i.opcode is O.CALL and i.to_apply in self._outside:
            called = self._outside[i.to_apply]
            self._set_results(i, called.result)
            for n, orders in enumerate(called.parameters):
                self.set_operand(i, n, orders)
        elif i.opcode is O.WHILE and i.attributes["body"] in self._outside:
            body = self._outside[i.attributes["body"]]
            if body.result is not None:
                body.parameters = [body.result]
                self._outside[i.attributes["condition"]].parameters = [body.result]
                self.set_operand(i, 0, body.result)
                self._set_results(i, body.result)
        elif i.opcode is O.CONDITIONAL and i.called_computations[0] in self._outside:
            branches = [self._outside[c] for c in i.called_computations]
            sizes = [
                len(c) if arrays_of(o.shape) else 0 for c, o in zip(i.called_computations, i.operands[1:], strict=True)
            ]
            best = branches[sizes.index(max(sizes))]
            for n, branch in enumerate(branches):
                branch.result = best.result
                self.set_operand(i, n + 1, branch.parameters[0])
            self._set_results(i, best.result)

    def _set_results(self, i: HloInstruction, orders: Orders | None) -> None:
        for leaf, order in (orders or {}).items():
            self._set_buffer((i, leaf), order)

    def _spread(self) -> None:
        work: list[_Constraint | None] = []  # a stack: the last entry is next
        while True:
            added, self._added = self._added, []
            for one in added:
                if one is None or one.depth_first:
                    work.append(one)
                else:
                    work.insert(0, one)
            if not work:
                return
            constraint = work.pop()
            if constraint is None:
                self._to_definitions(self.computation.root, self._outside[self.computation].result or {})
            elif constraint.number is None:
                self._from_buffer(constraint)
            else:
                self._from_operand(constraint, constraint.number)

    def _to_definitions(self, i: HloInstruction, orders: Orders, priority: int | None = None) -> None:
        for leaf, order in orders.items():
            buffer = self._sources[i].get(leaf)
            if buffer is not None and not (buffer[0].opcode is O.REDUCE and not buffer[0].shape.is_array):
                self._set_buffer(buffer, order, mandatory=False, priority=priority)

    def _from_operand(self, constraint: _Constraint, number: int) -> None:
        user, operand, priority = constraint.of, constraint.of.operands[number], constraint.priority
        if _is_at_most_rank_1(operand.shape):
            return
        self._to_definitions(operand, constraint.orders, priority)
        if not operand.shape.is_array:
            return
        order, keeps = constraint.orders[()], self._keeps(user)
        if user.opcode is O.ALL_REDUCE:
            self._set_buffer((user, () if len(user.operands) == 1 else (number,)), order)
        if not keeps and not user.shape.is_array and user.opcode is not O.REDUCE:
            return
        if self._forwards(user, number):
            return
        defined = [
            (leaf, s)
            for leaf, s in arrays_of(user.shape).items()
            if s.rank > 1 and self._sources[user][leaf][0] is user
        ]
        if keeps or user.opcode is O.REDUCE:
            if user.opcode is O.CONCATENATE and _has_larger_sibling(user, operand):
                return
            for n, sibling in enumerate(user.operands):
                if sibling is not operand and sibling.shape.is_array and sibling.array_shape.rank == len(order):
                    self.set_operand(user, n, order, priority=priority)
            for leaf, s in defined:
                if s.rank == len(order):
                    self._set_buffer((user, leaf), order, priority=priority)
            return
        for leaf, _ in defined:
            if (made := _result_order(order, user, operand)) is not None:
                mandatory = user.opcode is O.TRANSPOSE
                self._set_buffer(
                    (user, leaf), made, mandatory=mandatory, depth_first=_goes_deep(user), priority=priority
                )

    def _from_buffer(self, constraint: _Constraint) -> None:
        i, order = constraint.of, constraint.orders[()]
        if not _is_at_most_rank_1(i.shape):
            self._to_operands(i, constraint.leaf, order, constraint.priority)
        for alias in self._arrays.get((i, constraint.leaf), ()):
            for user in reversed(alias.users):  # the constraint added last propagates first
                for n, o in enumerate(user.operands):
                    if o is alias and user in self._sources and not self._forwards(user, n):
                        self.set_operand(user, n, order, mandatory=False, priority=constraint.priority)
        self._round_the_loop(i, constraint.leaf, order)

    def _to_operands(self, i: HloInstruction, leaf: Leaf, order: Order, priority: int) -> None:
        if i.opcode is O.ALL_REDUCE:
            self.set_operand(i, leaf[0] if leaf else 0, order, priority=priority)
            return
        for n, operand in enumerate(i.operands):
            if _is_at_most_rank_1(operand.shape) or not operand.shape.is_array:
                continue
            if self._keeps(i):
                if operand.array_shape.rank == len(order):
                    self.set_operand(i, n, order)
            elif i.opcode is O.BROADCAST:
                self.set_operand(i, n, _broadcast_order(order, i), depth_first=False)
            elif not leaf and (wanted := self._operand_order(order, i, operand)) is not None:
                self.set_operand(i, n, wanted, mandatory=False, depth_first=_goes_deep(i))

    def _operand_order(self, order: Order, i: HloInstruction, operand: HloInstruction) -> Order | None:
        """The operand's layout with which `i` moves no bytes, or reduces rows; None: no preference.

        `order` is the layout of the result.
        """
        if i.opcode is O.RESHAPE:
            return _reshaped_order(i.array_shape, order, operand.array_shape)
        if i.opcode is O.TRANSPOSE:
            return tuple(i.dimensions[d] for d in order)
        if i.opcode is O.REDUCE and i.shape.is_array and self._wishes.reduces_rows(i):
            kept = [d for d in range(operand.array_shape.rank) if d not in i.dimensions]
            return (*reversed(i.dimensions), *(kept[d] for d in order))
        return None

    def _round_the_loop(self, i: HloInstruction, leaf: Leaf, order: Order) -> None:
        """Require the same layout of a loop body's result as of its parameter."""
        c = self.computation
        callers = c.module.callers(c)
        if c.root.opcode is not O.TUPLE or len(callers) != 1 or callers[0].opcode is not O.WHILE:
            return
        for n, o in enumerate(c.root.operands):
            if o is i:
                self._set_buffer((c.parameters[0], (n, *leaf)), order, mandatory=False)
                return


def assign_layouts(module: HloModule, wishes: LayoutWishes, parameters: tuple[Shape, ...], result: Shape) -> None:
    """Give every array in a module a layout, and insert copies where layouts differ.

    Args:
        module: without fusions and bitcasts; each computation of a branch, loop or call has one
            caller.
        wishes: what the target requires.
        parameters: the entry's parameters in the layouts that callers use.
        result: its result in the layout that callers expect.
    """
    computations = list(nonfusion_computations(module))
    outside = {module.entry_computation: _Outside([orders_in(p) for p in parameters], orders_in(result))}
    found: dict[HloComputation, LayoutConstraints] = {}
    for priority in range(_ROUNDS):
        for c in computations:
            found[c] = LayoutConstraints(c, wishes, outside, priority)
            found[c].run()
            if c not in outside:
                of_parameters: list[Orders] = [found[c].orders_of(p) for p in c.parameters]
                outside[c] = _Outside(of_parameters, found[c].orders_of(c.root))
    for c in computations:
        _assign(c, found[c], outside[c].result or {})
    entry = module.entry_computation
    for p, shape in zip(entry.parameters, parameters, strict=True):
        set_layouts(p, shape)  # including tiles and memory spaces
    if entry.root.shape != result:
        entry.set_root(relayout(entry.root, result))


def _assign(c: HloComputation, constraints: LayoutConstraints, result: Orders) -> None:
    for i in c.post_order():
        _set_shape(i, _in_orders(i.shape, constraints.orders_of(i)))
    for i in c.post_order():
        for n, o in enumerate(i.operands):
            wanted = constraints.operand_orders(i, n)
            if wanted is None or _in_orders(o.shape, wanted) == o.shape:
                continue
            if i.opcode is O.CONDITIONAL and n and _is_only_use(i, n):
                # other branches need no copy then
                set_layouts(i.called_computations[n - 1].parameters[0], o.shape)
            else:
                c.replace_operand(i, n, relayout(o, _in_orders(o.shape, wanted)))
    wanted_shape = _in_orders(c.root.shape, result)
    if c.root.shape != wanted_shape:
        c.set_root(relayout(c.root, wanted_shape))


def _is_only_use(conditional: HloInstruction, number: int) -> bool:
    """Whether an operand is used by one branch only, and that branch has no other caller."""
    operand, branch = conditional.operands[number], conditional.called_computations[number - 1]
    once = operand.users == (conditional,) and conditional.operands.count(operand) == 1
    return once and conditional.called_computations.count(branch) == 1 == len(branch.module.callers(branch))


def _set_shape(i: HloInstruction, shape: Shape) -> None:
    if shape == i.shape:
        return
    attributes = {}
    if i.opcode is O.CONSTANT and shape.is_array:
        attributes["literal"] = Literal(shape.as_array(), i.literal.array, is_elided=i.literal.is_elided)
    i.parent.update(i, shape=shape, attributes=attributes)


# -- shapes and orders -----------------------------------------------------------------------------


def arrays_of(shape: Shape) -> dict[Leaf, ArrayShape]:
    """The arrays in a shape by their index; tokens are left out."""
    if isinstance(shape, TupleShape):
        return {(n, *leaf): a for n, s in enumerate(shape.shapes) for leaf, a in arrays_of(s).items()}
    return {(): shape.as_array()} if shape.is_array else {}


def orders_in(shape: Shape) -> dict[Leaf, Order]:
    """The layouts of the arrays in a shape; row-major if it has none."""
    return {leaf: a.minor_to_major for leaf, a in arrays_of(shape).items()}


def default_order(rank: int) -> Order:
    """Row major."""
    return tuple(reversed(range(rank)))


def _in_orders(shape: Shape, orders: Orders, leaf: Leaf = ()) -> Shape:
    """A shape with these layouts; an existing layout of the same order is kept with its tiles."""
    if isinstance(shape, TupleShape):
        return tuple_of(_in_orders(s, orders, (*leaf, n)) for n, s in enumerate(shape.shapes))
    order = orders.get(leaf)
    if order is None or not isinstance(shape, ArrayShape) or (shape.layout and shape.minor_to_major == order):
        return shape
    return shape.with_layout(Layout(order))


def _given_order(i: HloInstruction, leaf: Leaf) -> Order:
    """The layout of an unconstrained array: that of a constant's literal, else row-major."""
    shape = arrays_of(i.shape)[leaf]
    return i.literal.shape.as_array().minor_to_major if i.opcode is O.CONSTANT else default_order(shape.rank)


def _is_at_most_rank_1(shape: Shape) -> bool:
    return all(a.rank <= 1 for a in arrays_of(shape).values())


def _is_constrained_call(i: HloInstruction) -> bool:
    return i.opcode is O.CUSTOM_CALL and bool(i.get("operand_layout_constraints"))


def _is_minor_matter(i: HloInstruction, number: int) -> bool:
    """Whether a requirement on an operand has low priority.

    True for what is written into a large array, and for a reshaped dynamic slice.
    """
    if i.opcode is O.DYNAMIC_UPDATE_SLICE:
        return number > 0
    return i.opcode is O.RESHAPE and i.operands[0].opcode is O.DYNAMIC_SLICE


def _has_larger_sibling(concatenate: HloInstruction, operand: HloInstruction) -> bool:
    d = concatenate.dimensions[0]
    size = operand.array_shape.dimensions[d]
    return any(o is not operand and o.array_shape.dimensions[d] > size for o in concatenate.operands)


def _goes_deep(i: HloInstruction) -> bool:
    """Whether the layout of a result should propagate depth first.

    True for transposes, gathers, scatters, and reshapes that only insert or remove size-1
    dimensions.
    """
    if i.opcode is O.RESHAPE:
        source = i.operands[0].array_shape
        return source.rank == 1 or _without_ones(source.dimensions) == _without_ones(i.array_shape.dimensions)
    return i.opcode in (O.GATHER, O.SCATTER, O.TRANSPOSE)


def _without_ones(dimensions: Iterable[int]) -> list[int]:
    return [n for n in dimensions if n != 1]


def _result_order(order: Order, user: HloInstruction, operand: HloInstruction) -> Order | None:
    """The result layout with which a reshape or transpose of the operand moves no bytes.

    `order` is the layout of the operand.
    """
    if user.opcode is O.RESHAPE:
        return _reshaped_order(operand.array_shape, order, user.array_shape)
    if user.opcode is O.TRANSPOSE:
        places = {d: n for n, d in enumerate(user.dimensions)}
        return tuple(places[d] for d in order)
    return None


def _reshaped_order(source: ArrayShape, order: Order, target: ArrayShape) -> Order | None:
    if len(_without_ones(source.dimensions)) == 1 == len(_without_ones(target.dimensions)):
        return None
    aligned = aligned_layout(source.with_layout(Layout(order)), target.dimensions, ones_in_order=True)
    return aligned.minor_to_major if aligned is not None else None


def _broadcast_order(order: Order, broadcast: HloInstruction) -> Order:
    places = {d: n for n, d in enumerate(broadcast.dimensions)}
    return tuple(places[d] for d in order if d in places)
