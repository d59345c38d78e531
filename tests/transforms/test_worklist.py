"""A pass that visits only what changed does what it would do if it visited everything."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.hlo import parse
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms import PASSES

_SETTLED = """
HloModule m

max { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT m = f32[] maximum(p, q) }

ENTRY e {
  a = f32[4,8] parameter(0)
  b = f32[4,8] parameter(1)
  s = f32[4,8] sine(a)
  n = f32[4,8] negate(b)
  x = f32[4,8] add(s, n)
  one = f32[] parameter(2)
  wide = f32[4,8] broadcast(one), dimensions={}
  y = f32[4,8] multiply(x, wide)
  t = f32[8,4] transpose(y), dimensions={1,0}
  u = f32[8,4] cosine(t)
  least = f32[] constant(-inf)
  w = f32[8] reduce(u, least), dimensions={1}, to_apply=max
  z = f32[32] reshape(y)
  e1 = f32[4,8] exponential(s)
  ROOT r = (f32[8], f32[32], f32[4,8]) tuple(w, z, e1)
}
"""


def _found(c: HloComputation, name: str) -> HloInstruction:
    found = c.find(name)
    assert found is not None
    return found


def _scalar(c: HloComputation, value: float) -> HloInstruction:
    return c.constant(np.float32(value))


def _multiply_by_one(c: HloComputation) -> None:
    c.replace_operand(_found(c, "wide"), 0, _scalar(c, 1))


def _subtract_nothing(c: HloComputation) -> None:
    c.replace(_found(c, "b"), c.add(O.BROADCAST, (_scalar(c, 0),), _found(c, "b").shape, dimensions=()))


def _negate_twice(c: HloComputation) -> None:
    c.replace_operand(_found(c, "n"), 0, c.add(O.NEGATE, (_found(c, "b"),)))


def _transpose_back(c: HloComputation) -> None:
    t = _found(c, "t")
    c.replace_uses(
        _found(c, "u"), c.add(O.TRANSPOSE, (c.add(O.TRANSPOSE, (t,), dimensions=(1, 0)),), dimensions=(1, 0))
    )


def _reshape_again(c: HloComputation) -> None:
    flat = c.add(O.RESHAPE, (c.add(O.RESHAPE, (_found(c, "z"),), _found(c, "y").shape),), _found(c, "z").shape)
    c.replace_uses(_found(c, "z"), flat, users=[c.root])


def _all_broadcasts(c: HloComputation) -> None:
    for name in ("s", "n"):
        i = _found(c, name)
        c.replace(i, c.add(O.BROADCAST, (_found(c, "one"),), i.shape, dimensions=()))


def _change_reducer(c: HloComputation) -> None:
    reducer = _found(c, "w").to_apply
    reducer.replace(reducer.root, reducer.parameters[0])


_EDITS = [
    _multiply_by_one,
    _subtract_nothing,
    _negate_twice,
    _transpose_back,
    _reshape_again,
    _all_broadcasts,
    _change_reducer,
]


@pytest.mark.parametrize("edit", _EDITS, ids=lambda f: f.__name__.strip("_"))
def test_algsimp_after_an_edit_is_algsimp_of_everything(edit: object) -> None:
    module = parse(_SETTLED)
    _run(module)
    edit(module.entry_computation)  # type: ignore[operator]
    fresh = module.clone()  # a set of rules without earlier runs
    before = str(module)
    _run(module)
    _run(fresh)
    assert str(module) == str(fresh)
    assert str(module) != before or edit is _change_reducer


def _run(module: HloModule) -> None:
    PASSES["algsimp"]().run(module)


def test_a_second_run_visits_nothing_and_a_later_one_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    from xlanb.transforms.rules import RuleSet

    visited: list[str] = []
    visit = RuleSet.visit

    def seen(self: RuleSet, root: HloInstruction, rules: object, options: object) -> bool:
        visited.append(root.name)
        return visit(self, root, rules, options)  # type: ignore[arg-type]

    monkeypatch.setattr(RuleSet, "visit", seen)
    module = parse(_SETTLED)
    c = module.entry_computation
    a, flat = c.parameters[0], _found(c, "z").shape
    far = [c.add(O.RESHAPE, (c.add(O.COSINE, (a,)),), flat, name="far") for _ in range(40)]
    c.set_root(c.add(O.TUPLE, (c.root, *far)))
    _run(module)
    assert {"z", "far"} <= set(visited)
    visited.clear()
    _run(module)
    assert not visited
    c.replace_operand(_found(c, "z"), 0, c.add(O.TANH, (_found(c, "b"),)))
    _run(module)
    assert "z" in visited
    assert "far" not in visited
