"""A wrong formula or guard is named.

`python -m benchmarks bisect` tries every rule and every pass.
"""

from __future__ import annotations

from itertools import islice

from benchmarks.bisect import attempt, subjects

LAST, EVERY = 480, 32


def test_what_was_made_wrong_is_named() -> None:
    rows = [row for _, programs in islice(subjects(), 0, LAST, EVERY) if (row := attempt(programs)) is not None]
    assert [row for row in rows if row["named"] != "yes"] == []
    assert len(rows) >= 5, "most of what was made wrong moved no number"
    assert len({row["rule"] for row in rows}) == len(rows)
