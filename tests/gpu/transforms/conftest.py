"""What tests of XLA:GPU's passes share: the check that a rewrite keeps the meaning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.transforms.meaning import check_meaning
from xlanb.hlo import HloModule


@pytest.fixture
def keeps_meaning() -> Callable[..., HloModule]:
    """keeps_meaning(text, rewrite): the module after rewrite(module), verified, with results that are the same up to what its rules and passes declare."""
    return check_meaning
