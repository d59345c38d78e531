"""Devices as MPI processes through the command line, with 2, 4 and 8 of them.

Needs mpi4py and MPI: the extra `mpi`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlanb

MPIEXEC = Path(sys.executable).parent / "mpiexec"
LAUNCHER = str(MPIEXEC) if MPIEXEC.exists() else shutil.which("mpiexec")
pytest.importorskip("mpi4py")
pytestmark = pytest.mark.skipif(LAUNCHER is None, reason="there is no mpiexec")

ROOT = Path(xlanb.__file__).parents[1]
ADD = "add { a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b) }\n"


def run(text: str, processes: int, tmp_path: Path, *more: str, **arrays: Any) -> subprocess.CompletedProcess[str]:
    (tmp_path / "step.hlo").write_text(text)
    np.savez(tmp_path / "inputs.npz", **arrays)
    assert LAUNCHER is not None
    command = [LAUNCHER, "-n", str(processes), sys.executable, "-m", "xlanb", "run", "--devices", "mpi"]
    command += ["--inputs", "inputs.npz", "--json", *more, "step.hlo"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
    return subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def all_collectives(n: int) -> str:
    """Return a program with each kind of collective once; every device returns the sum of all."""
    everybody = "{{" + ",".join(map(str, range(n))) + "}}"
    common = f"use_global_device_ids=true, replica_groups={everybody}"
    ring = "{" + ",".join(f"{{{k},{(k + 1) % n}}}" for k in range(n)) + "}"
    pairs = "{" + ",".join(f"{{{k},{k + 1}}}" for k in range(0, n, 2)) + "}"
    return f"""HloModule m, num_partitions={n}
{ADD}twice {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  s = f32[] add(a, b)
  ROOT t = f32[] maximum(s, b) }}
ENTRY e_spmd {{
  x = f32[{n}] parameter(0), sharding={{devices=[{n}]<=[{n}]}}
  i = u32[] partition-id()
  f = f32[] convert(i)
  b = f32[{n}] broadcast(f), dimensions={{}}
  y = f32[{n}] add(x, b)
  r = f32[{n}] all-reduce(y), channel_id=1, {common}, to_apply=add
  q = f32[{n}] all-reduce(y), channel_id=2, use_global_device_ids=true, replica_groups={pairs}, to_apply=add
  o = f32[{n}] all-reduce(y), channel_id=3, {common}, to_apply=twice
  s = f32[1] reduce-scatter(q), channel_id=4, {common}, dimensions={{0}}, to_apply=add
  g = f32[{n}] all-gather(s), channel_id=5, {common}, dimensions={{0}}
  a = f32[{n}] all-to-all(y), channel_id=6, replica_groups={everybody}, dimensions={{0}}
  p = f32[{n}] collective-permute(a), channel_id=7, source_target_pairs={ring}
  c = f32[{n}] collective-broadcast(p), channel_id=8, replica_groups={everybody}
  rg = f32[{n}] add(r, g)
  rgo = f32[{n}] add(rg, o)
  pc = f32[{n}] add(p, c)
  t = f32[{n}] all-reduce(pc), channel_id=9, {common}, to_apply=add
  ROOT z = f32[{n}] add(rgo, t)
}}"""


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_processes_compute_what_threads_do(devices: int, tmp_path: Path) -> None:
    text, x = all_collectives(devices), np.arange(devices * devices, dtype=np.float32)
    expected = xlanb.compile(text)(x)
    np.testing.assert_array_equal(xlanb.evaluate(text, x), expected)
    done = run(text, devices, tmp_path, x=x)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1  # one process prints
    assert json.loads(done.stdout)["results"][0]["values"] == expected.tolist()


def test_another_number_of_processes_than_devices_is_an_error(tmp_path: Path) -> None:
    done = run(all_collectives(4), 2, tmp_path, x=np.arange(16, dtype=np.float32))
    assert done.returncode != 0
    assert "runs on 4 devices, not on 2" in done.stderr


def test_a_process_that_goes_another_way_ends_all(tmp_path: Path) -> None:
    text = f"""HloModule m, num_partitions=2
{ADD}one {{ p = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(p), channel_id=1, use_global_device_ids=true, replica_groups={{{{0,1}}}}, to_apply=add }}
two {{ p = f32[4] parameter(0)
  ROOT q = f32[4] negate(p) }}
ENTRY e_spmd {{ x = f32[4] parameter(0)
  i = u32[] partition-id()
  k = s32[] convert(i)
  ROOT c = f32[4] conditional(k, x, x), branch_computations={{one, two}} }}"""
    os.environ["XLA_FLAGS"] = "--xla_cpu_collective_call_terminate_timeout_seconds=2"
    try:
        done = run(text, 2, tmp_path, x=np.ones(4, np.float32))
    finally:
        del os.environ["XLA_FLAGS"]
    assert done.returncode != 0
    assert "device 0 of 2 waited 2 s at r for other devices" in done.stderr
