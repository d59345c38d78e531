"""What goldens cannot show of small passes: what they don't change, reject, or do silently."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.cpu.pipelines import pipeline
from xlanb.errors import PassError
from xlanb.evaluator import evaluate
from xlanb.hlo import HloOpcode, parse
from xlanb.shape import Literal
from xlanb.tracing import Decision, Edit, observing
from xlanb.transforms import PASSES
from xlanb.transforms.simplifiers.apply_xla_transforms import (
    clear_hlo_module_transformation,
    register_hlo_module_transformation,
)

ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n"
NEGATED = "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT n = f32[4] negate(x)\n}"


def run(name: str, text: str, **options):
    module = parse(text)
    PASSES[name](**options).run(module)
    module.verify()
    return module


def count(module, opcode: str) -> int:
    return sum(i.opcode.text == opcode for i in module.instructions())


class Recorder:
    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event)


@pytest.fixture
def doubled():
    def double(module):
        c = module.entry_computation
        c.set_root(c.add(HloOpcode.ADD, (c.root, c.root)))

    yield double
    clear_hlo_module_transformation(double)
    clear_hlo_module_transformation(double, "post_scheduler")


def test_a_registered_transformation_runs_in_the_pipeline_and_is_named_as_the_cause(doubled):
    register_hlo_module_transformation(doubled)
    recorder = Recorder()
    module = parse(NEGATED)
    with observing(recorder):
        results = PASSES["apply-xla-transforms"]().run(module)
    assert results.changed
    assert {e.cause.rule for e in recorder.events if isinstance(e, Edit)} == {"double"}
    assert count(run_pipeline("default"), "add") + count(run_pipeline("xla"), "add") == 2
    assert clear_hlo_module_transformation(doubled)
    assert not clear_hlo_module_transformation(doubled)
    assert not PASSES["apply-xla-transforms"]().run(module).changed


def run_pipeline(name: str):
    module = parse(NEGATED)
    pipeline(name).run(module, verify=True)
    return module


def test_stages_of_transformations(doubled):
    register_hlo_module_transformation(doubled, "post_scheduler")
    module = parse(NEGATED)
    assert not PASSES["apply-xla-transforms"]().run(module).changed
    assert PASSES["apply-xla-transforms"](stage="post_scheduler").run(module).changed
    with pytest.raises(PassError, match=r"unknown stage 'later'.*pre_scheduler, post_scheduler"):
        register_hlo_module_transformation(doubled, "later")


def test_equal_shapes_and_large_literals_are_held_once():
    module = parse(NEGATED)
    c = module.entry_computation
    value = np.arange(512, dtype=np.float32)
    one, two, small, same = (c.constant(Literal.of(v)) for v in (value, value.copy(), value[:2], value[:2].copy()))
    c.set_root(c.add(HloOpcode.TUPLE, (one, two, small, same)))
    before = module.record()
    for name in ("shape-canonicalizer", "literal-canonicalizer"):
        assert not PASSES[name]().run(module).changed
    assert module.record() is before
    assert one.literal is two.literal
    assert small.literal is not same.literal
    assert one.shape is two.shape
    assert small.shape is same.shape


def test_not_a_number_is_canonical_only_to_the_bit():
    module = parse(NEGATED)
    c = module.entry_computation
    zeros = np.zeros(512, np.float32)
    one, two = c.constant(Literal.of(zeros)), c.constant(Literal.of(-zeros))
    c.set_root(c.add(HloOpcode.TUPLE, (one, two)))
    PASSES["literal-canonicalizer"]().run(module)
    assert one.literal is not two.literal


@pytest.mark.parametrize(("operands", "message"), [("e", "two operands"), ("c, e", "cannot be ordered before")])
def test_control_dependencies_that_cannot_be(operands, message):
    text = f'HloModule m\nENTRY main {{\n  x = f32[] parameter(0)\n  e = f32[] exponential(x)\n  c = f32[] cosine(e)\n  d = () custom-call({operands}), custom_call_target="control_dep", custom_call_has_side_effect=true\n  ROOT r = f32[] negate(c)\n}}'
    with pytest.raises(PassError, match=message):
        PASSES["control-dep-rewriter"]().run(parse(text))


def test_a_control_dependency_of_what_only_the_call_used_goes_with_it():
    text = """HloModule m
ENTRY main {
  x = f32[] parameter(0)
  e = f32[] exponential(x)
  c = f32[] cosine(x)
  d = () custom-call(e, c), custom_call_target="control_dep", custom_call_has_side_effect=true
  ROOT n = f32[] negate(e)
}"""
    module = run("control-dep-rewriter", text)
    inside = set(module.entry_computation.instructions)
    assert all(inside.issuperset(i.control_successors) for i in inside)
    assert xlanb.compile(module)(np.float32(0)) == -1


@pytest.mark.parametrize("narrow", ["f16", "bf16", "f8e5m2"])
@pytest.mark.parametrize("order", ["x, z", "z, x"])
def test_a_total_order_of_two_types_is_that_of_the_wider(narrow, order):
    text = f"""HloModule m
