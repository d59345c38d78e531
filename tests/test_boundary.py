"""Unexpected exceptions of xlanb become InternalError; exceptions of other code are unchanged."""

from __future__ import annotations

import bdb
import pkgutil
import signal
import sys
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.boundary import boundary, filtered_traceback, let_pass
from xlanb.codegen import elemental
from xlanb.errors import (
    ArgumentError,
    EvaluationError,
    FeedError,
    GraphValueError,
    HloVerifierError,
    InternalError,
    OutOfMemoryError,
    XlanbError,
)
from xlanb.evaluator import registry
from xlanb.hlo.opcode import HloOpcode
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import AlgebraicSimplifier

TEXT = "HloModule m\n\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT n = f32[4] negate(p)\n}\n"
X = np.ones(4, np.float32)


def broken(error):
    def fails(*args, **named):
        raise error

    return fails


def rule_that_fails(e, i, *operands):
    return {}[str(i.opcode)]


class OfTheUserError(Exception):
    pass


def test_a_pass_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(AlgebraicSimplifier, "apply", broken(KeyError("layout")))
    with pytest.raises(InternalError, match=r"run the pass cpu/.*/algsimp") as info:
        xlanb.compile(TEXT)
    assert isinstance(info.value.__cause__, KeyError)
    assert info.value.path[-1] == "algsimp"
    assert "KeyError: 'layout'" in str(info.value)
    assert "Please report it" in str(info.value)
    assert "--xla_disable_hlo_passes=algsimp" in str(info.value)
    assert "negate(%p)" in info.value.__notes__[0]


def test_the_trace_of_a_pass_that_fails_ends_at_it(monkeypatch):
    monkeypatch.setattr(AlgebraicSimplifier, "apply", broken(KeyError("layout")))
    compilation = xlanb.Compilation(TEXT)
    with pytest.raises(InternalError):
        compilation.finish()
    assert compilation.trace.stages[-1].failed
    assert compilation.trace.stages[-1].name == "algsimp"


def test_code_generation_that_fails_names_the_instruction(monkeypatch):
    monkeypatch.setitem(elemental.RULES, HloOpcode.NEGATE, rule_that_fails)
    with pytest.raises(
        InternalError, match=r"failed to compile at\n  %n = f32\[4\]\{0\} negate\(%p\)\nKeyError"
    ) as info:
        xlanb.compile(TEXT)
    assert info.value.instruction.startswith("%n = ")
    assert info.value.doing == "compile"
    with pytest.raises(InternalError):
        xlanb.trace(TEXT)


def test_an_interpreter_that_fails_names_the_instruction(monkeypatch):
    monkeypatch.setitem(registry.RULES, HloOpcode.NEGATE, rule_that_fails)
    with pytest.raises(InternalError, match=r"failed to evaluate at\n  %n = ") as info:
        xlanb.evaluate(TEXT, X)
    assert isinstance(info.value.__cause__, KeyError)


def test_a_module_that_breaks_a_rule_is_at_fault_itself():
    text = TEXT.replace("ROOT n = f32[4] negate(p)", "ROOT n = f32[4] add(p, q)").replace(
        "  ROOT", "  q = f32[3] parameter(1)\n  ROOT"
    )
    with pytest.raises(HloVerifierError):
        xlanb.hlo.parse(text).verify()
    with pytest.raises(HloVerifierError):
        xlanb.evaluate(text, X, X[:3])
    with pytest.raises(EvaluationError, match=r"(?s)n: ValueError: operands could not be broadcast.*%n: add"):
        xlanb.evaluate(xlanb.hlo.parse(text), X, X[:3])


def test_a_function_of_the_runtime_that_fails_names_the_instruction(monkeypatch):
    text = "HloModule m\n\nENTRY e {\n  k = f32[] constant(0)\n  o = f32[] constant(1)\n  ROOT r = f32[4] rng(k, o), distribution=rng_uniform\n}\n"
    module = xlanb.hlo.parse(text)
    options = xlanb.cpu.CompileOptions(disable_passes=("rng-expander",))
    exe = xlanb.cpu.compile_module(module, options)
    monkeypatch.setitem(registry.RULES, HloOpcode.RNG, rule_that_fails)
    with pytest.raises(InternalError, match=r"%r = f32\[4\]\{0\} rng\("):
        exe()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "no space"), OfTheUserError("mine"), UserWarning()])
def test_what_is_no_bug_passes(monkeypatch, error):
    monkeypatch.setattr(AlgebraicSimplifier, "apply", broken(error))
    with pytest.raises(type(error)) as info:
        xlanb.compile(TEXT)
    assert info.value is error


def test_a_pass_of_the_users_fails_as_it_does():
    def my_pass(module):
        raise ValueError("mine")

    from xlanb.explorer.user_pass import make_pass

    pipeline = xlanb.cpu.pipeline().insert(make_pass(my_pass), before="algsimp")
    with pytest.raises(ValueError, match="mine") as info:
        xlanb.cpu.compile_module(xlanb.hlo.parse(TEXT), xlanb.cpu.CompileOptions(pipeline=pipeline))
    assert not isinstance(info.value, XlanbError)


