"""The table of what depends on the release of JAX."""

from __future__ import annotations

import pytest

from xlanb.errors import XlanbError
from xlanb.peers.versions import VERSIONS, of_release


def test_a_release_has_the_last_row_that_is_not_newer() -> None:
    assert [
        of_release(r).pipeline for r in ("0.10.0", "0.10.2", "0.11.9", "0.12.0.1", "0.12.1.dev20261101", "1.0")
    ] == [
        "0.10.2",
        "0.10.2",
        "0.10.2",
        "0.12",
        "0.12",
        "0.12",
    ]
    assert [row.since for row in VERSIONS] == sorted(row.since for row in VERSIONS)


@pytest.mark.parametrize("release", ["0.9.2", "new"])
def test_what_no_row_has_is_refused(release: str) -> None:
    with pytest.raises(XlanbError, match="JAX"):
        of_release(release)
