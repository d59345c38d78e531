"""Slices, pads, concatenations."""

from __future__ import annotations

from dataclasses import replace

from xlanb.hlo.attributes import PaddingDimension, SliceDimension, Window
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import is_neutral
from xlanb.transforms.builder import Builder
from xlanb.transforms.concatenations import flattened
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT, MOVES

SLICE_PAD_CONCAT = RuleSet("slice_pad_concat")
rule = SLICE_PAD_CONCAT.rule


def _boxes(i: HloInstruction) -> tuple[SliceDimension, ...]:
    found: tuple[SliceDimension, ...] = i.attributes["slice"]
    return found


def _padding(i: HloInstruction) -> tuple[PaddingDimension, ...]:
    found: tuple[PaddingDimension, ...] = i.attributes["padding"]
    return found


def _piece(root: HloInstruction, c: HloInstruction) -> tuple[HloInstruction, int] | None:
    """The operand of a concatenation that contains all of a slice, and the operand's offset."""
    d = c.dimensions[0]
    box = _boxes(root)[d]
    offset = 0
    for o in c.operands:
        size = o.array_shape.dimensions[d]
        if offset <= box.start and box.limit <= offset + size and box.start < box.limit:
            return o, offset
        offset += size
    return None


def _inside(root: HloInstruction, p: HloInstruction, a: HloInstruction) -> bool:
    rows = zip(_boxes(root), _padding(p), a.array_shape.dimensions, strict=True)
    return all(q.interior == 0 and x.start >= q.low and x.limit - q.low <= n and x.start < x.limit for x, q, n in rows)


def _first_neighbours(root: HloInstruction) -> int | None:
    d = root.dimensions[0]
    for n, (x, y) in enumerate(zip(root.operands, root.operands[1:], strict=False)):
        if x.opcode is O.SLICE and y.opcode is O.SLICE and x.operands[0] is y.operands[0]:
            p, q = _boxes(x), _boxes(y)
            same = all(s == t for k, (s, t) in enumerate(zip(p, q, strict=True)) if k != d)
            if same and all(s.stride == 1 for s in (*p, *q)) and p[d].limit == q[d].start:
                return n
    return None


# -- slice -----------------------------------------------------------------------------------------


