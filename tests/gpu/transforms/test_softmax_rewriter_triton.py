"""Reported decisions about normalizations that become one kernel, and others."""

from __future__ import annotations

import json

import pytest

from xlanb.gpu.devices import gpu_device
from xlanb.gpu.transforms.softmax_rewriter_triton import SoftmaxRewriterTriton
from xlanb.hlo import parse
from xlanb.tracing import Decision, observing

NORM = """HloModule m

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[64,ROW] parameter(0)
  z = f32[] constant(0)
  r = f32[64] reduce(x, z), dimensions={1}, to_apply=sum
  b = f32[64,ROW] broadcast(r), dimensions={0}
  ROOT n = f32[64,ROW] subtract(x, b)
}
"""


def _run(text: str, device: str = "a100"):
    module, seen = parse(text), []

    class Seen:
        def on_event(self, event: object) -> None:
            if isinstance(event, Decision):
                seen.append(event)

    with observing(Seen()):
        SoftmaxRewriterTriton(device=gpu_device(device)).run(module)
    return module, seen


def test_the_tile_is_told_and_in_the_config() -> None:
    module, (match, fuse) = _run(NORM.replace("ROW", "96"))
    assert (match.action, match.taken) == ("match a normalisation", True)
    assert (fuse.action, fuse.subject, fuse.taken) == ("fuse a normalisation", ("n",), True)
    (tile,) = fuse.predicates
    assert tile.value == "1x96"
    config = json.loads(module.entry_computation.root.backend_config)["fusion_backend_config"]
    assert config["kind"] == "__triton"
    assert config["block_level_fusion_config"]["output_tiles"] == [{"sizes": ["1", "96"]}]


def test_rows_that_are_too_long_for_a_block_stay() -> None:
    module, (match, fuse) = _run(NORM.replace("ROW", "100000"))
    assert match.taken
    assert not fuse.taken
    assert fuse.predicates[0].value == "no tile of the result is valid and small enough"
    assert module.entry_computation.root.name == "n"


_CHANGES = {
    "the reduction and the broadcast have no other users": [
        (
            "ROOT n = f32[64,96] subtract(x, b)",
            "n = f32[64,96] subtract(x, b)\n  ROOT t = (f32[64,96], f32[64]) tuple(n, r)",
        )
    ],
    "it is a row reduction": [
        ("f32[64] reduce(x, z), dimensions={1}", "f32[96] reduce(x, z), dimensions={0}"),
        ("broadcast(r), dimensions={0}", "broadcast(r), dimensions={1}"),
    ],
    "both sides start from the same value": [
        ("subtract(x, b)", "subtract(y, b)"),
        ("z = ", "y = f32[64,96] parameter(1)\n  z = "),
    ],
    "the emitter supports the root": [
        ("ROOT n = f32[64,96] subtract(x, b)", "ROOT n = pred[64,96] compare(x, b), direction=LT")
    ],
}


@pytest.mark.parametrize("condition", _CHANGES)
def test_the_first_condition_that_fails_is_told(condition: str) -> None:
    text = NORM.replace("ROW", "96")
    for old, new in _CHANGES[condition]:
        assert old in text
        text = text.replace(old, new)
    if condition == "the emitter supports the root":
        text = text.replace("f32[", "f8e3m4[")
    _, (match,) = _run(text)
    assert not match.taken
    assert match.predicates[-1].name == condition


def test_devices_without_triton_keep_their_reductions() -> None:
    module, seen = _run(NORM.replace("ROW", "96"), "v100")
    assert module.entry_computation.root.name == "n"
    assert not seen
