"""A propagation reported as decisions to observers of the pass."""

from __future__ import annotations

from xlanb.hlo import parse
from xlanb.spmd.shardy.decisions import SPLIT, SPLIT_ALIKE
from xlanb.spmd.shardy_xla import ShardyXla
from xlanb.tracing import Decision, observing

HEADER = 'HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=4, "y"=2]>}}, num_partitions=8\n'
DOT = (
    HEADER
    + r"""
ENTRY main {
  a = f32[16,8] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}, {}]>"}
  b = f32[8,4] parameter(1), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\"RIGHT\"}]>"}
  ROOT c = f32[16,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
)


class _Decisions:
    def __init__(self) -> None:
        self.seen: list[Decision] = []

    def on_event(self, event: object) -> None:
        if isinstance(event, Decision):
            self.seen.append(event)


def _told(text: str) -> list[Decision]:
    module, watcher = parse(text), _Decisions()
    with observing(watcher):
        ShardyXla().apply(module)
    return watcher.seen


def test_each_gain_names_source_factor_and_axes():
    told = _told(DOT.replace("RIGHT", "y"))
    assert [(d.action, d.subject, d.taken, d.predicates[0][:3]) for d in told] == [
        (SPLIT, ("a", "c"), True, ("factor i", True, '{"x"}')),
        (SPLIT, ("b", "c"), True, ("factor j", True, '{"y"}')),
        (SPLIT, ("c", "result 0"), True, ("factor i", True, '{"x"}')),
        (SPLIT, ("c", "result 0"), True, ("factor j", True, '{"y"}')),
    ]
    assert told[0].predicates[1].value == "dot c"


def test_a_conflict_says_who_has_the_axis_and_what_is_left_to_reshard():
    told = _told(DOT.replace("RIGHT", "x"))
    refused = [d for d in told if not d.taken]
    assert refused
    assert {d.action for d in refused} <= {SPLIT, SPLIT_ALIKE}
    assert any(d.action == SPLIT_ALIKE and d.subject == ("c",) for d in refused)


def test_nothing_is_computed_where_nobody_watches(monkeypatch):
    monkeypatch.setattr("xlanb.spmd.shardy.spread.decisions", None)  # it would fail
    ShardyXla().apply(parse(DOT.replace("RIGHT", "y")))