@rule(
    "slice(A) => A when it covers all of A",
    m.op(O.SLICE, "a"),
    guard("the same shape", lambda root, a: root.array_shape.dimensions == a.array_shape.dimensions),
    keeps=MOVES,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "slice(A) with strides => slice(A) with stride 1",
    m.op(O.SLICE, "a"),
    guard("a stride has no effect", lambda root: any(_is_idle(x) for x in _boxes(root))),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    boxes = tuple(SliceDimension(x.start, x.start + 1, 1) if _is_idle(x) else x for x in _boxes(root))
    return b.add(O.SLICE, (a,), root.shape, slice=boxes)


def _is_idle(x: SliceDimension) -> bool:
    return x.stride != 1 and x.start < x.limit <= x.start + x.stride


@rule(
    "slice(slice(A)) => slice(A)",
    m.op(O.SLICE, m.op(O.SLICE, "a", name="inner")),
    guard("no strides", lambda root, inner: all(x.stride == 1 for x in (*_boxes(root), *_boxes(inner)))),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, inner: HloInstruction) -> HloInstruction:
    boxes = tuple(
        SliceDimension(p.start + q.start, p.start + q.limit, 1)
        for p, q in zip(_boxes(inner), _boxes(root), strict=True)
    )
    return b.add(O.SLICE, (a,), root.shape, slice=boxes)


@rule(
    "slice(broadcast(A)) => broadcast(slice(A))",
    m.op(O.SLICE, m.op(O.BROADCAST, "a", name="p")),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, p: HloInstruction) -> HloInstruction:
    boxes = [_boxes(root)[d] for d in p.dimensions]
    whole = all(x == SliceDimension(0, n) for x, n in zip(boxes, a.array_shape.dimensions, strict=True))
    narrow = a if whole else b.slice(a, [x.start for x in boxes], [x.limit for x in boxes], [x.stride for x in boxes])
    return b.add(O.BROADCAST, (narrow,), root.shape, dimensions=p.dimensions) if root.array_shape.dimensions else narrow


@rule(
    "slice(reverse(A)) => reverse(slice(A))",
    m.op(O.SLICE, m.op(O.REVERSE, "a", name="r")),
    guard("some element", lambda root: root.array_shape.element_count > 0),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, r: HloInstruction) -> HloInstruction:
    boxes = list(_boxes(root))
    for d in r.dimensions:
        x, size = boxes[d], a.array_shape.dimensions[d]
        last = x.start + (x.limit - x.start - 1) // x.stride * x.stride
        boxes[d] = SliceDimension(size - 1 - last, size - x.start, x.stride)
    return b.add(
        O.REVERSE, (b.add(O.SLICE, (a,), root.shape, slice=tuple(boxes)),), root.shape, dimensions=r.dimensions
    )


def _reshaped_slice(root: HloInstruction, a: HloInstruction) -> tuple[SliceDimension, ...] | None:
    """The slice of A that equals a leading slice of A's reshape, or None.

    The slice of the reshape must start at 0 with stride 1 and cut only its first dimension.
    """
    boxes, outer, inner = _boxes(root), root.operands[0].array_shape.dimensions, a.array_shape.dimensions
    cut = [d for d, (x, n) in enumerate(zip(boxes, outer, strict=True)) if x != SliceDimension(0, n)]
    if cut != [0] or boxes[0].start != 0 or boxes[0].stride != 1 or not inner:
        return None
    if 0 in (*inner, *root.array_shape.dimensions):
        return None
    count = root.array_shape.element_count
    found: list[SliceDimension] = []
    for n in reversed(inner):
        if count % n and count > n:
            return None
        found.append(SliceDimension(0, min(n, count)))
        count = max(1, count // n)
    return tuple(reversed(found)) if count == 1 else None


@rule(
    "slice(reshape(A)) => reshape(slice(A)) from the front along the first dimension",
    m.op(O.SLICE, m.op(O.RESHAPE, "a")),
    guard("the pass is layout-insensitive", lambda options: not options.is_layout_sensitive),
    guard("it is a slice of A", lambda root, a: _reshaped_slice(root, a) is not None),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    boxes = _reshaped_slice(root, a) or ()
    return b.add(O.RESHAPE, (b.slice(a, [x.start for x in boxes], [x.limit for x in boxes]),), root.shape)


@rule(
    "slice(concatenate(.., A, ..)) => slice(A)",
    m.op(O.SLICE, m.op(O.CONCATENATE, name="c")),
    guard("inside one operand", lambda root, c: _piece(root, c) is not None),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, c: HloInstruction) -> HloInstruction | None:
    piece = _piece(root, c)
    if piece is None:
        return None
    operand, offset = piece
    d = c.dimensions[0]
    boxes = tuple(
        SliceDimension(x.start - offset, x.limit - offset, x.stride) if n == d else x
        for n, x in enumerate(_boxes(root))
    )
    if operand.array_shape.dimensions == root.array_shape.dimensions:
        return operand
    return b.add(O.SLICE, (operand,), root.shape, slice=boxes)


@rule(
    "slice(pad(A)) => slice(A) within A",
    m.op(O.SLICE, m.op(O.PAD, "a", "value", name="p")),
    guard("no padding is visible", _inside, "root", "p", "a"),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, p: HloInstruction) -> HloInstruction:
    boxes = tuple(
        SliceDimension(x.start - q.low, x.limit - q.low, x.stride)
        for x, q in zip(_boxes(root), _padding(p), strict=True)
    )
    if a.array_shape.dimensions == root.array_shape.dimensions:
        return a
    return b.add(O.SLICE, (a,), root.shape, slice=boxes)


# -- pad -------------------------------------------------------------------------------------------


@rule(
    "pad(A) => A without padding",
    m.op(O.PAD, "a", "value"),
    guard("no padding", lambda root: all(q == PaddingDimension() for q in _padding(root))),
    keeps=MOVES,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "pad of an empty array => broadcast(value)",
    m.op(O.PAD, "a", "value"),
    guard("no element", lambda a: a.array_shape.element_count == 0),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, value: HloInstruction) -> HloInstruction:
    return b.broadcast(value, (), root.array_shape)


@rule(
    "pad(A) with negative padding => slice(pad(A))",
    m.op(O.PAD, "a", "value"),
    guard("some padding is negative", lambda root: any(q.low < 0 or q.high < 0 for q in _padding(root))),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, value: HloInstruction) -> HloInstruction:
    padding = tuple(PaddingDimension(max(q.low, 0), max(q.high, 0), q.interior) for q in _padding(root))
    sizes = [
        n + q.low + q.high + q.interior * max(n - 1, 0) for n, q in zip(a.array_shape.dimensions, padding, strict=True)
    ]
    shape = root.array_shape.with_dimensions(sizes).with_layout(root.array_shape.layout)
    padded = b.add(O.PAD, (a, value), shape, padding=padding)
    starts = [max(-q.low, 0) for q in _padding(root)]
    limits = [n + min(q.high, 0) for n, q in zip(sizes, _padding(root), strict=True)]
    return b.add(O.SLICE, (padded,), root.shape, slice=tuple(map(SliceDimension, starts, limits)))


@rule(
    "pad(A) => pad(A) without interior padding of one element",
    m.op(O.PAD, "a", "value"),
    guard(
        "a dimension of size 1 has interior padding",
        lambda root, a: any(_is_loose(q, n) for q, n in _pad_rows(root, a)),
    ),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, value: HloInstruction) -> HloInstruction:
    padding = tuple(PaddingDimension(q.low, q.high) if _is_loose(q, n) else q for q, n in _pad_rows(root, a))
    return b.add(O.PAD, (a, value), root.shape, padding=padding)


def _pad_rows(root: HloInstruction, a: HloInstruction) -> list[tuple[PaddingDimension, int]]:
    return list(zip(_padding(root), a.array_shape.dimensions, strict=True))


def _is_loose(q: PaddingDimension, size: int) -> bool:
    return q.interior > 0 and size == 1


def _padded(root: HloInstruction) -> list[int]:
    return [d for d, q in enumerate(_padding(root)) if q != PaddingDimension()]


@rule(
    "pad(broadcast(A)) => broadcast(pad(broadcast(A))) of the padded dimensions",
    m.op(O.PAD, m.one_user(m.op(O.BROADCAST, "a", name="p")), "value"),
    guard("some dimension is not padded", lambda root: len(_padded(root)) < root.array_shape.rank),
    guard("some element is not padding", lambda root: bool(_padded(root))),
    guard("all dimensions of A are", lambda root, p: set(p.dimensions) <= set(_padded(root))),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, value: HloInstruction, p: HloInstruction) -> HloInstruction:
    padded = _padded(root)
    sizes = [p.array_shape.dimensions[d] for d in padded]
    spread = array(a.array_shape.element_type, sizes)
    narrow = b.add(O.BROADCAST, (a,), spread, dimensions=tuple(padded.index(d) for d in p.dimensions))
    grown = array(a.array_shape.element_type, [root.array_shape.dimensions[d] for d in padded])
    inner = b.add(O.PAD, (narrow, value), grown, padding=tuple(_padding(root)[d] for d in padded))
    return b.add(O.BROADCAST, (inner,), root.shape, dimensions=tuple(padded))


@rule(
    "pad(broadcast(C), C) => broadcast(C)",
    m.op(O.PAD, m.op(O.BROADCAST, "c"), "c"),
    guard("of a scalar", lambda c: c.array_shape.is_scalar),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.broadcast(c, (), root.array_shape)


@rule(
    "pad(A) with negative padding => slice(A)",
    m.op(O.PAD, "a", "value"),
    guard(
        "it only removes elements",
        lambda root: all(q.low <= 0 and q.high <= 0 and q.interior == 0 for q in _padding(root)),
    ),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction) -> HloInstruction:
    boxes = tuple(
        SliceDimension(-q.low, n + q.high) for q, n in zip(_padding(root), a.array_shape.dimensions, strict=True)
    )
    return b.add(O.SLICE, (a,), root.shape, slice=boxes)


def _is_alike(a: HloInstruction, b: HloInstruction) -> bool:
    return a is b or (a.opcode is b.opcode is O.CONSTANT and a.literal == b.literal)


def _folds_into_window(root: HloInstruction, p: HloInstruction) -> bool:
    """Whether padding can be added to a window's own padding."""
    rows = zip(_padding(p), root.window.dimensions, strict=True)
    return all(
        q == PaddingDimension() or (min(q.low, q.high) >= 0 == q.interior and w.base_dilation == 1) for q, w in rows
    )


@rule(
    "reduce-window(pad(A, C), C) => reduce-window(A, C) with the padding in its window",
    m.op(O.REDUCE_WINDOW, m.op(O.PAD, "a", "c", name="p"), "init"),
    guard("the padding value is the initial value of the reduction", _is_alike, "c", "init"),
    guard("neutral", is_neutral, "root", "init"),
    guard("no negative and no interior padding", _folds_into_window, "root", "p"),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, p: HloInstruction, init: HloInstruction) -> HloInstruction:
    window = Window(
        tuple(
            replace(w, padding_low=w.padding_low + q.low, padding_high=w.padding_high + q.high)
            for w, q in zip(root.window.dimensions, _padding(p), strict=True)
        )
    )
    return b.add(O.REDUCE_WINDOW, (a, init), root.shape, window=window, to_apply=root.to_apply)


# -- concatenate -----------------------------------------------------------------------------------


@rule("concatenate(A) => A", m.op(O.CONCATENATE, "a"), keeps=MOVES)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "concatenate(A, empty) => A",
    m.op(O.CONCATENATE),
    guard(
        "some operand is empty",
        lambda root: (
            any(o.array_shape.element_count == 0 for o in root.operands) and root.array_shape.element_count > 0
        ),
    ),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    full = [o for o in root.operands if o.array_shape.element_count]
    return full[0] if len(full) == 1 else b.add(O.CONCATENATE, full, root.shape, dimensions=root.dimensions)


@rule(
    "concatenate(slice(A, i, j), slice(A, j, k)) => slice(A, i, k)",
    m.op(O.CONCATENATE),
    guard("neighbouring slices", lambda root: _first_neighbours(root) is not None),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction | None:
    n = _first_neighbours(root)
    if n is None:
        return None
    first, second, d = root.operands[n], root.operands[n + 1], root.dimensions[0]
    p, q = _boxes(first), _boxes(second)
    limits = [q[k].limit if k == d else x.limit for k, x in enumerate(p)]
    joined = b.slice(first.operands[0], [x.start for x in p], limits)
    operands = (*root.operands[:n], joined, *root.operands[n + 2 :])
    return joined if len(operands) == 1 else b.add(O.CONCATENATE, operands, root.shape, dimensions=root.dimensions)


@rule(
    "concatenate(broadcast(C), broadcast(C)) => broadcast(C)",
    m.op(O.CONCATENATE),
    guard(
        "all operands are broadcasts of one scalar",
        lambda root: (
            len(
                {
                    o.operands[0] if o.opcode is O.BROADCAST and o.operands[0].array_shape.is_scalar else o
                    for o in root.operands
                }
            )
            == 1
            and root.operands[0].opcode is O.BROADCAST
            and not root.operands[0].dimensions
        ),
    ),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.broadcast(root.operands[0].operands[0], (), root.array_shape)


@rule(
    "concatenate(A, concatenate(B, C)) => concatenate(A, B, C)",
    m.op(O.CONCATENATE),
    guard("the pass is layout-insensitive", lambda options: not options.is_layout_sensitive),
    guard("nested concatenates along one dimension", lambda root: flattened(root) is not None),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction | None:
    flat = flattened(root)
    return None if flat is None else b.add(O.CONCATENATE, flat, root.shape, dimensions=root.dimensions)


def _is_filler(i: HloInstruction) -> bool:
    return i.opcode is O.BROADCAST and i.operands[0].array_shape.is_scalar


@rule(
    "concatenate(A, broadcast(scalar)) => pad(A, scalar)",
    m.op(O.CONCATENATE, m.any("x"), m.any("y")),
    guard("the pass is layout-insensitive", lambda options: not options.is_layout_sensitive),
    guard("one of two is a broadcast scalar", lambda x, y: _is_filler(x) or _is_filler(y)),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction, x: HloInstruction, y: HloInstruction) -> HloInstruction:
    low = _is_filler(x)
    a, filler, d = (y, x, root.dimensions[0]) if low else (x, y, root.dimensions[0])
    size = filler.array_shape.dimensions[d]
    padding = tuple(
        PaddingDimension(size if low else 0, 0 if low else size) if k == d else PaddingDimension()
        for k in range(root.array_shape.rank)
    )
    return b.add(O.PAD, (a, filler.operands[0]), root.shape, padding=padding)


@rule(
    "concatenate(A, A, ..) => broadcast(reshape(A)) along a dimension of size 1",
    m.op(O.CONCATENATE),
    guard("the pass is layout-insensitive", lambda options: not options.is_layout_sensitive),
    guard(
        "three or more identical operands of size 1",
        lambda root: (
            len(root.operands) > 2
            and len(set(root.operands)) == 1
            and root.operands[0].array_shape.dimensions[root.dimensions[0]] == 1
        ),
    ),
    keeps=MOVES,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    a, d = root.operands[0], root.dimensions[0]
    kept = [k for k in range(root.array_shape.rank) if k != d]
    narrow = b.reshape(a, [a.array_shape.dimensions[k] for k in kept])
    return b.add(O.BROADCAST, (narrow,), root.shape, dimensions=tuple(kept))
