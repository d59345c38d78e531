"""The values of attributes in HLO text, one reader per kind; opcode.py has the kinds.

A reader takes a Cursor at the value and returns what `HloInstruction.attributes` holds. For kinds
without a class it returns XLA's canonical text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlanb.hlo.attributes import (
    ConvolutionDimensionNumbers,
    PaddingDimension,
    SliceDimension,
    Window,
    WindowDimension,
    index_text,
)
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_shape import ShapeCache, parse_shape
from xlanb.shape import Shape

PRECISIONS = ("default", "high", "highest", "packed_nibble")
DOT_ALGORITHMS = (
    "unset any_f8_any_f8_f32 any_f8_any_f8_f32_fast_accum f16_f16_f16 f16_f16_f32 bf16_bf16_bf16 "
    "bf16_bf16_f32 bf16_bf16_f32_x3 bf16_bf16_f32_x6 "
    "bf16_bf16_f32_x9 tf32_tf32_f32 tf32_tf32_f32_x3 f32_f32_f32 f64_f64_f64"
).split()
WORDS: dict[str, frozenset[str]] = {
    "direction": frozenset("EQ NE GE GT LE LT".split()),
    "comparison_type": frozenset("FLOAT TOTALORDER SIGNED UNSIGNED".split()),
    "comparison_order": frozenset("TOTAL PARTIAL".split()),
    "fft_type": frozenset("FFT IFFT RFFT IRFFT".split()),
    "fusion_kind": frozenset("kLoop kInput kOutput kCustom".split()),
    "distribution": frozenset("rng_uniform rng_normal rng_invalid".split()),
    "rng_algorithm": frozenset("rng_default rng_three_fry rng_philox".split()),
    "dot_algorithm": frozenset(n if n == "unset" else f"dot_{n}" for n in DOT_ALGORITHMS),
    "padding_type": frozenset("PADDING_INVALID PADDING_VALID PADDING_SAME".split()),
    "schedule": frozenset("SCHEDULE_NONE SCHEDULE_LATEST SCHEDULE_EARLIEST".split()),
    "api_version": frozenset(
        (
            "API_VERSION_ORIGINAL API_VERSION_STATUS_RETURNING "
            "API_VERSION_STATUS_RETURNING_UNIFIED API_VERSION_TYPED_FFI"
        ).split()
    ),
    "transpose": frozenset("TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT".split()),
    "conv_kind": frozenset("fprop wgrad dgrad unset".split()),
    "shuffle_mode": frozenset(("rotate",)),
    "group_mode": frozenset(
        (
            "cross_replica cross_partition cross_replica_and_partition flattened_id "
            "kCrossReplica kCrossPartition kCrossReplicaAndPartition kFlattenedID"
        ).split()
    ),
}
"""Kinds whose values are one of a few keywords."""

_F32_MAX = float(np.finfo(np.float32).max)


def _word(kind: str) -> Callable[[Cursor], str]:
    allowed = WORDS[kind]

    def read(cursor: Cursor) -> str:
        word = cursor.peek_word()
        if word not in allowed:
            cursor.fail(f"expects one of {', '.join(sorted(allowed))}")
        return cursor.word()

    return read


def parse_float(cursor: Cursor) -> float:
    """Read a decimal number or integer in the range of a float, and round it to one.

    Raises:
        HloParseError: it is not a number, or out of range.
    """
    kind, text = cursor.number_kind()
    word = "" if kind else cursor.peek_word()
    if kind not in ("float", "int") and word not in ("inf", "nan") and not cursor.at("-inf"):
        cursor.fail("expects decimal or integer")
    if kind:
        value = float(text)
        if abs(value) > _F32_MAX:
            cursor.fail("value out of range for float")
        cursor.eat(text)
        return float(np.float32(value))
    text = word or "-inf"
    cursor.fail("value out of range for float") if "inf" in text else cursor.eat(text)
    return float(text)


def parse_int_lists(cursor: Cursor) -> tuple[tuple[int, ...], ...]:
    """`{{0,1},{2,3}}`."""
    cursor.expect("{", "at the start of a list")
    lists: list[tuple[int, ...]] = []
    if not cursor.at("}"):
        lists.append(cursor.ints())
        while cursor.accept(","):
            lists.append(cursor.ints())
    cursor.expect("}", "at the end of a list")
    return tuple(lists)


def _dxd(cursor: Cursor) -> list[int]:
    kind, text = cursor.number_kind()
    if kind not in ("int", "dxd"):
        cursor.fail("expects an integer or a list as 1x2")
    if len(text) > 400:
        cursor.fail("too many dimensions")
    values = [int(v) for v in text.split("x")]
    if any(abs(v) >= 2**63 for v in values):
        cursor.fail("integer out of range")
    cursor.eat(text)
    return values


def _pads(cursor: Cursor) -> list[list[int]]:
    kind, text = cursor.number_kind()
    if kind != "pad":
        cursor.fail("expects a padding pattern, e.g., '0_0x3_3'")
    if len(text) > 4000:
        cursor.fail("too many dimensions")
    values = [[int(v) for v in part.split("_")] for part in text.split("x")]
    if any(abs(v) >= 2**63 for part in values for v in part):
        cursor.fail("integer out of range")
    cursor.eat(text)
    return values


def parse_window(cursor: Cursor) -> Window:
    """`{size=1x2 stride=1x2 pad=0_0x1_1 lhs_dilate=1x2 rhs_dilate=1x2 rhs_reversal=0x1}`."""
    start = cursor.pos
    cursor.expect("{", "to start window attribute")
    fields: dict[str, Any] = {}
    while not cursor.at("}"):
        at = cursor.pos
        name = cursor.attribute_name()
        if name in fields:
            cursor.fail(f"sub-attribute '{name}=' already exists", at)
        if name == "pad":
            fields[name] = _pads(cursor)
            if any(len(p) != 2 for p in fields[name]):
                cursor.fail("expects padding_low and padding_high separated by '_'", at)
        elif name in ("size", "stride", "lhs_dilate", "rhs_dilate", "rhs_reversal"):
            fields[name] = _dxd(cursor)
        else:
            cursor.fail(f"unexpected attribute name: {name}", at)
    cursor.expect("}", "to end window attribute")
    size = fields.get("size", [])
    for name, value in fields.items():
        if len(value) != len(size) and value:
            cursor.fail(f"expects '{name}=' has the same size as 'size='", start)
    n = len(size)
    ones = [1] * n
    rows = zip(
        size,
        fields.get("stride", ones),
        fields.get("pad", [[0, 0]] * n),
        fields.get("rhs_dilate", ones),
        fields.get("lhs_dilate", ones),
        fields.get("rhs_reversal", [0] * n),
        strict=True,
    )
    return Window(tuple(WindowDimension(s, t, p[0], p[1], w, b, r == 1) for s, t, p, w, b, r in rows))


def parse_padding(cursor: Cursor) -> tuple[PaddingDimension, ...]:
    """`0_0_0x3_3_1`."""
    at = cursor.pos
    values = _pads(cursor)
    if any(len(v) not in (2, 3) for v in values):
        cursor.fail("expects padding config pattern like 'low_high_interior' or 'low_high'", at)
    return tuple(PaddingDimension(*v) for v in values)


def parse_slices(cursor: Cursor) -> tuple[SliceDimension, ...]:
    """`{[0:2], [1:8:2]}`."""
    cursor.expect("{", "to start ranges")
    out: list[SliceDimension] = []
    while not cursor.at("}") or out:
        at = cursor.pos
        values = cursor.ints("[", "]", ":")
        if len(values) not in (2, 3):
            cursor.fail(f"expects [start:limit:step] or [start:limit], but sees {len(values)} elements.", at)
        out.append(SliceDimension(*values))
        if not cursor.accept(","):
            break
    cursor.expect("}", "to end ranges")
    return tuple(out)


def parse_dim_labels(cursor: Cursor) -> ConvolutionDimensionNumbers:
    """`b01f_01io->b01f`; labels of input and output are 0-9, b, f; of the kernel 0-9, i, o."""
    at = cursor.pos
    text = cursor.labels()
    lhs, _, rest = text.partition("_")
    rhs, _, out = rest.partition("->")
    parts = [_labelled(cursor, at, s, pair) for s, pair in ((lhs, "bf"), (rhs, "io"), (out, "bf"))]
    if len({len(p[2]) for p in parts}) != 1:
        cursor.fail("input, kernel, and output must have same number of spatial dimensions", at)
    (ib, jf, spatial), (ki, ko, kernel), (ob, of, output) = parts
    return ConvolutionDimensionNumbers(ib, jf, spatial, ki, ko, kernel, ob, of, output)


def _labelled(cursor: Cursor, at: int, labels: str, pair: str) -> tuple[int, int, tuple[int, ...]]:
    """Positions of the two lettered dimensions, and of the spatial ones by number."""
    known = [c for c in labels if c != "?"]
    if len(set(known)) != len(known):
        cursor.fail(f"expects unique dimension numbers, but sees {labels}", at)
    count = sum(c not in pair for c in known)
    spatial = [-1] * count
    for i, c in enumerate(labels):
        if c.isdigit():
            if int(c) >= count:
                cursor.fail(f"expects [0-{max(0, count - 1)}{pair}?] in dimension numbers, but sees {labels}", at)
            spatial[int(c)] = i
        elif c not in pair + "?":
            cursor.fail(f"expects [0-9{pair}?] in dimension numbers, but sees {labels}", at)
    if any(c not in labels for c in pair):
        cursor.fail(f"expects {pair[0]} and {pair[1]} in dimension numbers, but sees {labels}", at)
    return labels.index(pair[0]), labels.index(pair[1]), tuple(spatial)


def parse_precisions(cursor: Cursor) -> tuple[str, ...]:
    """`{default,highest}`."""
    cursor.expect("{", "at the start of a list")
    out: list[str] = []
    while not cursor.at("}") or out:
        word = cursor.peek_word().lower()
        if word not in PRECISIONS:
            cursor.fail(f"expects one of {', '.join(PRECISIONS)}")
        cursor.word()
        out.append(word)
        if not cursor.accept(","):
            break
    cursor.expect("}", "at the end of a list")
    return tuple(out)


def parse_aliasing(cursor: Cursor) -> str:
    """`{{0}: (1, {}), {1}: (0, {2})}`: output index, operand, operand index."""
    cursor.expect("{", "at the start of instruction aliasing description")
    out: list[str] = []
    while not cursor.at("}"):
        index = index_text(cursor.ints())
        cursor.expect(":")
        cursor.expect("(")
        operand = cursor.integer()
        cursor.expect(",")
        out.append(f"{index}: ({operand}, {index_text(cursor.ints())})")
        cursor.expect(")")
        if not cursor.accept(","):
            break
    cursor.expect("}", "at the end of instruction aliasing description")
    return "{" + ", ".join(out) + "}"


def parse_bools(cursor: Cursor) -> str:
    """`{true,false}`, canonical text."""
    cursor.expect("{", "to start parameter_replication attribute")
    out: list[str] = []
    while not cursor.at("}") or out:
        out.append("true" if cursor.boolean() else "false")
        if not cursor.accept(","):
            break
    cursor.expect("}", "to end parameter_replication attribute")
    return "{" + ",".join(out) + "}"


def parse_bools_or_bool(cursor: Cursor) -> str:
    """`{true,false}` or `true` (the same as `{true}`)."""
    if cursor.at("{"):
        return parse_bools(cursor)
    return "{true}" if cursor.boolean() else "{false}"


def parse_accuracy(cursor: Cursor) -> str:
    """`{mode=highest}` or `{tolerance={ulps=1, rtol=0.1, atol=0}}`, canonical text.

    "" for the default mode.
    """
    cursor.expect("{", "to start result accuracy")
    at = cursor.pos
    name = cursor.attribute_name()
    if name == "mode":
        word = cursor.peek_word().lower()
        if word not in ("default", "highest"):
            cursor.fail("expects default or highest")
        cursor.word()
        text = f"mode={word}" if word != "default" else ""
    elif name == "tolerance":
        text = _tolerance(cursor)
    else:
        cursor.fail(f"invalid attribute name: {name}", at)
    cursor.expect("}", "to end result accuracy")
    return "{" + text + "}" if text else ""


def _tolerance(cursor: Cursor) -> str:
    cursor.expect("{", "to start result accuracy list")
    values = {"atol": 0.0, "rtol": 0.0, "ulps": 0.0}
    while not cursor.at("}"):
        at = cursor.pos
        name = cursor.attribute_name()
        if name not in values:
            cursor.fail(f"invalid attribute name: {name}", at)
        kind, text = cursor.number_kind()
        if kind not in ("float", "int"):
            cursor.fail("expects decimal or integer")
        cursor.eat(text)
        values[name] = float(text)
        if not cursor.accept(","):
            break
    cursor.expect("}", "at the end of result accuracy")
    return "tolerance={" + ",".join(f"{k}={v:g}" for k, v in values.items()) + "}"


def parse_domain(cursor: Cursor) -> str:
    """`{kind="sharding", entry={...}, exit={...}}`, canonical text."""
    from xlanb.hlo.text.parse_sharding import parse_sharding

    start = cursor.pos
    cursor.expect("{", "to start sub attributes")
    found: dict[str, str] = {}
    while not cursor.at("}"):
        cursor.accept(",")
        at = cursor.pos
        name = cursor.attribute_name()
        if name in found or name not in ("kind", "entry", "exit"):
            cursor.fail(f'unexpected attribute "{name}"', at)
        found[name] = cursor.string() if name == "kind" else parse_sharding(cursor)
    cursor.expect("}", "to end sub attributes")
    if len(found) != 3:
        cursor.fail("sub-attributes kind, entry and exit are expected", start)
    if found["kind"] != "sharding":
        cursor.fail(f"unsupported domain kind: {found['kind']}", start)
    return f'{{kind="sharding", entry={found["entry"]}, exit={found["exit"]}}}'


def _replica_groups(cursor: Cursor) -> str:
    from xlanb.hlo.text.parse_sharding import parse_replica_groups

    return parse_replica_groups(cursor)


def parse_sparsity(cursor: Cursor) -> str:
    """`{lhs={sparsity=1x4 dimension=1 stride=1} rhs={...}}`, canonical text."""
    return _by_side(cursor, ("sparsity", "dimension", "stride", "idx"))


def parse_scaling(cursor: Cursor) -> str:
    """`{lhs={scale_idx=2}}`: the operand that scales the blocks of a side.

    Canonical text, "" for `{}`.
    """
    text = _by_side(cursor, ("scale_idx",))
    return "" if text == "{}" else text


def _by_side(cursor: Cursor, names: Sequence[str]) -> str:
    """Numeric fields for the left operand, the right one, or both."""
    cursor.expect("{", "to start the attributes of lhs and rhs")
    found: dict[str, str] = {}
    while not cursor.at("}"):
        at = cursor.pos
        side = cursor.attribute_name()
        if side not in ("lhs", "rhs") or side in found:
            cursor.fail(f"unexpected attribute name: {side}", at)
        cursor.expect("{")
        fields: list[str] = []
        while not cursor.at("}"):
            at = cursor.pos
            name = cursor.attribute_name()
            if name not in names:
                cursor.fail(f"unexpected attribute name: {name}", at)
            value = "x".join(map(str, _dxd(cursor)))
            # the default, for which XLA of JAX 0.10 has no keyword
            if (name, value) != ("idx", "0"):
                fields.append(f"{name}={value}")
        cursor.expect("}")
        found[side] = f"{side}={{{' '.join(fields)}}}"
    cursor.expect("}", "to end the attributes of lhs and rhs")
    return "{" + " ".join(found[s] for s in ("lhs", "rhs") if s in found) + "}"


def parse_shapes(cursor: Cursor, cache: ShapeCache) -> tuple[Shape, ...]:
    """`{f32[2]{0}, s32[]}`."""
    cursor.expect("{", "at the start of a list")
    out: list[Shape] = []
    while not cursor.at("}") or out:
        out.append(parse_shape(cursor, cache))
        if not cursor.accept(","):
            break
    cursor.expect("}", "at the end of a list")
    return tuple(out)


READERS: dict[str, Callable[[Cursor], Any]] = {
    "int": Cursor.integer,
    "bool": Cursor.boolean,
    "float": parse_float,
    "string": Cursor.string,
    "ints": Cursor.ints,
    "int_lists": parse_int_lists,
    "window": parse_window,
    "padding": parse_padding,
    "slices": parse_slices,
    "dim_labels": parse_dim_labels,
    "precisions": parse_precisions,
    "aliasing": parse_aliasing,
    "bools": parse_bools,
    "accuracy": parse_accuracy,
    "domain": parse_domain,
    "sparsity": parse_sparsity,
    "scaling": parse_scaling,
    "replica_groups": _replica_groups,
    **{kind: _word(kind) for kind in WORDS},
}
"""Readers of kinds that depend only on the text.

Computations, literals and shapes need the parser's state.
"""
