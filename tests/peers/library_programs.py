"""Programs of JAX's libraries, with random weights.

Each returns a function and its arguments, and names the libraries that it needs. As a script, it
runs them as a backend of JAX in a separate process, on xlanb, then on JAX's CPU backend; it prints
a line of JSON with the difference for each.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

KEY = jax.random.key


@dataclass(frozen=True)
class Program:
    """`build` returns the function and its arguments.

    `tolerance` is relative to the largest element of a result, `x64` runs it with JAX's 64-bit
    types.
    """

    build: Callable[[], tuple[Any, tuple[Any, ...]]]
    needs: tuple[str, ...]
    tolerance: float
    x64: bool

    @property
    def missing(self) -> list[str]:
        """The libraries that are not installed."""
        return [n for n in self.needs if importlib.util.find_spec(n) is None]

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        return jax.enable_x64(True) if self.x64 else contextlib.nullcontext()


PROGRAMS: dict[str, Program] = {}
Build = Callable[[], tuple[Any, tuple[Any, ...]]]


def program(*needs: str, tolerance: float = 1e-4, x64: bool = False) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        PROGRAMS[build.__name__] = Program(build, needs, tolerance, x64)
        return build

    return add


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def labels(count: int, classes: int) -> Any:
    return np.random.default_rng(1).integers(0, classes, count)


# ------------------------------------------------------------------------------------- flax.linen


@program("flax", "optax")
def linen_mlp_training_step_with_adam():
    import optax
    from flax import linen as nn

    model = nn.Sequential([nn.Dense(32), nn.gelu, nn.Dense(10)])
    x, y = normal(16, 8), labels(16, 10)
    params = model.init(KEY(0), x)
    opt = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-2, 100)))

    def loss(params):
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, x), y).mean()

    def step(params, state):
        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = opt.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    return step, (params, opt.init(params))


@program("flax")
def linen_conv_net_with_batch_norm_and_dropout():
    from flax import linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, *, train):
            x = nn.Conv(8, (3, 3))(x)
            x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
            x = nn.max_pool(x, (2, 2), (2, 2))
            x = nn.Dropout(0.3, deterministic=not train)(x.reshape(len(x), -1))
            return nn.Dense(5)(x)

    net, x = Net(), normal(4, 12, 12, 3)
    variables = net.init(KEY(0), x, train=False)

    def loss(params, stats, x, key):
        rest = {"params": params, "batch_stats": stats}
        y, new = net.apply(rest, x, train=True, rngs={"dropout": key}, mutable=["batch_stats"])
        return (y**2).mean(), new

    return jax.value_and_grad(loss, has_aux=True), (variables["params"], variables["batch_stats"], x, KEY(1))


@program("flax", "optax")
def linen_train_state():
    import optax
    from flax import linen as nn
    from flax.training import train_state

    model, x = nn.Dense(3), normal(8, 4)
    state = train_state.TrainState.create(
        apply_fn=model.apply, params=model.init(KEY(0), x)["params"], tx=optax.sgd(0.1, momentum=0.9)
    )

    def step(state, x):
        gradient = jax.grad(lambda p: jnp.sum(state.apply_fn({"params": p}, x) ** 2))(state.params)
        return state.apply_gradients(grads=gradient)

    return step, (state, x)


@program("flax")
def linen_transformer_block_with_remat():
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
            x = x + nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x), mask=mask)
            return x + nn.Dense(16)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(x))))

    model, x = nn.Sequential([nn.remat(Block)(), nn.remat(Block)()]), normal(2, 10, 16)
    params = model.init(KEY(0), x)
    return jax.value_and_grad(lambda p, x: jnp.mean(model.apply(p, x) ** 2)), (params, x)


@program("flax")
def linen_lstm_over_a_sequence():
    from flax import linen as nn

    model, x = nn.RNN(nn.OptimizedLSTMCell(12)), normal(3, 7, 5)
    params = model.init(KEY(0), x)
    return jax.value_and_grad(lambda p, x: model.apply(p, x)[:, -1].sum()), (params, x)


@program("flax")
def linen_scan_over_layers():
    from flax import linen as nn

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, carry, _):
            return carry + nn.tanh(nn.Dense(6)(carry)), carry.mean()

    model = nn.scan(Layer, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)()
    x = normal(4, 6)
    params = model.init(KEY(0), x, None)
    return jax.value_and_grad(lambda p, x: model.apply(p, x, None)[0].sum()), (params, x)


@program("flax")
def linen_embedding_lookup_gradient():
    from flax import linen as nn

    model, words = nn.Embed(50, 6), labels(20, 50).reshape(4, 5)
    params = model.init(KEY(0), words)
    return jax.grad(lambda p, w: jnp.sum(model.apply(p, w) ** 2)), (params, words)


# --------------------------------------------------------------------------------------- flax.nnx


@program("flax", "optax")
def nnx_training_step():
    import optax
    from flax import nnx

    model = nnx.Sequential(nnx.Linear(6, 12, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(12, 2, rngs=nnx.Rngs(1)))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    def step(model, optimizer, x, y):
        value, gradient = nnx.value_and_grad(lambda m: jnp.mean((m(x) - y) ** 2))(model)
        optimizer.update(model, gradient)
        return value, nnx.state(model)

    return nnx.jit(step), (model, optimizer, normal(8, 6), normal(8, 2))


@program("flax")
def nnx_convolution_with_dropout():
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.conv = nnx.Conv(3, 8, (3, 3), strides=2, rngs=rngs)
            self.norm = nnx.GroupNorm(8, num_groups=4, rngs=rngs)
            self.drop = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x):
            return self.drop(nnx.silu(self.norm(self.conv(x)))).mean((1, 2))

    return nnx.jit(lambda net, x: net(x)), (Net(nnx.Rngs(0, dropout=1)), normal(2, 8, 8, 3))


@program("flax")
def nnx_split_and_scan_over_layers():
    from flax import nnx

    @nnx.vmap(in_axes=0, out_axes=0)
    def make(key):
        return nnx.Linear(8, 8, rngs=nnx.Rngs(key))

    graph, state = nnx.split(make(jax.random.split(KEY(0), 4)))

    def forward(state, x):
        return lax.scan(lambda c, s: (jnp.tanh(nnx.merge(graph, s)(c)), c.sum()), x, state)

    return forward, (state, normal(3, 8))


# ------------------------------------------------------------------------------------------ optax


@program("optax")
def optax_lbfgs_until_convergence():
    import optax

    def rosenbrock(x):
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    opt = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(rosenbrock)

    def step(carry):
        x, state = carry
        value, gradient = value_and_grad(x, state=state)
        updates, state = opt.update(gradient, state, x, value=value, grad=gradient, value_fn=rosenbrock)
        return optax.apply_updates(x, updates), state

    def solve(x):
        def go_on(carry):
            state = carry[1]
            count, gradient = optax.tree.get(state, "count"), optax.tree.get(state, "grad")
            return (count == 0) | ((count < 60) & (optax.tree.norm(gradient) > 1e-3))

        return lax.while_loop(go_on, step, (x, opt.init(x)))[0]

    return solve, (np.full(4, 1.3, np.float32),)


@program("optax")
def optax_masked_schedule_and_accumulation():
    import optax

    params = {"w": normal(4, 3), "b": normal(3)}
    masked = optax.masked(optax.add_decayed_weights(1e-2), {"w": True, "b": False})
    opt = optax.MultiSteps(optax.chain(masked, optax.scale_by_rms(), optax.scale(-1e-2)), every_k_schedule=2)

    def train(params, xs):
        def step(carry, x):
            params, state = carry
            gradient = jax.grad(lambda p: jnp.sum(jnp.tanh(x @ p["w"] + p["b"])))(params)
            updates, state = opt.update(gradient, state, params)
            return (optax.apply_updates(params, updates), state), gradient["b"]

        return lax.scan(step, (params, opt.init(params)), xs)

    return train, (params, normal(6, 5, 4))


@program("optax")
def optax_ctc_loss():
    import optax

    pad, short = np.zeros((2, 12), np.float32), np.zeros((2, 4), np.float32)
    f = jax.value_and_grad(lambda x, y: optax.ctc_loss(x, pad, y, short).sum())
    return f, (normal(2, 12, 7), 1 + labels(8, 6).reshape(2, 4))


# --------------------------------------------------------------------------------------- equinox


@program("equinox", "optax")
def equinox_training_step():
    import equinox as eqx
    import optax

    model = eqx.nn.MLP(4, 2, 16, 2, activation=jax.nn.swish, key=KEY(0))
    opt = optax.lion(1e-3)

    @eqx.filter_jit
    def step(model, state, x, y):
        def loss(model):
            return jnp.mean((jax.vmap(model)(x) - y) ** 2)

        value, gradient = eqx.filter_value_and_grad(loss)(model)
        updates, state = opt.update(gradient, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state, value

    return step, (model, opt.init(eqx.filter(model, eqx.is_array)), normal(8, 4), normal(8, 2))


@program("equinox")
def equinox_conv_net_with_state():
    import equinox as eqx

    class Net(eqx.Module):
        conv: eqx.nn.Conv2d
        norm: eqx.nn.BatchNorm

        def __init__(self, key):
            self.conv = eqx.nn.Conv2d(3, 6, 3, padding=1, key=key)
            self.norm = eqx.nn.BatchNorm(6, "batch", mode="batch")

        def __call__(self, x, state):
            y, state = self.norm(self.conv(x), state)
            return jax.nn.relu(y).mean((1, 2)), state

    net, state = eqx.nn.make_with_state(Net)(KEY(0))

    @eqx.filter_jit
    def forward(net, state, x):
        return jax.vmap(net, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, state)[0]

    return forward, (net, state, normal(4, 3, 8, 8))


@program("equinox")
def equinox_gru_scan():
    import equinox as eqx

    cell = eqx.nn.GRUCell(4, 6, key=KEY(0))

    def run(cell, xs):
        return lax.scan(lambda h, x: (cell(x, h), h), jnp.zeros(6), xs)

    return eqx.filter_jit(run), (cell, normal(9, 4))


@program("equinox")
def equinox_ensemble_with_filter_vmap():
    import equinox as eqx

    models = eqx.filter_vmap(lambda k: eqx.nn.MLP(3, 2, 8, 1, key=k))(jax.random.split(KEY(0), 5))
    evaluate = eqx.filter_vmap(lambda m, x: m(x), in_axes=(eqx.if_array(0), None))
    return eqx.filter_jit(evaluate), (models, normal(3))


@program("equinox")
def equinox_checkpointed_while_loop():
    import equinox.internal as eqxi

    def f(x):
        def body(c):
            return c[0] * 0.9 + jnp.sin(c[0]), c[1] + 1

        y, _ = eqxi.while_loop(lambda c: c[1] < 20, body, (x, 0), max_steps=32, kind="checkpointed")
        return y.sum()

    return jax.value_and_grad(f), (normal(5),)


# ---------------------------------------------------------------------------------------- haiku


@program("haiku", "optax")
def haiku_language_model_step():
    import haiku as hk
    import optax

    def forward(words):
        x = hk.Embed(30, 16)(words)
        attend = hk.MultiHeadAttention(2, 8, w_init=hk.initializers.VarianceScaling(1.0))
        x = hk.LayerNorm(-1, create_scale=True, create_offset=True)(x + attend(x, x, x))
        return hk.Linear(30)(hk.dropout(hk.next_rng_key(), 0.1, x))

    model, words = hk.transform(forward), labels(24, 30).reshape(2, 12)
    params = model.init(KEY(0), words)
    opt = optax.sgd(0.1, momentum=0.9, nesterov=True)

    def loss(params, key):
        scores = model.apply(params, key, words[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(scores, words[:, 1:]).mean()

    def step(params, state, key):
        value, gradient = jax.value_and_grad(loss)(params, key)
        updates, state = opt.update(gradient, state)
        return optax.apply_updates(params, updates), state, value

    return step, (params, opt.init(params), KEY(1))


@program("haiku")
def haiku_resnet_block_with_state():
    import haiku as hk

    def forward(x, is_training):
        net = hk.nets.ResNet([1, 1, 1, 1], 4, channels_per_group=[8, 8, 16, 16], bottleneck=False)
        return net(x, is_training)

    model, x = hk.transform_with_state(forward), normal(2, 16, 16, 3)
    params, state = model.init(KEY(0), x, True)
    return functools.partial(model.apply, is_training=True), (params, state, None, x)


@program("haiku")
def haiku_dynamic_unroll():
    import haiku as hk

    def forward(x):
        core = hk.VanillaRNN(8)
        return hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]), time_major=True)

    model, x = hk.without_apply_rng(hk.transform(forward)), normal(6, 3, 4)
    return jax.jit(model.apply), (model.init(KEY(0), x), x)


# -------------------------------------------------------------------------------------- diffrax


def _van_der_pol(t, y, mu):
    return jnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


@program("diffrax", tolerance=1e-3)  # as exact as its steps, which rounding moves
def diffrax_adaptive_ode():
    import diffrax

    def solve(y0, mu):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(_van_der_pol),
            diffrax.Tsit5(),
            0.0,
            3.0,
            0.01,
            y0,
            args=mu,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0, 3, 7)),
            stepsize_controller=diffrax.PIDController(1e-4, 1e-6),
        ).ys

    return jax.jit(solve), (np.array([1, 0], np.float32), np.float32(1.5))


@program("diffrax", x64=True)
def diffrax_stiff_implicit_ode_in_x64():
    import diffrax

    def robertson(t, y, k):
        f0 = -k[0] * y[0] + k[2] * y[1] * y[2]
        f2 = k[1] * y[1] ** 2
        return jnp.stack([f0, -f0 - f2, f2])

    def solve(k):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(robertson),
            diffrax.Kvaerno5(),
            0.0,
            10.0,
            2e-4,
            jnp.array([1.0, 0.0, 0.0]),
            args=k,
            stepsize_controller=diffrax.PIDController(1e-6, 1e-8),
        ).ys

    return solve, (np.array([0.04, 3e7, 1e4]),)


@program("diffrax", "equinox")
def diffrax_neural_ode_gradient():
    import diffrax
    import equinox as eqx

    field = eqx.nn.MLP(2, 2, 8, 1, activation=jax.nn.softplus, key=KEY(0))

    @eqx.filter_value_and_grad
    def loss(field, y0):
        made = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda _t, y, _: field(y)),
            diffrax.Heun(),
            0.0,
            1.0,
            0.1,
            y0,
            saveat=diffrax.SaveAt(t1=True),
        )
        return jnp.sum(made.ys**2)

    return eqx.filter_jit(loss), (field, normal(2))


@program("diffrax")
def diffrax_stochastic_equation():
    import diffrax

    def solve(key):
        noise = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(), key=key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda _t, y, _: -y), diffrax.ControlTerm(lambda t, _y, _: 0.1 * (t + 1), noise)
        )
        return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, 0.05, 1.0, saveat=diffrax.SaveAt(t1=True)).ys

    return jax.vmap(solve), (jax.random.split(KEY(0), 6),)


# ----------------------------------------------------------------------------- lineax, optimistix


@program("lineax")
def lineax_solvers():
    import lineax as lx

    def solve(a, b):
        dense = lx.MatrixLinearOperator(a)
        spd = lx.MatrixLinearOperator(a @ a.T + 4 * jnp.eye(5), lx.positive_semidefinite_tag)
        square = [lx.linear_solve(dense, b, s).value for s in (lx.LU(), lx.QR(), lx.SVD())]
        definite = [lx.linear_solve(spd, b, s).value for s in (lx.Cholesky(), lx.CG(1e-5, 1e-5))]
        tall = lx.linear_solve(lx.MatrixLinearOperator(a[:, :3]), b, lx.AutoLinearSolver(well_posed=False)).value
        return square, definite, tall

    return solve, (normal(5, 5) + 3 * np.eye(5, dtype=np.float32), normal(5))


@program("lineax", tolerance=1e-3)
def lineax_gmres_with_jacobian_operator_gradient():
    import lineax as lx

    def loss(y):
        op = lx.JacobianLinearOperator(lambda v, _: v + 0.1 * jnp.sin(v), y)
        return jnp.sum(lx.linear_solve(op, y, lx.GMRES(1e-5, 1e-5)).value ** 2)

    return jax.jit(jax.value_and_grad(loss)), (normal(6),)


@program("optimistix")
def optimistix_least_squares_and_root():
    import optimistix as optx

    x = np.linspace(0, 1, 20, dtype=np.float32)

    def solve(y):
        fit = optx.least_squares(
            lambda p, _: p[0] * jnp.exp(p[1] * x) - y, optx.LevenbergMarquardt(1e-5, 1e-5), jnp.array([1.0, 0.1])
        )
        root = optx.root_find(lambda v, _: jnp.cos(v) - v, optx.Newton(1e-6, 1e-6), fit.value[1])
        return fit.value, root.value

    return solve, (2 * np.exp(0.7 * x),)


# ------------------------------------------------------------------------- numpyro, blackjax


def _regression(x, y=None):
    import numpyro
    from numpyro import distributions as dist

    w = numpyro.sample("w", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(x @ w, s), obs=y)


@program("numpyro", x64=True)
def numpyro_nuts_steps():
    from numpyro.infer import NUTS

    x = normal(30, 3).astype(np.float64)
    y = x @ np.array([1.0, -2.0, 0.5])
    kernel = NUTS(_regression)
    state = kernel.init(KEY(0), 5, None, (x, y), {})

    def steps(state):
        return lax.fori_loop(0, 6, lambda _, s: kernel.sample(s, (x, y), {}), state).z

    return steps, (state,)


@program("numpyro")
def numpyro_variational_step():
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoMultivariateNormal
    from numpyro.optim import Adam

    x, y = normal(20, 2), normal(20, seed=2)
    svi = SVI(_regression, AutoMultivariateNormal(_regression), Adam(1e-2), Trace_ELBO(3))
    return lambda state: svi.update(state, x, y), (svi.init(KEY(0), x, y),)


@program("numpyro")
def numpyro_predictive_and_distributions():
    from numpyro import distributions as dist
    from numpyro.infer import Predictive

    x = normal(4, 2)

    def draw(key):
        d = dist.MixtureSameFamily(dist.Categorical(jnp.array([0.3, 0.7])), dist.Beta(jnp.array([1.0, 2.0]), 3.0))
        sample = d.sample(key, (5,))
        others = [dist.Poisson(4.0), dist.Dirichlet(jnp.ones(3)), dist.LKJCholesky(3), dist.StudentT(3.0)]
        return Predictive(_regression, num_samples=3)(key, x), d.log_prob(sample), [o.sample(key, (2,)) for o in others]

    return draw, (KEY(3),)


def _log_density(x):
    return -0.5 * jnp.sum((x - jnp.arange(3.0)) ** 2 / jnp.array([1.0, 2.0, 0.5]))


@program("blackjax", x64=True)
def blackjax_nuts_chains():
    import blackjax

    nuts = blackjax.nuts(_log_density, 0.5, jnp.ones(3))

    def run(key, position):
        step = lambda s, k: nuts.step(k, s)  # noqa: E731
        return lax.scan(step, nuts.init(position), jax.random.split(key, 8))[0].position

    return jax.jit(jax.vmap(run)), (jax.random.split(KEY(0), 4), normal(4, 3).astype(np.float64))


@program("blackjax")
def blackjax_random_walk_and_hmc():
    import blackjax

    hmc = blackjax.hmc(_log_density, 0.1, jnp.ones(3), 5)
    walk = blackjax.normal_random_walk(_log_density, 0.3 * jnp.eye(3))

    def run(key, x):
        def step(c, k):
            return (hmc.step(k, c[0])[0], walk.step(k, c[1])[0]), (c[0].position, c[1].position)

        return lax.scan(step, (hmc.init(x), walk.init(x)), jax.random.split(key, 10))[1]

    return run, (KEY(1), normal(3))


# ------------------------------------------------------------------- jraph, penzai, distrax, jaxopt


@program("jraph", "haiku")
def jraph_graph_network_step():
    import haiku as hk
    import jraph

    graph = jraph.GraphsTuple(
        nodes=normal(7, 4),
        edges=normal(9, 3),
        senders=labels(9, 7),
        receivers=labels(9, 7)[::-1].copy(),
        n_node=np.array([3, 4]),
        n_edge=np.array([4, 5]),
        globals=normal(2, 2),
    )

    def forward(graph):
        update = jraph.concatenated_args(lambda x: jax.nn.relu(hk.Linear(5)(x)))
        return jraph.GraphNetwork(update, update, update)(graph)

    model = hk.without_apply_rng(hk.transform(forward))
    params = model.init(KEY(0), graph)
    return jax.value_and_grad(lambda p, g: jnp.sum(model.apply(p, g).globals ** 2)), (params, graph)


@program("jraph")
def jraph_attention_and_segment_ops():
    import jraph

    senders, receivers = labels(12, 5), np.sort(labels(12, 5))

    def f(x, w):
        scores = jraph.segment_softmax((x[senders] * w).sum(1), receivers, 5)
        y = jraph.segment_sum(scores[:, None] * x[senders], receivers, 5)
        return y, jraph.segment_max(x[senders], receivers, 5), jraph.segment_variance(x[senders], receivers, 5)

    return f, (normal(5, 3), normal(3))


@program("penzai")
def penzai_model_with_named_axes():
    from penzai import pz

    layer = pz.nn.Affine.from_config("layer", KEY(0), input_axes={"in": 4}, output_axes={"out": 3})
    model, parameters = pz.unbind_params(layer)

    def loss(parameters, x):
        named = pz.nx.wrap(x, "batch", "in")
        return pz.bind_variables(model, parameters)(named).unwrap("batch", "out").sum()

    frozen = [p.freeze() for p in parameters]
    return jax.value_and_grad(loss), (frozen, normal(2, 4))


@program("distrax", tolerance=1e-3)
def distrax_normalizing_flow():
    import distrax

    def log_density(shift, x):
        base = distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2))
        flow = distrax.Chain(
            [distrax.Block(distrax.ScalarAffine(shift, jnp.array([1.5, 0.5])), 1), distrax.Block(distrax.Tanh(), 1)]
        )
        made = distrax.Transformed(base, flow)
        return made.log_prob(x).sum(), made.sample(seed=jax.random.PRNGKey(0), sample_shape=(3,))

    return jax.value_and_grad(log_density, has_aux=True), (normal(2), 0.1 * normal(4, 2))


@program("jaxopt", tolerance=1e-3)
def jaxopt_implicit_differentiation():
    import jaxopt

    x, y = normal(12, 3), normal(12, seed=3)

    def outer(penalty):
        def inner(w, penalty):
            return jnp.mean((x @ w - y) ** 2) + penalty * jnp.sum(w**2)

        return jnp.sum(jaxopt.LBFGS(inner, maxiter=30).run(jnp.zeros(3), penalty).params ** 2)

    return jax.value_and_grad(outer), (np.float32(0.3),)


# ------------------------------------------------------------------------------------ JAX alone


@program()
def custom_rules_and_checkpoint():
    @jax.custom_vjp
    def clip_gradient(x):
        return x

    clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.1, 0.1),))

    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log(1 + jnp.exp(x))

    log1pexp.defjvp(lambda p, t: (log1pexp(*p), t[0] * jax.nn.sigmoid(p[0])))

    @functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
    def layer(x, w):
        return log1pexp(clip_gradient(x @ w))

    return jax.hessian(lambda x, w: layer(layer(x, w), w).sum()), (normal(3), normal(3, 3))


@program()
def static_arguments_and_lax_map():
    @functools.partial(jax.jit, static_argnums=2, static_argnames="mode")
    def f(x, y, times, *, mode="edge"):
        return lax.map(lambda v: jnp.pad(v, times, mode=mode) * y, x, batch_size=2), [y] * times

    return f, (normal(5, 3), np.float32(2.0), 2)


NUMBERS = (jax.Array, np.ndarray, np.generic, complex, float, int)


def _leaf(x: Any) -> Any:
    made = jax.random.key_data(x) if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
    return np.asarray(made)


def assert_agree(got: Any, want: Any, tolerance: float) -> None:
    """Fail unless the results have the same structure and equal arrays and numbers."""
    named, wanted = jax.tree_util.tree_leaves_with_path(got), jax.tree_util.tree_leaves_with_path(want)
    assert [jax.tree_util.keystr(p) for p, _ in named] == [jax.tree_util.keystr(p) for p, _ in wanted]
    pairs = [(_leaf(a), _leaf(b)) for (_, a), (_, b) in zip(named, wanted, strict=True) if isinstance(b, NUMBERS)]
    # a gradient that is zero but for rounding is as exact as those beside it
    finite = [np.abs(b[np.isfinite(b)]) for _, b in pairs if b.dtype.kind not in "iub"]
    scale = max([float(np.max(b)) for b in finite if b.size], default=0.0)
    for a, b in pairs:
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        wide = np.complex128
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=0.1 * tolerance * min(scale, 1))


def by_jax(function: Any, args: tuple[Any, ...]) -> Any:
    """Return the function's results compiled by JAX; compiled or wrapped functions are called
    directly.
    """
    plain = type(function).__name__ in {"function", "partial"} and not hasattr(
        getattr(function, "func", function), "lower"
    )
    return (jax.jit(function) if plain else function)(*args)


def difference(name: str) -> str:
    """Return the difference between the two backends, or ""."""
    found: list[Any] = []
    case = PROGRAMS[name]
    for platform in ("xlanb", "cpu"):
        with jax.default_device(jax.devices(platform)[0]), case.precision():
            found.append(by_jax(*case.build()))
    try:
        assert_agree(*found, case.tolerance)
    except AssertionError as error:
        return str(error) or repr(error)
    return ""


def main() -> None:
    import xlanb.pjrt

    xlanb.pjrt.initialize()
    assert jax.devices()[0].platform == "xlanb"
    for name in sys.argv[1:] or PROGRAMS:
        try:
            told = difference(name)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test says it
            told = f"{type(error).__name__}: {error}"
        sys.stdout.write(json.dumps([name, told]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
