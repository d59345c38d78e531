"""Messages for typical mistakes: the user's own lines, the fault, and the correct code."""

from __future__ import annotations

import functools
import re
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import xlanb
from tests.notebook.shells import printed, run, texts
from xlanb.errors import ArgumentError, ArgumentTypeError, XlanbError

jax = pytest.importorskip("jax")
jnp = jax.numpy

X = np.ones((3, 4), np.float32)
HERE = str(Path(__file__))
PACKAGE = str(Path(xlanb.__file__).parent)


def product(x, y):
    return inner(jnp.sin(x), y)


def inner(x, y):
    return x @ y


DOORS = {
    "jit": lambda f, *args: xlanb.jit(f)(*args),
    "jit with names": lambda f, *args: xlanb.jit(f)(**dict(zip("xy", args, strict=False))),
    "executable": lambda f, *args: xlanb.jit(f).executable(*args),
    "compile": xlanb.compile,
    "trace": xlanb.trace,
    "explore": xlanb.explore,
    "evaluate": xlanb.evaluate,
    "from_jax": xlanb.from_jax,
    "Compilation": xlanb.Compilation,
}


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["function", "jitted"])
@pytest.mark.parametrize("door", DOORS)
def test_what_a_traced_function_raises_shows_the_users_frames_as_jax_does(door, wrap):
    with pytest.raises(TypeError, match="contracting dimensions") as wanted:
        jax.jit(product)(X, X)
    with pytest.raises(TypeError, match="contracting dimensions") as raised:
        DOORS[door](wrap(product), X, X)
    shown = traceback.extract_tb(raised.value.__traceback__)
    assert not any(t.filename.startswith(PACKAGE) for t in shown)
    users = [t.name for t in shown if t.filename == HERE]
    assert users[-2:] == ["product", "inner"]
    of_jax = [(t.filename, t.name) for t in traceback.extract_tb(wanted.value.__traceback__)]
    assert [(t.filename, t.name) for t in shown][-len(of_jax) + 1 :] == of_jax[1:]


@pytest.mark.parametrize("door", [d for d in DOORS if d != "jit with names"])
def test_a_missing_argument_is_named_with_what_to_write(door):
    with pytest.raises(ArgumentTypeError, match=r"missing 1 required positional argument: 'y'") as raised:
        DOORS[door](product, X)
    assert "xlanb.jit(product)(x, y) or xlanb.explore(product, x, y)" in str(raised.value)
    assert not any(t.filename.startswith(PACKAGE) for t in traceback.extract_tb(raised.value.__traceback__))


def test_arguments_that_do_not_fit_a_signature():
    for call, why in [
        (xlanb.jit(product), "missing 2 required"),
        (lambda: xlanb.jit(inner)(X, X, X), "takes 2 positional arguments but 3"),
        (lambda: xlanb.jit(inner)(X, X, scale=1), "unexpected keyword argument 'scale'"),
        (xlanb.jit(lambda x: x + 1), "missing 1 required"),
        (lambda: xlanb.jit(jax.jit(lambda x, n: x * n, static_argnames="n"))(X), "missing 1 required"),
    ]:
        with pytest.raises(ArgumentTypeError, match=why):
            call()


def test_a_type_error_of_the_function_itself_is_its_own():
    def calls_wrongly(x):
        return inner(x)

    with pytest.raises(TypeError, match="missing 1 required") as raised:
        xlanb.jit(calls_wrongly)(X)
    assert not isinstance(raised.value, XlanbError)


@pytest.mark.parametrize("value", [jnp.ones(3), np.ones(3), np.float32(1)])
def test_a_result_in_place_of_a_function(value):
    for door in (xlanb.explore, xlanb.compile, xlanb.jit, xlanb.from_jax):
        with pytest.raises(ArgumentError, match=r"is not a program: pass the function and its arguments"):
            door(value)


def test_results_that_are_not_computed_are_refused():
    def later(x):
        yield jnp.sin(x)

    async def awaited(x):
        return jnp.sin(x)

    for function, kind in [(later, "generator"), (awaited, "coroutine"), (lambda x: (x, map(jnp.sin, x)), "map")]:
        with pytest.raises(ArgumentTypeError, match=f"returns a {kind}"):
            xlanb.jit(function)(X)


def test_a_function_without_a_result_and_one_with_a_text():
    assert xlanb.jit(lambda x: [jnp.sin(x)].clear())(X) is None
    assert xlanb.jit(lambda x: (jnp.sin(x), "label"))(X)[1] == "label"


@pytest.mark.parametrize("function", [lambda x: np.sin(x) + 1, np.sin])
def test_a_function_of_numpy(function, monkeypatch):
    monkeypatch.delitem(sys.modules, "xlanb.tf", raising=False)  # else it may be over that
    with pytest.raises(jax.errors.TracerArrayConversionError) as raised:
        xlanb.jit(function)(X)
    assert "use the one of jax.numpy" in "".join(raised.value.__notes__)
    assert not any(t.filename.startswith(PACKAGE) for t in traceback.extract_tb(raised.value.__traceback__))


