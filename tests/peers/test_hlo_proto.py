"""HLO protos against the real XLA: each reads the other's bytes, with the same text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlanb
import xlanb.hlo
from xlanb.hlo.module import HloModule
from xlanb.hlo.proto import HloSnapshot
from xlanb.hlo.proto.schema import SCHEMA
from xlanb.peers.versions import RealXla, installed

jax = pytest.importorskip("jax")
real = pytest.importorskip("jaxlib._hlo")
pytestmark = pytest.mark.peer

TEXTS = (Path(__file__).parents[1] / "hlo" / "proto" / "proto_modules.hlo").read_text().split("// ----\n")
NAMES = [text.split(maxsplit=2)[1].rstrip(",") for text in TEXTS]


def said_by_xla(data: bytes) -> str:
    text: str = real.HloModule.from_serialized_hlo_module_proto(data).to_string()
    return text


def said_by_us(module: HloModule) -> str:
    return module.to_string(installed().text_form)


def body(text: str) -> str:
    """Return the text after the first line, parts of which XLA keeps outside the message."""
    return text.partition("\n")[2]


def in_words_of(version: RealXla, message: Any) -> Any:
    """Return the message with the fields of an XLA version, if ours uses other fields or none."""
    for computation in message.computations:
        for i in computation.instructions:
            if version.compares_by_order and i.opcode == "compare":
                if i.comparison_type:
                    i.comparison_order = "PARTIAL" if i.comparison_type == "FLOAT" else "TOTAL"
                i.comparison_type = ""
            if version.sparse_dots and i.opcode in ("convolution", "dot"):
                i.sparsity_config.SetInParent()
                i.block_scaling_config.SetInParent()
    return message


@pytest.mark.parametrize("text", TEXTS, ids=NAMES)
def test_xla_reads_what_we_write(text: str) -> None:
    theirs = real.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    assert said_by_xla(xlanb.hlo.parse(text).to_proto()) == said_by_xla(theirs)


@pytest.mark.parametrize("text", TEXTS, ids=NAMES)
def test_we_read_what_xla_writes(text: str) -> None:
    theirs = real.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    assert said_by_us(HloModule.from_proto(theirs)) == said_by_xla(theirs)


@pytest.mark.parametrize("text", TEXTS, ids=NAMES)
def test_not_a_field_is_forgotten(text: str) -> None:
    """Both messages, as our table of fields sees them, are one."""
    theirs = SCHEMA.HloModuleProto.FromString(real.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    ours = SCHEMA.HloModuleProto.FromString(HloModule.from_proto(theirs.SerializeToString()).to_proto())
    for message in (theirs, ours):
        in_words_of(installed(), message).DiscardUnknownFields()
        message.id = 0
        for row in message.original_value_recovery_table.entries:
            row.recovery_module.id = 0
    assert ours == theirs


def step(w: Any, x: Any) -> Any:
    import jax.numpy as jnp

    def body(i: Any, v: Any) -> Any:
        return jnp.tanh(v @ w) + i

    return jax.lax.fori_loop(0, 3, body, x).astype(jnp.bfloat16).sum()


def test_what_jax_compiles(rng: Any) -> None:
    import jax.numpy as jnp

    w, x = jnp.asarray(rng.standard_normal((8, 8)), jnp.float32), jnp.ones((4, 8), jnp.float32)
    compiled = jax.jit(jax.grad(lambda w, x: step(w, x).astype(jnp.float32))).lower(w, x).compile()
    (module,) = compiled.runtime_executable().hlo_modules()
    data = module.as_serialized_hlo_module_proto()
    # XLA renumbers the stack frames of what it reads: compare with the module that it wrote.
    ours = HloModule.from_proto(data)
    assert body(said_by_us(ours)) == body(module.to_string())
    assert said_by_xla(ours.to_proto()) == said_by_xla(data)


def test_a_dump_opens(tmp_path: Path) -> None:
    code = "import jax, jax.numpy as jnp; jax.jit(lambda x: jnp.sort(jnp.tanh(x) @ x, axis=0).sum())(jnp.ones((4, 4)))"
    flags = f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_proto --xla_dump_hlo_as_text"
    subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "XLA_FLAGS": flags},
        check=True,
        capture_output=True,
    )
    dumps = sorted(tmp_path.glob("*optimizations.hlo.pb"))
    assert len(dumps) >= 2
    for path in dumps:
        text = path.with_name(path.name.replace(".hlo.pb", ".txt")).read_text()
        module = HloModule.from_proto(path.read_bytes())
        assert {i.name for i in module.instructions()} == {i.name for i in xlanb.hlo.parse(text).instructions()}
        theirs = SCHEMA.HloProto.FromString(path.read_bytes()).hlo_module.SerializeToString()
        assert said_by_xla(module.to_proto()) == said_by_xla(theirs)


def test_snapshots_of_the_real_xla_are_read(tmp_path: Path) -> None:
    script = "import jax, numpy as np\njax.jit(lambda x, y: (x + y, x * y))(np.float32([1, 2]), np.float32([3, 5]))"
    flags = f"--xla_dump_to={tmp_path} --xla_dump_hlo_snapshots"
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "XLA_FLAGS": flags})
    (path,) = tmp_path.glob("*jit__lambda*.snapshot.*.pb")
    found = HloSnapshot.from_proto(path.read_bytes())
    np.testing.assert_array_equal(found.arguments, [[1, 2], [3, 5]])
    np.testing.assert_array_equal(found.result, [[4, 7], [3, 10]])
    np.testing.assert_array_equal(
        xlanb.evaluate(HloModule.from_proto(path.read_bytes()), *found.arguments), found.result
    )
