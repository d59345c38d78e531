"""The real XLA:GPU and XLA:TPU without hardware: their results for good and bad programs."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.cli import main
from xlanb.errors import ArgumentError, MissingPeerError, XlanbError
from xlanb.frontends.jax_lowering import lower_for
from xlanb.hlo import parse
from xlanb.peers import xla
from xlanb.peers.targets.compare import side_by_side
from xlanb.peers.targets.installed import check_installed, versions
from xlanb.peers.targets.names import parse_target
from xlanb.peers.targets.trace import TargetTrace

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.target

HAS_GPU = find_spec("jax_plugins") is not None and find_spec("jax_plugins.xla_cuda12") is not None
HAS_TPU = find_spec("libtpu") is not None
gpu = pytest.mark.skipif(not HAS_GPU, reason="XLA:GPU is not installed: pip install 'xlanb[gpu]'")
tpu = pytest.mark.skipif(not HAS_TPU, reason="XLA:TPU is not installed: pip install 'xlanb[tpu]'")
TARGETS = [
    *(pytest.param(name, marks=gpu) for name in ("a100", "h100", "a100:8")),
    *(pytest.param(name, marks=tpu) for name in ("tpu v5e:2x2", "tpu v5p:2x2x1")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a cache for these tests only: one test finds what another compiled."""
    monkeypatch.setenv("XLANB_CACHE_DIR", str(folder))


def shape(*dimensions: int) -> Any:
    return jax.ShapeDtypeStruct(dimensions, np.float32)


def block(weights: Any, x: Any) -> Any:
    jnp = jax.numpy

    def loss(weights: Any, x: Any) -> Any:
        q, k, v = (x @ w for w in weights["qkv"])
        h = x + jax.nn.softmax(q @ k.T / 8.0) @ v @ weights["out"]
        mean = jnp.mean(h, -1, keepdims=True)
        normal = (h - mean) / jnp.sqrt(jnp.var(h, -1, keepdims=True) + 1e-5)
        return jnp.sum((h + jax.nn.gelu(normal @ weights["up"]) @ weights["down"]) ** 2)

    return jax.grad(loss)(weights, x)


