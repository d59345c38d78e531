"""Programs from JAX's public issues that were slow on XLA:CPU, rewritten from their descriptions.

They run on the backend xlanb, by xlanb.jit, and on JAX's CPU backend, in one process, alternately;
figures are medians of wall time and of processor time. `plugin` and `jit` are the CPU backend's
time by ours: above 1 xlanb is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._beside import Program, beside_cpu


def quasiseparable_scan() -> Program:
    """jax#36799: Cholesky factorization by a scan of 2000 iterations with a 3 x 3 matrix of f64 as
    carry.
    """
    import jax.numpy as jnp
    from jax import lax

    def factor(p: Any, q: Any, a: Any, d: Any) -> Any:
        def step(f: Any, row: Any) -> Any:
            pk, qk, ak, dk = row
            fp = f @ pk
            c = jnp.sqrt(dk - pk @ fp)
            w = (qk - fp @ ak) / c
            return ak @ f @ ak.T + jnp.outer(w, w), (c, w)

        return lax.scan(step, jnp.zeros((3, 3), p.dtype), (p, q, a, d))[1]

    rng, n = np.random.default_rng(0), 2000
    p, q = 0.1 * rng.standard_normal((2, n, 3))
    a = np.tile(0.5 * np.eye(3), (n, 1, 1)) + 0.01 * rng.standard_normal((n, 3, 3))
    return factor, (p, q, a, np.full(n, 4.0))


def neighbour_differences() -> Program:
    """jax#37465: the sum of squared differences between neighbours of a volume, along each axis."""
    import jax.numpy as jnp

    def cost(x: Any) -> Any:
        return sum(jnp.sum(jnp.square(jnp.diff(x, axis=d))) for d in range(x.ndim))

    return cost, (np.random.default_rng(0).standard_normal((256, 256, 256), np.float32),)


def gradient_of_neighbour_differences() -> Program:
    """jax#37465: its gradient."""
    import jax

    cost, given = neighbour_differences()
    return jax.grad(cost), given


def gradient_of_many_leaves() -> Program:
    """jax#40150: the gradient of a scan of 614 iterations with 60 separate numbers as carry."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def loss(rates: Any, drive: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            around = zip(state, (*state[1:], state[0]), strict=True)
            new = tuple(s + 0.01 * (jnp.tanh(o - s) * rates[k] + x) for k, (s, o) in enumerate(around))
            return new, new[0]

        return jnp.sum(lax.scan(step, tuple(jnp.float32(k / 60) for k in range(60)), drive)[1] ** 2)

    return jax.grad(loss), (np.linspace(0, 1, 60, dtype=np.float32), np.ones(614, np.float32))


def mass_matrix() -> Program:
    """jax#26021: the mass matrix of a chain of 35 joints in f64, with sequential transforms."""
    import jax
    import jax.numpy as jnp

    count = 35

    def matrix(angles: Any) -> Any:
        frame, frames = jnp.eye(4, dtype=angles.dtype), []
        for k in range(count):
            c, s = jnp.cos(angles[k]), jnp.sin(angles[k])
            turn = jnp.array([[c, -s, 0, 0.1], [s, c, 0, 0], [0, 0, 1, 0.05], [0, 0, 0, 1]])
            frame = frame @ turn
            frames.append(frame)
        world = jnp.stack(frames)
        origins, axes = world[:, :3, 3], world[:, :3, 2]
        arms = jax.vmap(lambda center: jnp.cross(axes, center - origins))(origins + 0.1 * axes)
        arms = jnp.where(jnp.tril(jnp.ones((count, count), bool))[:, :, None], arms, 0.0)
        return jnp.einsum("kia,kja->ij", arms, arms) + axes @ axes.T

    return matrix, (np.linspace(-1, 1, count),)


def cable() -> Program:
    """jax#26145: 1000 steps of a nerve cell with 8 compartments and Hodgkin-Huxley channels, in
    f64.
    """
    import jax.numpy as jnp
    from jax import lax

    def gate(x: Any, v: Any, v0: float, slope: float) -> Any:
        opens, closes = 1 / (1 + jnp.exp(-(v - v0) / slope)), jnp.exp(-(v - v0) / 40)
        return x + 0.025 * (opens * (1 - x) - 0.5 * closes * x)

    def run(v: Any, current: Any) -> Any:
        def step(state: Any, i: Any) -> Any:
            v, m, h, n = state
            m, h, n = gate(m, v, -40.0, 9.0), gate(h, v, -62.0, -7.0), gate(n, v, -53.0, 15.0)
            flow = 120 * m**3 * h * (v - 50) + 36 * n**4 * (v + 77) + 0.3 * (v + 54)
            spread = jnp.roll(v, 1) + jnp.roll(v, -1) - 2 * v
            v = v + 0.025 * (i - flow + spread)
            return (v, m, h, n), v[0]

        start = jnp.full_like(v, 0.1)
        return lax.scan(step, (v, start, start, start), current)[1]

    return run, (np.full(8, -65.0), np.full(1000, 5.0))


PROGRAMS: dict[str, tuple[Callable[[], Program], bool]] = {
    "36799 quasiseparable scan, f64": (quasiseparable_scan, True),
    "37465 neighbour differences": (neighbour_differences, False),
    "37465 their gradient": (gradient_of_neighbour_differences, False),
    "40150 gradient of 60 leaves": (gradient_of_many_leaves, False),
    "26021 mass matrix, f64": (mass_matrix, True),
    "26145 nerve cell, f64": (cable, True),
}
"""Each program, and whether it takes 64-bit types."""


def table() -> pd.DataFrame:
    """A row per program, and the geometric means."""
    return beside_cpu(PROGRAMS)
