"""JAX functions by compile, jit, trace, evaluate, Compilation, the command line; pytrees in and
out.
"""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest

import xlanb
from xlanb.cli import main
from xlanb.errors import ArgumentError, GraphError, XlanbError
from xlanb.frontends.jax import refers_to_jax
from xlanb.hlo.python_lines import place_text

jax = pytest.importorskip("jax")
jnp = jax.numpy

PARAMS = {"l0": {"w": np.arange(12, dtype=np.float32).reshape(3, 4) / 10, "b": np.ones(4, np.float32)}}
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def layer(params, x, *, scale=2):
    """Gives a dictionary with an array, and a number of Python."""
    return {"y": jnp.tanh(x @ params["l0"]["w"] + params["l0"]["b"]) * scale, "n": 3}


def agree(got, want) -> None:
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(want)
    for a, b in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-6, atol=1e-6)


FORMS = {
    "function": lambda: (layer, (PARAMS, X)),
    "jit": lambda: (jax.jit(layer, static_argnames="scale"), (PARAMS, X)),
    "lowered": lambda: (jax.jit(layer, static_argnames="scale").lower(PARAMS, X), ()),
    "compiled": lambda: (jax.jit(layer, static_argnames="scale").lower(PARAMS, X).compile(), ()),
    "exported": lambda: (jax.export.export(jax.jit(layer, static_argnames="scale"))(PARAMS, X), ()),
    "serialized": lambda: (jax.export.export(jax.jit(layer, static_argnames="scale"))(PARAMS, X).serialize(), ()),
    "shapes": lambda: (layer, jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (PARAMS, X))),
    "partial": lambda: (functools.partial(layer, scale=2), (PARAMS, X)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_function_is_compiled_and_called_as_the_function_is(form):
    if form == "serialized":
        pytest.importorskip("flatbuffers")
    program, example = FORMS[form]()
    exe = xlanb.compile(program, *example)
    result = exe(PARAMS, X)
    agree(result, layer(PARAMS, X))
    assert isinstance(result["y"], np.ndarray)


def test_results_have_the_layouts_that_xla_gives_them():
    """Row-major unless the function requests others; jaxlib's HLO has those of the last
    operations.
    """

    def f(x, y):
        return (x.T @ y, (x @ y).T, x, 1.0)

    layout, format_ = pytest.importorskip("jax.experimental.layout"), jax.sharding.SingleDeviceSharding
    column_major = layout.Format(layout.Layout((1, 0)), format_(jax.devices()[0]))
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    for asked in (None, (column_major, None, None, None)):
        lowered = jax.jit(f, out_shardings=asked).lower(x, x)
        real = xlanb.from_jax(lowered.compile()).entry_layout[1]
        module = xlanb.from_jax(lowered)
        assert [s.layout for s in module.entry_layout[1].shapes] == [s.layout for s in real.shapes]
        agree(xlanb.compile(module)(x, x), f(x, x))
    assert xlanb.from_jax(lambda x: x.T, x).entry_layout[1].layout.is_default


def test_results_are_of_jax_where_an_argument_is():
    exe = xlanb.compile(layer, PARAMS, X)
    assert isinstance(exe(PARAMS, jnp.asarray(X))["y"], jax.Array)
    plain = xlanb.compile(jnp.sin, X)
    assert isinstance(plain(X), np.ndarray)
    assert isinstance(plain(jnp.asarray(X)), jax.Array)


def test_the_other_doors_take_it_too():
    want = layer(PARAMS, X)
    agree(xlanb.evaluate(layer, PARAMS, x=X), want)
    agree(xlanb.compile(layer, PARAMS, x=X)(PARAMS, x=X), want)
    compilation = xlanb.Compilation(layer, PARAMS, X)
    agree(compilation.finish()(PARAMS, X), want)
    trace = xlanb.trace(jax.jit(layer), PARAMS, X)
    assert trace.bisect(PARAMS, X).stage is None
    assert "l0" in str(xlanb.compile(layer, PARAMS, X).hlo_module)
    frame = xlanb.compile(layer, PARAMS, X).profile(PARAMS, X)
    assert len(frame)


def test_parameters_bear_the_names_of_the_arguments():
    exe = xlanb.compile(layer, PARAMS, X)
    with pytest.raises(ArgumentError, match=r"params\['l0'\]\['w'\]\): expected f32\[3,4\]"):
        exe({"l0": {"w": PARAMS["l0"]["w"][:2], "b": PARAMS["l0"]["b"]}}, X)
    with pytest.raises(ArgumentError, match=r"params\['l0'\]\['b'\] missing; unexpected argument 0\['l0'\]\['c'\]"):
        exe({"l0": {"w": PARAMS["l0"]["w"], "c": PARAMS["l0"]["b"]}}, X)
    with pytest.raises(ArgumentError, match="a shape without values"):
        exe(PARAMS, jax.ShapeDtypeStruct(X.shape, X.dtype))


def test_arguments_are_canonical_as_in_jax():
    exe = xlanb.compile(lambda n, x: n * x, np.arange(3), 2.0)
    np.testing.assert_array_equal(exe(np.arange(3), 2.0), np.arange(3) * np.float32(2))
    assert exe(np.arange(3), 2.0).dtype == np.float32
    with pytest.raises(ArgumentError, match="expected f32"):
        exe(np.arange(3), np.int32(2))


def test_unused_and_static_arguments_of_jit_are_left_out():
    @functools.partial(jax.jit, static_argnums=1, static_argnames="mode")
    def f(x, n, unused, *, mode="up"):
        return x * n if mode == "up" else x - n

    exe = xlanb.compile(f, X, 3, np.ones(5), mode="down")
    assert len(exe.hlo_module.entry_computation.parameters) == 1
    np.testing.assert_array_equal(exe(X, 3, np.ones(5), mode="down"), X - 3)
    np.testing.assert_array_equal(exe(X, np.ones(5)), X - 3)  # as a Compiled of JAX's is called


def test_keys_go_in_and_out():
    key = jax.random.key(7)
    exe = xlanb.compile(jax.random.split, key)
    np.testing.assert_array_equal(jax.random.key_data(exe(key)), jax.random.key_data(jax.random.split(key)))
    draw = xlanb.jit(jax.random.normal)
    for k in jax.random.split(key, 3):
        np.testing.assert_allclose(draw(k), jax.random.normal(k), rtol=1e-6)
    assert draw.cache_info().misses == 1


def test_what_is_no_array_is_part_of_the_program():
    def f(kind, x, function):
        return function(x) if kind == "twice" else x, kind

    value, kind = xlanb.compile(f, "twice", X, jnp.sin)("twice", X, jnp.sin)
    np.testing.assert_allclose(value, np.sin(X), rtol=1e-6)
    assert kind == "twice"


def test_the_kind_of_a_function_is_found_by_calling_it():
    from xlanb import tf

    np.testing.assert_allclose(xlanb.compile(tf.nn.relu, X)(X), [X])
    np.testing.assert_allclose(xlanb.compile(lambda x: x.at[0].set(1).sum(), X)(X), X[1].sum() + 3)

    def neither(x):
        return x.no_such_thing

    with pytest.raises(AttributeError, match="no_such_thing") as info:
        xlanb.compile(neither, X)
    assert any("JAX arrays" in note for note in info.value.__notes__)


def test_jit_compiles_once_per_signature_and_says_why():
    fast = xlanb.jit(layer, static_argnames="scale")
    agree(fast(PARAMS, X), layer(PARAMS, X))
    fast(PARAMS, X)
    agree(fast(PARAMS, X, scale=5), layer(PARAMS, X, scale=5))
    fast(PARAMS, X[:1], scale=5)
    fast(PARAMS, X.astype(np.int32), scale=5)
    info = fast.cache_info()
    assert (info.hits, info.misses) == (1, 4)
    assert [e.why for e in info.entries[:3]] == [
        "first call",
        "scale: static value None -> 5",
        "x: shape float32[2,3] -> float32[1,3]",
    ]
    assert info.entries[3].why == "x: dtype float32[2,3] -> int32[2,3]"
    assert list(info.to_dataframe().columns) == ["signature", "why", "seconds"]
    assert "params['l0']['w']: float32[3,4]" in str(info)


def test_jit_compiles_anew_where_a_setting_of_jax_changes():
    fast = xlanb.jit(lambda x: jnp.cumsum(x) / 3)
    x = np.arange(3.0)
    assert fast(x).dtype == np.float32
    with jax.enable_x64(True):
        assert fast(x).dtype == np.float64
        assert fast(jnp.asarray(x)).dtype == np.float64
    assert fast(x).dtype == np.float32
    with jax.default_matmul_precision("highest"):
        fast(x)
    whys = [e.why for e in fast.cache_info().entries]
    assert whys == ["first call", "jax_enable_x64: False -> True", "jax_default_matmul_precision: None -> 'highest'"]
    assert "the last for jax_default_matmul_precision" in repr(fast)


def test_jit_finds_the_settings_by_their_public_names_too(monkeypatch):
    from xlanb.frontends import jax as frontend

    config = frontend.import_jax("jax._src.config")
    monkeypatch.delattr(config, "trace_context_names")
    monkeypatch.setattr(frontend, "_context_reader", frontend._context_reader.__wrapped__)
    with jax.enable_x64(True):
        wide = frontend.trace_context()
    assert "jax_enable_x64" in frontend.trace_context_names()
    assert wide != frontend.trace_context()


def test_jit_takes_arrays_of_jax_and_numpy_by_the_same_code():
    fast = xlanb.jit(lambda p: {"y": p["x"] * 2})
    by_number = xlanb.jit(lambda x: jnp.add(x, x))
    assert isinstance(fast({"x": jnp.asarray(X)})["y"], jax.Array)
    assert isinstance(fast({"x": X})["y"], np.ndarray)
    assert isinstance(by_number(X), np.ndarray)
    assert isinstance(by_number(jnp.asarray(X)), jax.Array)
    assert [f.cache_info().misses for f in (fast, by_number)] == [1, 1]


@pytest.mark.parametrize("size", [3, 300_000])
def test_results_are_arrays_as_jax_makes_them(size):
    x = jnp.arange(size, dtype=np.float32)
    got, want = xlanb.jit(lambda x, s: (x + 1, s * 2))(x, 2.0), jax.jit(lambda x, s: (x + 1, s * 2))(x, 2.0)
    for mine, theirs in zip(got, want, strict=True):
        assert (mine.dtype, mine.weak_type, mine.committed) == (theirs.dtype, theirs.weak_type, theirs.committed)
        np.testing.assert_array_equal(mine, theirs)
    device = jax.devices()[0]
    assert xlanb.jit(jnp.sin)(jax.device_put(x, device)).committed


def test_jit_inside_of_what_jax_traces_is_the_function():
    fast = xlanb.jit(lambda x: jnp.sum(x**2))
    np.testing.assert_array_equal(jax.grad(fast)(X), 2 * X)
    np.testing.assert_array_equal(xlanb.jit(jax.vmap(fast))(X), (X**2).sum(1))
    assert fast.cache_info().misses == 0
    exe = xlanb.compile(jnp.sin, X)
    with pytest.raises(ArgumentError, match=r"x is traced by JAX.*xlanb\.jit"):
        jax.grad(lambda x: exe(x).sum())(X)


def test_jit_names_static_arguments_as_the_function_does():
    fast = xlanb.jit(lambda axis, x: x.sum(axis), static_argnums=0)
    fast(0, X)
    fast(1, X)
    fast(1, X[:1])
    assert [e.why for e in fast.cache_info().entries[1:]] == [
        "axis: static value 0 -> 1",
        "x: shape float32[2,3] -> float32[1,3]",
    ]
    with pytest.raises(ArgumentError, match="static argument axis is a list, which is not hashable"):
        fast([0], X)


def test_a_function_that_names_no_library_is_of_jax_where_xlanb_tf_is_not_loaded(monkeypatch):
    import sys

    monkeypatch.delitem(sys.modules, "xlanb.tf", raising=False)
    result = xlanb.compile(lambda x: x + 1, X)(X)
    np.testing.assert_array_equal(result, X + 1)
    assert isinstance(result, np.ndarray)


def of_nowhere(x):
    return jax.ffi.ffi_call("nowhere", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def calls_nowhere(x):
    return of_nowhere(x * 2) + 1


def is_too_large(x):
    return jnp.sort(jnp.broadcast_to(x, (1 << 44, 3)), axis=0) + x


@pytest.mark.parametrize("door", [xlanb.compile, xlanb.jit, xlanb.evaluate])
def test_errors_name_the_python_lines_of_the_user(door):
    x = np.ones(3, np.float32)
    first = of_nowhere.__code__.co_firstlineno + 1
    here = place_text(__file__, first), place_text(__file__, first + 4)
    place = rf"from {here[0]} \(of_nowhere\), called from {here[1]} \(calls_nowhere\)"
    with pytest.raises(XlanbError, match=place):
        {xlanb.compile: lambda f, x: xlanb.compile(f, x)(x), xlanb.jit: lambda f, x: xlanb.jit(f)(x)}.get(door, door)(
            calls_nowhere, x
        )


def test_shapes_that_no_memory_holds_are_refused_with_the_python_line():
    line = is_too_large.__code__.co_firstlineno + 1
    with pytest.raises(XlanbError, match=rf"from {place_text(__file__, line)} \(is_too_large\)"):
        xlanb.compile(is_too_large, X[0])(X[0])
    with pytest.raises(XlanbError, match=r"JAX cannot lower the function to HLO: .*overflow"):
        xlanb.compile(lambda x: jnp.broadcast_to(x, (1 << 60, 1 << 20, 3)) + x, X[0])


def test_errors_of_tracing_lead_to_the_users_line_without_frames_of_jax():
    def branches(x):
        return x if jnp.sum(x) > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError) as info:
        xlanb.jit(branches)(X)
    files = [str(entry.path) for entry in info.traceback]
    assert files[-1] == __file__
    assert not any("/jax/_src/" in f for f in files)


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
@pytest.mark.parametrize("door", [xlanb.jit, xlanb.compile, xlanb.Compilation])
def test_shard_map_runs_on_a_mesh_of_one_device(kind, door):
    spec, mesh = (
        jax.sharding.PartitionSpec("x"),
        jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType[kind],)),
    )

    def sums(v):
        return jax.lax.psum(v * 2, "x"), jax.lax.all_gather(v, "x").sum(0) + jax.lax.axis_index("x")

    f = jax.shard_map(sums, mesh=mesh, in_specs=spec, out_specs=(jax.sharding.PartitionSpec(), spec))
    placed = jax.device_put(X, jax.sharding.NamedSharding(mesh, spec))
    got = xlanb.jit(f)(placed) if door is xlanb.jit else door(f, placed)
    got = got if door is xlanb.jit else (got.finish() if door is xlanb.Compilation else got)(placed)
    agree(got, jax.jit(f)(placed))


