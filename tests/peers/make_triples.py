"""Write modules before and after each pass of the real XLA:CPU as JSON lines, for comparison.

    python -m tests.peers.make_triples OUT.jsonl [PROGRAM...]

Each line has program, pipeline, pass, before and after, for every pass that changed something while
JAX compiled PROGRAMS. The child process that compiles has only the dump flags; the programs run on
one device.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from xlanb.dump.names import DumpName, decode_name


class Triple(NamedTuple):
    """One pass's change to one module."""

    program: str
    pipeline: str
    name: str
    before: str
    after: str


def triples(programs: tuple[str, ...] = ()) -> list[Triple]:
    """What each pass of the installed XLA does to the programs, all of them by default."""
    with tempfile.TemporaryDirectory(prefix="xlanb-triples-") as folder:
        flags = (
            f"--xla_dump_to={folder} --xla_dump_hlo_pass_re=.* --xla_dump_hlo_as_text --xla_dump_large_constants=true"
        )
        environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, __file__, "--compile", *(programs or PROGRAMS)]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        return list(_read(Path(folder)))


def _read(folder: Path) -> Iterator[Triple]:
    stages: dict[str, list[tuple[DumpName, Path]]] = {}
    for path in folder.glob("*.txt"):
        name = decode_name(path.name)
        program = name.module.removeprefix("jit_")
        if name.kind == "pass" and program in PROGRAMS:
            stages.setdefault(program, []).append((name, path))
    for program, found in sorted(stages.items()):
        found.sort(key=lambda stage: stage[0].sequence or 0)
        pipelines = {name.pipeline for name, _ in found} | {"pipeline-start"}
        before = ""
        for name, path in found:
            after = path.read_text()
            if name.after not in pipelines and before:
                yield Triple(program, name.pipeline, name.after, before, after)
            before = after


# -- the programs: names are those of the modules --------------------------------------------------


def _programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def dense_step(w: Any, b: Any, x: Any, y: Any) -> Any:
        def loss(w: Any, b: Any) -> Any:
            return jnp.mean((jax.nn.relu(x @ w + b) - y) ** 2)

        return jax.value_and_grad(loss, (0, 1))(w, b)

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqd,bkd->bqk", q, k) / 8
        masked = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -1e9)
        return jax.nn.softmax(masked) @ v

    def filtered(x: Any, w: Any) -> Any:
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return lax.reduce_window(jax.nn.gelu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def unrolled_in_time(h: Any, xs: Any, w: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ w + x)
            return h, h.sum()

        return lax.scan(cell, h, xs)

    def ranked(x: Any) -> Any:
        order = jnp.argsort(x)
        return jnp.argsort(order), x[order], lax.top_k(x, 5)

    def counted(x: Any) -> Any:
        return jnp.zeros(16).at[x].add(1.0), jnp.cumsum(x), jnp.bincount(x, length=16)

    def drawn(key: Any) -> Any:
        a, b = jax.random.split(key)
        return jax.random.normal(a, (32, 8)), jax.random.randint(b, (16,), 0, 10)

    def solved(a: Any, b: Any) -> Any:
        return jnp.linalg.solve(a @ a.T + 8 * jnp.eye(8), b)

    def looked_up(table: Any, rows: Any) -> Any:
        return jnp.take(table, rows, axis=0).sum(1) * 2

    def chosen(x: Any, n: Any) -> Any:
        stepped = lax.fori_loop(0, n, lambda _, v: v * 0.5 + 1, x)
        return lax.cond(stepped.sum() > 0, jnp.sin, lambda v: jnp.cos(v) + 1, stepped)

    def halved(x: Any, w: Any) -> Any:
        return jax.nn.sigmoid((x @ w).astype(jnp.float32)).astype(jnp.bfloat16)

    def normalised(x: Any, g: Any) -> Any:
        mean, spread = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(spread + 1e-5) * g, jnp.concatenate([x, x[:, ::-1]], 1).T

    f32, s32 = jnp.float32, jnp.int32

    def array(*dimensions: int, dtype: Any = f32) -> Any:
        return jax.ShapeDtypeStruct(dimensions, dtype)

    bf16 = jnp.bfloat16
    return {
        "dense_step": (dense_step, (array(32, 16), array(16), array(64, 32), array(64, 16))),
        "attend": (attend, (array(2, 16, 8), array(2, 16, 8), array(2, 16, 8))),
        "filtered": (filtered, (array(2, 12, 12, 3), array(3, 3, 3, 8))),
        "unrolled_in_time": (unrolled_in_time, (array(4, 8), array(10, 4, 8), array(8, 8))),
        "ranked": (ranked, (array(64),)),
        "counted": (counted, (array(40, dtype=s32),)),
        "drawn": (drawn, (array(2, dtype=jnp.uint32),)),
        "solved": (solved, (array(8, 8), array(8))),
        "looked_up": (looked_up, (array(100, 16), array(4, 6, dtype=s32))),
        "chosen": (chosen, (array(32), array(dtype=s32))),
        "halved": (halved, (array(16, 32, dtype=bf16), array(32, 8, dtype=bf16))),
        "normalised": (normalised, (array(16, 24), array(24))),
    }


PROGRAMS = (
    "dense_step attend filtered unrolled_in_time ranked counted drawn solved looked_up chosen halved normalised"
).split()


def _compile(names: list[str]) -> None:
    import jax

    programs = _programs()
    for name in names:
        function, arguments = programs[name]
        jax.jit(function).lower(*arguments).compile()


if __name__ == "__main__":
    if sys.argv[1] == "--compile":
        _compile(sys.argv[2:])
    else:
        with Path(sys.argv[1]).open("w") as out:
            out.writelines(json.dumps(triple._asdict()) + "\n" for triple in triples(tuple(sys.argv[2:])))
