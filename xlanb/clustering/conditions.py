"""Conditions: what decided about a node or a pair of nodes, with the value of each condition; shows itself as lines and as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from xlanb.display import Displayable
from xlanb.tracing import Predicate

if TYPE_CHECKING:
    import pandas as pd


class Conditions(tuple[Predicate, ...], Displayable):  # noqa: SLOT001 - it has attributes
    """A tuple of conditions; `subject` says what they are about, `outcome` what came of them."""

    subject: str
    outcome: str

    def __new__(cls, subject: str, outcome: str, predicates: Iterable[Predicate]) -> Self:
        """The conditions in the order in which they are looked at."""
        made = super().__new__(cls, predicates)
        made.subject, made.outcome = subject, outcome
        return made

    @property
    def headline(self) -> str:
        """What the conditions are about, and what came of them."""
        return f"{self.subject}: {self.outcome}"

    def __str__(self) -> str:
        lines = [f"  {'holds' if p.holds else 'FAILS'}  {p.name}{f': {p.value}' if p.value else ''}" for p in self]
        return "\n".join([self.headline, *lines])

    def __repr__(self) -> str:
        return f"<Conditions {self.headline}; {sum(p.holds for p in self)} of {len(self)} hold>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """What a notebook shows: a row for each condition."""
        import pandas as pd

        rows = [(p.name, "holds" if p.holds else "FAILS", p.value) for p in self]
        return (("Conditions", pd.DataFrame(rows, columns=["condition", "outcome", "value"])),)
