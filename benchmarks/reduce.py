"""How small, and how fast, `xlanb.reduce` makes modules: 50 faults in the steps of two networks.

They have some hundred to 2,000 instructions. A fault is a compiler that negates the results of some
instructions: those of one opcode, or of one opcode over another one. The test is whether the
interpreter's result differs. Columns: the fault, instructions before and after, tests, wall seconds
(one thread). Needs JAX.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

import xlanb
from tests.browser.programs import residual_step, transformer_step
from xlanb.evaluator import evaluate
from xlanb.explorer.failing import differs, interpreted
from xlanb.hlo import HloInstruction, HloModule, HloOpcode
from xlanb.reducer import reduction

_FAULTS = 50
_SECONDS = 60.0

Guilty = Callable[[HloInstruction], bool]


def faults(module: HloModule) -> Iterator[tuple[str, Guilty]]:
    """Opcodes, and pairs of opcodes one over the other, that the module has: the rarest first."""
    of_one: Counter[tuple[HloOpcode, ...]] = Counter()
    for i in module.instructions():
        if i.shape.is_array and i.array_shape.element_type.is_floating and i.opcode is not HloOpcode.PARAMETER:
            of_one[i.opcode,] += 1
            of_one.update({(i.opcode, o.opcode) for o in i.operands if o.opcode is not HloOpcode.PARAMETER})
    for opcodes, _ in sorted(of_one.items(), key=lambda found: (found[1], str(found[0]))):
        yield " of ".join(o.text for o in opcodes), _guilty(opcodes)


def _guilty(opcodes: tuple[HloOpcode, ...]) -> Guilty:
    def guilty(i: HloInstruction) -> bool:
        is_float = i.shape.is_array and i.array_shape.element_type.is_floating
        return (
            is_float
            and i.opcode is opcodes[0]
            and (len(opcodes) == 1 or any(o.opcode is opcodes[1] for o in i.operands))
        )

    return guilty


def negating(guilty: Guilty) -> Callable[[HloModule, Any], Any]:
    """Return a compiler that negates the results of the guilty instructions, and runs the
    module.
    """

    def run(module: HloModule, arrays: Any) -> Any:
        wrong = module.clone()
        for i in [i for i in wrong.instructions() if guilty(i)]:
            copy = i.parent.clone_instruction(i)
            i.parent.replace(i, i.parent.add(HloOpcode.NEGATE, (copy,), i.shape))
        return evaluate(wrong, *arrays)

    return run


def table() -> pd.DataFrame:
    """A row for each fault, and the medians."""
    rows: list[dict[str, Any]] = []
    for step in (transformer_step, residual_step):
        function, arguments = step()
        module = xlanb.from_jax(function, *arguments)
        found = 0
        for name, guilty in faults(module):
            test = differs(negating(guilty), interpreted, 1e-3)
            if found == _FAULTS // 2:
                break
            if not test(module.clone()):
                continue  # what it gives has no part in the result
            done = reduction(module, test, seconds=_SECONDS)
            found += 1
            after, ended = done.module.instruction_count, done.is_finished
            row = {"program": function.__name__, "fault": name, "before": done.before, "after": after}
            rows.append({**row, "tests": done.tests, "s": round(done.seconds, 1), "ended": ended})
    frame = pd.DataFrame(rows)
    medians = {c: np.median(frame[c]) for c in ("before", "after", "tests", "s")}
    return pd.concat([frame, pd.DataFrame([{"program": "median", "fault": f"{len(frame)} faults", **medians}])])
