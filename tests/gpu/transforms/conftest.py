"""Shared by tests of XLA:GPU's passes: check that a rewrite keeps the meaning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.transforms.meaning import check_meaning
from xlanb.hlo import HloModule


@pytest.fixture
def keeps_meaning() -> Callable[..., HloModule]:
    """Return keeps_meaning(text, rewrite): the verified module after rewrite(module).

    Its results are the same, up to the tolerance that its rules and passes declare.
    """
    return check_meaning
