"""Verdicts: what a rule or pass preserves of the values it rewrites, by class of element type.

Every rule keeps integers and predicates bit for bit. Of floating-point numbers a rule may lose what
`Loss` lists; elements are equal if they have the same bits or both are NaN. A verdict is a claim:
`python -m benchmarks verdicts` establishes those of algsimp, rule by rule; the tests of passes
check each pass against its own.
"""

from __future__ import annotations

from enum import Flag, auto
from functools import cached_property

from xlanb.lazy_dataclass import dataclass


class Loss(Flag):
    """Where an element may differ between before and after a rewrite.

    NAN: it is NaN before or after. INFINITY: it is infinite before or after. ZERO_SIGN: it is zero
    before and after. RANGE: a step on either side overflows or underflows.
    ROUNDING: anywhere; both sides are equal only over the real numbers, as in reassociated sums and
    products with a reciprocal.
    NUMBERS: anywhere; different numbers are intended, as of another random generator.
    """

    NAN = auto()
    INFINITY = auto()
    ZERO_SIGN = auto()
    RANGE = auto()
    ROUNDING = auto()
    NUMBERS = auto()


NOTHING = Loss(0)
_WORDS = {
    Loss.NAN: "NaN",
    Loss.INFINITY: "infinities",
    Loss.ZERO_SIGN: "the sign of zeros",
    Loss.RANGE: "overflow and underflow",
}


@dataclass(frozen=True)
class Verdict:
    """What a rule preserves.

    Attributes:
        floats: what may be lost of floats.
        complexes: what may be lost of complex numbers; None: the same as of floats.
        moves: it computes nothing.
        has_floats: False if it applies only to integers and predicates.
        note: which types a loss is limited to, or why it is there.
    """

    floats: Loss = NOTHING
    complexes: Loss | None = None
    moves: bool = False
    has_floats: bool = True
    note: str = ""

    def loss(self, *, is_complex: bool = False) -> Loss:
        """What may be lost of floats or of complex numbers."""
        return self.complexes if is_complex and self.complexes is not None else self.floats

    @property
    def is_exact(self) -> bool:
        """Whether nothing is ever lost."""
        return not self.floats and not self.complexes

    @cached_property
    def text(self) -> str:
        """The verdict as text: "exact", "real numbers only", "exact except for NaN"."""
        if not self.has_floats:
            return "exact, integers only"
        if self.moves:
            return "exact, moves elements"
        said = _text(self.floats)
        if self.complexes is not None and self.complexes != self.floats:
            said += f"; complex numbers: {_text(self.complexes)}"
        return f"{said} ({self.note})" if self.note else said

    def __str__(self) -> str:
        return self.text


def _text(loss: Loss) -> str:
    if Loss.NUMBERS in loss:
        return "changes the numbers deliberately"
    if Loss.ROUNDING in loss:
        return "real numbers only"
    lost = [words for flag, words in _WORDS.items() if flag in loss]
    return f"exact except for {', '.join(lost)}" if lost else "exact"


EXACT = Verdict()
MOVES = Verdict(moves=True)
INTEGERS = Verdict(has_floats=False)
REAL = Verdict(Loss.ROUNDING)
OTHER_NUMBERS = Verdict(Loss.NUMBERS)


def exact_except(loss: Loss, *, of_complex: Loss | None = None, note: str = "") -> Verdict:
    """Exact except for some losses; `of_complex` are those of complex numbers."""
    return Verdict(loss, of_complex, note=note)


EXACT_REALS = exact_except(NOTHING, of_complex=Loss.NAN | Loss.INFINITY | Loss.ZERO_SIGN)
"""Exact for floats.

Complex products and quotients mix the parts: an infinite or NaN part affects the other, and zeros
lose their sign.
"""
