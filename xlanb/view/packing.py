"""Compact payloads for a page: regular JSON as columns, deflated, in base 85.

`packed` leaves out derivable data, `packed_text` deflates; `step/unpack.js` undoes both. A float
keeps four digits. In the JSON

    {"~": [forms, index, names, columns]}   a list of objects: the keys of each kind of object
                                            as positions in `names`, the kind of each object
                                            (or their number, if of one kind), then all
                                            values of each key
    {"~": [lengths, values]}                a list of lists: their lengths, and all elements
    {"~": ["rows", columns, length]}        equally long lists: first elements, second, ...
    {"~": ["words", words, indices]}        a list of texts, many of them equal
    {"~": [numbers]}                        a list of integers: the first, then differences
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, Final

import numpy as np

Data = Any

_MARK: Final = "~"
_FEWEST: Final = 3  # objects or lists that are worth columns
_NUMBERS: Final = 8
_WIDEST: Final = 6
_SAME: Final = 3  # times that each text is there at least
_NAMED: Final = "\x01"  # replaces the op_name in an item's text
# Printable ASCII without quotes, backslashes and the characters that HTML and formulas begin with.
DIGITS: Final = bytes(c for c in range(ord("!"), ord("~")) if c not in b"\"$&'<>\\`")


_Parts = dict[tuple[str, int, int], tuple[Any, str]]
_PARTS: ContextVar[_Parts | None] = ContextVar("xlanb parts of packed payloads", default=None)


@contextmanager
def parts_shared() -> Iterator[None]:
    """Write the parts that payloads packed meanwhile share, such as their items, once."""
    token = _PARTS.set({})
    try:
        yield
    finally:
        _PARTS.reset(token)


def packed(payload: Mapping[str, Any]) -> str:
    """A payload for a page."""
    items = payload.get("items", [])
    whole = {**payload, "items": items, "traces": payload.get("traces", [])}
    parts = (f"{json.dumps(name)}:{_part(name, value, items)}" for name, value in whole.items())
    return packed_text(f"{{{','.join(parts)}}}")


def _part(name: str, value: Data, items: Sequence[Mapping[str, Any]]) -> str:
    """The JSON of a top-level value, without what the items tell."""
    known = _PARTS.get()
    key = name, id(value), id(items)
    if known is not None and key in known:
        return known[key][1]
    text = json.dumps(columns(_lean_part(name, value, items)), separators=(",", ":"), ensure_ascii=False)
    if known is not None:
        known[key] = (value, items), text  # keeps both alive: an id is not given again meanwhile
    return text


def packed_text(text: str) -> str:
    """Deflate text and write it in base 85, five digits for four bytes: safe between script
    tags.
    """
    data = zlib.compress(text.encode("utf-8", "surrogatepass"), 9)
    fill = -len(data) % 4
    words = np.frombuffer(data + bytes(fill), ">u4")
    digits = words[:, None] // 85 ** np.arange(4, -1, -1) % 85
    text = np.frombuffer(DIGITS, np.uint8)[digits].tobytes().decode("ascii")
    return text[: len(text) - fill]


# ------------------------------------------------------------------------------------------ columns


def columns(data: Data) -> Data:
    """Convert JSON data to columns: equal keys of objects next to each other."""
    if isinstance(data, float):
        return float(f"{data:.4g}")
    if isinstance(data, dict):
        if _MARK in data:
            return _objects([data])
        return {k: columns(v) for k, v in data.items()}
    if not isinstance(data, list):
        return data
    if len(data) >= _FEWEST and all(isinstance(v, dict) for v in data):
        return _objects(data)
    if len(data) >= _FEWEST and all(isinstance(v, list) for v in data):
        return _lists(data)
    if len(data) >= _FEWEST and all(isinstance(v, str) for v in data):
        return _words(data)
    if len(data) >= _NUMBERS and all(type(v) is int for v in data):
        steps = [data[0], *(b - a for a, b in pairwise(data))]
        return {_MARK: [steps]} if len(str(steps)) < len(str(data)) else data
    return [columns(v) for v in data]


def _lists(rows: Sequence[Sequence[Data]]) -> Data:
    length = len(rows[0])
    is_table = 2 <= length <= _WIDEST and all(len(row) == length for row in rows)
    if is_table and any(isinstance(v, str) for v in rows[0]):
        return {_MARK: ["rows", [columns(list(column)) for column in zip(*rows, strict=True)], length]}
    return {_MARK: [columns([len(v) for v in rows]), columns([w for v in rows for w in v])]}


def _words(texts: list[str]) -> Data:
    words = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    if len(words) * _SAME > len(texts):
        return texts
    return {_MARK: ["words", list(words), [words[text] for text in texts]]}


def _objects(rows: Sequence[Mapping[str, Data]]) -> Data:
    kinds: dict[tuple[str, ...], int] = {}
    index = [kinds.setdefault(tuple(row), len(kinds)) for row in rows]
    names = list(dict.fromkeys(key for kind in kinds for key in kind))
    at = {name: k for k, name in enumerate(names)}
    forms = [[at[key] for key in kind] for kind in kinds]
    return {
        _MARK: [
            forms,
            columns(index) if len(kinds) > 1 else len(rows),
            names,
            [columns([row[name] for row in rows if name in row]) for name in names],
        ]
    }


# ------------------------------------------------------------------------------ what the rest tells


def lean(payload: Mapping[str, Any]) -> Data:
    """Return the payload without item labels, item texts and edit names that other fields
    determine.
    """
    items = payload.get("items", [])
    whole = {**payload, "items": items, "traces": payload.get("traces", [])}
    return {name: _lean_part(name, value, items) for name, value in whole.items()}


def _lean_part(name: str, value: Data, items: Sequence[Mapping[str, Any]]) -> Data:
    if name == "items":
        return [_lean_item(item) for item in value]
    if name == "traces":
        return [{**trace, "stages": [_lean_stage(stage, items) for stage in trace["stages"]]} for trace in value]
    return value


def _lean_item(item: Mapping[str, Any]) -> Data:
    left = dict(item)
    begin = instruction_begin(item)
    if item["t"].startswith(begin):
        rest = item["t"][len(begin) :]
        if item.get("m"):
            rest = rest.replace(f'op_name="{item["m"]}"', _NAMED)
        left["t"] = f"){rest}"
    if item.get("h") == plain_label(item):
        del left["h"]
    return left


def instruction_begin(item: Mapping[str, Any]) -> str:
    """Return the beginning of an instruction's text from its item's fields, up to its operands."""
    root = "ROOT " if item.get("r") else ""
    operands = ", ".join(f"%{name}" for name in item.get("p", ()))
    return f"  {root}%{item['n']} = {item['s']}{item.get('l', '')} {item['o']}({operands}"


def plain_label(item: Mapping[str, Any]) -> list[str]:
    """Return the default label of an item."""
    name, op = item["n"], item["o"]
    return [op, name[len(op) :] if name.startswith(op) else f" {name}", item["s"]]


def _lean_stage(stage: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> Data:
    if stage.get("s"):
        stage = {**stage, "s": float(f"{stage['s']:.3g}")}
    why = stage.get("why")
    if not why or not why.get("rewrites"):
        return stage
    rewrites = [{**r, "edits": [_lean_edit(e, items) for e in r.get("edits", ())]} for r in why["rewrites"]]
    return {**stage, "why": {**why, "rewrites": rewrites}}


def _lean_edit(edit: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> Data:
    left = dict(edit)
    for name, index in (("a", "i"), ("b", "j")):
        if index in edit and items[edit[index]]["n"] == edit.get(name):
            del left[name]
    return left
