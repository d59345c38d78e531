"""A sample of the opcode sweep: compiled code, evaluator and the real XLA:CPU agree, or all
reject.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.numeric_values import NUMERIC
from tests.peers.opcode_cases import MAKERS, cases
from tests.peers.opcode_sweep import RIGHT, explained, outcomes

pytest.importorskip("jax")
pytestmark = pytest.mark.peer

_SHARE = 0.012


def test_opcodes_by_types() -> None:
    rng = np.random.default_rng(20261123)
    sample = [c for c in cases() if rng.random() < _SHARE]
    found = list(outcomes(sample))
    assert len(found) == len(sample)
    wrong = [f"{o.kind}: {c.name}: {o.detail}" for c, o in found if o.kind not in RIGHT and not explained(c, o)]
    assert not wrong, "\n".join(wrong)
    assert sum(o.kind == "same" for _, o in found) > len(found) // 3


def test_each_opcode_has_a_case_of_each_type() -> None:
    assert {(c.opcode, c.type) for c in cases()} == {(o, t) for o in MAKERS for t in NUMERIC}
