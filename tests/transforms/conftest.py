"""Shared by tests of passes: the check that a rewrite preserves the semantics."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.transforms.meaning import check_meaning
from xlanb.hlo import HloModule


@pytest.fixture
def keeps_meaning() -> Callable[..., HloModule]:
    """keeps_meaning(text, rewrite): the verified module after rewrite(module).

    Its results must be the same, up to what the verdicts of its rules and passes allow.
    """
    return check_meaning
