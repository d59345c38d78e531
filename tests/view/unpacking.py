"""What `step/unpack.js` does, in Python: pages are read back with it."""

from __future__ import annotations

import json
import re
import zlib
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any

from xlanb.view.packing import DIGITS, instruction_begin, plain_label


def code_of(html: str, name: str) -> str:
    """The program or the style that a page carries."""
    return unpacked_text(re.search(rf'data-code="{name}">([^<]*)</script>', html).group(1))


def payload_of(html: str) -> Any:
    """The payload of a page's first view."""
    return unpacked(re.search(r'data-part="payload">([^<]*)</script>', html).group(1))


def unpacked_text(packed: str) -> str:
    """Text deflated and written in base 85."""
    fill = -len(packed) % 5
    values = [*map(DIGITS.index, packed.encode("ascii")), *[84] * fill]
    words = (reduce(lambda word, digit: word * 85 + digit, values[k : k + 5]) for k in range(0, len(values), 5))
    data = b"".join(word.to_bytes(4, "big") for word in words)
    return zlib.decompress(data[: len(data) - fill]).decode()


def unpacked(packed: str) -> Any:
    return whole(rows(json.loads(unpacked_text(packed))))


def rows(data: Any) -> Any:
    if isinstance(data, list):
        return [rows(v) for v in data]
    if not isinstance(data, dict):
        return data
    if "~" not in data:
        return {k: rows(v) for k, v in data.items()}
    given = data["~"]
    if len(given) == 1:
        return list(accumulate(given[0]))
    if len(given) == 2:
        lengths, values = map(rows, given)
        ends = list(accumulate(lengths, initial=0))
        return [values[a:b] for a, b in pairwise(ends)]
    if given[0] == "words":
        return [given[1][k] for k in given[2]]
    if given[0] == "rows":
        return [list(row) for row in zip(*map(rows, given[1]), strict=True)]
    forms, index, names, columns = given
    streams = [iter(rows(c)) for c in columns]
    kinds = [0] * index if isinstance(index, int) else rows(index)
    found = [{names[k]: next(streams[k]) for k in forms[kind]} for kind in kinds]
    return found[0] if "~" in names and len(found) == 1 else found


def whole(payload: Any) -> Any:
    for item in payload["items"]:
        if item["t"].startswith(")"):
            rest = item["t"][1:].replace("\x01", f'op_name="{item.get("m")}"')
            item["t"] = instruction_begin(item) + rest
        item.setdefault("h", plain_label(item))
    for stage in (s for t in payload["traces"] for s in t["stages"]):
        for edit in (e for r in stage.get("why", {}).get("rewrites", []) for e in r["edits"]):
            for name, index in (("a", "i"), ("b", "j")):
                if index in edit:
                    edit.setdefault(name, payload["items"][edit[index]]["n"])
    return payload