def test_a_module_of_linen_that_has_no_parameters():
    linen = pytest.importorskip("flax.linen")
    model = linen.Dense(2)
    params = model.init(jax.random.key(0), X)
    for call in (lambda: xlanb.jit(model)(X), lambda: xlanb.explore(model, params, X)):
        with pytest.raises(
            ArgumentTypeError, match=r"Dense is a flax.linen module.*xlanb\.jit\(model\.apply\)\(params, x\)"
        ):
            call()
    want = model.apply(params, X)
    np.testing.assert_allclose(xlanb.jit(model.apply)(params, X), want, rtol=1e-5)
    np.testing.assert_allclose(xlanb.jit(model.bind(params))(X), want, rtol=1e-5)


def test_a_pair_of_functions_in_place_of_one():
    transformed = SimpleNamespace(init=product, apply=product)
    with pytest.raises(ArgumentTypeError, match=re.escape("xlanb.explore(model.apply, params, x)")):
        xlanb.jit(transformed)


def test_methods_and_objects_that_are_called():
    class Scale:
        def __init__(self):
            self.by = np.float32(2)

        def method(self, x):
            return jnp.sin(x) * self.by

        __call__ = method

    for function in (Scale().method, Scale(), functools.partial(Scale.method, Scale())):
        np.testing.assert_allclose(xlanb.jit(function)(X), np.sin(X) * 2, rtol=1e-6)


def test_a_name_of_a_file_in_place_of_its_text():
    with pytest.raises(XlanbError) as raised:
        xlanb.compile("model.hlo")
    assert "read_text" in raised.value.__notes__[0]


CELL = """import jax, jax.numpy as jnp, numpy as np, xlanb
X = np.ones((3, 4), np.float32)
def inner(x, y):
    return x @ y
def product(x, y):
    return inner(jnp.sin(x), y)
"""


@pytest.mark.parametrize(
    "call",
    ["xlanb.jit(product)(X, X)", "xlanb.explore(product, X, X)", "%%xla_jit -f product --args (X,X)\n1", "%%xla_jit\nproduct(X, X)"],
)  # fmt: skip
def test_a_notebook_shows_the_lines_of_the_cells(shell, call):
    run(shell, CELL)
    result, captured = run(shell, call)
    assert isinstance(result.error_in_exec, TypeError)
    shown = printed(captured)
    assert "return x @ y" in shown
    assert "return inner(jnp.sin(x), y)" in shown
    assert PACKAGE not in shown
    assert "IPython/core" not in shown


def test_a_cell_says_why_its_call_was_not_compiled(shell):
    run(shell, CELL)
    _, captured = run(shell, "%%xla_jit\n(lambda x: x if jnp.sum(x) > 0 else -x)(X)")
    assert "nothing was compiled in this cell. JAX cannot trace <lambda>" in texts(captured)
    assert "TracerBoolConversionError" in texts(captured)


def test_an_error_of_xlanb_names_the_lines_of_the_cells(shell):
    cell = (
        CELL + "def unknown(x):\n    return jax.ffi.ffi_call('nowhere', jax.ShapeDtypeStruct((3, 4), np.float32))(x)\n"
    )
    run(shell, cell)
    for call in ("xlanb.jit(unknown)(X)", "xlanb.trace(unknown, X).bisect(X)", "%%xla_jit\nunknown(X)"):
        _, captured = run(shell, call)
        shown = printed(captured)
        assert "InstructionError" in shown
        assert 'custom-call target "nowhere" is unknown' in shown
        assert "(unknown), called from" in shown
        for hidden in ("IPython/core", "site-packages/jax", "contextlib", PACKAGE):
            assert hidden not in shown


@pytest.mark.slow  # a kernel of its own
def test_a_kernel_shows_the_lines_of_the_cells(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    sources = [
        CELL + "def unknown(x):\n    return jax.ffi.ffi_call('nowhere', jax.ShapeDtypeStruct((3, 4), np.float32))(x)",
        "xlanb.jit(product)(X, X)",
        "xlanb.explore(product, X)",
        "xlanb.jit(unknown)(X)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert notebook.cells[0].outputs == []
    errors = [cell.outputs[-1] for cell in notebook.cells[1:]]
    assert [e.ename for e in errors] == ["TypeError", "ArgumentTypeError", "InstructionError"]
    shown = [re.sub("\x1b\\[[0-9;]*m", "", "\n".join(e.traceback)) for e in errors]
    assert "return inner(jnp.sin(x), y)" in shown[0]
    assert "return x @ y" in shown[0]
    assert "xlanb.explore(product, x, y)" in shown[1]
    assert "from In [1]:8 (unknown), called from In [4]:1 (<module>)\n" in shown[2]
    for text in shown:
        assert PACKAGE not in text
        assert "IPython/core" not in text
