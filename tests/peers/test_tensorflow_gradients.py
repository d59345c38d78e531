"""Gradients of some op types of each kind beside TensorFlow's, both orders; `python -m tests.peers.gradient_sweep` goes through all of them."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from tests.peers.gradient_sweep import compare

pytestmark = pytest.mark.peer
SOME = (
    "Exp",
    "Pow",
    "MatrixSolve",
    "MatrixDiagV3",
    "Einsum",
    "RFFT",
    "TensorScatterMax",
    "UnsortedSegmentProd",
    "ClipByValue",
    "Conv3D",
    "MaxPoolV2",
)


@pytest.mark.parametrize("name", SOME)
def test_gradient(name: str) -> None:
    assert compare(name).status == "ok", compare(name).text