def test_wrong_python_arguments_stay_type_errors():
    with pytest.raises(TypeError, match="cannot create HLO from an object of type int"):
        xlanb.compile(3)


def test_a_call_with_arguments_that_a_function_does_not_take_stays_a_type_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'path'"):
        xlanb.trace(TEXT).to_html()
    with pytest.raises(TypeError, match="unexpected keyword argument 'verbose'"):
        xlanb.hlo.parse(TEXT, verbose=True)


def test_the_innermost_block_names_what_failed():
    with pytest.raises(InternalError, match="failed to read") as info, boundary("compile"), boundary("read"):
        raise IndexError(3)
    assert info.value.doing == "read"


def test_a_marked_error_passes():
    error = ValueError("of a callback")
    let_pass(error)
    with pytest.raises(ValueError, match="of a callback") as info, boundary("run"):
        raise error
    assert info.value is error


def test_what_the_decorated_function_gives_is_given():
    @boundary("add")
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, b=2) == 3
    with pytest.raises(InternalError, match="failed to add: TypeError"):
        add(1, b="2")


class Handler:
    def method(self, _signal, _frame):
        raise ValueError("of a handler")

    def __call__(self, signal, frame):
        self.method(signal, frame)


def handler_with(_extra, _signal, _frame):
    int("no number")  # the innermost frame may be of the library


@pytest.mark.parametrize(
    "handler", [Handler(), Handler().method, partial(handler_with, 1)], ids=["object", "method", "partial"]
)
@pytest.mark.parametrize("where", ["boundary", "pass", "interpreter"])
def test_what_the_handler_of_a_signal_raises_passes(monkeypatch, handler, where):
    before = signal.signal(signal.SIGUSR1, handler)

    def interrupted(*args, **named):
        signal.raise_signal(signal.SIGUSR1)

    calls = {
        "boundary": boundary("run")(interrupted),
        "pass": lambda: xlanb.compile(TEXT),
        "interpreter": lambda: xlanb.evaluate(TEXT, X),
    }
    monkeypatch.setattr(AlgebraicSimplifier, "apply", interrupted)
    monkeypatch.setitem(registry.RULES, HloOpcode.NEGATE, interrupted)
    try:
        with pytest.raises(ValueError, match=r"of a handler|no number") as info:
            calls[where]()
        assert not isinstance(info.value, XlanbError)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_handlers_might_have_raised_is_still_a_bug():
    before = signal.signal(signal.SIGUSR1, Handler())
    try:
        with pytest.raises(InternalError), boundary("run"):
            raise ValueError("of xlanb")
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_end_of_a_debugger_passes():
    with pytest.raises(bdb.BdbQuit), boundary("run"):
        raise bdb.BdbQuit


def test_a_step_that_fails_on_its_own_names_what_was_done(monkeypatch):
    monkeypatch.setattr(
        "xlanb.explorer.live.module_stages", lambda _: (fail for fail in map(broken(KeyError("x")), [0]))
    )
    with pytest.raises(InternalError, match="failed to compile"):
        xlanb.Compilation(TEXT).step()


@pytest.mark.parametrize(
    ("where", "ask"),
    [
        ("xlanb.explorer.trace.Provenance", lambda trace, _: trace.lineage("n")),
        ("xlanb.explorer.displays.write_page", lambda trace, folder: trace.to_html(folder / "page.html")),
        ("xlanb.notebook.explore.StepWidget", lambda trace, _: xlanb.explore(trace)),
        ("xlanb.notebook.explore.StepWidget", lambda _trace, _folder: xlanb.explore(TEXT)),
    ],
)
def test_what_is_asked_of_a_trace_fails_as_an_error_of_xlanb(monkeypatch, tmp_path, where, ask):
    trace = xlanb.trace(TEXT)
    monkeypatch.setattr(where, broken(IndexError("list index out of range")))
    with pytest.raises(InternalError, match="IndexError: list index"):
        ask(trace, tmp_path)


@pytest.mark.parametrize("ask", [lambda dump: dump[0], lambda dump: dump.modules, str, lambda dump: dump.main])
def test_what_is_asked_of_a_dump_fails_as_an_error_of_xlanb(monkeypatch, tmp_path, ask):
    (tmp_path / "module_0001.m.before_optimizations.txt").write_text(TEXT)
    monkeypatch.setattr("xlanb.explorer.dump_directory.rank_modules", broken(OverflowError("too large")))
    with pytest.raises(InternalError, match="rank the modules of a dump"):
        ask(xlanb.read_dump(tmp_path))


def test_used_up_memory_says_what_wanted_it():
    with (
        pytest.raises(OutOfMemoryError, match=r"^out of memory while trying to draw: Unable to allocate 1\.00 EiB"),
        boundary("draw"),
    ):
        np.ones(2**57)
    with pytest.raises(OutOfMemoryError, match=r"^out of memory while trying to draw$"), boundary("draw"):
        raise MemoryError


