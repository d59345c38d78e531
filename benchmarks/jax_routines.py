"""What JAX calls library routines for, and loops around small programs.

Eigenvalues, Schur forms, matrix square roots, roots of polynomials, random bits, a
`shard_map` on one device and Lennard-Jones loops: on the backend xlanb, by `xlanb.jit`, and
on JAX's CPU backend, which calls the same LAPACK. XLANB_ROUTINES names the rows to measure,
as a regular expression.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._beside import Program, beside_cpu

_TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}


def _matrix(n: int, kind: str) -> Any:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if kind[0] == "c" else 0)
    return x.astype(_TYPES[kind])


def eig(n: int, kind: str) -> Program:
    """Eigenvalues and right eigenvectors."""
    import jax.numpy as jnp

    return jnp.linalg.eig, (_matrix(n, kind),)


def eigvals(n: int, kind: str) -> Program:
    """Eigenvalues alone."""
    import jax.numpy as jnp

    return jnp.linalg.eigvals, (_matrix(n, kind),)


def schur(n: int, kind: str) -> Program:
    """The Schur form and its vectors."""
    import jax.scipy.linalg as jsl

    return jsl.schur, (_matrix(n, kind),)


def sqrtm(n: int, kind: str) -> Program:
    """The principal square root of a positive definite matrix."""
    import jax.scipy.linalg as jsl

    x = _matrix(n, kind)
    return jsl.sqrtm, ((x @ x.conj().T + n * np.eye(n)).astype(x.dtype),)


def hessenberg(n: int, kind: str) -> Program:
    """The Hessenberg form."""
    import jax.scipy.linalg as jsl

    return jsl.hessenberg, (_matrix(n, kind),)


def roots(degree: int, kind: str) -> Program:
    """The roots of a polynomial, by the eigenvalues of its companion matrix."""
    import jax.numpy as jnp

    p = np.random.default_rng(0).standard_normal(degree + 1).astype(_TYPES[kind])
    return partial(jnp.roots, strip_zeros=False), (p,)


def rbg_uniform(shape: tuple[int, ...], kind: str) -> Program:
    """Uniform numbers of an rbg key."""
    import jax

    def draw(data: Any) -> Any:
        key = jax.random.wrap_key_data(data, impl="rbg")
        return jax.random.uniform(key, shape, _TYPES[kind])

    return draw, (np.arange(4, dtype=np.uint32),)


def rbg_split(count: int, kind: str) -> Program:
    """Keys split from an rbg key, and a number of each."""
    import jax

    def draw(data: Any) -> Any:
        keys = jax.random.split(jax.random.wrap_key_data(data, impl="rbg"), count)
        return jax.vmap(lambda k: jax.random.normal(k, (8,), _TYPES[kind]))(keys)

    return draw, (np.arange(4, dtype=np.uint32),)


def orthogonal(n: int, kind: str, impl: str = "threefry2x32") -> Program:
    """A random orthogonal matrix: a QR decomposition of normal numbers."""
    import jax

    def draw(data: Any) -> Any:
        key = jax.random.wrap_key_data(data, impl=impl)
        return jax.random.orthogonal(key, n, dtype=_TYPES[kind])

    return draw, (np.arange(4 if impl == "rbg" else 2, dtype=np.uint32),)


def sharded(n: int, kind: str) -> Program:
    """A shard_map with a psum over one device."""
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import PartitionSpec

    mesh = jax.sharding.Mesh(np.array([jnp.zeros(()).device]), ("i",))
    body = partial(jax.shard_map, mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec())
    return body(lambda y: lax.psum(jnp.tanh(y) @ y.T, "i")), (_matrix(n, kind),)


def _pair_energy(squared: Any) -> Any:
    """Lennard-Jones of squared distances, cut off smoothly between 2 and 2.5; 0 at distance 0."""
    import jax.numpy as jnp

    r2 = jnp.where(squared > 0, squared, 1.0)
    inverse = (1.0 / r2) ** 3
    inner, outer = 2.0**2, 2.5**2
    smooth = (outer - r2) ** 2 * (outer + 2 * r2 - 3 * inner) / (outer - inner) ** 3
    cutoff = jnp.where(r2 < inner, 1.0, jnp.where(r2 < outer, smooth, 0.0))
    return jnp.where(squared > 0, 4.0 * (inverse * inverse - inverse) * cutoff, 0.0)


def _positions(n: int, dims: int, kind: str) -> tuple[Any, float]:
    """Return particles on a slightly perturbed grid, and the side of their box."""
    side = math.ceil(n ** (1 / dims))
    grid = np.stack(np.meshgrid(*[np.arange(side)] * dims), -1).reshape(-1, dims)[:n]
    moved = 1.2 * grid + 0.05 * np.random.default_rng(0).standard_normal((n, dims))
    return moved.astype(_TYPES[kind]), 1.2 * side


def _simulation(energy: Callable[[Any], Any], box: float, steps: int) -> Callable[..., Any]:
    """Velocity Verlet in a periodic box."""
    import jax
    from jax import lax

    force, dt = jax.grad(lambda r: -energy(r)), 2e-3

    def step(_: Any, state: Any) -> Any:
        r, v, f = state
        r = (r + dt * v + 0.5 * dt**2 * f) % box
        new = force(r)
        return r, v + 0.5 * dt * (f + new), new

    return lambda r: lax.fori_loop(0, steps, step, (r, 0 * r, force(r)))


def all_pairs(n: int, dims: int, kind: str, steps: int) -> Program:
    """A Lennard-Jones simulation over all pairs of particles."""
    import jax.numpy as jnp

    r, box = _positions(n, dims, kind)

    def energy(r: Any) -> Any:
        d = (r[:, None] - r[None] + box / 2) % box - box / 2
        return 0.5 * jnp.sum(_pair_energy(jnp.sum(d * d, -1)))

    return _simulation(energy, box, steps), (r,)


def neighbour_list(n: int, dims: int, kind: str, steps: int) -> Program:
    """A Lennard-Jones simulation over the neighbours of each particle; n marks no neighbour."""
    import jax.numpy as jnp

    r, box = _positions(n, dims, kind)
    d = (r[:, None] - r[None] + box / 2) % box - box / 2
    near = (d * d).sum(-1) + 100.0 * np.eye(n) < 2.8**2
    width = int(near.sum(1).max())
    neighbours = np.full((n, width), n, np.int32)
    for row, found in zip(neighbours, near, strict=True):
        row[: found.sum()] = np.flatnonzero(found)

    def energy(r: Any) -> Any:
        d = (r[:, None] - r[neighbours] + box / 2) % box - box / 2
        pairs = _pair_energy(jnp.sum(d * d, -1))
        return 0.5 * jnp.sum(jnp.where(neighbours < n, pairs, 0.0))

    return _simulation(energy, box, steps), (r,)


def _programs() -> dict[str, tuple[Callable[[], Program], bool]]:
    rows: dict[str, Callable[[], Program]] = {}
    for kind in _TYPES:
        for make in (eig, schur, sqrtm):
            rows |= {f"{make.__name__} {kind} {n}": partial(make, n, kind) for n in (8, 16, 64, 128)}
        for make in (eigvals, hessenberg):
            rows |= {f"{make.__name__} {kind} {n}": partial(make, n, kind) for n in (8, 64)}
    for kind in ("f32", "f64"):
        rows |= {f"roots {kind} {n}": partial(roots, n, kind) for n in (3, 5, 10, 20, 50)}
    for n in (16, 1000, 1_000_000):
        rows[f"rbg uniform {n}"] = partial(rbg_uniform, (n,), "f32")
    for n in (10, 1000):
        rows[f"rbg split {n}"] = partial(rbg_split, n, "f32")
    for n in (4, 16, 64, 128):
        rows[f"orthogonal {n}"] = partial(orthogonal, n, "f32")
        rows[f"orthogonal rbg {n}"] = partial(orthogonal, n, "f32", "rbg")
    rows |= {f"shard_map {n}": partial(sharded, n, "f32") for n in (4, 64, 256)}
    for kind in ("f32", "f64"):
        for n, dims in ((64, 2), (500, 2), (256, 3)):
            rows[f"all pairs {n} in {dims}D {kind}"] = partial(all_pairs, n, dims, kind, 50)
            rows[f"neighbour list {n} in {dims}D {kind}"] = partial(neighbour_list, n, dims, kind, 50)
    return {name: (make, name.split()[1] in ("f64", "c128") or name.endswith("f64")) for name, make in rows.items()}


def table() -> pd.DataFrame:
    """A row per program, and the geometric means."""
    wanted = re.compile(os.environ.get("XLANB_ROUTINES", ""))
    return beside_cpu({name: row for name, row in _programs().items() if wanted.search(name)})
