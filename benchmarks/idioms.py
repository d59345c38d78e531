"""What users write in a line or two of JAX, against XLA:CPU: a hundred small programs.

Stencils, scans, sorts, gathers, scatters, layers, reductions, moves, functions, integers, Fourier
transforms, tiny products, loops, decoding, images, short rows, gradients; in one process, in turns,
by the tenth percentile of their times. A ratio below 1 is a defect: a decision about threads,
vectors or memory that is wrong for one form. XLANB_IDIOMS names the rows to measure, as a regular
expression; XLANB_IDIOMS_TYPE is f32, f64 or bf16.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd

_SECONDS = 0.25
_ROUNDS = 7
_TYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}
_RNG = np.random.default_rng(0)

Programs = Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]]
"""Functions of JAX arrays, and their arguments, by name."""


def _float(*shape: int) -> np.ndarray:
    """Numbers of either sign."""
    return _RNG.standard_normal(shape).astype(_TYPES[os.environ.get("XLANB_IDIOMS_TYPE", "f32")])


def _between(*shape: int) -> np.ndarray:
    """Numbers between 0 and 1."""
    return abs(_float(*shape)) % 1


def _below(limit: int, *shape: int) -> np.ndarray:
    """Integers below a limit."""
    return _RNG.integers(0, limit, shape).astype(np.int32)


def stencils() -> Programs:
    """Neighbours on a grid, once and in loops."""
    import jax.numpy as jnp
    from jax import lax

    def around(x: Any) -> Any:
        return sum(jnp.roll(x, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)

    def laplacian(u: Any) -> Any:
        return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]

    def live(i: Any, grid: Any) -> Any:
        n = around(grid)
        return ((n == 3) | ((grid == 1) & (n == 2))).astype(grid.dtype)

    def wave(i: Any, state: Any) -> Any:
        before, now = state
        return now, 2 * now - before + 0.1 * (jnp.roll(now, 1) + jnp.roll(now, -1) - 2 * now)

    return {
        "mean of neighbours": (lambda x: around(x) / 8, (_float(256, 256),)),
        "laplacian": (laplacian, (_float(512, 512),)),
        "heat, 100 steps": (
            lambda x: lax.fori_loop(0, 100, lambda _, u: u.at[1:-1, 1:-1].add(0.1 * laplacian(u)), x),  # noqa: PD008 - an array of JAX
            (_float(128, 128),),
        ),
        "life, 50 steps": (lambda x: lax.fori_loop(0, 50, live, x), (_below(2, 64, 64),)),
        "wave, 100 steps": (lambda a, b: lax.fori_loop(0, 100, wave, (a, b)), (_float(4096), _float(4096))),
        "wave, 100 long steps": (lambda a, b: lax.fori_loop(0, 100, wave, (a, b)), (_float(65536), _float(65536))),
    }


def scans() -> Programs:
    """Prefix sums and recurrences."""
    import jax.numpy as jnp
    from jax import lax, nn

    def gru(x: Any, w: Any, u: Any, h: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            z, r = nn.sigmoid(x @ w[0] + h @ u[0]), nn.sigmoid(x @ w[1] + h @ u[1])
            made = (1 - z) * jnp.tanh(x @ w[2] + (r * h) @ u[2]) + z * h
            return made, made

        return lax.scan(step, h, x)[0]

    def linear(a: Any, b: Any) -> Any:
        return lax.associative_scan(lambda s, t: (s[0] * t[0], s[1] * t[0] + t[1]), (a, b), axis=1)

    def viterbi(t: Any, o: Any) -> Any:
        def step(s: Any, e: Any) -> Any:
            c = s[:, None] + t
            return c.max(0) + e, c.argmax(0)

        return lax.scan(step, o[0], o[1:])

    return {
        "cumsum along rows": (lambda x: jnp.cumsum(x, 1), (_float(256, 1024),)),
        "cumsum down columns": (lambda x: jnp.cumsum(x, 0), (_float(1024, 256),)),
        "cummax": (lambda x: lax.cummax(x, 1), (_float(256, 1024),)),
        "associative scan": (linear, (_between(16, 512, 32), _float(16, 512, 32))),
        "GRU": (gru, (_float(50, 16, 64), _float(3, 64, 64), _float(3, 64, 64), _float(16, 64))),
        "Viterbi": (viterbi, (_float(32, 32), _float(200, 32))),
    }


def orders() -> Programs:
    """Sorting, searching, counting."""
    import jax.numpy as jnp
    from jax import lax

    return {
        "sort": (jnp.sort, (_float(100_000),)),
        "sort rows": (lambda x: jnp.sort(x, -1), (_float(256, 512),)),
        "sort columns": (lambda x: jnp.sort(x, 0), (_float(512, 256),)),
        "argsort": (jnp.argsort, (_float(65536),)),
        "top 8": (lambda x: lax.top_k(x, 8), (_float(256, 4096),)),
        "median": (lambda x: jnp.median(x, 1), (_float(128, 1001),)),
        "searchsorted": (jnp.searchsorted, (np.sort(_float(4096)), _float(10_000))),
        "bincount": (lambda x: jnp.bincount(x, length=1000), (_below(1000, 100_000),)),
    }


def gathers() -> Programs:
    """Indexed reads and writes."""
    import jax
    import jax.numpy as jnp

    def messages(x: Any, senders: Any, receivers: Any, w: Any) -> Any:
        return jax.nn.relu(jax.ops.segment_sum((x @ w)[senders], receivers, 2000))

    graph = _below(2000, 16_000), _below(2000, 16_000)
    return {
        "embedding": (lambda e, i: e[i], (_float(50_000, 128), _below(50_000, 2048))),
        "its gradient": (jax.grad(lambda e, i: (e[i] ** 2).sum()), (_float(20_000, 64), _below(20_000, 2048))),
        "segment sum": (lambda x, i: jax.ops.segment_sum(x, i, 1000), (_float(20_000, 16), _below(1000, 20_000))),
        "segment maximum": (lambda x, i: jax.ops.segment_max(x, i, 1000), (_float(20_000, 16), _below(1000, 20_000))),
        "scatter of numbers": (
            lambda x, i, j, v: x.at[i, j].add(v),  # noqa: PD008 - an array of JAX
            (_float(512, 512), _below(512, 8192), _below(512, 8192), _float(8192)),
        ),
        "gather of numbers": (lambda x, i, j: x[i, j], (_float(512, 512), _below(512, 65536), _below(512, 65536))),
        "messages in a graph": (messages, (_float(2000, 64), *graph, _float(64, 64))),
        "take along an axis": (
            lambda x, i: jnp.take_along_axis(x, i, 1),
            (_float(512, 1024), _below(1024, 512, 16)),
        ),
    }


def layers() -> Programs:
    """Parts of networks."""
    import jax
    import jax.numpy as jnp
    from jax import lax, nn

    def norm(x: Any, scale: Any, offset: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + offset

    def attention(q: Any, k: Any, v: Any) -> Any:
        weights = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8, -1)
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v)

    def conv(layout: str, stride: int = 1, groups: int = 1) -> Callable[..., Any]:
        names = (layout, "OIHW" if layout == "NCHW" else "HWIO", layout)
        return lambda x, w: lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", dimension_numbers=names, feature_group_count=groups
        )

    def pool(x: Any) -> Any:
        low = np.array(-np.inf, x.dtype)
        return lax.reduce_window(x, low, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

    def entropy(x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(nn.log_softmax(x), y[:, None], 1).mean()

    heads = tuple(_float(2, 128, 8, 64) for _ in range(3))
    vectors = _float(768), _float(768)
    return {
        "layer norm": (norm, (_float(512, 768), *vectors)),
        "its gradient": (jax.grad(lambda *a: (norm(*a) ** 2).sum(), (0, 1, 2)), (_float(512, 768), *vectors)),
        "softmax": (lambda x: nn.softmax(x, -1), (_float(512, 1000),)),
        "softmax of columns": (lambda x: nn.softmax(x, 0), (_float(512, 1000),)),
        "cross entropy's gradient": (jax.grad(entropy), (_float(256, 10_000), _below(10_000, 256))),
        "GELU": (nn.gelu, (_float(512, 3072),)),
        "attention": (attention, heads),
        "its gradient for q, k, v": (jax.grad(lambda *a: (attention(*a) ** 2).sum(), (0, 1, 2)), heads),
        "convolution 3x3": (conv("NHWC"), (_float(1, 56, 56, 64), _float(3, 3, 64, 64))),
        "convolution 3x3, NCHW": (conv("NCHW"), (_float(2, 32, 56, 56), _float(64, 32, 3, 3))),
        "convolution 3x3, stride 2, NCHW": (conv("NCHW", 2), (_float(4, 64, 32, 32), _float(32, 64, 3, 3))),
        "convolution of small images, NCHW": (conv("NCHW"), (_float(8, 64, 7, 7), _float(64, 64, 3, 3))),
        "convolution 1x1, stride 2": (conv("NHWC", 2), (_float(4, 56, 56, 64), _float(1, 1, 64, 128))),
        "depthwise convolution": (conv("NHWC", 1, 128), (_float(1, 56, 56, 128), _float(3, 3, 1, 128))),
        "transposed convolution": (
            lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
            (_float(2, 16, 16, 128), _float(4, 4, 128, 64)),
        ),
        "maximum pooling": (pool, (_float(4, 112, 112, 64),)),
        "its gradient for images": (jax.grad(lambda x: (pool(x) ** 2).sum()), (_float(4, 56, 56, 64),)),
    }


def reductions() -> Programs:
    """Sums and other folds, over rows, columns and everything."""
    import jax.numpy as jnp

    folds: dict[str, Callable[..., Any]] = {"sum": jnp.sum, "max": jnp.max, "argmax": jnp.argmax, "std": jnp.std}
    found: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    for name, fold in folds.items():
        for axis, where in ((1, "rows"), (0, "columns")):
            found[f"{name} of {where}"] = (lambda x, fold=fold, axis=axis: fold(x, axis=axis)), (_between(1024, 1024),)
    return {
        **found,
        "sum of everything": (jnp.sum, (_float(1_000_000),)),
        "sum of threes": (lambda x: x.sum(-1), (_float(30_000, 3),)),
        "Gaussian kernel": (
            lambda a, b: jnp.exp(-((a[:, None] - b[None]) ** 2).sum(-1)),
            (_float(300, 16), _float(300, 16)),
        ),
        "binary cross entropy": (
            lambda x, y: -(y * jnp.log(x) + (1 - y) * jnp.log(1 - x)).mean(),
            (_between(256, 512) * 0.9 + 0.05, _between(256, 512)),
        ),
        "distances of points": (
            lambda a, b: jnp.sqrt(((a[:, None] - b[None]) ** 2).sum(-1)),
            (_float(300, 16), _float(300, 16)),
        ),
    }


def moves() -> Programs:
    """Copies in another order."""
    import jax
    import jax.numpy as jnp

    return {
        "transpose": (lambda x: x.T + 1, (_float(1024, 1024),)),
        "split heads": (lambda x: x.reshape(4, 128, 3, 8, 32).transpose(2, 0, 3, 1, 4), (_float(4, 128, 768),)),
        "space to depth": (
            lambda x: x.reshape(4, 32, 2, 32, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(4, 32, 32, 12),
            (_float(4, 64, 64, 3),),
        ),
        "concatenate": (
            lambda *a: jnp.concatenate(a, 1),
            (_float(512, 100), _float(512, 200), _float(512, 33)),
        ),
        "stack": (lambda a, b: jnp.stack([a, b], -1), (_float(512, 512), _float(512, 512))),
        "repeat": (lambda x: jnp.repeat(x, 4, 1), (_float(256, 256),)),
        "repeat, then join": (
            lambda x, y: jnp.concatenate([jnp.repeat(x, 3, 1), y], 1),
            (_float(256, 64), _float(256, 128)),
        ),
        "tile, then add": (lambda x, y: jnp.tile(x, (1, 20)) + y, (_float(256, 12), _float(256, 240))),
        "sum of repeated": (lambda x, y: (jnp.repeat(x, 3, 1) * y).sum(1), (_float(256, 81), _float(256, 243))),
        "upsample an image": (
            lambda x, y: jnp.concatenate([jnp.repeat(jnp.repeat(x, 2, 2), 2, 3), y], 1),
            (_float(2, 16, 32, 32), _float(2, 16, 64, 64)),
        ),
        "gradient of every second": (
            lambda x, g: jax.vjp(lambda x: jnp.concatenate([x[:, ::2] + x[:, 1::2], x[:, 1::2]], 1), x)[1](g)[0],
            (_float(128, 512), _float(128, 512)),
        ),
        "flip": (lambda x: x[::-1, ::-1], (_float(512, 512),)),
        "every second": (lambda x: x[::2, ::3], (_float(1024, 1024),)),
        "pad": (lambda x: jnp.pad(x, ((1, 1), (2, 2))), (_float(512, 510),)),
        "outer product": (jnp.outer, (_float(1000), _float(1000))),
        "where": (lambda a, b: jnp.where(a > b, a, b * 2), (_float(512, 512), _float(512, 512))),
    }


def functions() -> Programs:
    """A function of 200,000 numbers."""
    import jax
    import jax.numpy as jnp

    names = "exp log1p sin tan tanh arcsin arctan arcsinh sinh cbrt sqrt expm1".split()
    found: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        n: (getattr(jnp, n), (_between(200_000),)) for n in names
    }
    return {
        **found,
        "erf": (jax.scipy.special.erf, (_float(200_000),)),
        "power": (jnp.power, (_between(200_000), _float(200_000))),
        "arctan2": (jnp.arctan2, (_float(200_000), _float(200_000))),
        "gammaln": (jax.scipy.special.gammaln, (_between(200_000) + 1,)),
    }


def integers() -> Programs:
    """Arithmetic on 200,000 integers, which divide by one another or by a number."""
    import jax.numpy as jnp
    from jax import lax

    x, bits = _below(1000, 200_000) - 500, _below(1 << 30, 200_000)
    return {
        "floor division": (jnp.floor_divide, (x, _below(99, 200_000) + 1)),
        "remainder by a number": (lambda x, n: x % n, (x, np.int32(7))),
        "greatest common divisor": (jnp.gcd, (_below(1000, 4096), _below(1000, 4096))),
        "hash": (lambda x: ((x ^ (x >> 16)) * 0x45D9F3B) ^ (x << 5), (bits,)),
        "bits that are set": (lax.population_count, (bits,)),
        "blend of images": (
            lambda a, b: ((a.astype(jnp.int16) * 3 + b) // 4).astype(jnp.uint8),
            (_below(255, 512, 512, 3).astype(np.uint8), _below(255, 512, 512, 3).astype(np.uint8)),
        ),
    }


def transforms() -> Programs:
    """Fourier transforms; there are none of bf16."""
    import jax.numpy as jnp

    if _float(1).dtype.itemsize < 4:
        return {}
    found: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        f"{16384 // n} of {n}": (jnp.fft.fft, (_float(16384 // n, n) + 1j * _float(16384 // n, n),))
        for n in (127, 1000, 1021, 1024, 16384)
    }
    return {
        **found,
        "real, of 1000": (jnp.fft.rfft, (_float(16, 1000),)),
        "images": (jnp.fft.fft2, (_float(128, 128),)),
    }


def small_products() -> Programs:
    """Batches of tiny matrices and points."""
    import jax.numpy as jnp

    return {
        "3 x 3 by vectors": (lambda a, x: jnp.einsum("nij,nj->ni", a, x), (_float(10_000, 3, 3), _float(10_000, 3))),
        "3 x 3": (jnp.matmul, (_float(10_000, 3, 3), _float(10_000, 3, 3))),
        "4 x 4 by transposed": (
            lambda a, b: jnp.einsum("nij,nkj->nik", a, b),
            (_float(10_000, 4, 4), _float(10_000, 4, 4)),
        ),
        "points by 3 x 3": (jnp.matmul, (_float(10_000, 3), _float(3, 3))),
        "batch 33 x 56, transposed": (
            lambda a, b: jnp.einsum("nij,nkj->nik", a, b),
            (_float(5, 33, 56), _float(5, 56, 56)),
        ),
        "bilinear form": (
            lambda a, w, b: jnp.einsum("bi,ijk,bj->bk", a, w, b),
            (_float(64, 32), _float(32, 32, 32), _float(64, 32)),
        ),
    }


def loops() -> Programs:
    """Iterations over small states."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def lorenz(y: Any) -> Any:
        return jnp.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])

    def sinkhorn(c: Any) -> Any:
        k = jnp.exp(-c)

        def step(i: Any, uv: Any) -> Any:
            u = 1 / (k @ uv[1])
            return u, 1 / (k.T @ u)

        ones = jnp.ones(128, c.dtype)
        return lax.fori_loop(0, 50, step, (ones, ones))

    def regression(w: Any, x: Any, y: Any) -> Any:
        return lax.fori_loop(0, 50, lambda _, w: w - 0.1 * x.T @ (jax.nn.sigmoid(x @ w) - y) / 500, w)

    return {
        "Lorenz, 200 steps": (lambda y: lax.fori_loop(0, 200, lambda _, y: y + 0.01 * lorenz(y), y), (_float(3, 256),)),
        "Newton's root": (lambda a: lax.fori_loop(0, 100, lambda _, x: 0.5 * (x + a / x), a), (_between(2048) + 1,)),
        "power iteration": (
            lambda a, v: lax.fori_loop(0, 50, lambda _, v: (a @ v) / jnp.linalg.norm(a @ v), v),
            (_float(128, 128), _float(128)),
        ),
        "Sinkhorn": (sinkhorn, (_between(128, 128),)),
        "logistic regression": (regression, (_float(20), _float(500, 20), _between(500))),
    }