def test_pmap_runs_on_one_device():
    f = jax.pmap(lambda v: jax.lax.pmean(v, "i") * 2, axis_name="i")
    agree(xlanb.jit(f)(X[None]), f(X[None]))


def test_jit_from_many_threads_compiles_once():
    fast = xlanb.jit(jnp.cumsum)
    threads = [threading.Thread(target=fast, args=(X[0],)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert fast.cache_info().misses == 1


def test_what_is_no_program_is_refused():
    pytest.importorskip("flatbuffers")
    with pytest.raises(XlanbError, match="neither StableHLO bytecode"):
        xlanb.compile(b"nothing of the kind")
    with pytest.raises(TypeError, match="cannot create HLO from an object of type dict"):
        xlanb.compile({})
    with pytest.raises(ArgumentError, match="pass a function and its arguments"):
        xlanb.jit(3)


def test_an_export_for_symbolic_shapes_needs_arguments():
    (n,) = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(lambda x: x * 2))(jax.ShapeDtypeStruct((n,), np.float32))
    with pytest.raises(ArgumentError, match="symbolic shapes: give example arguments"):
        xlanb.compile(exported)
    np.testing.assert_array_equal(xlanb.compile(exported, X[0])(X[0]), X[0] * 2)


def test_the_command_line_takes_a_function_of_a_file(tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_text("import jax.numpy as jnp\nw = jnp.ones(3)\ndef step(p, x): return (p['w'] * x).sum()\n")
    assert main(["run", f"{path}:step", "--args", "({'w': w}, 2.0)", "--reference", "evaluator"]) == 0
    assert "0: float32[] 6" in capsys.readouterr().out
    assert main(["run", f"{path}:stop"]) == 1
    assert "did you mean 'step'" in capsys.readouterr().err
    assert main(["opt", f"{path}:step", "--args", "(1/0,)"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_equinox_modules_and_transforms():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0))
    x = jnp.ones(3)
    agree(xlanb.compile(eqx.filter_jit(lambda m, x: m(x)), model, x)(model, x), model(x))
    loss = eqx.filter_value_and_grad(lambda m, x: jnp.sum(m(x) ** 2))
    (value, gradient), (want, by_jax) = xlanb.compile(loss, model, x)(model, x), loss(model, x)
    np.testing.assert_allclose(value, want, rtol=1e-5)
    np.testing.assert_allclose(gradient.layers[0].weight, by_jax.layers[0].weight, rtol=1e-4, atol=1e-6)


def test_jit_takes_wrapped_functions_of_equinox():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0))
    fast = xlanb.jit(eqx.filter_jit(lambda m, x: m(x)))
    for _ in range(2):
        agree(fast(model, jnp.ones(3)), model(jnp.ones(3)))
    assert (fast.cache_info().hits, fast.cache_info().misses) == (1, 1)


