"""Programs too long for their page: a group's numbers are the same, open or closed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.debug_options import flags
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.view import assets
from xlanb.view.payload_builder import PayloadBuilder
from xlanb.view.pool import LEVELS

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
from programs import residual_step

HERE = Path(__file__).parent / "front"
MODULES = Path(assets.__file__).parent / "step"
NODE = shutil.which("node")
LAYERS = 6
DIMS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def program():
    """Layers of an attention and an mlp, each with something that algsimp, cse and dce find."""
    lines = ["x0 = f32[8,8] parameter(0)", "w = f32[8,8] parameter(1)", "zero = f32[] constant(0)"]
    for k in range(LAYERS):
        attention, mlp = (f', metadata={{op_name="jit(f)/layer_{k}/{scope}/op"}}' for scope in ("attention", "mlp"))
        lines += [
            f"q{k} = f32[8,8] dot(x{k}, w), {DIMS}{attention}",
            f"again{k} = f32[8,8] dot(x{k}, w), {DIMS}{attention}",
            f"scores{k} = f32[8,8] multiply(q{k}, again{k}){attention}",
            f"z{k} = f32[8,8] broadcast(zero), dimensions={{}}{attention}",
            f"a{k} = f32[8,8] add(scores{k}, z{k}){attention}",
            f"dead{k} = f32[8,8] tanh(a{k}){mlp}",
            f"up{k} = f32[8,8] dot(a{k}, w), {DIMS}{mlp}",
            f"n{k} = f32[8,8] negate(up{k}){mlp}",
            f"x{k + 1} = f32[8,8] negate(n{k}){mlp}",
        ]
    body = "\n  ".join((*lines, f"ROOT out = f32[8,8] exponential(x{LAYERS})"))
    return f"HloModule m\n\nENTRY main {{\n  {body}\n}}\n"


def trace_of(text, *names):
    """A trace of these passes alone."""
    module = xlanb.hlo.parse(text)
    before = module.record()
    stages = []
    for number, name in enumerate(names):
        xlanb.transforms.PASSES[name]().run(module)
        after = module.record()
        stages.append(Stage("hlo_pass", name, before, after, index=number))
        before = after
    return Trace("m", stages)


def counts(trace, lines, folder):
    """Return the front end's errors in the counts of a page with `lines` lines of a program."""
    builder = PayloadBuilder(replace(LEVELS[0], text_lines=lines))
    builder.update([trace])
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    for path in (*MODULES.glob("*.js"), HERE / "counts.mjs"):
        shutil.copy(path, folder)
    (folder / "payload.json").write_text(json.dumps(builder.payload), encoding="utf-8")
    command = [NODE, folder / "counts.mjs", folder / "payload.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
@pytest.mark.parametrize("lines", [12_000, 40, 25, 12, 3])
def test_a_group_says_the_same_open_and_closed_and_a_pass_what_its_groups_say(lines, tmp_path):
    trace = trace_of(program(), "cse", "algsimp", "dce")
    assert all(s.changed for s in trace)
    found = counts(trace, lines, tmp_path)
    assert found["checked"] >= 3 * (4 if lines > 3 else 1)
    assert found["faults"] == []


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_what_a_pass_removed_counts_for_the_same_group_open_and_closed(tmp_path):
    """Constants have a place in closed groups alone: they have no say where what is gone counts."""
    pytest.importorskip("jax")
    step, arguments = residual_step()
    trace = trace_of(str(xlanb.from_jax(step, *arguments)), "flatten-call-graph", "call-inliner")
    found = counts(trace, 12_000, tmp_path)
    assert found["checked"] > 20
    assert [fault for fault in found["faults"] if "closed" in fault] == []


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_what_was_removed_counts_alike_where_two_nodes_call_one_function(tmp_path):
    """After build_xla_ops a cluster is called where it is compiled and where it is not."""
    fit = line_fit()
    with flags(tf_xla_auto_jit=2), tf.Session(fit.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        compilation = xlanb.Compilation(fit.loss, fit.feeds, session=session)
        compilation.finish()
    stages = [s for s in compilation.trace if s.kind == "build_xla_ops"]
    assert stages
    found = counts(Trace("fit", stages), 12_000, tmp_path)
    assert found["checked"] > 2
    assert [fault for fault in found["faults"] if "closed" in fault] == []
