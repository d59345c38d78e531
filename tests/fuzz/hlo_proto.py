"""Mutated HloModuleProtos.

Fields of any message are replaced, repeated ones deleted, duplicated or exchanged; names may be
ones that no text could contain.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from tests.fuzz import hlo_seeds
from tests.fuzz.hlo_check import check_module
from tests.fuzz.kinds import Item
from tests.fuzz.mutate import NUMBERS, TEXTS, change_bytes
from xlanb.hlo import HloModule, parse
from xlanb.hlo.proto.schema import SCHEMA

_LONGEST = 1 << 16
"""The most bytes of a seed; elided constants of text are explicit zeros in a proto."""
_BYTES = 0.1
"""The fraction of inputs with changed bytes instead of fields."""


@cache
def seeds() -> tuple[bytes, ...]:
    """The modules of `hlo_seeds.seeds` as protos, except long ones."""
    return tuple(data for text in hlo_seeds.seeds() if len(data := parse(text).to_proto()) <= _LONGEST)


def mutants(rng: np.random.Generator) -> Iterator[Item]:
    """Protos, endlessly."""
    while True:
        data = seeds()[int(rng.integers(0, len(seeds())))]
        if rng.random() < _BYTES:
            yield change_bytes(data, rng)
            continue
        message = SCHEMA.HloModuleProto()
        message.ParseFromString(data)
        for _ in range(int(rng.integers(1, 4))):
            _change(message, rng)
        yield message.SerializeToString()


def _messages(message: Any) -> Iterator[Any]:
    """A message and all messages in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else (value,):
                yield from _messages(part)


def _change(root: Any, rng: np.random.Generator) -> None:
    """Change one field of one message: one that is set, or any."""
    found = list(_messages(root))
    message = found[int(rng.integers(0, len(found)))]
    fields = [f for f, _ in message.ListFields()] if rng.random() < 0.85 else list(message.DESCRIPTOR.fields)
    if not fields:
        return
    field = fields[int(rng.integers(0, len(fields)))]
    if field.is_repeated:
        _change_repeated(getattr(message, field.name), field, found, rng)
    elif rng.random() < 0.1:
        message.ClearField(field.name)
    elif field.message_type is not None:
        alike = [m for m in found if m.DESCRIPTOR is field.message_type]
        if alike:
            getattr(message, field.name).CopyFrom(_copy(alike[int(rng.integers(0, len(alike)))]))
    else:
        setattr(message, field.name, _scalar(field, getattr(message, field.name), found, rng))


def _change_repeated(values: Any, field: Any, found: list[Any], rng: np.random.Generator) -> None:
    count = len(values)
    how = rng.random()
    if count and how < 0.3:
        del values[int(rng.integers(0, count))]
    elif count and how < 0.5:
        values.append(values[int(rng.integers(0, count))])
    elif count > 1 and how < 0.7:
        a, b = (int(v) for v in rng.integers(0, count, 2))
        parts = list(values)
        parts[a], parts[b] = parts[b], parts[a]
        del values[:]
        values.extend(parts)
    elif field.message_type is not None:
        alike = [m for m in found if m.DESCRIPTOR is field.message_type]
        if alike:
            values.append(_copy(alike[int(rng.integers(0, len(alike)))]))
    elif count:
        at = int(rng.integers(0, count))
        values[at] = _scalar(field, values[at], found, rng)
    else:
        values.append(_scalar(field, None, found, rng))


def _copy(message: Any) -> Any:
    """A separate copy of a message: upb copies one into a part of itself endlessly."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _scalar(field: Any, old: Any, found: list[Any], rng: np.random.Generator) -> Any:
    """Another value: one that the field has elsewhere, one near it, or an extreme one."""
    kind = field.cpp_type
    elsewhere = [
        getattr(m, field.name) for m in found if m.DESCRIPTOR is field.containing_type and not field.is_repeated
    ]
    if elsewhere and rng.random() < 0.4:
        return elsewhere[int(rng.integers(0, len(elsewhere)))]
    if kind == field.CPPTYPE_BOOL:
        return not old
    if kind == field.CPPTYPE_STRING:
        return _text(field, rng)
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return float(rng.choice([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38]))
    near = int(old or 0) + int(rng.integers(-2, 3))
    number = near if rng.random() < 0.6 else NUMBERS[int(rng.integers(0, len(NUMBERS)))]
    bits = 64 if kind in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else 32
    number &= (1 << bits) - 1
    is_signed = kind in (field.CPPTYPE_INT64, field.CPPTYPE_INT32, field.CPPTYPE_ENUM)
    return number - (1 << bits) if is_signed and number >> (bits - 1) else number


def _text(field: Any, rng: np.random.Generator) -> str | bytes:
    text = TEXTS[int(rng.integers(0, len(TEXTS)))]
    if field.type == field.TYPE_BYTES:
        return text.encode("utf-8", "surrogatepass")
    return text.encode("utf-8", "replace").decode()


def check(item: Item, rng: np.random.Generator) -> str | None:
    """The find for a proto; None if it is rejected with a reason or everything holds."""
    assert isinstance(item, bytes)
    return check_module(lambda: HloModule.from_proto(item), rng)


def quick(item: Item, _rng: np.random.Generator) -> str | None:
    """The find for a proto without compiling it."""
    assert isinstance(item, bytes)
    return check_module(lambda: HloModule.from_proto(item), None)