def test_memory_that_the_users_code_lacks_passes_as_it_is():
    error = MemoryError("mine")
    let_pass(error)
    with pytest.raises(MemoryError) as info, boundary("call a function"):
        raise error
    assert info.value is error


class _Odd:
    """An object whose method of this name raises this error when it is converted to an array."""

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error


_NEGATE = "HloModule m\nENTRY e { x = f32[4] parameter(0) y = s32[] parameter(1) ROOT r = f32[4] negate(x) }"
_INFEED = "HloModule m\nENTRY e { t = token[] after-all() ROOT r = ((f32[4]), token[]) infeed(t) }"


def _session(use):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4], name="x")
        y = x + tf.Variable(np.zeros(4, np.float32), name="v")
    with tf.Session(graph=graph) as session:
        use(session, x, y)


_CONVERSIONS = {
    "execution": (lambda o: xlanb.compile(_NEGATE)(o, 1), ArgumentError, r"argument 0 \(x\): expected f32\[4\]"),
    "evaluation": (lambda o: xlanb.evaluate(_NEGATE, o, 1), EvaluationError, r"argument 0 \(x\): expected f32\[4\]"),
    "scalar": (lambda o: xlanb.evaluate(_NEGATE, np.zeros(4, np.float32), o), EvaluationError, r"argument 1 \(y\)"),
    "feed": (lambda o: _session(lambda s, x, y: s.run(y, {x: o})), FeedError, "Cannot feed _Odd for tensor 'x:0'"),
    "variable": (lambda o: _session(lambda s, *_: s.load_variables({"v": o})), FeedError, "variable 'v' cannot hold"),
    "constant": (tf.constant, GraphValueError, "cannot convert"),
    "infeed": (lambda o: xlanb.compile(_INFEED).infeed(o), FeedError, "no infeed of m takes _Odd"),
}


@pytest.mark.parametrize("kind", [ValueError, TypeError, RuntimeError, KeyError, ZeroDivisionError])
@pytest.mark.parametrize("where", _CONVERSIONS)
def test_what_an_argument_s_own_conversion_raises_is_told_with_the_argument(where, kind):
    convert, expected, named = _CONVERSIONS[where]
    error = kind("trouble of the user's own")
    with pytest.raises(expected, match=named) as raised:
        convert(_Odd(error))
    assert "trouble of the user's own" in str(raised.value)
    assert not isinstance(raised.value, InternalError)
    assert raised.value.__cause__ is error


def fails_in_the_users_code(x):
    return deeper(x)


def deeper(x):
    raise ZeroDivisionError(x)


def files_of(error):
    return [Path(t.filename).name for t in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize(
    "call",
    [
        lambda: xlanb.jit(fails_in_the_users_code)(X),
        lambda: xlanb.jit(fails_in_the_users_code).executable(X),
        lambda: xlanb.compile(fails_in_the_users_code, X),
        lambda: xlanb.Compilation(fails_in_the_users_code, X),
        lambda: xlanb.trace(fails_in_the_users_code, X),
        lambda: xlanb.explore(fails_in_the_users_code, X),
        lambda: xlanb.evaluate(fails_in_the_users_code, X),
    ],
)
def test_what_the_users_function_raises_shows_no_frame_of_xlanb(call, monkeypatch):
    with pytest.raises(ZeroDivisionError) as raised:
        call()
    assert set(files_of(raised.value)) == {Path(__file__).name}
    assert [t.name for t in traceback.extract_tb(raised.value.__traceback__)][-2:] == [
        "fails_in_the_users_code",
        "deeper",
    ]
    monkeypatch.setenv("JAX_TRACEBACK_FILTERING", "off")
    monkeypatch.delitem(sys.modules, "jax", raising=False)  # its own setting, which it has read
    with pytest.raises(ZeroDivisionError) as raised:
        call()
    assert "functions.py" in files_of(raised.value)


def test_a_bug_keeps_its_frames():
    ours = {"__name__": "xlanb.made"}
    exec(compile("def call(f): return f()\ndef fail(): return {}['x']\n", "ours.py", "exec"), ours)  # noqa: S102
    for function in (ours["fail"], lambda: ours["call"](np.random.default_rng(0).integers)):
        with pytest.raises((KeyError, TypeError)) as raised, filtered_traceback():
            function()
        assert "ours.py" in files_of(raised.value)
    with pytest.raises(ZeroDivisionError) as raised, filtered_traceback():
        ours["call"](lambda: 1 / 0)
    assert "ours.py" not in files_of(raised.value)


def test_every_error_has_a_public_name():
    for info in pkgutil.walk_packages(xlanb.__path__, "xlanb."):
        module = sys.modules.get(info.name)
        for value in vars(module).values() if module is not None else ():
            if isinstance(value, type) and issubclass(value, XlanbError):
                assert not value.__name__.startswith("_"), f"{info.name}.{value.__name__}"


def test_an_error_class_of_the_user_passes_as_it_is():
    for where in ("execution", "evaluation", "feed", "variable", "constant", "infeed"):
        with pytest.raises(OfTheUserError):
            _CONVERSIONS[where][0](_Odd(OfTheUserError()))
