r"""How attributes are printed, by the version of JAX whose XLA prints them.

    0.10.2                                  0.12
    compare(a, b), type=TOTALORDER          compare(a, b), order=TOTAL
    topk(a), k=2, largest=true              topk(a), k=2, largest=true, is_stable=true
    collective-broadcast(a)                 collective-broadcast(a), has_dynamic_root=false
    sparsity_config={rhs={... stride=1}}    sparsity_config={rhs={... stride=1 idx=0}}
    origin_recovery_table={... "             origin_recovery_table={... "
      ... op_name="a" ...                     ... op_name=\"a\" ...

The parser reads both. XLA of 0.12 reads the text of 0.10.2, but not the reverse; so the canonical
text here is that of 0.10.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from xlanb.hlo.names import escape
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import InstructionRecord
from xlanb.patterns import pattern

Attributes = Mapping[str, Any]


def _compare(attributes: Attributes) -> Attributes:
    """The attributes of a compare in 0.12, which has an order for floats only.

    The types of other comparisons follow from the operands.
    """
    rest = {name: value for name, value in attributes.items() if name != "type"}
    return {**rest, "order": "TOTAL"} if attributes.get("type") == "TOTALORDER" else rest


def _sparse(attributes: Attributes) -> Attributes:
    text = attributes.get("sparsity_config")
    if not text:
        return attributes
    sides = re.sub(r"\{(sparsity=[^{}]*)\}", lambda m: m[0] if " idx=" in m[1] else f"{{{m[1]} idx=0}}", text)
    return {**attributes, "sparsity_config": sides}


def _stable(attributes: Attributes) -> Attributes:
    """Attributes with `is_stable` explicit.

    If absent, a message means unstable and a text means stable.
    """
    return {**attributes, "is_stable": attributes.get("is_stable", False)}


def _unless_stable(attributes: Attributes) -> Attributes:
    return {n: v for n, v in attributes.items() if n != "is_stable" or not v}


def _root(attributes: Attributes) -> Attributes:
    return {**attributes, "has_dynamic_root": attributes.get("has_dynamic_root", False)}


_Row = tuple[Callable[[Attributes], Attributes], frozenset[str]]

_SPELLINGS: Mapping[str, Mapping[HloOpcode, _Row]] = {
    "0.10.2": {HloOpcode.TOPK: (_unless_stable, frozenset())},
    "0.12": {
        HloOpcode.COMPARE: (_compare, frozenset()),
        HloOpcode.TOPK: (_stable, frozenset()),
        HloOpcode.COLLECTIVE_BROADCAST: (_root, frozenset(("has_dynamic_root",))),
        HloOpcode.CONVOLUTION: (_sparse, frozenset()),
        HloOpcode.DOT: (_sparse, frozenset()),
    },
}
"""By version and opcode: how attributes are spelled, and which are printed even if default."""


def spelled(record: InstructionRecord, version: str) -> tuple[Attributes, frozenset[str]]:
    """An instruction's attributes in the spelling of a version.

    Also returns the names of those that are printed even at their default.
    """
    row = _SPELLINGS[version].get(record.opcode)
    if row is None:
        return record.attributes, frozenset()
    write, shown = row
    return write(record.attributes), shown


# -- recovery modules ------------------------------------------------------------------------------

RECOVERY_QUOTE = '  "'
"""The line before and after the text of a module in an origin_recovery_table."""

_RECOVERY = pattern(r'"\n((?s:.*?)\n)  "(?=\n|$)')
_BARE_QUOTE = pattern(r'(?:^|[^\\])(?:\\\\)*"')


def recovery_module_text(module: str) -> str:
    """The text of a recovery module as 0.10.2 prints it.

    It is indented, between lines of one quote, and not escaped.
    """
    inner = "".join(f"    {line}\n" if line else "\n" for line in module.split("\n"))
    return f"{RECOVERY_QUOTE}\n{inner}{RECOVERY_QUOTE}"


def unescaped_recovery_module(source: str, start: int) -> tuple[str, int] | None:
    """The recovery module after the quote at `start`, and its end; None if it is escaped."""
    found = _RECOVERY.match(source, start)
    return (found[1], found.end()) if found and _BARE_QUOTE.search(found[1]) else None


def spelled_header(name: str, text: str, version: str) -> str:
    """The text of an attribute of the `HloModule` line in the spelling of a version."""
    if version == "0.10.2" or name != "origin_recovery_table":
        return text
    lines, inside = [], False
    for line in text.split("\n"):
        inside ^= line == RECOVERY_QUOTE
        lines.append(escape(line) if inside and line != RECOVERY_QUOTE else line)
    return "\n".join(lines)