ENTRY main {{
  x = f32[4] parameter(0)
  z = {narrow}[4] constant({{nan, -nan, 1, 2}})
  ROOT c = pred[4] compare({order}), direction=GE, type=TOTALORDER
}}"""
    x = np.array([np.inf, np.inf, 1, 2], np.float32)
    expected = [False, True, True, True] if order == "x, z" else [True, False, True, True]
    assert evaluate(text, x).tolist() == expected
    assert evaluate(run("comparison-expander", text), x).tolist() == expected
    assert xlanb.compile(parse(text))(x).tolist() == expected


@pytest.mark.parametrize("target", ["FuncResultSharding", "PropagationBarrier", "GlobalToLocalShape"])
def test_what_shardy_wraps_is_unwrapped(target):
    text = f'HloModule m\nENTRY main {{\n  x = f32[4] parameter(0)\n  c = f32[4] custom-call(x), custom_call_target="xla.sdy.{target}", custom_call_has_side_effect=true\n  ROOT n = f32[4] negate(c)\n}}'
    module = run("shardy-xla", text)
    assert count(module, "custom-call") == 0
    assert module.entry_computation.root.operands[0].opcode.text == "parameter"


def test_pieces_for_each_participant():
    text = "HloModule m\nENTRY main {{\n  x = f32[{n}] parameter(0)\n  ROOT a = f32[{n}] all-to-all(x), replica_groups={{{{0,1}},{{2,3}}}}, dimensions={{0}}\n}}"
    module = run("all_to_all_decomposer", text.format(n=6))
    assert count(module, "slice") == 2
    assert count(module, "get-tuple-element") == 2
    with pytest.raises(PassError, match="dimension 0 is not divisible by 2 participants"):
        run("all_to_all_decomposer", text.format(n=5))


@pytest.mark.parametrize(
    ("reader", "start", "rewritten"),
    [("index=0", "0", True), ("index=1", "0", False), ("index=0", "2", False)],
)
def test_long_scans_become_windows_where_nobody_can_tell(reader, start, rewritten):
    shape = "f32[]" if reader == "index=1" else "f32[20]"
    text = (
        "HloModule m\nstep {\n  x = f32[] parameter(0)\n  c = f32[] parameter(1)\n  s = f32[] add(x, c)\n  ROOT t = (f32[], f32[]) tuple(s, s)\n}\n"
        f"ENTRY main {{\n  x = f32[20] parameter(0)\n  z = f32[] constant({start})\n"
        "  s = (f32[20], f32[]) scan(x, z), dimensions={0}, num_carries=1, is_associative=true, to_apply=step\n"
        f"  ROOT g = {shape} get-tuple-element(s), {reader}\n}}"
    )
    module = run("associative-scan-rewriter", text)
    assert (count(module, "scan") == 0) == rewritten
    x = np.arange(20, dtype=np.float32)
    sums = np.cumsum(x) + float(start)
    np.testing.assert_allclose(evaluate(module, x), sums if reader == "index=0" else sums[-1])


def test_only_one_vector_makes_a_matrix_of_it():
    text = "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n  ROOT d = f32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n}"
    assert count(run("gemv-rewriter", text), "reshape") == 0


def test_all_reduces_that_are_too_large_stay_apart():
    text = f"HloModule m\n{ADD}ENTRY main {{\n  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n  a = f32[4] all-reduce(x), replica_groups={{}}, to_apply=add\n  b = f32[4] all-reduce(y), replica_groups={{}}, to_apply=add\n  ROOT t = (f32[4], f32[4]) tuple(a, b)\n}}"
    assert count(run("cpu-all-reduce-combiner", text), "all-reduce") == 1
    assert count(run("cpu-all-reduce-combiner", text, most_bytes=31), "all-reduce") == 2
    assert count(run("cpu-all-reduce-combiner", text, most_operands=1), "all-reduce") == 2


def reduced(*lines: str) -> str:
    return f"HloModule m, num_partitions=4\n{ADD}ENTRY main {{\n  x = f32[4] parameter(0)\n" + "\n".join(lines) + "\n}"


def all_reduce(name: str, operand: str, channel: int, groups: str) -> str:
    return f"  {name} = f32[4] all-reduce({operand}), channel_id={channel}, replica_groups={groups}, use_global_device_ids=true, to_apply=add"


def test_all_reduces_over_the_same_groups_become_one_however_the_groups_are_written():
    text = reduced(
        all_reduce("a", "x", 1, "{{0,2},{1,3}}"),
        all_reduce("b", "x", 2, "[2,2]<=[2,2]T(1,0)"),
        all_reduce("c", "x", 3, "mesh['i'=2,'j'=2] {'i'}"),
        all_reduce("d", "x", 4, "mesh['i'=2,'j'=2] {'j'}"),
        "  ROOT t = (f32[4], f32[4], f32[4], f32[4]) tuple(a, b, c, d)",
    )
    module = run("cpu-all-reduce-combiner", text)
    assert sorted(len(i.operands) for i in module.instructions() if i.opcode is HloOpcode.ALL_REDUCE) == [1, 3]


def test_an_all_reduce_that_waits_for_another_begins_a_new_run():
    text = reduced(
        all_reduce("a", "x", 1, "[1,4]<=[4]"),
        all_reduce("b", "a", 2, "[1,4]<=[4]"),
        all_reduce("c", "b", 3, "[1,4]<=[4]"),
        all_reduce("d", "b", 4, "[1,4]<=[4]"),
        "  ROOT t = (f32[4], f32[4]) tuple(c, d)",
    )
    module = run("cpu-all-reduce-combiner", text)
    assert [len(i.operands) for i in module.instructions() if i.opcode is HloOpcode.ALL_REDUCE] == [1, 1, 2]


def test_an_all_to_all_along_an_axis_of_a_mesh_has_as_many_pieces_as_the_axis():
    text = (
        "HloModule m, num_partitions=4\nENTRY main {\n  x = f32[8] parameter(0)\n"
        "  ROOT a = f32[8] all-to-all(x), channel_id=1, replica_groups=mesh['i'=2,'j'=2] {'i'}, dimensions={0}\n}"
    )
    assert count(run("all_to_all_decomposer", text), "slice") == 2


def test_every_parameter_gives_its_memory_when_asked_so():
    text = "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT n = f32[4] negate(x)\n}"
    name = "optimize_input_output_buffer_alias"
    assert "alias" not in str(run(name, text))
    assert (
        run(name, text, registered_buffer_donor_only=False).header["input_output_alias"] == "{ {}: (0, {}, may-alias) }"
    )


def test_a_window_of_size_one_with_a_start_of_its_own_stays(keeps_meaning):
    text = """HloModule m
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    ENTRY e { x = f32[] parameter(0)  one = f32[] constant(1)  ROOT r = f32[] reduce-window(x, one), to_apply=add }"""
    keeps_meaning(text, PASSES["algsimp"]().run)


def test_a_scalar_takes_no_sharding_of_what_it_was_repeated_to(keeps_meaning):
    text = """HloModule m
    ENTRY e { x = f32[] parameter(0)  b = f32[4,2] broadcast(x), dimensions={}
      ROOT r = f32[4,2] add(b, b), sharding={devices=[2,1]<=[2]} }"""
    keeps_meaning(text, PASSES["algsimp"]().run)  # verified after it


def _calls_in_calls(depth: int) -> str:
    parts = ["fn_0 {\n  p = f32[4] parameter(0)\n  ROOT n = f32[4] negate(p)\n}"]
    parts += [
        f"fn_{k} {{\n  p = f32[4] parameter(0)\n  a = f32[4] add(p, p)\n"
        f"  c = f32[4] call(a), to_apply=fn_{k - 1}\n  ROOT m = f32[4] multiply(c, p)\n}}"
        for k in range(1, depth)
    ]
    entry = f"ENTRY e {{\n  x = f32[4] parameter(0)\n  ROOT c = f32[4] call(x), to_apply=fn_{depth - 1}\n}}"
    return "HloModule m\n\n" + "\n\n".join([*parts, entry]) + "\n"


def test_calls_within_calls_are_copied_once_each():
    """From the outermost call, 60 levels of 3 instructions make 180 copies, not thousands."""
    made = []

    class Adds:
        def on_event(self, event):
            made.extend([event] if isinstance(event, Edit) and event.kind == "add" else [])

    module = parse(_calls_in_calls(60))
    with observing(Adds()):
        PASSES["call-inliner"]().run(module)
    assert all(i.opcode is not HloOpcode.CALL for i in module.instructions())
    assert len(module.computations) == 1
    assert len(module.entry_computation) == 2 * 60
    assert len(made) <= 3 * 60


def test_a_pass_without_rules_says_the_reason_and_the_place_of_its_edits() -> None:
    text = """HloModule m
    ENTRY main {
      x = f32[4] parameter(0)
      a = f32[4] negate(x)
      b = f32[4] negate(x)
      ROOT r = f32[4] add(a, b)
    }
    """
    events: list[object] = []

    class Listener:
        def on_event(self, event: object) -> None:
            events.append(event)

    with observing(Listener()):
        PASSES["cse"]().run(parse(text))
    causes = {e.cause for e in events if isinstance(e, Edit | Decision)}
    assert {(c.pass_name, c.rule) for c in causes} == {("cse", "identical")}
    assert all(c.where.startswith("xlanb/transforms/simplifiers/hlo_cse.py:") for c in causes)


def test_reshape_mover_leaves_what_is_fused() -> None:
    """No later pass would merge transposes in a fusion, so they would grow in every iteration."""
    module = parse("""HloModule m
    f {
      q = f32[17,17]{1,0} parameter(0)
      t = f32[17,17]{0,1} transpose(q), dimensions={1,0}
      c = f32[17,17]{1,0} copy(t)
      ROOT a = f32[17,17]{1,0} add(c, q)
    }
    ENTRY e {
      p = f32[17,17]{1,0} parameter(0)
      ROOT u = f32[17,17]{1,0} fusion(p), kind=kLoop, calls=f
    }""")
    assert not PASSES["reshape-mover"]().run(module).changed


SORTS = """
HloModule sorts

