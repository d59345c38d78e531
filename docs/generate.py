"""The reference pages that are made from the tables: `python docs/generate.py` writes them, a test sees that they are current."""

from __future__ import annotations

from pathlib import Path

from xlanb.hlo.opcode import Attribute, HloOpcode

REFERENCE = Path(__file__).parent / "reference"


def opcodes() -> str:
    """The page of HLO opcodes, by kind, from the one table of them."""
    kinds: dict[str, list[HloOpcode]] = {}
    for opcode in HloOpcode:
        kinds.setdefault(opcode.kind, []).append(opcode)
    lines = [
        "# HLO opcodes",
        "",
        f"All {len(HloOpcode)} opcodes that the parser, the verifier and the evaluator know. Made from the table in `xlanb/hlo/opcode.py`.",
        "",
    ]
    for kind, members in sorted(kinds.items()):
        lines += [f"## {kind}", "", "| opcode | operands | attributes | meaning |", "|---|---|---|---|"]
        for opcode in members:
            arity = "any" if opcode.arity is None else str(opcode.arity)
            lines.append(
                f"| `{opcode.text}` | {arity} | {', '.join(map(_attribute, opcode.attributes))} | {opcode.summary} |"
            )
        lines.append("")
    return "\n".join(lines)


def _attribute(attribute: Attribute) -> str:
    return f"`{attribute.name}`" + ("" if attribute.required else "?")


PAGES = {"opcodes.md": opcodes}


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
