"""Aliases of results and parameters, as text and as values.

    input_output_alias={ {1}: (0, {}, may-alias) }      buffer_donor={ (2, {}) }

Source: xla/hlo/ir/hlo_input_output_alias_config.h.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlanb.hlo.module import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.patterns import pattern

Leaf = tuple[int, ...]
_INDEX = r"\{([\d,\s]*)\}"
_ALIAS = pattern(rf"{_INDEX}\s*:\s*\(\s*(\d+)\s*,\s*{_INDEX}\s*(?:,\s*([\w-]+)\s*)?\)")
_DONOR = pattern(rf"\(\s*(\d+)\s*,\s*{_INDEX}\s*\)")


@dataclass(frozen=True, order=True)
class Alias:
    """The result at `result_leaf` shares memory with the parameter at `parameter_leaf`.

    `kind` is "may-alias" or "must-alias".
    """

    result_leaf: Leaf
    parameter: int
    parameter_leaf: Leaf
    kind: str = "may-alias"


def read_aliases(module: HloModule) -> list[Alias]:
    """The aliases in a module's header."""
    return parse_aliases(module.header.get("input_output_alias", ""))


def parse_aliases(text: str) -> list[Alias]:
    """The aliases in the text of input_output_alias or output_to_operand_aliasing.

    In the latter the parameter is an operand.
    """
    return [Alias(_leaf(r), int(n), _leaf(p), k or "may-alias") for r, n, p, k in _ALIAS.findall(text)]


def read_donors(module: HloModule) -> list[tuple[int, Leaf]]:
    """(parameter, leaf) pairs whose memory a module may reuse."""
    return [(int(n), _leaf(p)) for n, p in _DONOR.findall(module.header.get("buffer_donor", ""))]


def write(module: HloModule, aliases: Iterable[Alias], donors: Iterable[tuple[int, Leaf]]) -> None:
    """Set both attributes of the header; remove empty ones."""
    _set(
        module,
        "input_output_alias",
        [f"{_text(a.result_leaf)}: ({a.parameter}, {_text(a.parameter_leaf)}, {a.kind})" for a in sorted(aliases)],
    )
    _set(module, "buffer_donor", [f"({n}, {_text(leaf)})" for n, leaf in sorted(donors)])


def _set(module: HloModule, name: str, rows: list[str]) -> None:
    if rows:
        module.header[name] = "{ " + ", ".join(rows) + " }"
    else:
        module.header.pop(name, None)


def _leaf(text: str) -> Leaf:
    return tuple(int(n) for n in text.split(",") if n.strip())


def _text(leaf: Leaf) -> str:
    return "{" + ",".join(map(str, leaf)) + "}"
