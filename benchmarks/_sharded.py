"""Sharded JAX programs for measurements: typical layers, collectives and array manipulations.

Each program is a function of a size (the factor of its largest dimension) and returns a `Sharded`;
its function takes the mesh, so that the same program can be made for one device and for many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Spec = tuple[Any, ...]
_ROWS: Final = {"x": 8}
_TWO: Final = {"data": 4, "model": 2}


@dataclass(frozen=True)
class Sharded:
    """A program: its mesh axes, a function of mesh and arrays, and each array with its dimensions'
    axes.
    """

    axes: dict[str, int]
    function: Callable[..., Any]
    arguments: tuple[tuple[Any, Spec], ...]

    def mesh(self, devices: list[Any]) -> Mesh:
        """The mesh over so many devices; over one, each axis has one."""
        sizes = tuple(self.axes.values()) if len(devices) > 1 else (1,) * len(self.axes)
        automatic = (jax.sharding.AxisType.Auto,) * len(sizes)
        return jax.make_mesh(sizes, tuple(self.axes), devices=devices, axis_types=automatic)

    def jitted(self, mesh: Mesh) -> tuple[Any, list[Any]]:
        """The function as `jax.jit` takes it, and its arguments on the mesh's devices."""
        shardings = tuple(NamedSharding(mesh, PartitionSpec(*spec)) for _, spec in self.arguments)
        function = jax.jit(partial(self.function, mesh), in_shardings=shardings)
        return function, [jax.device_put(a, s) for (a, _), s in zip(self.arguments, shardings, strict=True)]


PROGRAMS: Final[dict[str, Callable[[int], Sharded]]] = {}


def _program(make: Callable[[int], Sharded]) -> Callable[[int], Sharded]:
    PROGRAMS[make.__name__.replace("_", " ")] = make
    return make


def _floats(*dims: int) -> Any:
    return (np.random.default_rng(len(dims)).standard_normal(dims) * 0.3).astype(np.float32)


def _kept(mesh: Mesh, x: Any, *spec: Any) -> Any:
    return lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(*spec)))


@_program
def dense_layer_by_batch(n: int) -> Sharded:
    """A layer with a sharded batch."""
    x, w = _floats(64 * n, 32), _floats(32, 32)
    return Sharded(_TWO, lambda _, x, w: jnp.tanh(x @ w), ((x, ("data",)), (w, ())))


@_program
def mlp_by_hidden_units(n: int) -> Sharded:
    """Two layers; their weights are spread along the hidden units."""
    x, up, down = _floats(32 * n, 64), _floats(64, 128), _floats(128, 64)
    arguments = ((x, ("data",)), (up, (None, "model")), (down, ("model",)))
    return Sharded(_TWO, lambda _, x, up, down: jax.nn.gelu(x @ up) @ down, arguments)


@_program
def training_step(n: int) -> Sharded:
    """Gradients of two layers and a step against them."""

    def step(_: Mesh, x: Any, y: Any, up: Any, down: Any) -> Any:
        def loss(up: Any, down: Any) -> Any:
            return jnp.mean((jax.nn.relu(x @ up) @ down - y) ** 2)

        value, (a, b) = jax.value_and_grad(loss, (0, 1))(up, down)
        return value, up - 0.01 * a, down - 0.01 * b

    arguments = (
        (_floats(32 * n, 64), ("data",)),
        (_floats(32 * n, 16), ("data",)),
        (_floats(64, 128), (None, "model")),
        (_floats(128, 16), ("model",)),
    )
    return Sharded(_TWO, step, arguments)


@_program
def weights_gathered_for_use(n: int) -> Sharded:
    """Batch and weights are sharded over one axis: each layer's weights are gathered before it."""
    arguments = ((_floats(64 * n, 64), ("x",)), (_floats(64, 64), ("x",)), (_floats(64, 32), ("x",)))
    return Sharded(_ROWS, lambda _, x, a, b: jax.nn.relu(x @ a) @ b, arguments)


@_program
def attention_by_heads(n: int) -> Sharded:
    """Causal attention; batch and heads are spread."""

    def attend(_: Mesh, q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)

    spread = ("data", None, "model")
    return Sharded(_TWO, attend, tuple((_floats(4 * n, 32, 4, 16), spread) for _ in range(3)))