def convolution_step(weights: Any, images: Any) -> Any:
    def loss(weights: Any, images: Any) -> Any:
        y = jax.nn.relu(jax.lax.conv(images, weights, (1, 1), "SAME"))
        pooled = jax.lax.reduce_window(y, -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return jax.numpy.mean(pooled**2)

    return weights - 0.1 * jax.grad(loss)(weights, images)


def recurrence(w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jax.numpy.tanh(h @ w + x)
        return h, h.sum()

    return jax.lax.scan(step, jax.numpy.zeros_like(xs[0]), xs)


def product(x: Any, w: Any) -> Any:
    return jax.numpy.sum(jax.nn.relu(x @ w), axis=1)


WEIGHTS = {"qkv": [shape(64, 64)] * 3, "out": shape(64, 64), "up": shape(64, 256), "down": shape(256, 64)}
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "block": (block, (WEIGHTS, shape(32, 64))),
    "convolution_step": (convolution_step, (shape(8, 3, 3, 3), shape(2, 3, 16, 16))),
    "recurrence": (recurrence, (shape(32, 32), shape(10, 8, 32))),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_traced_to_its_final_module(name: str, target: str) -> None:
    function, args = PROGRAMS[name]
    trace = xla.trace(function, *args, target=target, timeout=300)
    assert isinstance(trace, TargetTrace)
    assert len(trace) >= 40
    assert trace.compile_seconds > 0
    last = [s.after for s in trace if s.kind == "hlo"][-1]
    assert instructions(last) == instructions(parse(trace.final_text).record())
    check_programs(trace) if trace.target.is_tpu else check_kernels(trace)


def check_kernels(trace: TargetTrace) -> None:
    """Check that every kernel has its PTX, its registers and its machine code."""
    program = trace["kernels"].after
    assert program.kernels
    for kernel in program.kernels:
        assert ".entry" in kernel.ptx
        assert kernel.sass
        assert kernel.resources is not None
        assert kernel.resources.registers > 0


def check_programs(trace: TargetTrace) -> None:
    """Check that every program of a fusion has bundles and unit use, and every fusion a program."""
    programs = {s.name: s.after for s in trace if s.kind == "llo"}
    for program in programs.values():
        assert len(program.final) > 0
        assert program.utilization is not None
        assert program.utilization.busiest or program.final.empty == len(program.final)
    served = {name for program in programs.values() for name in (program.name, *program.serves)}
    scheduled = trace["schedule"].after.instructions
    assert {i.name for i in scheduled if i.opcode == "fusion" and i.bundles} <= served


def instructions(module: Any) -> list[tuple[str, str, str]]:
    """Return all instructions without what differs in each printing of a module.

    That is numbers of stack frames, and the order of a configuration's fields.
    """
    return [(i.name, str(i.opcode), str(i.shape)) for c in module.computations for i in c.instructions]


@pytest.mark.parametrize("target", [pytest.param("a100:8", marks=gpu), pytest.param("tpu v5e:2x4", marks=tpu)])
def test_a_sharded_product_has_collectives(target: str) -> None:
    spec = jax.sharding.PartitionSpec
    options = {"shardings": (spec("data", None), spec(None, "model")), "mesh": {"data": 2, "model": 4}}
    trace = xla.trace(product, shape(128, 256), shape(256, 512), target=target, **options)
    assert len(trace) >= 40
    assert "all-reduce" in trace.final_text
    assert "num_partitions=8" in trace.final_text
    assert "f32[64,256]" in trace.final_text


@gpu
def test_shardings_may_be_those_of_the_arguments() -> None:
    sharding = jax.sharding
    mesh = sharding.AbstractMesh((4,), ("rows",), axis_types=(sharding.AxisType.Auto,))
    x = jax.ShapeDtypeStruct(
        (128, 64), np.float32, sharding=sharding.NamedSharding(mesh, sharding.PartitionSpec("rows"))
    )
    trace = xla.trace(product, x, shape(64, 32), target="a100", devices=4)
    assert "f32[32,64]" in trace.final_text
    one_axis = xla.trace(
        product, shape(128, 64), shape(64, 32), target="a100:4", shardings=sharding.PartitionSpec("rows")
    )
    assert "f32[32,64]" in one_axis.final_text


@gpu
def test_more_partitions_than_devices_are_refused() -> None:
    with pytest.raises(XlanbError, match="it needs 4 devices, but a100:2 has 2"):
        xla.trace(
            product,
            shape(128, 64),
            shape(64, 32),
            target="a100:2",
            shardings=jax.sharding.PartitionSpec("rows"),
            mesh={"rows": 4},
        )


@pytest.mark.parametrize("target", [pytest.param("h100", marks=gpu), pytest.param("tpu v5e", marks=tpu)])
def test_hlo_text_is_compiled_as_it_is(target: str) -> None:
    text = str(xlanb.from_jax(product, shape(16, 8), shape(8, 4)))
    trace = xla.trace(text, target=target)
    assert "f32[16,8]" in trace.final_text
    with pytest.raises(ArgumentError, match="HLO has its own"):
        xla.trace(text, target=target, mesh={"x": 2})


@pytest.mark.parametrize("target", [pytest.param("h100", marks=gpu), pytest.param("tpu v5e", marks=tpu)])
def test_the_second_time_it_is_found_on_disk(target: str) -> None:
    def double(x: Any) -> Any:
        return x * 2

    told: list[str] = []
    first = xla.trace(double, shape(7), target=target, progress=told.append)
    assert told[0] == "starting the compiler"
    assert any(t.endswith("files") for t in told)
    again = xla.trace(double, shape(7), target=target)  # called from another line
    assert again.compilation.from_cache
    assert not first.compilation.from_cache
    assert again.final_text == first.final_text
    other = xla.trace(double, shape(7), target=target, flags="--xla_dump_max_hlo_modules=5")
    assert not other.compilation.from_cache


def test_who_calls_a_function_makes_no_other_program() -> None:
    def lowered() -> bytes:
        return lower_for("cuda", product, (shape(2, 2), shape(2, 2))).identity

    here = lower_for("cuda", product, (shape(2, 2), shape(2, 2))).identity
    assert here == lowered()
    assert b"test_traces.py" in here
    assert here != lower_for("cuda", product, (shape(2, 3), shape(3, 2))).identity


@pytest.mark.parametrize("target", [pytest.param("h100", marks=gpu), pytest.param("tpu v5e", marks=tpu)])
def test_what_is_not_kept_on_disk_stays_while_a_stage_is_held(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLANB_CACHE_DIR", "")
    trace = xla.trace(product, shape(12, 6), shape(6, 6), target=target)
    folder = trace.compilation.folder
    stage = trace.stages[-1]
    del trace
    gc.collect()
    assert folder.exists()
    assert "jit_product" in str(stage.after) or str(stage.after)
    assert "cannot be read" not in str(stage.after)
    del stage
    gc.collect()
    assert not folder.exists()


@gpu
def test_a_time_limit_ends_it() -> None:
    with pytest.raises(XlanbError, match="longer than its time limit"):
        xla.trace(product, shape(6, 6), shape(6, 6), target="h100", timeout=0.2)


@gpu
def test_what_the_compiler_refuses_is_told() -> None:
    text = """HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  ROOT c = f32[4] custom-call(x), custom_call_target="nobody_knows_this"
}
"""
    with pytest.raises(XlanbError, match="nobody_knows_this"):
        xla.trace(text, target="h100")


@gpu
def test_a_flag_that_is_none_is_told() -> None:
    with pytest.raises(XlanbError, match="xla_no_such_flag"):
        xla.trace(product, shape(5, 6), shape(6, 6), target="h100", flags="--xla_no_such_flag=1")


@gpu
def test_a_description_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "tiny.txtpb"
    config = parse_target("h100").config.replace("core_count: 132", "core_count: 4").replace("H100", "tiny")
    file.write_text(config + "\nno_such_field: 3\n")
    trace = xla.trace(product, shape(64, 64), shape(64, 64), target=str(file))
    assert "no_such_field" in trace.compilation.answer["left_out"]
    assert trace.target.device is None


@gpu
def test_another_python_compiles() -> None:
    other = xla.trace(product, shape(9, 6), shape(6, 6), target="h100", python=sys.executable)
    assert "f32[9,6]" in other.final_text


def test_what_is_missing_is_named() -> None:
    with pytest.raises(MissingPeerError, match=r"pip install 'xlanb\[tpu\]'|pip install jax-rocm7"):
        check_installed(parse_target("tpu v5e") if not HAS_TPU else parse_target("mi300"))


def test_a_python_that_is_none_is_told() -> None:
    with pytest.raises(XlanbError, match="cannot list its packages"):
        versions("/no/such/python")


def test_targets_says_what_to_install() -> None:
    frame = xlanb.targets()
    rows = frame.set_index("target")["compiles"]
    assert rows["h100"] == ("yes" if HAS_GPU else "pip install 'xlanb[gpu]'")
    assert rows["tpu v5e:2x2"] == ("yes" if HAS_TPU else "pip install 'xlanb[tpu]'")
    for name in frame["target"]:
        assert parse_target(name).name == name


def test_options_of_targets_are_refused_for_the_cpu() -> None:
    with pytest.raises(ArgumentError, match="mesh: only valid for targets other than the CPU"):
        xla.trace(product, np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), mesh={"x": 2})


@gpu
def test_targets_are_compared_side_by_side() -> None:
    found = side_by_side(block, *PROGRAMS["block"][1], targets=["h100", "a100"])
    assert list(found.facts.columns) == ["h100", "a100"]
    assert found.facts.loc["device", "a100"] == "NVIDIA A100-SXM4-80GB"
    assert found.facts.loc["kernels"].min() > 5
    assert found.facts.loc["estimated us"].min() > 0
    assert found.facts.loc["bytes of arguments"].nunique() == 1
    assert set(found.fused_differently.columns) >= {"producer", "consumer", "h100", "a100"}
    assert any("softmax" in name or "exp" in name for name in found.placement.index)
    assert "h100 and a100" in found.first_differences[0]
    assert found["h100"].target.name == "h100"
    with pytest.raises(ArgumentError, match="not one of the targets: h100, a100"):
        found["v100"]
    assert "estimated us" in str(found)


@gpu
def test_the_command_line_prints_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.py").write_text(
        "import jax.numpy as jnp\nx = jnp.ones((8, 8))\ndef f(x):\n    return jnp.tanh(x @ x)\n"
    )
    page = tmp_path / "page.html"
    command = ["target", f"{tmp_path / 'f.py'}:f", "--args", "x", "--target", "h100,a6000"]
    assert main([*command, "-o", str(page)]) == 0
    shown = capsys.readouterr().out
    assert "NVIDIA RTX A6000" in shown
    assert page.stat().st_size > 10_000
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["h100"]["device"] == "NVIDIA H100 80GB HBM3"
    assert main(["target", f"{tmp_path / 'f.py'}:f", "--args", "x", "--target", "h1000"]) == 1
    assert "did you mean 'h100'" in capsys.readouterr().err
