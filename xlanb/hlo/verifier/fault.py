"""The verifier's errors: the broken rule, and the instruction among its neighbours."""

from __future__ import annotations

from typing import NoReturn

from xlanb.errors import HloVerifierError
from xlanb.hlo.diagnostic import context
from xlanb.hlo.instruction import HloInstruction
from xlanb.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class VerifierOptions:
    """What is checked beyond the rules that always hold, by the names of HloVerifierOpts.

    Attributes:
        layout_sensitive: instructions that move no data must not change layouts.
        allow_mixed_precision: floating operands of one instruction, and its result, may differ in
            precision.
        allow_unbounded_dynamism: dimensions may be unknown, `?`.
        executable: check also what XLA's verifier leaves to its compilers (our own option).
    """

    layout_sensitive: bool = False
    allow_mixed_precision: bool = True
    allow_unbounded_dynamism: bool = False
    executable: bool = False


def fail(instruction: HloInstruction, problem: str) -> NoReturn:
    """Raise an error for an instruction.

    Raises:
        HloVerifierError: always; it shows the instruction among its neighbours.
    """
    raise HloVerifierError(f"%{instruction.name}: {problem}\n{context(instruction)}")