@_program
def layer_norm_by_sequence(n: int) -> Sharded:
    """Normalized rows."""

    def normalize(_: Mesh, x: Any, scale: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale

    return Sharded(_ROWS, normalize, ((_floats(64 * n, 64), ("x",)), (_floats(64), ())))


@_program
def embedding_by_rows(n: int) -> Sharded:
    """A gather from a table sharded by rows."""
    ids = np.random.default_rng(0).integers(0, 128 * n, (16, 16)).astype(np.int32)
    return Sharded(_TWO, lambda _, t, i: t[i], ((_floats(128 * n, 32), ("model",)), (ids, ("data",))))


@_program
def loss_by_vocabulary(n: int) -> Sharded:
    """Cross entropy; the words are spread."""

    def loss(_: Mesh, h: Any, w: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(h @ w), labels[:, None], 1).mean()

    labels = np.random.default_rng(0).integers(0, 64 * n, 32).astype(np.int32)
    arguments = ((_floats(32, 32), ("data",)), (_floats(32, 64 * n), (None, "model")), (labels, ("data",)))
    return Sharded(_TWO, loss, arguments)


@_program
def product_in_two_dimensions(n: int) -> Sharded:
    """A product of matrices, both spread along both dimensions."""
    spread = ("data", "model")
    size = 32 * max(1, int(n**0.5))
    return Sharded(_TWO, lambda _, a, b: a @ b, ((_floats(size, size), spread), (_floats(size, size), spread)))


@_program
def product_with_the_transpose(n: int) -> Sharded:
    """x.T @ x of a tall x: a sum over the devices."""
    return Sharded(_ROWS, lambda m, x: _kept(m, x.T @ x, "x"), ((_floats(64 * n, 32), ("x",)),))


@_program
def batch_to_sequence(n: int) -> Sharded:
    """Spread along another dimension: an all-to-all."""
    return Sharded(_ROWS, lambda m, x: _kept(m, x, None, "x") * 2, ((_floats(8, 64 * n, 8), ("x",)),))


@_program
def convolution_by_rows(n: int) -> Sharded:
    """A convolution that needs rows of the neighbours."""

    def convolve(_: Mesh, x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    return Sharded(_ROWS, convolve, ((_floats(1, 64 * n, 32, 4), (None, "x")), (_floats(3, 3, 4, 8), ())))


@_program
def uneven_rows(n: int) -> Sharded:
    """Rows that eight devices cannot share equally."""
    return Sharded(_ROWS, lambda m, x: _kept(m, jnp.exp(x), "x").sum(0), ((_floats(60 * n + 3, 16), ()),))


@_program
def prefix_sum(n: int) -> Sharded:
    """Each element the sum of those before."""
    return Sharded(_ROWS, lambda _, x: jnp.cumsum(x), ((_floats(256 * n), ("x",)),))


@_program
def scan_with_spread_carry(n: int) -> Sharded:
    """Eight iterations of a recurrent layer."""

    def run(_: Mesh, x: Any, w: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ w), c.sum()), x, None, length=8)

    return Sharded(_TWO, run, ((_floats(16 * n, 32), ("data",)), (_floats(32, 32), (None, "model"))))


@_program
def concatenation_and_slice(n: int) -> Sharded:
    """Every second row of two arrays one behind the other."""
    rows = 64 * n
    return Sharded(
        _ROWS,
        lambda _, x: jnp.concatenate([x, x * 2])[rows // 8 : rows * 3 // 2 : 2],
        ((_floats(rows, 16), ("x",)),),
    )


@_program
def shard_map_with_psum(n: int) -> Sharded:
    """Explicit collectives."""

    def run(mesh: Mesh, x: Any, w: Any) -> Any:
        def local(x: Any, w: Any) -> Any:
            return lax.psum(x.sum(0) @ lax.all_gather(w, "x", tiled=True), "x")

        spread = PartitionSpec("x")
        return jax.shard_map(local, mesh=mesh, in_specs=(spread, spread), out_specs=PartitionSpec())(x, w)

    return Sharded(_ROWS, run, ((_floats(64 * n, 32), ("x",)), (_floats(32, 16), ("x",))))


@_program
def ring(n: int) -> Sharded:
    """Each device sends its rows to the next, around the ring."""

    def run(mesh: Mesh, x: Any) -> Any:
        size = mesh.shape["x"]
        pairs = [(k, (k + 1) % size) for k in range(size)]

        def local(x: Any) -> Any:
            total = x
            for _ in range(7):
                x = lax.ppermute(x, "x", pairs)
                total = total + x * x
            return total

        return jax.shard_map(local, mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec("x"))(x)

    return Sharded(_ROWS, run, ((_floats(64 * n, 16), ("x",)),))


@_program
def sort_and_argmax(n: int) -> Sharded:
    """Rows sorted along a spread dimension, and where each column is largest."""
    spread = ("data", "model")
    return Sharded(_TWO, lambda _, x: (jnp.sort(x, 1), jnp.argmax(x, 0)), ((_floats(64 * n, 16), spread),))


@_program
def dimensions_split_and_merged(n: int) -> Sharded:
    """Dimensions that are merged and split otherwise."""

    def run(mesh: Mesh, x: Any) -> Any:
        return _kept(mesh, x.reshape(-1, 128).reshape(4, -1, 128), None, "data", "model") + 1

    return Sharded(_TWO, run, ((_floats(32 * n, 16, 8), ("data", None, "model")),))