def decoding() -> Programs:
    """One token: vectors by weights that are computed, and attention to what came before."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jax.nn.softmax(jnp.einsum("bhd,bkhd->bhk", q, k) / 8, -1)
        return jnp.einsum("bhk,bkhd->bhd", scores, v)

    def layers(x: Any, weights: Any) -> Any:
        return lax.scan(lambda h, w: (jax.nn.relu(h @ w), None), x, weights)[0]

    def dequantized(w: Any, scale: Any) -> Any:
        return w.astype(scale.dtype) * scale

    def halves(w: Any, scale: Any) -> Any:
        both = jnp.stack([(w & 15).astype(jnp.int8) - 8, (w >> 4).astype(jnp.int8) - 8], 1)
        blocks = both.astype(scale.dtype).reshape(-1, 32, w.shape[1]) * scale[:, None]
        return blocks.reshape(-1, w.shape[1])

    x, scale = _float(1, 1024), _float(4096)
    weights, rows = (_RNG.integers(-127, 128, s).astype(np.int8) for s in ((1024, 4096), (4096, 1024)))
    nibbles = _RNG.integers(0, 256, (512, 2048)).astype(np.uint8)
    keep = _RNG.random((1024, 4096)) < 0.5
    return {
        "x @ w.T": (lambda x, w: x @ w.T, (x, _float(4096, 1024))),
        "weights of 8 bits": (lambda x, w, s: x @ dequantized(w, s), (x, weights, scale)),
        "the same, transposed": (lambda x, w, s: x @ dequantized(w, s[:, None]).T, (x, rows, scale)),
        "weights of 4 bits": (lambda x, w, s: x @ halves(w, s), (x, nibbles, _float(32, 2048))),
        "8 tokens, weights of 8 bits": (lambda x, w, s: x @ dequantized(w, s), (_float(8, 1024), weights, scale)),
        "masked weights": (lambda x, w, m: x @ jnp.where(m, w, 0), (x, _float(1024, 4096), keep)),
        "layers in a scan": (layers, (_float(1024), _float(6, 1024, 1024))),
        "cached keys, 8 heads": (attend, (_float(4, 8, 64), _float(4, 2048, 8, 64), _float(4, 2048, 8, 64))),
        "weighted sum over time": (
            lambda x, w: jnp.einsum("tbd,bt->bd", x, w),
            (_float(512, 32, 256), _float(32, 512)),
        ),
        "logits": (lambda x, e: x @ e.T, (_float(1, 768), _float(50257, 768))),
        "next token": (lambda x: jnp.argmax(x, -1), (_float(8, 50257),)),
    }


def images() -> Programs:
    """Pixels of three channels and of bytes, and updates of whole images."""
    import jax.numpy as jnp

    pixels, planes = _float(8, 224, 224, 3), _float(8, 3, 224, 224)
    photo = _RNG.integers(0, 256, (8, 224, 224, 3)).astype(np.uint8)
    mean = np.array([0.485, 0.456, 0.406], np.float32)
    return {
        "NHWC to NCHW": (lambda x: x.transpose(0, 3, 1, 2), (pixels,)),
        "NCHW to NHWC": (lambda x: x.transpose(0, 2, 3, 1), (planes,)),
        "bytes to planes": (lambda x: x.transpose(0, 3, 1, 2), (photo,)),
        "normalized planes": (lambda x: (x.astype(jnp.float32) / 255 - mean).transpose(0, 3, 1, 2), (photo,)),
        "padding": (lambda x: jnp.pad(x, [(0, 0), (3, 3), (3, 3), (0, 0)]), (pixels,)),
        "patches": (
            lambda x: x.reshape(8, 14, 16, 14, 16, 3).transpose(0, 1, 3, 2, 4, 5).reshape(8, 196, 768),
            (pixels,),
        ),
        "sums of images by class": (
            lambda x, i: jnp.zeros((10, 32, 32, 3), x.dtype).at[i].add(x),  # noqa: PD008 - an array of JAX
            (_float(128, 32, 32, 3), _below(10, 128)),
        ),
    }


def short_rows() -> Programs:
    """Arrays whose last dimension is short: points, boxes, quaternions, classes."""
    import jax.numpy as jnp
    from jax import lax, nn

    def corners(a: Any, d: Any) -> Any:
        size, middle = (a[:, 2:] - a[:, :2]) * jnp.exp(d[:, 2:]) / 2, (a[:, :2] + a[:, 2:]) / 2 + d[:, :2]
        x, y, w, h = middle[:, 0], middle[:, 1], size[:, 0], size[:, 1]
        return jnp.stack([x - w, y - h, x + w, y + h], -1)

    def quaternions(a: Any, b: Any) -> Any:
        a, b = a.T, b.T
        return jnp.stack(
            [
                a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
                a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
                a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
                a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
            ],
            -1,
        )

    def rotated(x: Any) -> Any:
        angles = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(x.shape[-1] // 2) / 32)
        c, s = jnp.cos(angles).astype(x.dtype)[None, :, None], jnp.sin(angles).astype(x.dtype)[None, :, None]
        even, odd = x[..., ::2], x[..., 1::2]
        return jnp.stack([even * c - odd * s, even * s + odd * c], -1).reshape(x.shape)

    points, classes = _float(16384, 3), _float(32768, 10)
    return {
        "corners of boxes": (corners, (_float(20000, 4), _float(20000, 4))),
        "products of quaternions": (quaternions, (_float(16384, 4), _float(16384, 4))),
        "cross products": (jnp.cross, (points, points)),
        "rotary embedding, pairs": (rotated, (_float(2, 256, 8, 64),)),
        "padded points": (lambda x: jnp.pad(x, ((2, 2), (1, 0))), (points,)),
        "homogeneous points": (lambda x: jnp.concatenate([x, jnp.ones_like(x[:, :1])], 1), (points,)),
        "standardized columns": (lambda x: (x - x.mean(0)) / x.std(0), (points,)),
        "logsumexp of classes": (lambda x: nn.logsumexp(x, -1), (classes,)),
        "log-softmax of classes": (nn.log_softmax, (classes,)),
        "largest of 16": (lambda x: x.max(-1), (_float(65536, 16),)),
        "argmax of 17": (lambda x: jnp.argmax(x, -1), (_float(16384, 17),)),
        "cumulative maximum of 4": (lambda x: lax.cummax(x, axis=1), (_float(65536, 4),)),
        "take along the last": (lambda x, i: jnp.take(x, i, -1), (_float(4096, 128), _below(128, 100))),
    }


def gradients() -> Programs:
    """Gradients of blocks of networks for their weights, by batches of sequences or images."""
    import jax
    import jax.numpy as jnp
    from jax import lax, nn

    def rays(x: Any, *weights: Any) -> Any:
        for w in weights:
            x = nn.relu(x @ w)
        return x

    def windows(x: Any, qkv: Any, out: Any, bias: Any) -> Any:
        b, h, w, c = x.shape
        parts = x.reshape(b, h // 7, 7, w // 7, 7, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 49, c)
        q, k, v = (parts @ qkv).reshape(-1, 49, 3, 3, c // 3).transpose(2, 0, 3, 1, 4)
        mixed = nn.softmax(q @ k.swapaxes(-1, -2) / 6 + bias, -1) @ v
        return mixed.transpose(0, 2, 1, 3).reshape(-1, 49, c) @ out

    def heads(x: Any, q: Any, k: Any, v: Any, out: Any) -> Any:
        a, b, c = ((x @ w).reshape(*x.shape[:2], 4, -1) for w in (q, k, v))
        scores = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", a, b) / 8, -1)
        return jnp.einsum("bhqk,bkhd->bqhd", scores, c).reshape(x.shape) @ out

    def experts(x: Any, gate: Any, up: Any, down: Any) -> Any:
        chosen = jnp.argmax(x @ gate, -1)
        kinds = nn.one_hot(chosen, gate.shape[1], dtype=jnp.int32)
        place = (jnp.cumsum(kinds, 0) - 1)[..., None] == jnp.arange(64)
        sent = (place & (kinds > 0)[..., None]).astype(x.dtype)
        hidden = nn.gelu(jnp.einsum("ecd,edf->ecf", jnp.einsum("nec,nd->ecd", sent, x), up))
        return jnp.einsum("nec,ecd->nd", sent, jnp.einsum("ecf,efd->ecd", hidden, down))

    def depthwise(x: Any, w: Any, up: Any, down: Any) -> Any:
        names = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=names, feature_group_count=96)
        return x + nn.gelu((y - y.mean(-1, keepdims=True)) @ up) @ down

    def graph(x: Any, senders: Any, receivers: Any, w: Any, a: Any) -> Any:
        h, n = x @ w, x.shape[0]
        weight = jnp.exp(nn.leaky_relu((h[senders] * a).sum(-1) + (h[receivers] * a).sum(-1)))
        total = jax.ops.segment_sum(weight, receivers, n)
        return jax.ops.segment_sum(h[senders] * (weight / total[receivers])[:, None], receivers, n)

    def gradient(f: Callable[..., Any], *given: int) -> Callable[..., Any]:
        """The gradient of the sum of squares for all arguments but those."""
        return lambda *a: jax.grad(
            lambda *a: (f(*a).astype(jnp.float32) ** 2).mean(), [n for n in range(len(a)) if n not in given]
        )(*a)

    square = [_float(256, 256) / 16 for _ in range(4)]
    return {
        "dense layers of rays": (gradient(rays), (_float(128, 32, 128), *(_float(128, 128) / 16 for _ in range(3)))),
        "dense layer by sequences": (
            gradient(lambda x, w: nn.gelu(x @ w)),
            (_float(4, 256, 256), _float(256, 1024) / 16),
        ),
        "attention": (gradient(heads), (_float(2, 128, 256), *square)),
        "attention in windows": (
            gradient(windows),
            (_float(2, 28, 28, 96), _float(96, 288) / 10, _float(96, 96) / 10, _float(3, 49, 49)),
        ),
        "mixture of experts": (
            gradient(experts),
            (_float(256, 256), _float(256, 8), _float(8, 256, 512) / 16, _float(8, 512, 256) / 16),
        ),
        "ConvNeXt's block": (
            gradient(depthwise),
            (_float(2, 28, 28, 96), _float(7, 7, 1, 96) / 10, _float(96, 384) / 10, _float(384, 96) / 20),
        ),
        "attention in a graph": (
            gradient(graph, 1, 2),
            (_float(1000, 64), _below(1000, 8000), _below(1000, 8000), _float(64, 64) / 8, _float(64) / 10),
        ),
    }


_GROUPS = (
    stencils, scans, orders, gathers, layers, reductions, moves, functions, integers, transforms, small_products,
    loops, decoding, images, short_rows, gradients,
)  # fmt: skip


def table() -> pd.DataFrame:
    """Return a row per program: microseconds of XLA and of xlanb, their ratio; the least first."""
    import jax

    jax.config.update("jax_enable_x64", os.environ.get("XLANB_IDIOMS_TYPE") == "f64")  # type: ignore[no-untyped-call]
    wanted, rows = re.compile(os.environ.get("XLANB_IDIOMS", "")), []
    for group in _GROUPS:
        for name, (function, arguments) in group().items():
            if wanted.search(f"{group.__name__}: {name}"):
                theirs, ours = measured(function, arguments)
                rows.append({"group": group.__name__, "program": name, "XLA us": theirs, "ours us": ours})
    found = pd.DataFrame(rows)
    found["XLA by ours"] = found["XLA us"] / found["ours us"]
    means = [(name, part["XLA by ours"]) for name, part in found.groupby("group", sort=False)]
    means.append((f"all {len(rows)}", found["XLA by ours"]))
    ends = [{"group": name, "program": "geometric mean", "XLA by ours": _mean(part)} for name, part in means]
    return pd.concat([found.sort_values("XLA by ours"), pd.DataFrame(ends)], ignore_index=True).round(2)


def _mean(ratios: pd.Series[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def measured(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[float, float]:
    """Microseconds of a call by XLA and by xlanb: tenth percentiles of calls in turns."""
    import jax

    import xlanb

    placed = jax.device_put(arguments)
    compiled, ours = jax.jit(function).lower(*placed).compile(), xlanb.jit(function)
    times: tuple[list[float], list[float]] = [], []
    for call in (lambda: jax.block_until_ready(compiled(*placed)), lambda: ours(*arguments)):
        call()
    end = time.perf_counter() + _SECONDS
    while time.perf_counter() < end or len(times[0]) < _ROUNDS:
        begin = time.perf_counter()
        jax.block_until_ready(compiled(*placed))
        between = time.perf_counter()
        ours(*arguments)
        times[1].append(time.perf_counter() - between)
        times[0].append(between - begin)
    theirs, mine = (sorted(t)[len(t) // 10] * 1e6 for t in times)
    return theirs, mine
