"""Compare our passes with those of the real XLA, pass by pass.

    python -m tests.peers.pass_parity [TRIPLES.jsonl]

Without a file the triples of the installed XLA are made first; see make_triples.py. A pass is run
on the module before it, and the result is compared with the module after it:

    same      the same graph: equal up to names, order and metadata
    ops       the same instructions by opcode and shape, wired otherwise or with other attributes
    differs   others
    missing   there is no pass of that name
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.peers.make_triples import Triple, triples
from xlanb.cpu.pipelines import pipeline
from xlanb.hlo import HloInstruction, HloModule, HloOpcode, parse
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.text.literal_text import literal_text
from xlanb.peers.versions import installed
from xlanb.transforms import PASSES
from xlanb.transforms.base import HloPass
from xlanb.transforms.pipeline import HloPassFix, HloPassPipeline

_IGNORED = frozenset(("calls", "to_apply", "body", "condition", "branch_computations", "select", "scatter", "literal"))
"""Attributes that name computations, which are compared themselves, and literals, compared as
text.
"""


def parity(found: Iterable[Triple]) -> dict[str, Counter[str]]:
    """The verdicts on each pass."""
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    known = dict(_passes(pipeline(xla=installed().pipeline)))
    for triple in found:
        name = re.sub(r"^(apply-xla-transforms)-\d+$", r"\1", triple.name)
        one = known.get((triple.pipeline, name)) or (PASSES[name]() if name in PASSES else None)
        verdicts[name]["missing" if one is None else _verdict(one, triple)] += 1
    return verdicts


def _passes(p: HloPassPipeline) -> Iterator[tuple[tuple[str, str], HloPass]]:
    """Yield the passes of a pipeline and its inner ones, by the names of their pipeline and their
    own.
    """
    for one in p.passes:
        inner = one.inner if isinstance(one, HloPassFix) else one
        if isinstance(inner, HloPassPipeline):
            yield from _passes(inner)
        else:
            yield (p.name, inner.name), inner


def _verdict(one: HloPass, triple: Triple) -> str:
    module, wanted = parse(triple.before), parse(triple.after)
    one.run(module)
    module.verify()
    if _operations(module) != _operations(wanted):
        return "differs"
    return "same" if _Structure().of(module) == _Structure().of(wanted) else "ops"


def _operations(module: HloModule) -> Counter[tuple[str, str]]:
    """Count the instructions of each opcode and shape.

    A tuple element counts once, as the text `p#0` has it once for all its uses.
    """
    shown = Counter(
        (i.opcode.text, str(i.shape))
        for i in module.instructions()
        if i.opcode not in (HloOpcode.PARAMETER, HloOpcode.GET_TUPLE_ELEMENT)
    )
    elements = {
        (i.operands[0], i.tuple_index): i for i in module.instructions() if i.opcode is HloOpcode.GET_TUPLE_ELEMENT
    }
    return shown + Counter((i.opcode.text, str(i.shape)) for i in elements.values())


class _Structure:
    """Number instructions so that equal opcode, shape, attributes and operands give equal numbers.

    Names are ignored.
    """

    def __init__(self) -> None:
        self._known: dict[HloInstruction | HloComputation, int] = {}

    def of(self, module: HloModule) -> int:
        return self._computation(module.entry_computation)

    def _computation(self, c: HloComputation) -> int:
        if c not in self._known:
            for i in c.post_order():
                self._known[i] = self._instruction(i)
            self._known[c] = self._known[c.root]
        return self._known[c]

    def _instruction(self, i: HloInstruction) -> int:
        attributes: dict[str, Any] = {n: str(v) for n, v in i.attributes.items() if n not in _IGNORED}
        value = literal_text(i.literal, large=True) if i.opcode is HloOpcode.CONSTANT else ""
        called = tuple(self._computation(c) for c in i.called_computations)
        operands = tuple(self._known[o] for o in i.operands)
        return hash((i.opcode.text, str(i.shape), tuple(sorted(attributes.items())), value, called, operands))


def main() -> None:
    """Print a line a pass, then the sum."""
    lines = Path(sys.argv[1]).read_text().splitlines() if len(sys.argv) > 1 else None
    found = triples() if lines is None else [Triple(**json.loads(line)) for line in lines]
    verdicts = parity(found)
    for name, row in sorted(verdicts.items(), key=lambda item: -item[1].total()):
        sys.stdout.write(f"{name:40s} {dict(row)}\n")
    total = sum(verdicts.values(), Counter())
    alike = total["same"] + total["ops"]
    sys.stdout.write(f"same {total['same']} of {total.total()}, the same operations {alike}\n")


if __name__ == "__main__":
    main()
