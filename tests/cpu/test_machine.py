"""The limits of the machine: plausible, stored on disk, and the roofline derived from them."""

from __future__ import annotations

import ctypes
import json
import time

import numpy as np
import pytest

from xlanb.cpu import machine
from xlanb.cpu.calls import is_long
from xlanb.cpu.machine import MachineLimits
from xlanb.cpu.profile import operations
from xlanb.hlo import parse

LIMITS = MachineLimits(2, {4: 100e9, 8: 50e9}, ((1 << 10, 400e9), (1 << 20, 100e9), (1 << 30, 20e9)))


@pytest.fixture
def small(monkeypatch):
    """Measure only two sizes."""
    monkeypatch.setattr(machine, "_SIZES", (1 << 14, 1 << 16))
    monkeypatch.setattr(machine, "_LONG", 1e-4)
    machine.limits.cache_clear()
    yield
    machine.limits.cache_clear()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_measured_makes_sense(small, threads):
    if threads > machine.jit.host().threads:
        pytest.skip("one thread")
    found = machine.limits(threads)
    assert found.threads == threads
    assert [s for s, _ in found.bandwidth] == [1 << 14, 1 << 16]
    assert all(0 < r < 1e14 for _, r in found.bandwidth)  # the rates are not tested: others use the machine
    assert set(found.flops) == {4, 8}
    assert all(0 < f < 1e14 for f in found.flops.values())
    assert found is machine.limits(threads)


def test_it_is_kept_on_disk_and_damage_is_seen(small, tmp_path, monkeypatch):
    monkeypatch.setenv("XLANB_CACHE_DIR", str(tmp_path))
    found = machine.limits(1)
    (file,) = tmp_path.glob("machine-*.json")
    monkeypatch.setattr(machine, "_measured", lambda *_: pytest.fail("measured again"))
    machine.limits.cache_clear()
    assert machine.limits(1) == found
    good = json.loads(file.read_text())
    for bad in (
        "",
        "[]",
        "{}",
        json.dumps({**good, "flops": {"4": -1, "8": 1}}),
        json.dumps({**good, "bandwidth": []}),
    ):
        file.write_text(bad)
        machine.limits.cache_clear()
        monkeypatch.setattr(machine, "_measured", lambda *_: found)
        assert machine.limits(1) == found
        assert json.loads(file.read_text()) == good


def test_who_is_held_up_is_tried_again():
    """The first call sleeps; this is not taken for the time of a single iteration."""
    seen = []

    def function(at: int) -> None:
        rounds = np.ctypeslib.as_array((ctypes.c_int64 * 1).from_address(at))[0]
        seen.append(int(rounds))
        time.sleep(machine._LONG * 1.5 if len(seen) == 1 else rounds * 1e-5)

    context = np.zeros(8, np.int64)
    assert machine._best(function, context) < 1.01e5
    assert seen[-1] * 1e-5 >= machine._LONG / 2


def test_bandwidth_between_the_sizes():
    assert [LIMITS.bandwidth_at(n) for n in (1, 1 << 10, 1 << 15, 1 << 20, 1 << 40)] == pytest.approx(
        [400e9, 400e9, 250e9, 100e9, 20e9]
    )


def test_the_roof_names_what_bounds():
    assert LIMITS.roof(1 << 20, 10) == machine.Roof((1 << 20) / 100e9, "memory")
    assert LIMITS.roof(1 << 20, 10**9) == machine.Roof(0.01, "compute")
    assert LIMITS.roof(1 << 20, 10**9, item_bytes=8) == machine.Roof(0.02, "compute")
    assert LIMITS.roof(0, 0).seconds == 0


@pytest.mark.parametrize(
    ("line", "flops"),
    [
        ("ROOT r = f32[8,16] sort(x), dimensions={1}, to_apply=less", 8 * 16 * 4),
        ("ROOT r = f32[8,16] map(x), dimensions={0,1}, to_apply=twice", 2 * 8 * 16),
        ("ROOT r = f32[] call(y), to_apply=twice", 2),
        ("ROOT r = c64[8,9] fft(x), fft_type=RFFT, fft_length={16}", 4 * 72 * 4),
    ],
)
def test_operations_of_what_is_not_elementwise(line, flops):
    module = parse(
        f"""HloModule m
less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}}
twice {{
  a = f32[] parameter(0)
  b = f32[] add(a, a)
  ROOT c = f32[] multiply(b, a)
}}
ENTRY main {{
  x = f32[8,16] parameter(0)
  y = f32[] parameter(1)
  {line}
}}
"""
    )
    assert operations(module.entry_computation.root) == flops


def test_a_long_sort_is_long():
    text = "HloModule m\nl {\n a = s8[] parameter(0)\n b = s8[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=LT\n}\n"
    text += "ENTRY e {\n x = s8[20000] parameter(0)\n ROOT r = s8[20000] sort(x), dimensions={0}, to_apply=l\n}\n"
    assert is_long(parse(text).entry_computation)


def test_a_profile_compares_with_the_machine(backend):
    exe = backend(
        "HloModule m\nENTRY e {\n x = f32[512,512] parameter(0)\n ROOT d = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"
    )
    row = exe.profile(np.ones((512, 512), np.float32)).iloc[0]
    assert row["bound"] == "compute"
    assert 0 < row["of_limit"] <= 1
    reached = row["gflops_per_second"] * 1e9 / machine.limits(exe.target.threads).flops[4]
    assert row["of_limit"] == pytest.approx(min(reached, 1.0))
