"""xlanb as a backend of JAX, in processes of its own: which backend there is holds for a process."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytestmark = pytest.mark.peer

PROGRAMS = Path(__file__).with_name("pjrt_programs.py")
NAMES = [
    node.name
    for node in ast.parse(PROGRAMS.read_text()).body
    if isinstance(node, ast.FunctionDef) and any(getattr(d, "id", "") == "program" for d in node.decorator_list)
]
ROOT = Path(__file__).parents[2]
_HEAD = """
import numpy as np, jax, jax.numpy as jnp, xlanb.pjrt
xlanb.pjrt.initialize()
"""


def run(text: str, platforms: str = "xlanb", **environment: str) -> str:
    """What a script prints, which must end well."""
    return finished([sys.executable, "-c", _HEAD + textwrap.dedent(text)], platforms, **environment).stdout


def finished(command: list[str], platforms: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    given = os.environ | {"JAX_PLATFORMS": platforms, "PYTHONPATH": path} | environment
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def differences() -> dict[str, str]:
    printed = finished([sys.executable, str(PROGRAMS)], "xlanb").stdout
    return dict(json.loads(line) for line in printed.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_programs_give_what_the_cpu_gives(differences: dict[str, str], name: str) -> None:
    assert differences[name] == ""


def test_the_default_stays_the_cpu() -> None:
    text = """
    xlanb.pjrt.register()
    print(jax.default_backend(), jax.devices('xlanb')[0].platform)
    """
    assert run(text, platforms="").split() == ["cpu", "xlanb"]


def test_programs_on_other_platforms_load_no_compiler() -> None:
    text = """
    import sys
    print(jax.default_backend(), "xlanb.cpu" in sys.modules)
    """
    assert run(text, platforms="").split() == ["cpu", "False"]


def test_calls_run_no_python() -> None:
    text = """
    import sys
    f, x, n = jax.jit(lambda x: (x + 1, x.sum())), jnp.ones(5000), np.ones(5000, np.float32)

    def once():
        np.asarray(f(x)[0])
        f(n)[1].block_until_ready()

    once()
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_filename) if event == "call" else None)
    once()
    sys.setprofile(None)
    print([name for name in seen if "xlanb" in name])
    """
    assert run(text).strip() == "[]"


def test_an_unknown_target_is_named_with_the_way_out_when_it_is_compiled(tmp_path: Path) -> None:
    text = """
    f = jax.jit(lambda x: jax.ffi.ffi_call("nowhere", jax.ShapeDtypeStruct((3,), np.float32))(x))
    try:
        f.lower(jnp.ones(3)).compile()
    except jax.errors.JaxRuntimeError as error:
        print(error)
    """
    script = tmp_path / "program.py"
    script.write_text(_HEAD + textwrap.dedent(text))
    printed = finished([sys.executable, str(script)], "xlanb").stdout
    assert printed.startswith("UNIMPLEMENTED")
    assert f'custom-call target "nowhere", called in {script}, line 5' in printed
    assert "JAX_PLATFORMS=xlanb,cpu" in printed


def test_compiler_options_are_flags_of_xla() -> None:
    text = """
    lowered = jax.jit(lambda x: jnp.sqrt(x) + 1).lower(1.0)
    print(lowered.compile(compiler_options={"xla_disable_hlo_passes": "fusion"}).as_text().count("fusion("))
    try:
        lowered.compile(compiler_options={"invalid_key": "invalid_value"})
    except jax.errors.JaxRuntimeError as error:
        print("No such compile option: 'invalid_key'" in str(error))
    """
    assert run(text).split() == ["0", "True"]


def test_a_callback_that_raises_ends_the_call_with_its_traceback() -> None:
    text = """
    def bad(v):
        raise ValueError("no good")

    f = jax.jit(lambda x: jax.pure_callback(bad, jax.ShapeDtypeStruct((), np.float32), x))
    try:
        f(1.0).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        print(str(error).startswith("INTERNAL"), "ValueError: no good" in str(error), "in bad" in str(error))
    print(float(jax.jit(lambda x: x + 1)(1.0)))
    """
    assert run(text).split() == ["True", "True", "True", "2.0"]


def test_a_call_with_callbacks_runs_no_python_but_what_calls_them() -> None:
    text = """
    import os, sys
    f, x = jax.jit(lambda x: jax.pure_callback(lambda a: a * 2, x, x) + 1), jnp.ones(5000)
    f(x).block_until_ready()
    seen = set()
    sys.setprofile(lambda frame, event, _: seen.add(frame.f_code.co_filename) if event == "call" else None)
    f(x).block_until_ready()
    sys.setprofile(None)
    print(sorted(os.path.basename(name) for name in seen if "xlanb" in name))
    """
    assert run(text).strip() == "['host.py', 'host_call.py']"


def test_exceptions_of_many_callbacks_at_once_are_those_of_their_own_calls() -> None:
    text = """
    import logging, threading
    logging.disable()

    def fail(a):
        raise ValueError(f"no {int(a)}")

    f, told = jax.jit(lambda x: jax.pure_callback(fail, x, x) + 1), []

    def call(number):
        for k in range(20):
            try:
                f(np.float32(100 * number + k)).block_until_ready()
            except jax.errors.JaxRuntimeError as error:
                told.append(f"ValueError: no {100 * number + k}\\n" in str(error))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(5)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(len(told), all(told))
    """
    assert run(text).split() == ["100", "True"]


def test_an_interrupt_in_a_callback_is_raised() -> None:
    text = """
    import logging, signal
    logging.disable()
    f = jax.jit(lambda x: jax.pure_callback(lambda a: signal.raise_signal(signal.SIGINT) or a, x, x) + 1)
    try:
        try:
            f(1.0).block_until_ready()
        except (ValueError, jax.errors.JaxRuntimeError):
            pass
        for _ in range(1000):
            pass
    except KeyboardInterrupt:
        print("interrupted")
    print(float(jax.jit(lambda x: x + 1)(1.0)))
    """
    assert run(text).split() == ["interrupted", "2.0"]


def test_a_callback_may_keep_its_arguments_and_call_programs() -> None:
    text = """
    kept = []
    inner = jax.jit(lambda x: jax.pure_callback(lambda a: kept.append(a) or a, x, x) * 2)

    def outer(a):
        return np.asarray(inner(np.asarray(a) + 1))

    f = jax.jit(lambda x: jax.pure_callback(outer, x, x) + 1)
    print([f(np.full(3, k, np.float32))[0].item() for k in range(4)], [float(a[0]) for a in kept])
    """
    assert run(text).strip() == "[3.0, 5.0, 7.0, 9.0] [1.0, 2.0, 3.0, 4.0]"


def test_too_large_results_are_an_error_of_jax() -> None:
    text = """
    try:
        jnp.zeros((1 << 20, 1 << 21))
    except jax.errors.JaxRuntimeError as error:
        print(error)
    """
    assert "RESOURCE_EXHAUSTED" in run(text)


def test_several_devices_share_the_processor_and_run_a_program_each() -> None:
    text = """
    x = jax.device_put(np.ones(3, np.float32), jax.devices()[1])
    print(len(jax.devices()), (x + 1).devices() == {jax.devices()[1]}, jax.device_put(x, jax.devices()[0]).devices() == x.devices())
    try:
        jax.pmap(lambda x: x + 1)(np.ones((2, 3)))
    except jax.errors.JaxRuntimeError as error:
        print("UNIMPLEMENTED" in str(error) and "JAX_PLATFORMS=cpu" in str(error))
    """
    printed = run(text, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert printed.split() == ["2", "True", "False", "True"]


def test_deleted_memory_is_given_back() -> None:
    text = """
    def used():
        return jax.devices()[0].memory_stats()["bytes_in_use"]

    x = jnp.ones(100000)
    before = used()
    y = x + 1
    print(used() - before)
    view = np.asarray(y)
    del y
    print(used() - before, view[7])
    del view
    print(used() - before)
    """
    assert run(text).split() == ["400000", "400000", "2.0", "0"]


def test_a_compiled_program_describes_itself() -> None:
    text = """
    c = jax.jit(lambda x: x @ x).lower(np.ones((4, 4), np.float32)).compile()
    print(c.as_text().startswith("HloModule jit__lambda"), c.cost_analysis()["flops"] > 0, c.memory_analysis().output_size_in_bytes)
    """
    assert run(text).split() == ["True", "True", "64"]


def test_programs_are_serialized_for_another_process(tmp_path: Path) -> None:
    text = f"""
    import pickle, sys
    from jax.experimental.serialize_executable import deserialize_and_load, serialize
    if sys.argv[1] == "write":
        compiled = jax.jit(lambda x: (x.T * 3, x.sum()), donate_argnums=0).lower(jnp.ones((2, 3))).compile()
        open({str(tmp_path / "program")!r}, "wb").write(pickle.dumps(serialize(compiled)))
    else:
        loaded = deserialize_and_load(*pickle.loads(open({str(tmp_path / "program")!r}, "rb").read()))
        x = jnp.arange(6.0).reshape(2, 3)
        y, s = loaded(x)
        print(y.tolist(), float(s), x.is_deleted())
    """
    script = tmp_path / "script.py"
    script.write_text(_HEAD + textwrap.dedent(text))
    finished([sys.executable, str(script), "write"], "xlanb")
    printed = finished([sys.executable, str(script), "read"], "xlanb").stdout
    assert printed.strip() == "[[0.0, 9.0], [3.0, 12.0], [6.0, 15.0]] 15.0 True"


def test_the_persistent_compilation_cache_is_used(tmp_path: Path) -> None:
    text = """
    import jax.monitoring
    hits = []
    jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if "cache_hits" in name else None)
    print(jax.jit(lambda x: jnp.sin(x) * 2)(jnp.arange(3.0)).tolist(), len(hits) > 0)
    """
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    first, second = (run(text, **cache).rsplit(maxsplit=1) for _ in range(2))
    assert first == [second[0], "False"]
    assert second[1] == "True"


def test_a_signal_handlers_exception_ends_a_long_call() -> None:
    text = """
    import signal
    from jax import lax
    f = jax.jit(lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, jnp.ones(4096))))
    f(3)

    class Ring(Exception):
        pass

    def ring(*_):
        raise Ring

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        try:
            f(2_000_000_000)
        except (ValueError, jax.errors.JaxRuntimeError):
            pass
        for _ in range(1000):
            pass
    except Ring:
        print("rang")
    print(f(3)[0])
    """
    assert run(text).split() == ["rang", "3"]


def test_threads_may_call_at_once() -> None:
    text = """
    import threading
    f, x = jax.jit(lambda x: jnp.sin(x @ x).sum()), jnp.ones((200, 200))
    wanted, got = float(f(x)), []
    threads = [threading.Thread(target=lambda: got.extend(float(f(x)) for _ in range(30))) for _ in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(len(got), set(got) == {wanted})
    """
    assert run(text).split() == ["180", "True"]


def test_what_jax_compiles_is_recorded_with_its_runs() -> None:
    text = """
    import threading
    f, g, x = jax.jit(lambda x: jnp.sin(x) @ x), jax.jit(lambda x: x + 1), jnp.ones((8, 8))
    g(x)
    with xlanb.recording() as r:
        for _ in range(3):
            f(x)
            g(x)
        thread = threading.Thread(target=lambda: jax.jit(lambda x: x * 2)(x))
        thread.start()
        thread.join()
        jax.jit(lambda x: jax.pure_callback(np.cos, x, x))(x)
    f(x)
    for p in sorted(r.programs, key=lambda p: p.trace.stages[0].after.instruction_count):
        print(p.trace.name.split()[0], p.runs, p.run_seconds > 0, "define" in p.trace["llvm_ir"].after.text)
    jax.clear_caches()
    with xlanb.recording() as again:
        g(x)
    print(len(again), again.programs[0].runs)
    """
    lines = run(text).splitlines()
    assert sorted(lines[:-1]) == ["jit__lambda 1 True True", "jit__lambda 1 True True", "jit__lambda 3 True True"]
    assert lines[-1] == "1 1"


def test_an_array_that_is_donated_and_given_twice_is_refused() -> None:
    text = """
    f = jax.jit(lambda x, y, z: (x + y, z + 1), donate_argnums=(0, 2))
    x, y = jnp.zeros(1000), jnp.ones(1000)
    for given in ((x, x, y), (x, y, x)):
        try:
            f(*given)
        except jax.errors.JaxRuntimeError as error:
            print(str(error).startswith("INVALID_ARGUMENT: argument 0 of jit__lambda is donated"), x.is_deleted())
    a, b = f(x, y, jnp.ones(1000))
    print(float(a[0]), float(b[0]), x.is_deleted(), y.is_deleted())
    """
    assert run(text).splitlines() == ["True False", "True False", "1.0 2.0 True False"]