ascending {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}

descending {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}

ENTRY main {
  x = s32[4,3] parameter(0)
  rows = s32[4,3] iota(), iota_dimension=0
  columns = s32[4,3] iota(), iota_dimension=1
  s = (s32[4,3], s32[4,3]) sort(x, rows), dimensions={1}, is_stable=true, to_apply=ascending
  across = s32[4,3] get-tuple-element(s), index=1
  a = (s32[4,3], s32[4,3]) sort(across, x), dimensions={1}, is_stable=true, to_apply=ascending
  t = (s32[4,3], s32[4,3]) sort(x, columns), dimensions={1}, is_stable=true, to_apply=ascending
  along = s32[4,3] get-tuple-element(t), index=1
  values = s32[4,3] get-tuple-element(t), index=0
  b = (s32[4,3], s32[4,3]) sort(along, x), dimensions={1}, is_stable=true, to_apply=descending
  c = (s32[4,3], s32[4,3]) sort(values, x), dimensions={1}, is_stable=true, to_apply=ascending
  ROOT r = ((s32[4,3], s32[4,3]), (s32[4,3], s32[4,3]), (s32[4,3], s32[4,3])) tuple(a, b, c)
}
"""


def test_only_positions_along_the_sorted_dimension_are_a_permutation() -> None:
    """Sorts by other positions, in descending order or by sorted values stay sorts."""
    module = parse(SORTS)
    before = str(module)
    PASSES["permutation_sort_simplifier"]().run(module)
    assert str(module) == before


WRAPPING = """\
by_key {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = TYPE[] parameter(2)
  d = TYPE[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}
by_position {
  a = TYPE[] parameter(0)
  b = TYPE[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}
ENTRY main {
  x = f32[SIZE] parameter(0)
  y = f32[SIZE] parameter(1)
  positions = TYPE[SIZE] iota(), iota_dimension=ALONG
  s = (f32[SIZE], TYPE[SIZE]) sort(x, positions), dimensions={ALONG}, is_stable=true, to_apply=by_key
  p = TYPE[SIZE] get-tuple-element(s), index=1
  ROOT t = (TYPE[SIZE], f32[SIZE]) sort(p, y), dimensions={ALONG}, is_stable=true, to_apply=by_position
}
"""


@pytest.mark.parametrize(
    ("kind", "size", "along", "becomes_scatter"),
    [
        ("u2", "4", 0, True),
        ("u2", "8", 0, False),
        ("s8", "128", 0, True),
        ("s8", "129", 0, False),
        ("s8", "300,9", 1, False),
    ],
)
def test_positions_that_wrap_around_are_no_permutation(kind, size, along, becomes_scatter) -> None:
    """A narrow type wraps around along the sorted or another dimension that the scatter indexes."""
    text = WRAPPING.replace("TYPE", kind).replace("SIZE", size).replace("ALONG", str(along))
    module = run("permutation_sort_simplifier", text)
    assert count(module, "scatter") == becomes_scatter
    shape = tuple(map(int, size.split(",")))
    x, y = np.random.default_rng(1).normal(size=(2, *shape)).astype(np.float32)
    for ours, expected in zip(evaluate(module, x, y), evaluate(parse(text), x, y), strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize(("kind", "rows", "columns"), [("u8", 2, 300), ("s8", 3, 200), ("u2", 2, 8), ("s32", 2, 300)])
def test_a_reshaped_iota_wraps_around_as_before(kind, rows, columns) -> None:
    text = (
        f"HloModule m\nENTRY main {{\n  i = {kind}[{rows * columns}] iota(), iota_dimension=0\n"
        f"  ROOT r = {kind}[{rows},{columns}] reshape(i)\n}}"
    )
    module = run("algsimp", text)
    assert count(module, "reshape") == 0
    np.testing.assert_array_equal(evaluate(module), evaluate(parse(text)))
