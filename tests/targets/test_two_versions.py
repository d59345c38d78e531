"""One program by two versions of XLA: this environment's, and XLANB_OTHER_PYTHON's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from xlanb.peers.targets.compare import side_by_side
from xlanb.peers.targets.installed import versions
from xlanb.runtime.gpu_program import GpuProgram

jax = pytest.importorskip("jax")
OTHER = os.environ.get("XLANB_OTHER_PYTHON", "")
pytestmark = [
    pytest.mark.target,
    pytest.mark.skipif(not OTHER, reason="XLANB_OTHER_PYTHON names no Python with another JAX and its plugins"),
]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLANB_CACHE_DIR", str(tmp_path))


def attention(q: Any, k: Any) -> Any:
    return jax.nn.softmax(q @ k.T / 8.0) @ k


@pytest.mark.parametrize("target", ["h100", "tpu v5e:2x2"])
def test_two_versions_side_by_side(target: str) -> None:
    shape = jax.ShapeDtypeStruct((64, 64), "float32")
    found = side_by_side(attention, shape, shape, targets=[target], pythons=["", OTHER])
    releases = [versions(python)["jaxlib"] for python in ("", OTHER)]
    assert releases[0] != releases[1]
    assert list(found.names) == [f"{target} (jax {r})" for r in releases]
    assert (found.facts.loc["kernels"] > 0).all()
    assert (found.facts.loc["flops"] > 0).all()
    assert len(found.diff().pairs) > 5
    assert all("before_optimizations" in [s.name for s in t] for t in found.traces)
    if target == "h100":
        for trace in found.traces:
            program = trace["kernels"].after
            assert isinstance(program, GpuProgram)
            assert all(".entry" in k.ptx for k in program.kernels)


def test_the_other_python_takes_its_own_libtpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX passes this environment's libtpu to all child processes.

    A library that cannot be loaded shows which process uses it.
    """
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(tmp_path / "none.so"))
    shape = jax.ShapeDtypeStruct((64, 64), "float32")
    found = side_by_side(attention, shape, shape, targets=["tpu v5e:2x2"], pythons=[OTHER])
    assert found.traces[0].release == versions(OTHER)["jaxlib"]
