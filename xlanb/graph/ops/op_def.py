"""OpDef: the inputs, outputs and attributes of an op type, parsed from a row of the table.

    MatMul(a: T, b: T) -> (product: T) [transpose_a: bool = false; T: type in {f32, f64}] stateful

An input or output is `T` (the type that attribute T names), `f32` (a fixed type), `N * T` (a list
of N), `list(Tin)` (a list of the types in Tin), or `Ref(T)`. Types are written by their short
names, sets of types by the names in TYPE_SETS.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xlanb.errors import GraphError
from xlanb.graph.dtypes import BY_NAME, DType
from xlanb.graph.tensor_shape import TensorShape

BY_SHORT_NAME: dict[str, DType] = {t.short_name: t for t in BY_NAME.values() if not t.is_ref_dtype}

TYPE_SETS: dict[str, tuple[DType, ...]] = {
    name: tuple(BY_SHORT_NAME[t] for t in types.split())
    for name, types in {
        "INDEX": "s32 s64",
        "FLOAT": "bf16 f16 f32 f64",
        "REAL": "f32 f64 s32 u8 s16 s8 s64 bf16 u16 f16 u32 u64",
        "NUMBER": "f32 f64 s32 u8 s16 s8 c64 s64 qs8 qu8 qs32 bf16 qs16 qu16 u16 c128 f16 u32 u64",
        "INEXACT": "bf16 f16 f32 f64 c64 c128",
        "COMPLEX": "c64 c128",
        "INTEGER": "s8 s16 s32 s64 u8 u16 u32 u64",
    }.items()
}


@dataclass(frozen=True, slots=True)
class ArgDef:
    """One input or output: a fixed `type`, or attributes for its type, number or list of types."""

    name: str
    type: DType | None = None
    type_attr: str = ""
    number_attr: str = ""
    type_list_attr: str = ""
    is_ref: bool = False

    @property
    def is_list(self) -> bool:
        """Whether it has several tensors."""
        return bool(self.number_attr or self.type_list_attr)


@dataclass(frozen=True, slots=True)
class AttrDef:
    """One attribute: `kind` is TensorFlow's ("type", "int", "list(shape)", ...), `allowed` its
    values.
    """

    name: str
    kind: str
    default: Any = None
    has_default: bool = False
    allowed: tuple[Any, ...] = ()
    minimum: int | None = None


@dataclass(frozen=True)
class OpDef:
    """One op type. `is_stateful` ops are never folded or merged."""

    name: str
    inputs: tuple[ArgDef, ...]
    outputs: tuple[ArgDef, ...]
    attrs: tuple[AttrDef, ...]
    is_stateful: bool = False
    is_commutative: bool = False
    doc: str = ""

    @cached_property
    def attr_defs(self) -> dict[str, AttrDef]:
        """Attributes by name."""
        return {a.name: a for a in self.attrs}

    @cached_property
    def inferred_attrs(self) -> frozenset[str]:
        """Attributes that the inputs determine: no caller states them."""
        return frozenset(n for a in self.inputs for n in (a.type_attr, a.number_attr, a.type_list_attr) if n)


_ROW = re.compile(
    r"(?P<name>\w+)\((?P<inputs>.*?)\) -> \((?P<outputs>.*?)\)(?: \[(?P<attrs>.*)\])?(?P<flags>(?: stateful| commutative)*)$"
)
_ATTR = re.compile(
    r"(?P<name>\w+): (?P<kind>list\(\w+\)|\w+)(?: in (?P<allowed>\{.*?\}|\w+))?(?: >= (?P<minimum>-?\d+))?(?: = (?P<default>.+))?$"
)


def parse_row(row: str, doc: str) -> OpDef:
    """Parse a row to an OpDef. Raises GraphError if the row is malformed."""
    match = _ROW.match(row)
    if match is None:
        raise GraphError(f"malformed row in the op table: {row}")
    attrs = tuple(_attr(a) for a in _split(match["attrs"] or "", ";"))
    args = [tuple(_arg(a) for a in _split(match[side], ",")) for side in ("inputs", "outputs")]
    flags = match["flags"].split()
    return OpDef(match["name"], args[0], args[1], attrs, "stateful" in flags, "commutative" in flags, doc)


def _split(text: str, separator: str) -> list[str]:
    """Split at separators outside brackets and quotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif not quoted and c in "([{":
            depth += 1
        elif not quoted and c in ")]}":
            depth -= 1
        elif c == separator and not depth and not quoted:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def _arg(text: str) -> ArgDef:
    name, _, kind = text.partition(": ")
    is_ref = kind.startswith("Ref(")
    kind = kind.removeprefix("Ref(").removesuffix(")") if is_ref else kind
    if kind.startswith("list("):
        return ArgDef(name, type_list_attr=kind[5:-1])
    number, star, element = kind.rpartition(" * ")
    fixed = BY_SHORT_NAME.get(element)
    return ArgDef(name, fixed, "" if fixed else element, number if star else "", "", is_ref)


def _attr(text: str) -> AttrDef:
    match = _ATTR.match(text)
    if match is None:
        raise GraphError(f"malformed attribute in the op table: {text}")
    kind, allowed = match["kind"], match["allowed"]
    values: tuple[Any, ...] = ()
    if allowed:
        values = TYPE_SETS.get(allowed) or tuple(
            _value(v, kind.removeprefix("list(").removesuffix(")")) for v in _split(allowed[1:-1], ",")
        )
    default = match["default"]
    minimum = int(match["minimum"]) if match["minimum"] else None
    return AttrDef(
        match["name"], kind, None if default is None else _value(default, kind), default is not None, values, minimum
    )


def _value(text: str, kind: str) -> Any:
    if kind.startswith("list("):
        return tuple(_value(v, kind[5:-1]) for v in _split(text[1:-1], ","))
    if kind == "type":
        return BY_SHORT_NAME[text]
    if kind == "shape":
        return TensorShape(None if text == "*" else json.loads(text))
    if kind == "float":
        return float(text)
    return json.loads(text)
