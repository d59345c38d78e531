"""The real XLA:TPU's dumps, compiled for absent chips."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import xlanb
from xlanb.dump.tpu.memory_space import MemorySpaceRecord
from xlanb.dump.tpu.program import TpuProgram
from xlanb.dump.tpu.schedule import TpuScheduleRecord
from xlanb.explorer.trace import Trace

pytestmark = pytest.mark.target

PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

topology = topologies.get_topology_desc(platform="tpu", topology_name=sys.argv[1])
if sys.argv[2] == "scan":
    mesh = Mesh(np.array(topology.devices[:1]), ("d",))
    def f(w, x):
        def step(h, u):
            h = jnp.tanh(h @ w + u)
            return h, h.sum()
        return jax.lax.scan(step, x[0], x)
    args = jax.ShapeDtypeStruct((256, 256), jnp.float32), jax.ShapeDtypeStruct((32, 128, 256), jnp.float32)
    specs = P(), P()
else:
    mesh = Mesh(np.array(topology.devices[:4]), ("d",))
    f = jax.grad(lambda x, w: jnp.sum(jax.nn.relu(x @ w) @ w.T), argnums=(0, 1))
    args = jax.ShapeDtypeStruct((256, 1024), jnp.bfloat16), jax.ShapeDtypeStruct((1024, 2048), jnp.bfloat16)
    specs = P("d"), P(None, "d")
shardings = tuple(NamedSharding(mesh, s) for s in specs)
out = shardings if sys.argv[2] != "scan" else None
jax.jit(f, in_shardings=shardings, out_shardings=out).trace(*args).lower(lowering_platforms=("tpu",)).compile()
"""


def compiled(folder: Path, topology: str, program: str) -> Trace:
    """Return what the real compiler dumps in a separate process."""
    pytest.importorskip("jax")
    pytest.importorskip("libtpu")
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "XLA_FLAGS": f"--xla_dump_to={folder} --xla_dump_hlo_pass_re=.* --xla_dump_hlo_as_text",
        "LIBTPU_INIT_ARGS": f"--xla_jf_dump_to={folder}/llo --xla_jf_dump_hlo_text=true",
    }
    (folder / "llo").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, topology, program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return xlanb.read_dump(folder)[0]


def programs(trace: Trace) -> dict[str, TpuProgram]:
    """Return the LLO programs; an unreadable one would be a text."""
    found = {s.name: s.after for s in trace if s.kind == "llo"}
    assert all(isinstance(p, TpuProgram) for p in found.values()), found
    return found


@pytest.mark.parametrize(
    ("topology", "chip"),
    [("v4:2x2x1", "v4"), ("v5e:2x2", "v5e"), ("v5p:2x2x1", "v5p"), ("v6e:2x2", "v6e"), ("tpu7x:2x2x1", "tpu7x")],
)
def test_every_program_of_a_scan_has_bundles_and_use(tmp_path: Path, topology: str, chip: str) -> None:
    """Each bundle has a row of unit use, and all instructions of the schedule are known.

    The top level contains the scan's loop.
    """
    trace = compiled(tmp_path, topology, "scan")
    found = programs(trace)
    for program in found.values():
        assert program.utilization is not None
        assert len(program.utilization.rows) == len(program.final)
        assert program.chip is not None
        assert program.chip.name == chip
    assert found["TLP"].final.loops
    assert sum(p.final.counts.get("MXU", 0) for p in found.values()) > 0
    unknown = {
        o.text.split(" = ")[-1].split()[0]
        for p in found.values()
        for b in p.final.bundles
        for o in b.operations
        if o.unit == "OTHER"
    }
    assert all(
        u.startswith(("inlined_call_operand", "compiler-", "int_to_ptr", "reloc", "sphi", "scalar_parameter"))
        for u in unknown
    ), unknown
    schedule = trace["tpu_schedule"].after
    assert isinstance(schedule, TpuScheduleRecord)
    assert any(i.depth == 1 and i.bundles for i in schedule.instructions)
    assert isinstance(trace["memory_space_assignment"].after, MemorySpaceRecord)


def test_collectives_and_copies_of_a_sharded_product(tmp_path: Path) -> None:
    """The schedule has the all-gather and concurrent copies to VMEM; LLO stages can be compared."""
    trace = compiled(tmp_path, "v5p:2x2x1", "product")
    schedule = trace["tpu_schedule"].after
    assert [i.name for i in schedule.instructions if i.is_collective]
    assert {s.target for s in schedule.spans} == {"VMEM"}
    program = max(programs(trace).values(), key=lambda p: p.mxu_share)
    assert program.mxu_share > 0.5
    stages = program.trace
    assert len(stages) > 40
    assert stages.diff("original", "post-CP")