def test_nnx_modules_are_updated():
    nnx = pytest.importorskip("flax.nnx")

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.linear, self.norm, self.drop = (
                nnx.Linear(3, 4, rngs=rngs),
                nnx.BatchNorm(4, rngs=rngs),
                nnx.Dropout(0.5, rngs=rngs),
            )

        def __call__(self, x):
            return self.drop(self.norm(self.linear(x)))

    ours, theirs = Block(nnx.Rngs(0)), Block(nnx.Rngs(0))
    step = nnx.jit(lambda block, x: block(x))
    x = jnp.asarray(np.random.default_rng(0).standard_normal((5, 3)), np.float32)
    exe = xlanb.compile(step, ours, x)
    for _ in range(2):
        np.testing.assert_allclose(exe(ours, x), step(theirs, x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.norm.mean[...], theirs.norm.mean[...], rtol=1e-4)


class _Objects:
    """Callables whose code uses JAX only indirectly."""

    class Derived(jax.tree_util.Partial):
        pass

    class Called:
        def __call__(self, x):
            return jnp.sin(x)

    @staticmethod
    def derived():
        model = _Objects.Derived(abs)
        return lambda x: model(x) + 1

    @staticmethod
    def gradient():
        return jax.grad(lambda x: (x * x).sum())


@pytest.mark.parametrize("make", [_Objects.derived, _Objects.Called, _Objects.gradient])
def test_functions_that_are_over_jax_by_what_they_hold_or_are_made_by(make):
    assert refers_to_jax(make())


def test_functions_that_do_not_name_jax():
    assert not refers_to_jax(lambda x: x + 1)
    assert not refers_to_jax(np.sin)
    assert not refers_to_jax([].append)


def test_code_that_names_xlanb_tf_is_never_traced_by_jax() -> None:
    from xlanb import tf

    with pytest.raises(GraphError, match="a string, which compiled code cannot hold"):
        xlanb.compile(lambda _: tf.identity(tf.constant("a")), np.ones(2, np.float32))
