"""The number of threads that programs may use; results do not depend on it.

It is the requested limit, affinity, or quotas of control groups.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from ctypes import CFUNCTYPE, c_int64, c_void_p
from pathlib import Path

import numpy as np
import pytest

import xlanb
from xlanb.codegen import cpus, jit
from xlanb.codegen.cpus import Quota, quotas
from xlanb.codegen.target import has_pool
from xlanb.cpu.runtime import pool
from xlanb.errors import ArgumentError, ArgumentTypeError, FlagError

needs_pool = pytest.mark.skipif(not has_pool(jit.host().triple), reason="no pool on this system")


@pytest.fixture(autouse=True)
def _limit(monkeypatch):
    """Reset the limit after each test."""
    highest = cpus._ThreadLimits.highest
    with monkeypatch.context() as patch:
        for name in cpus.VARIABLES:
            patch.delenv(name, raising=False)
        yield
        for name in cpus.VARIABLES:
            patch.delenv(name, raising=False)
        cpus.ask_for(0)
        pool.update_limit()
    cpus._ThreadLimits.highest = highest


def _programs() -> dict[str, tuple[str, list[np.ndarray]]]:
    random = np.random.default_rng(0)

    def array(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
    return {
        "sum of all": (
            f"HloModule m\n{add}ENTRY e {{\n x = f32[1000003] parameter(0)\n z = f32[] constant(0)\n"
            " t = f32[1000003] tanh(x)\n ROOT r = f32[] reduce(t, z), dimensions={0}, to_apply=add\n}\n",
            [array(1000003)],
        ),
        "sum of rows": (
            f"HloModule m\n{add}ENTRY e {{\n x = f32[601,1003] parameter(0)\n z = f32[] constant(0)\n"
            " ROOT r = f32[601] reduce(x, z), dimensions={1}, to_apply=add\n}\n",
            [array(601, 1003)],
        ),
        "sum of columns": (
            f"HloModule m\n{add}ENTRY e {{\n x = f32[3001,257] parameter(0)\n z = f32[] constant(0)\n"
            " ROOT r = f32[257] reduce(x, z), dimensions={0}, to_apply=add\n}\n",
            [array(3001, 257)],
        ),
        "product": (
            "HloModule m\nENTRY e {\n x = f32[301,517] parameter(0)\n y = f32[517,203] parameter(1)\n"
            " ROOT r = f32[301,203] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
            [array(301, 517), array(517, 203)],
        ),
        "exponential": (
            "HloModule m\nENTRY e {\n x = f32[999,777] parameter(0)\n ROOT r = f32[999,777] exponential(x)\n}\n",
            [array(999, 777)],
        ),
    }


@pytest.mark.parametrize("name", _programs())
def test_results_do_not_depend_on_the_limit(name):
    text, arrays = _programs()[name]
    found = []
    for compiled_for in (1, 2, 3, 5):
        xlanb.set_threads(compiled_for)
        exe = xlanb.compile(text)
        for limit in (1, 2, 3, 5):
            xlanb.set_threads(limit)
            found += [np.asarray(exe(*arrays)).tobytes() for _ in range(3)]
    assert len(set(found)) == 1
    np.testing.assert_allclose(
        np.frombuffer(found[0], np.float32),
        np.ravel(xlanb.evaluate(xlanb.hlo.parse(text), *arrays)),
        rtol=2e-3,
        atol=1e-3,
    )


def _slots(count: int = 64, threads: int = 4) -> set[int]:
    """The slots of the threads that run parts of a job, each of which takes a while."""
    taken: set[int] = set()
    lock = threading.Lock()

    @CFUNCTYPE(None, c_void_p, c_int64, c_int64, c_int64)
    def part(_context: int, _low: int, _high: int, slot: int) -> None:
        time.sleep(0.001)
        with lock:
            taken.add(slot)

    run = CFUNCTYPE(None, c_void_p, c_void_p, c_int64, c_int64, c_int64)(pool.address())
    run(part, None, count, count, threads)
    return taken


@needs_pool
def test_the_limit_holds_from_the_next_call_on():
    for limit in (3, 1, 2, 4, 2):
        xlanb.set_threads(limit)
        assert xlanb.get_threads() == limit
        _slots()  # workers begin
        assert _slots() == set(range(limit))


@needs_pool
def test_a_program_takes_no_more_threads_than_it_was_compiled_for():
    xlanb.set_threads(8)
    assert _slots(threads=2) <= {0, 1}


@needs_pool
def test_workers_beyond_the_limit_sleep():
    xlanb.set_threads(5)
    _slots(threads=5)
    xlanb.set_threads(1)
    time.sleep(0.05)
    begin = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - begin < 0.1


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_limit_that_is_none_is_refused(wrong):
    with pytest.raises(ArgumentError, match="set_threads: expected a whole number of at least 1"):
        xlanb.set_threads(wrong)


def test_a_limit_is_a_whole_number():
    with pytest.raises(ArgumentTypeError, match="set_threads"):
        xlanb.set_threads(1.5)


def test_the_environment_limits(monkeypatch):
    monkeypatch.setenv("XLANB_NUM_THREADS", "5")
    assert xlanb.get_threads() == 5
    monkeypatch.setenv("XLANB_THREADS", "3")
    assert xlanb.get_threads() == 3
    xlanb.set_threads(2)
    assert xlanb.get_threads() == 2
    xlanb.set_threads(None)
    assert xlanb.get_threads() == 3
    monkeypatch.setenv("XLANB_THREADS", "1000")
    assert xlanb.get_threads() == cpus.MAX_THREADS
    monkeypatch.setenv("XLANB_THREADS", "many")
    with pytest.raises(FlagError, match="XLANB_THREADS: expected a whole number"):
        xlanb.get_threads()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_limits_and_may_change_between_calls():
    code = """
