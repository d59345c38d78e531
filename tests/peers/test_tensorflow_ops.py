"""Some op types of each kind with all their dtypes against TensorFlow's XLA.

`python -m tests.peers.op_sweep` tests all of them.
"""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from tests.peers.op_sweep import sweep, verdict

pytestmark = pytest.mark.peer
SOME = (
    "AddV2", "Acosh", "Cast", "Sum", "ArgMax", "ConcatV2", "GatherV2", "StridedSlice", "MatMul", "Cholesky", "Conv2D", "MaxPoolGrad", "Softmax",
    "ResourceApplyAdam", "ResourceScatterAdd", "StatelessRandomUniformV2", "TensorListReserve", "TensorArrayV3", "StackV2", "AdjustHue", "ResizeBilinear",
)  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_op(name: str) -> None:
    rows = sweep(name)
    assert verdict(rows) == "right", [f"{types}: {o.text}" for types, o in rows if o.status in ("wrong", "fails")]
