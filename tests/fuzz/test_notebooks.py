"""The campaigns of notebooks and dumps.

Inputs differ and depend only on the seed; markup of names is found.
"""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest

from tests.fuzz import dumps, notebooks
from tests.fuzz.kinds import kinds
from tests.fuzz.proto_bombs import bomb


@pytest.mark.parametrize("kind", ["message", "magic", "dump", "stablehlo"])
def test_inputs_differ_and_depend_on_the_seed_alone(kind: str) -> None:
    first, again, other = (list(islice(kinds()[kind].mutants(np.random.default_rng(s)), 30)) for s in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(set(first)) > 20


def test_what_is_not_changed_holds() -> None:
    rng = np.random.default_rng(0)
    assert dumps.check(json.dumps(dumps._files()), rng) is None
    message = {"content": {"data": {"method": "custom", "content": {"type": "export"}}}}
    assert notebooks.check_messages(json.dumps([message]), rng) is None


def test_messages_that_change_the_state_hold() -> None:
    run = {"type": "run", "trace": 0, "stage": 1}
    toggle = {"type": "toggle", "trace": 0, "stage": 0, "name": "algsimp", "off": True}
    messages = [{"content": {"data": {"method": "custom", "content": c}}} for c in (run, toggle, {"type": "sync"})]
    assert notebooks.check_messages(json.dumps(messages), np.random.default_rng(0)) is None


@pytest.mark.parametrize(
    ("page", "is_found"),
    [
        ("<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>", False),
        ("<p title='onerror=alert(1)'>javascript:alert(1)</p>", False),
        ("<p><script>alert(1)</script></p>", True),
        ('<a href=" javascript:alert(1)">x</a>', True),
        (f'<p title="{dumps.MARKUP}">', True),
    ],
)
def test_markup_of_a_name_is_found(page: str, is_found: bool) -> None:
    assert (dumps.find_markup(page) is not None) == is_found


def test_bombs_are_small() -> None:
    rng = np.random.default_rng(0)
    made = [bomb(rng) for _ in range(100)]
    assert len(set(made)) > 80
    assert max(map(len, made)) < 2_000_000


@pytest.mark.parametrize(
    "entry",
    [{"link": "loop"}, {"link": "/dev/zero"}, {"pipe": 1}, {"folder": 1}, {"sparse": 1 << 40}, {"zeros": 1 << 27},
        {"cut": "QUJD", "to": 0.5}],
    ids=lambda e: next(iter(e)),
)  # fmt: skip
def test_what_is_no_dump_is_no_find(entry: dict[str, object]) -> None:
    item = json.dumps({"module_0000.x.before_optimizations.txt.gz": entry, "loop": "", "\udcff": "text"})
    assert dumps.check(item, np.random.default_rng(0)) is None
