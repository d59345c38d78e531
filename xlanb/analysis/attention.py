"""Recognize attention in a computation: a softmax between two dots, softmax(f(q k^T)) v.

    s = dot(q, k)                 scores, over batch dimensions, queries and keys in any order
    x = f(s, ...)                 a scale, masks, biases: elementwise
    e = exp(x - broadcast(max(x over keys)))
    p = e / broadcast(sum(e over keys)), or e * broadcast(1 / sum)
    dot(p, v)

Instructions that only move data (bitcasts, transposes, copies), and converts, may occur in between.
`attention_of` reads it backwards from the second dot, and tracks each index of the dots through
data movement (see digits.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from xlanb.analysis.digits import (
    MOVING,
    Digit,
    Dims,
    backward,
    forward,
    refined,
    step_of,
    steps,
    whole,
)
from xlanb.analysis.operand_use import is_elementwise
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType

_FLOATS = (PrimitiveType.F32, PrimitiveType.BF16, PrimitiveType.F16)
_SHAPELESS = frozenset((*MOVING, O.CONVERT))
_LONGEST = 128
"""The most instructions searched between the first dot and the second, including the masks."""
_KEYS, _DEPTH, _WIDTH = "keys", "depth", "width"


@dataclass(frozen=True, eq=False)
class Access:
    """The memory layout of an operand or result.

    It starts at element `offset` of `array`; `steps` are the elements from one value of a digit to
    the next.
    """

    array: HloInstruction
    offset: int
    steps: dict[Digit, int]
    path: tuple[HloInstruction, ...] = ()
    """The instructions between `array` and the dot; they only move data or convert it to f32."""

    def step(self, digit: Digit) -> int:
        """The elements from one value of a refined digit to the next; 0 if the array lacks it."""
        return step_of(digit, self.steps)


@dataclass(frozen=True, eq=False)
class Attention:
    """An attention: its parts as instructions, and its indices.

    Queries are numbered by the digit `rows`. All other digits of batches and queries (`heads`:
    batch, heads, groups of heads) number independent attentions.
    """

    scores: HloInstruction
    logits: HloInstruction
    maximum: HloInstruction
    exponential: HloInstruction
    total: HloInstruction
    probabilities: HloInstruction
    product: HloInstruction
    logits_dims: Dims
    q: Access
    k: Access
    v: Access
    output: Access
    heads: tuple[Digit, ...]
    rows: Digit
    keys: Digit
    depth: Digit
    width: Digit

    @property
    def head_count(self) -> int:
        """The number of independent attentions."""
        out = 1
        for digit in self.heads:
            out *= digit.size
        return out

    @property
    def root(self) -> HloInstruction:
        """The result, after any data movement."""
        return self.output.array

    @property
    def operand_type(self) -> PrimitiveType:
        """The type in which probabilities and values are multiplied."""
        return self.product.operands[0].array_shape.element_type

    @property
    def core(self) -> tuple[HloInstruction, ...]:
        """The named parts, results first."""
        return (
            self.product,
            self.probabilities,
            self.total,
            self.exponential,
            self.maximum,
            self.logits,
            self.scores,
        )


def attention_of(product: HloInstruction) -> Attention | None:
    """The attention whose second dot is `product`, or None."""
    if product.opcode is not O.DOT or product.shape.is_tuple:
        return None
    for side in (0, 1):
        found = _softmax(product.operands[side])
        if found is not None:
            return _indexed(product, side, found)
    return None


# -- the softmax -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Softmax:
    path: tuple[HloInstruction, ...]
    """The instructions from the probabilities to the dot."""
    probabilities: HloInstruction
    exponential: HloInstruction
    total: HloInstruction
    maximum: HloInstruction
    logits: HloInstruction


def _stripped(i: HloInstruction, path: list[HloInstruction] | None = None) -> HloInstruction:
    """The operand behind data movement and converts."""
    while i.opcode in _SHAPELESS and len(i.operands) == 1:
        if path is not None:
            path.append(i)
        i = i.operands[0]
    return i


def _broadcast_operand(i: HloInstruction) -> HloInstruction | None:
    """The operand of a broadcast along rows, or None."""
    i = _stripped(i)
    return _stripped(i.operands[0]) if i.opcode is O.BROADCAST and i.dimensions else None


def _softmax(operand: HloInstruction) -> _Softmax | None:
    path: list[HloInstruction] = []
    p = _stripped(operand, path)
    if p.opcode not in (O.DIVIDE, O.MULTIPLY) or p.array_shape.element_type not in _FLOATS:
        return None
    for n in (0, 1) if p.opcode is O.MULTIPLY else (0,):
        e, total = _stripped(p.operands[n]), _broadcast_operand(p.operands[1 - n])
        if p.opcode is O.MULTIPLY:
            total = _reciprocal_of(total) if total is not None else None
        if total is None or e.opcode is not O.EXPONENTIAL or not _reduces(total, O.ADD, 0.0):
            continue
        if _stripped(total.operands[0]) is e and (found := _shifted(e)) is not None:
            return _Softmax(tuple(path), p, e, total, *found)
    return None


def _reciprocal_of(i: HloInstruction) -> HloInstruction | None:
    """The x of 1 / x, or None."""
    if i.opcode is not O.DIVIDE:
        return None
    one = _stripped(i.operands[0])
    one = one.operands[0] if one.opcode is O.BROADCAST else one
    return _stripped(i.operands[1]) if _is_number(one, 1.0) else None


def _is_number(i: HloInstruction, number: float) -> bool:
    return (
        i.opcode is O.CONSTANT and i.array_shape.element_count == 1 and float(i.literal.array.reshape(-1)[0]) == number
    )


def _reduces(i: HloInstruction, opcode: O, start: float) -> bool:
    """Whether it reduces one array by one opcode from its neutral value."""
    if i.opcode is not O.REDUCE or len(i.operands) != 2 or i.shape.is_tuple or not _is_number(i.operands[1], start):
        return False
    reducer = i.to_apply
    root = reducer.root
    return root.opcode is opcode and len(reducer.parameters) == 2 and set(root.operands) == set(reducer.parameters)


def _shifted(e: HloInstruction) -> tuple[HloInstruction, HloInstruction] | None:
    """(maximum, x) of exp(x - broadcast(max(x))), or None."""
    d = _stripped(e.operands[0])
    if d.opcode is not O.SUBTRACT:
        return None
    x, maximum = d.operands[0], _broadcast_operand(d.operands[1])
    if maximum is None or not _reduces(maximum, O.MAXIMUM, -float("inf")):
        return None
    return (maximum, x) if _stripped(maximum.operands[0]) is _stripped(x) else None


# -- its indices -----------------------------------------------------------------------------------


def _indexed(product: HloInstruction, side: int, soft: _Softmax) -> Attention | None:
    near = _near(product, side)
    scores = [i for i in near if i.opcode is O.DOT]
    if len(near) > _LONGEST or len(scores) != 1 or not all(map(_is_plain_dot, (product, *scores))):
        return None
    tracks = _Tracks(scores[0], near)
    x = tracks.dims(soft.logits)
    if x is None:
        return None
    keys = _reduced_axis(soft, tracks, x)
    if keys is None:
        return None
    k_side = 1 if keys.axis.startswith("r") else 0
    q, k = (_access(scores[0].operands[n], tracks.operand(n)) for n in (1 - k_side, k_side))
    p = tracks.dims(product.operands[side])
    if p is None or q is None or k is None:
        return None
    found = _second(product, side, p, keys)
    if found is None:
        return None
    v_dims, result = found
    v, output = _access(product.operands[1 - side], v_dims), _result(product, result)
    if v is None or output is None:
        return None
    return _assembled(soft, scores[0], product, x, keys, q, k, v, output)


def _near(product: HloInstruction, side: int) -> frozenset[HloInstruction]:
    """The instructions that compute an operand of the second dot, back to earlier dots.

    They are elementwise, reduce or broadcast rows, or move data.
    """
    operand = product.operands[side]
    seen, rest = {operand}, [operand]
    while rest and len(seen) <= _LONGEST:
        i = rest.pop()
        if i.opcode in (O.BROADCAST, O.REDUCE, *_SHAPELESS) or is_elementwise(i):
            fresh = [o for o in i.operands if o not in seen and o.shape.is_array]
            seen.update(fresh)
            rest += fresh
    return frozenset(seen)


def _is_plain_dot(i: HloInstruction) -> bool:
    """Whether its operands are floats, summed in f32, with one contracting dimension."""
    types = {o.array_shape.element_type for o in i.operands}
    one = len(i.ints("lhs_contracting_dims")) == 1 and len(i.operands) == 2
    return one and len(types) == 1 and types <= set(_FLOATS) and i.array_shape.element_type in _FLOATS


class _Tracks:
    """The digits of instructions that are computed from the scores.

    Axes are b<n>, l<n>, r<n> by the result's dimensions, and the contracting one.
    """

    def __init__(self, scores: HloInstruction, near: frozenset[HloInstruction]) -> None:
        self.scores = scores
        self.near = near
        sizes = scores.array_shape.dimensions
        batch = len(scores.ints("lhs_batch_dims"))
        left = batch + scores.operands[0].array_shape.rank - batch - 1
        names = [f"{'b' if d < batch else 'l' if d < left else 'r'}{d}" for d in range(len(sizes))]
        self.axes = list(zip(names, sizes, strict=True))
        self.batch, self.left = batch, left
        self._known: dict[HloInstruction, Dims | None] = {scores: whole(self.axes)}

    def operand(self, n: int) -> Dims:
        """The digits of an operand of the first dot."""
        i, (batch_of, contracting_of) = (
            self.scores,
            (
                ("lhs_batch_dims", "lhs_contracting_dims"),
                ("rhs_batch_dims", "rhs_contracting_dims"),
            )[n],
        )
        shape = i.operands[n].array_shape
        free = iter(self.axes[self.batch : self.left] if n == 0 else self.axes[self.left :])
        batch, (contracted,) = i.ints(batch_of), i.ints(contracting_of)
        axes = [
            self.axes[batch.index(d)]
            if d in batch
            else (_DEPTH, shape.dimensions[d])
            if d == contracted
            else next(free)
            for d in range(shape.rank)
        ]
        return whole(axes)

    def dims(self, i: HloInstruction) -> Dims | None:
        """The digits of an instruction, or None.

        None if it does not depend on the scores, or depends on several elements of them.
        """
        if i not in self.near:
            return None
        if i not in self._known:
            self._known[i] = self._dims(i)
        return self._known[i]

    def _dims(self, i: HloInstruction) -> Dims | None:
        if i.opcode in MOVING:
            inner = self.dims(i.operands[0])
            return forward(i, inner) if inner is not None else None
        if i.opcode is O.REDUCE:
            inner = self.dims(i.operands[0])
            return tuple(g for d, g in enumerate(inner) if d not in i.dimensions) if inner is not None else None
        if not is_elementwise(i):
            return None
        found = {dims for o in i.operands if (dims := self.dims(o)) is not None}
        return found.pop() if len(found) == 1 else None


def _reduced_axis(soft: _Softmax, tracks: _Tracks, x: Dims) -> Digit | None:
    """The axis of the keys: both reductions are over it, and their results broadcast along it."""
    found: set[tuple[Digit, ...]] = set()
    for i in (soft.maximum, soft.total):
        source = tracks.dims(i.operands[0])
        if source is None:
            return None
        found.add(tuple(digit for d in i.dimensions for digit in source[d]))
    if len(found) != 1:
        return None
    digits = found.pop()
    sizes = dict(tracks.axes)
    if len(digits) != 1 or digits[0].axis[0] not in "lr" or digits[0].size != sizes[digits[0].axis]:
        return None
    for user, n in (
        (_stripped(soft.exponential.operands[0]), 1),
        *((soft.probabilities, n) for n in (0, 1)),
    ):
        spread = _stripped(user.operands[n])
        if spread.opcode is O.BROADCAST and not _is_repeated(user.operands[n], tracks, user, digits[0]):
            return None
    return digits[0] if sum(digits[0] in group for group in x) == 1 else None


def _is_repeated(i: HloInstruction, tracks: _Tracks, user: HloInstruction, keys: Digit) -> bool:
    """Whether a broadcast repeats the value of each row for all elements of the row."""
    path: list[HloInstruction] = []
    spread = _stripped(i, path)
    dims, row = tracks.dims(user), tracks.dims(spread.operands[0])
    for moved in path:
        dims = backward(moved, dims) if dims is not None and moved.opcode in MOVING else dims
    if dims is None or row is None:
        return False
    rest = [group for d, group in enumerate(dims) if d not in spread.dimensions]
    same = all(dims[d] == group for d, group in zip(spread.dimensions, row, strict=True))
    return same and [digit for group in rest for digit in group] == [keys]


def _access(operand: HloInstruction, dims: Dims) -> Access | None:
    """The memory access of an operand behind data movement; a slice is read from its operand."""
    path: list[HloInstruction] = []
    i, now = operand, dims
    while i.opcode in MOVING or _widens(i):
        before = backward(i, now) if i.opcode in MOVING else now
        if before is None:
            break
        path.append(i)
        i, now = i.operands[0], before
    offset = 0
    if i.opcode is O.SLICE and all(s.stride == 1 for s in i.get("slice")):
        path.append(i)
        begins = [s.start for s in i.get("slice")]
        i = i.operands[0]
        offset = sum(b * s for b, s in zip(begins, _strides(i.array_shape), strict=True))
    return Access(i, offset, steps(now, _strides(i.array_shape)), tuple(path))


def _widens(i: HloInstruction) -> bool:
    """Whether it converts narrower floats to f32, which the kernel can do when reading."""
    return (
        i.opcode is O.CONVERT
        and i.array_shape.element_type is PrimitiveType.F32
        and i.operands[0].array_shape.element_type in _FLOATS
    )


def _strides(shape: ArrayShape) -> tuple[int, ...]:
    out, step = [0] * shape.rank, 1
    for d in shape.minor_to_major:
        out[d] = step
        step *= shape.dimensions[d]
    return tuple(out)


def _second(product: HloInstruction, side: int, p: Dims, keys: Digit) -> tuple[Dims, Dims] | None:
    """(digits of v, digits of the result) of the second dot.

    `p` are the digits of its operand `side`.
    """
    names = ("lhs_batch_dims", "lhs_contracting_dims"), ("rhs_batch_dims", "rhs_contracting_dims")
    p_batch, (p_contracted,) = (product.ints(name) for name in names[side])
    v_batch, (v_contracted,) = (product.ints(name) for name in names[1 - side])
    shape = product.operands[1 - side].array_shape
    free = [d for d in range(shape.rank) if d not in v_batch and d != v_contracted]
    if p[p_contracted] != (keys,) or len(free) != 1 or shape.dimensions[free[0]] == 1:
        return None
    width = Digit(_WIDTH, 1, shape.dimensions[free[0]])
    v = tuple(
        p[p_batch[v_batch.index(d)]] if d in v_batch else (keys,) if d == v_contracted else (width,)
        for d in range(shape.rank)
    )
    rows = [p[d] for d in range(len(p)) if d not in p_batch and d != p_contracted]
    batch = [p[d] for d in p_batch]
    return v, tuple([*batch, *rows, (width,)] if side == 0 else [*batch, (width,), *rows])


def _result(product: HloInstruction, dims: Dims) -> Access | None:
    """The memory access of the result, after data movement without other users."""
    i, path = product, list[HloInstruction]()
    best = Access(i, 0, steps(dims, _strides(i.array_shape)))
    while i.user_count == 1 and not i.is_root:
        (user,) = i.users
        after = forward(user, dims) if user.opcode in MOVING and user.parent is i.parent else None
        if after is None:
            break
        path.append(user)
        i, dims = user, after
        if i.opcode is not O.BITCAST:
            best = Access(i, 0, steps(dims, _strides(i.array_shape)), tuple(path))
    return best


def _assembled(
    soft: _Softmax,
    scores: HloInstruction,
    product: HloInstruction,
    x: Dims,
    keys: Digit,
    q: Access,
    k: Access,
    v: Access,
    output: Access,
) -> Attention | None:
    arrays = (q.steps, k.steps, v.steps, output.steps)
    found = refined([*(d for group in x for d in group), *(d for steps_ in arrays for d in steps_)])
    if found is None:
        return None
    of_axis = {axis: [d for d in found if d.axis == axis] for axis in (keys.axis, _DEPTH, _WIDTH)}
    if any(len(digits) != 1 for digits in of_axis.values()):
        return None
    (keys_,), (depth,), (width,) = of_axis.values()
    others = [d for d in found if d not in (keys_, depth, width)]
    rows = [d for d in others if q.step(d) and output.step(d) and not k.step(d) and not v.step(d)]
    if not rows or any(access.step(keys_) for access in (q, output)) or not (k.step(keys_) and v.step(keys_)):
        return None
    longest = max(rows, key=lambda d: d.size)
    heads = tuple(d for d in others if d is not longest)
    if any(not output.step(d) for d in heads):
        return None
    parts = soft.maximum, soft.exponential, soft.total, soft.probabilities
    return Attention(
        scores,
        soft.logits,
        *parts,
        product,
        x,
        q,
        k,
        v,
        output,
        heads,
        longest,
        keys_,
        depth,
        width,
    )


# -- what belongs to it ----------------------------------------------------------------------------


def between(a: Attention, places: Mapping[HloInstruction, int]) -> list[HloInstruction]:
    """The instructions from the scores to the result, result first.

    They depend on the scores, and the result depends on them. `places` are positions in an order in
    which operands come before users.
    """
    first = places[a.scores]
    reached, rest = {a.root}, [a.root]
    while rest:
        fresh = [o for o in rest.pop().operands if places.get(o, -1) >= first and o not in reached]
        reached.update(fresh)
        rest += fresh
    depends = {a.scores}
    for i in sorted(reached, key=places.__getitem__):
        if not depends.isdisjoint(i.operands):
            depends.add(i)
    return sorted(depends, key=places.__getitem__, reverse=True)