import os, sys, time
sys.path.insert(0, "tests/cpu")
import xlanb
from test_thread_limit import _slots
from xlanb.cpu.runtime import pool
cpus = os.sched_getaffinity(0)
if len(cpus) < 2:
    sys.exit(0)
assert xlanb.get_threads() == len(cpus) == pool.look()
_slots()
assert len(_slots()) > 1
for _ in range(2):
    os.sched_setaffinity(0, {min(cpus)})
    assert xlanb.get_threads() == 1 == pool.look()
    assert _slots() == {0}
    os.sched_setaffinity(0, cpus)
    time.sleep(0.2)  # the pool looks by itself, every tenth of a second
    _slots()
    assert len(_slots()) > 1
"""
    env = {k: v for k, v in os.environ.items() if k not in cpus.VARIABLES}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=env)


# -- control groups --------------------------------------------------------------------------------

_V2 = {
    "proc/self/cgroup": "0::/work/job\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
}
_V1 = {
    "proc/self/cgroup": "3:cpu,cpuacct:/docker/abc\n2:memory:/docker/abc\n0::/\n",
    "proc/self/mountinfo": "31 30 0:27 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:28 /docker/abc /sys/fs/cgroup/memory ro shared:9 - cgroup cgroup rw,memory\n",
}
_CPU = "sys/fs/cgroup/cpu,cpuacct/cpu.cfs"


def _written(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        (_V2 | {"sys/fs/cgroup/work/job/cpu.max": "150000 100000\n"}, [2]),
        (_V2 | {"sys/fs/cgroup/work/job/cpu.max": "max 100000\n"}, [None]),
        (_V2 | {"sys/fs/cgroup/work/job/cpu.max": "max 100000\n", "sys/fs/cgroup/work/cpu.max": "50000 100000\n"},
            [None, 1]),
        (_V2 | {"sys/fs/cgroup/work/job/cpu.max": "torn"}, [None]),
        (_V2, []),
        (_V1 | {f"{_CPU}_quota_us": "300000\n", f"{_CPU}_period_us": "100000\n"}, [3]),
        (_V1 | {f"{_CPU}_quota_us": "-1\n", f"{_CPU}_period_us": "100000\n"}, [None]),
        (_V1 | {f"{_CPU}_quota_us": "400000\n"}, [None]),
        (_V1 | {f"{_CPU}_quota_us": "400000\n", f"{_CPU}_period_us": "0\n"}, [None]),
        ({}, []),
    ],
)  # fmt: skip
def test_quotas_of_control_groups(tmp_path, files, granted):
    found = quotas(_written(tmp_path, files))
    assert [q.cpus() for q in found] == granted


def test_the_least_of_affinity_and_quotas_counts(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    for kept in ("places", "granted"):  # restored after the test
        monkeypatch.setattr(cpus._ThreadLimits, kept, getattr(cpus._ThreadLimits, kept))
    for worth, count in (((), 6), ((None,), 6), ((4, None), 4), ((9, 5), 5)):
        given = [_Worth(w) for w in worth]
        monkeypatch.setattr(cpus, "quotas", lambda given=given: given)
        monkeypatch.setattr(cpus._ThreadLimits, "read_at", float("-inf"))  # they are read each 0.1 s at most
        monkeypatch.setattr(cpus._ThreadLimits, "found_at", float("-inf"))  # and located less often
        assert cpus.thread_count() == count


class _Worth:
    def __init__(self, count: int | None) -> None:
        self.cpus = lambda: count


@needs_pool
@pytest.mark.skipif(cpus.available_cpus() < 2, reason="one processor is the limit without a quota")
def test_a_quota_that_changes_is_read_again_where_it_was_found(tmp_path, monkeypatch):
    file = tmp_path / "cpu.max"
    looked = []
    for kept in ("places", "granted"):
        monkeypatch.setattr(cpus._ThreadLimits, kept, getattr(cpus._ThreadLimits, kept))
    monkeypatch.setattr(cpus, "quotas", lambda: looked.append(1) or [Quota(str(file))])
    monkeypatch.setattr(cpus._ThreadLimits, "found_at", float("-inf"))
    for quota in (1, 2, 3):
        file.write_text(f"{quota * 100_000} 100000")
        monkeypatch.setattr(cpus._ThreadLimits, "read_at", float("-inf"))
        assert cpus._granted() == quota
    assert len(looked) == 1


def test_the_pool_reads_the_same_quotas(tmp_path):
    v2, quota, period = (tmp_path / n for n in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"))
    code, every = pool._pool(), cpus.available_cpus()
    try:
        pool.read_quotas(code, [Quota(str(v2)), Quota(str(quota), str(period))])
        assert pool.look() == every  # no files
        for text in (
            "max 100000\n",
            "50000 100000\n",
            "100001 100000\n",
            "torn\n",
            "",
            "0 0\n",
            "100000\n",
            "90000 0\n",
        ):
            v2.write_text(text)
            granted = Quota(str(v2)).cpus()
            assert pool.look() == min(every, granted or every), text
        v2.write_text("max 100000\n")
        for text in ("-1\n", "20000\n", "", "9000000\n"):
            quota.write_text(text)
            period.write_text("100000\n")
            assert pool.look() == min(every, Quota(str(quota), str(period)).cpus() or every), text
        period.unlink()
        assert pool.look() == every
        xlanb.set_threads(3)
        v2.write_text("1 100000\n")
        assert pool.look() == 3  # a requested limit is used as it is
    finally:
        pool.read_quotas(code, quotas())
