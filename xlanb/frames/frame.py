"""A table with untruncated cells, because pandas cuts texts after 50 characters.

A `Frame` is a pandas DataFrame in every other respect, and pandas' own options stay as the user set
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pandas as pd

from xlanb.display import table_html

_MOST_ROWS: Final = 60
_FEWER_ROWS: Final = 20  # of a table whose text would be longer than so many
_MOST_CHARACTERS: Final = 10_000


class Frame(pd.DataFrame):
    """A DataFrame that shows every cell in full, as text and HTML; derived frames do too."""

    @property
    def _constructor(self) -> Callable[..., Frame]:
        return Frame

    def __repr__(self) -> str:
        if self.empty:
            return super().__repr__()
        rows = _MOST_ROWS
        shown = self.to_string(max_rows=rows, max_colwidth=None)
        if len(shown) > _MOST_CHARACTERS and len(self) > _FEWER_ROWS:
            rows = _FEWER_ROWS
            shown = self.to_string(max_rows=rows, max_colwidth=None)
        cut = f"\n\n[{len(self):,} rows x {self.shape[1]} columns]" if len(self) > rows else ""
        return shown + cut

    def _repr_html_(self) -> str | None:
        return table_html(self)
