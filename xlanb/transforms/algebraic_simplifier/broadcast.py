"""Broadcasts and iotas."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import inserted_ones
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT, MOVES

BROADCAST = RuleSet("broadcast")
rule = BROADCAST.rule


@rule(
    "broadcast(A) => reshape(A) of the same elements",
    m.op(O.BROADCAST, "a"),
    guard("no element is duplicated", lambda root, a: root.array_shape.element_count == a.array_shape.element_count),
    guard("in order", lambda root: list(root.dimensions) == sorted(root.dimensions)),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    return b.add(O.RESHAPE, (a,), root.shape)


@rule(
    "broadcast(A) => transpose(A) of the same elements",
    m.op(O.BROADCAST, "a"),
    guard(
        "no element is duplicated",
        lambda root, a: (
            root.array_shape.element_count == a.array_shape.element_count
            and root.array_shape.rank == a.array_shape.rank
            and root.array_shape.element_count > 0
        ),
    ),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    permutation = sorted(range(len(root.dimensions)), key=lambda d: root.dimensions[d])
    return b.add(O.TRANSPOSE, (a,), root.shape, dimensions=tuple(permutation))


@rule(
    "broadcast(reshape(A)) => broadcast(A) where the reshape adds dimensions of size 1",
    m.op(O.BROADCAST, m.op(O.RESHAPE, "a", name="r")),
    guard("it only adds dimensions of size 1", lambda a, r: inserted_ones(a.array_shape, r.array_shape) is not None),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, r: HloInstruction) -> HloInstruction:
    added = inserted_ones(a.array_shape, r.array_shape) or ()
    dimensions = tuple(d for k, d in enumerate(root.dimensions) if k not in added)
    return b.add(O.BROADCAST, (a,), root.shape, dimensions=dimensions)


def _is_of_scalar(i: HloInstruction) -> bool:
    return i.opcode is O.BROADCAST and i.operands[0].array_shape.is_scalar


def _takes_alike(root: HloInstruction, a: HloInstruction, user: HloInstruction) -> bool:
    """Whether a user is elementwise over broadcasts only, of scalars or alike in operand shape."""
    return (
        user.opcode.is_elementwise
        and user.opcode is not O.COPY
        and not user.is_dead
        and user.shape.is_array
        and not user.control_predecessors
        and not user.control_successors
        and all(
            o.opcode is O.BROADCAST
            and (
                o.operands[0].array_shape.is_scalar
                or (o.operands[0].shape == a.shape and o.dimensions == root.dimensions)
            )
            for o in user.operands
        )
    )


@rule(
    "op(broadcast(A), broadcast(B)) => broadcast(op(A, B))",
    m.op(O.BROADCAST, "a"),
    guard("no scalar", lambda root: not root.array_shape.is_scalar),
    guard(
        "an elementwise user has matching or scalar broadcasts",
        lambda root, a: any(_takes_alike(root, a, u) for u in root.users),
    ),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    c = root.parent
    for u in root.users:
        if u in c and _takes_alike(root, a, u):
            narrow = [
                c.add(
                    O.BROADCAST, (o.operands[0],), a.array_shape.with_type(o.shape.element_type), dimensions=(), like=o
                )
                if _is_of_scalar(o)
                else o.operands[0]
                for o in u.operands
            ]
            new = c.clone_instruction(u, narrow, a.array_shape.with_type(u.shape.element_type))
            # As in XLA the dead user stays: it is visited itself, and dce removes it.
            c.replace_uses(u, c.add(O.BROADCAST, (new,), u.shape, dimensions=root.dimensions, like=root))
    return root


def _reorders(root: HloInstruction, user: HloInstruction) -> bool:
    """Whether every element that a user returns is an element of this operand."""
    if user.is_dead or user.control_predecessors or user.control_successors:
        return False
    if user.opcode in (O.SLICE, O.DYNAMIC_SLICE):
        return user.operands[0] is root and root not in user.operands[1:]
    return user.opcode in (O.RESHAPE, O.REVERSE, O.TRANSPOSE) or (user.opcode is O.SORT and user.shape.is_array)


@rule(
    "reorder(broadcast(scalar)) => broadcast(scalar)",
    m.op(O.BROADCAST, "a"),
    guard("of a scalar", lambda a: a.array_shape.is_scalar),
    guard("a user only reorders or selects elements", lambda root: any(_reorders(root, u) for u in root.users)),
    keeps=MOVES,
)
def _(root: HloInstruction, a: HloInstruction) -> HloInstruction:
    # As in XLA only the first such user is replaced; it stays for its own rules and dce.
    user = next(u for u in root.users if _reorders(root, u))
    new = root.parent.add(O.BROADCAST, (a,), user.shape, dimensions=(), like=user)
    root.parent.replace_uses(user, new)
    return root


@rule("broadcast(iota) => iota", m.op(O.BROADCAST, m.op(O.IOTA, name="i")), keeps=EXACT)
def _(b: Builder, root: HloInstruction, i: HloInstruction) -> HloInstruction:
    return b.add(O.IOTA, (), root.shape, iota_dimension=root.dimensions[i.get("iota_dimension")])


@rule("broadcast(broadcast(A)) => broadcast(A)", m.op(O.BROADCAST, m.op(O.BROADCAST, "a", name="inner")), keeps=MOVES)
def _(b: Builder, root: HloInstruction, a: HloInstruction, inner: HloInstruction) -> HloInstruction:
    return b.add(O.BROADCAST, (a,), root.shape, dimensions=tuple(root.dimensions[d] for d in inner.dimensions))


@rule(
    "broadcast(A) => broadcast(reshape(A)) without dimensions of size 1",
    m.op(O.BROADCAST, "a"),
    guard("the pass is layout-insensitive", lambda options: not options.is_layout_sensitive),
    guard("A has dimensions of size 1", lambda a: 1 in a.array_shape.dimensions),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    kept = [k for k, n in enumerate(a.array_shape.dimensions) if n != 1]
    narrow = b.reshape(a, [a.array_shape.dimensions[k] for k in kept])
    return b.add(O.BROADCAST, (narrow,), root.shape, dimensions=tuple(root.dimensions[k] for k in kept))


@rule(
    "iota of a dimension of size 1 => 0",
    m.op(O.IOTA),
    guard(
        "one step",
        lambda root: (
            root.array_shape.dimensions[root.get("iota_dimension")] <= 1 and root.array_shape.element_count > 0
        ),
    ),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.full(0, root.array_shape)
