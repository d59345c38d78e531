"""Every rule of HLO broken once; valid modules pass, and the message shows the error's place."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb import hlo
from xlanb.errors import HloVerifierError, InstructionError
from xlanb.evaluator import evaluate
from xlanb.hlo import HloModule, HloOpcode
from xlanb.hlo.attributes import OpMetadata
from xlanb.hlo.builder import HloBuilder
from xlanb.hlo.diagnostic import NEIGHBOURS, context
from xlanb.hlo.verifier import VerifierOptions, verify_module
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import TOKEN, array

O = HloOpcode  # noqa: E741 - a table of opcodes
F32 = PrimitiveType.F32

ADD = """
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}
"""


def chain(length: int) -> HloModule:
    """x, then `length` negations."""
    b = HloBuilder("chain")
    x = b.parameter(0, array(F32, [2]))
    for _ in range(length):
        x = b.negate(x)
    return b.build(x)


def entry(body: str, before: str = "") -> str:
    return f"HloModule m\n{before}\nENTRY main {{\n{body}\n}}\n"


GOOD = [
    entry("x = f32[2] parameter(0)\nROOT y = f32[2]{0} negate(x)"),
    entry("x = f32[2,3]{0,1} parameter(0)\nROOT y = f32[2,3]{1,0} copy(x)"),
    entry("x = f32[2] parameter(0)\ny = bf16[2] parameter(1)\nROOT z = bf16[2] add(x, y)"),
    entry(
        "x = s8[2,3] parameter(0)\ny = s8[3,2] parameter(1)\nROOT z = s32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ),
    entry("x = s32[2] parameter(0)\nROOT z = s32[] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    entry("x = f32[2] parameter(0)\nROOT z = bf16[] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    entry(
        "x = f32[2] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add", ADD
    ),
    entry("x = f32[2] parameter(0)\ns = (f32[2], f32[2], u32[]) copy-start(x)\nROOT d = f32[2] copy-done(s)"),
    entry("x = f32[2] parameter(0)\na = f32[2] negate(x)\nROOT b = f32[2] negate(x), control-predecessors={a}"),
    entry("x = f32[<=2] parameter(0)\ny = f32[2] parameter(1)\nROOT z = f32[<=2] add(x, y)"),
    entry(
        "x = f32[2] parameter(0)\ns = ((f32[2]), f32[2], s32[]) async-start(x), calls=aside\nROOT d = f32[2] async-done(s)",
        "aside {\n p = f32[2] parameter(0)\n ROOT n = f32[2] negate(p)\n}",
    ),
    "HloModule m, is_scheduled=true\nENTRY main {\n x = f32[2] parameter(0)\n a = f32[2] negate(x)\n ROOT b = f32[2] add(a, x)\n}",
    entry(
        "x = f32[4,2] parameter(0), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}\nROOT t = (f32[4,2], f32[4,2]) tuple(x, x), sharding={{replicated}, {devices=[2,1]<=[2]}}"
    ),
    entry(
        'x = f32[2] parameter(0)\nROOT r = (f32[2], s8[]) custom-call(x), custom_call_target="f", output_to_operand_aliasing={{0}: (0, {})}'
    ),
    entry(
        'x = f32[] parameter(0)\ny = f32[] parameter(1)\nROOT r = f32[] call(x, y), to_apply=add, is_composite=true, frontend_attributes={composite.name="foo.add",composite.version="1"}',
        ADD,
    ),
    "HloModule m, input_output_alias={ {0}: (0, {}, must-alias) }\nENTRY main {\n x = f32[2] parameter(0)\n ROOT t = (f32[2]) tuple(x)\n}",
]


@pytest.mark.parametrize("text", GOOD)
def test_right_modules_pass(text: str) -> None:
    hlo.parse(text).verify()


WHILE = 'c {{ p = {0} parameter(0)\n ROOT t = pred[] constant(true) }}\nb {{ p = {1} parameter(0)\n ROOT r = {2} custom-call(p), custom_call_target="f" }}'

BAD = [
    (entry("x = f32[2] parameter(0)\nROOT y = f32[3] negate(x)"), "%y: expected the shape f32[2], not f32[3]"),
    (entry("x = f32[2] parameter(0)\nROOT y = s32[2] negate(x)"), "%y: expected the shape f32[2], not s32[2]"),
    (entry("x = f32[2] parameter(0)\ny = f32[3] parameter(1)\nROOT z = f32[2] add(x, y)"), "%z: add(f32[2]{0}, f32[3]{0}): expected operands of the same dimensions"),
    (entry("x = f32[2] parameter(0)\nROOT z = f32[1] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}"), "expected the dimensions of f32[]"),
    (entry("x = f32[2] parameter(0)\nROOT y = f32[3] broadcast(x), dimensions={0}"), "size of the operand's dimension 0"),
    (entry("ROOT y = f32[3] iota(), iota_dimension=1"), "iota_dimension in [0, 1)"),
    (entry("x = f32[2] parameter(0)\nROOT y = pred[2] compare(x, x), direction=LT, type=SIGNED"), "comparison of type FLOAT or TOTALORDER"),
    (entry("x = f32[2] parameter(0)\nROOT t = (f32[2], f32[3]) tuple(x, x)"), "%t: expected the shape (f32[2], f32[2])"),
    (entry("x = f32[2] parameter(0)\nz = s32[] constant(0)\nROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add", ADD), "initial value 0"),
    (entry("x = (f32[2]) parameter(0)\nROOT y = f32[2] get-tuple-element(x), index=1"), "an index in [0, 1)"),
    (entry("x = s32[] parameter(0)\nROOT w = s32[] while(x), condition=c, body=b", WHILE.format("s32[]", "s32[]", "f32[]")), "%w: expected the shape f32[], not s32[]"),
    (entry("x = s32[] parameter(0)\nROOT w = s32[] while(x), condition=c, body=b", WHILE.format("f32[]", "s32[]", "s32[]")), "parameter 0 of c to have the operand's shape"),
    (entry("x = f32[2] parameter(0)\nROOT s = (f32[2], f32[2], u32[]) copy-start(x)"), "%s: expected one user, copy-done, not none"),
    (entry("x = f32[2] parameter(0)\nu = u32[] constant(0)\nt = (f32[2], f32[2], u32[]) tuple(x, x, u)\nROOT d = f32[2] copy-done(t)"), "%d: expected copy-start as operand, not tuple"),
    (entry("x = f32[2] parameter(0)\ntok = token[] after-all()\ns = (f32[2], u32[], token[]) send(x, tok), channel_id=1\nROOT d = token[] send-done(s), channel_id=2"), "channel_id of s, 1, not 2"),
    (entry("x = f32[2] parameter(0)\na = f32[2] fusion(x), kind=kLoop, calls=f\nROOT b = f32[2] fusion(a), kind=kLoop, calls=f", "f {\n p = f32[2] parameter(0)\n ROOT n = f32[2] negate(p)\n}"), "the fused computation f is also used by a"),
    (entry("x = f32[2] parameter(0)\nROOT a = f32[2] fusion(x), kind=kLoop, calls=f", "f {\n p = f32[2] parameter(0)\n ROOT n = f32[2] negate(p)\n m = f32[2] negate(n)\n}"), "the root n of the fused computation f has users"),
    ("HloModule m, entry_computation_layout={(f32[3])->f32[2]}\nENTRY main {\n x = f32[2] parameter(0)\n ROOT y = f32[2] negate(x)\n}", "entry_computation_layout"),
    ("HloModule m, input_output_alias={ {}: (1, {}, may-alias) }\nENTRY main {\n ROOT x = f32[2] parameter(0)\n}", "input_output_alias names parameter 1"),
    ("HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\nENTRY main {\n ROOT x = f32[2] parameter(0)\n}", "no subshape {0}"),
    (entry('x = f32[2] parameter(0)\nROOT r = f32[2] custom-call(x), custom_call_target="f", output_to_operand_aliasing={{}: (1, {})}'), "names operand 1 of 1"),
    (entry('x = f32[2] parameter(0)\nROOT r = f32[3] custom-call(x), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}'), "the result there is f32[3]"),
    (entry('x = f32[2] parameter(0)\nROOT r = f32[2] custom-call(x), custom_call_target="f", output_to_operand_aliasing={{0}: (0, {})}'), "no subshape {0}"),
    (entry("ROOT x = f32[4,2] parameter(0), sharding={devices=[1,2,2,1]0,1,2,3}"), "to tile 2 dimensions, not 4"),
    (entry("ROOT x = f32[4,2] parameter(0), sharding={devices=[2,1]0,0}"), "2 devices, none twice"),
    (entry("ROOT x = f32[4,2] parameter(0), sharding={maximal device=-1}"), "expected a device"),
    (entry("ROOT x = (f32[4], f32[4]) parameter(0), sharding={{replicated}}"), "each of 2 leaves, not 1"),
    (entry("x = f32[] parameter(0)\ny = f32[] parameter(1)\nROOT r = f32[] call(x, y), to_apply=add, is_composite=true", ADD), "composite.name"),
    (entry("x = f32[2] parameter(0)\nROOT r = f32[2] collective-permute(x), source_target_pairs={{0,1},{0,2}}"), "source 0 twice"),
    (entry("x = f32[2] parameter(0)\nROOT r = f32[2] all-reduce(x), replica_groups={{0,1},{1,2}}, to_apply=add", ADD), "replica 1 twice"),
    (entry("x = f32[8] parameter(0)\nROOT r = f32[32] all-gather(x), replica_groups={{0,1}}, dimensions={0}"), "expected 2 parts in dimension 0, one for each participant of a group, not 4"),
    (entry("x = f32[8] parameter(0)\nROOT r = f32[2] reduce-scatter(x), replica_groups=[1,2]<=[2], dimensions={0}, to_apply=add", ADD), "expected 2 parts"),
    (entry("x = f32[8] parameter(0)\nROOT r = f32[16] all-gather(x), replica_groups={{0,1},{2}}, dimensions={0}"), "of equal size"),
    (entry("x = f32[8] parameter(0)\nROOT r = f32[16] all-gather(x), channel_id=1, replica_groups={}, use_global_device_ids=true, dimensions={0}"), "where use_global_device_ids=true"),
    (entry("x = f32[8] parameter(0)\nROOT r = f32[16] all-gather(x), replica_groups={{0,1},{}}, dimensions={0}"), "an empty group"),
    (entry("x = f32[8] parameter(0)\nROOT r = f32[8] all-reduce(x), replica_groups={{0,1},{3}}, to_apply=add", ADD), "does not name replica 2"),
    ("HloModule m, replica_count=4\nENTRY main {\n x = f32[8] parameter(0)\n ROOT r = f32[16] all-gather(x), replica_groups={{0,1}}, dimensions={0}\n}", "of 4 participants (cross_replica), not of 2"),
    ("HloModule m, num_partitions=2\nENTRY main {\n x = f32[8] parameter(0)\n ROOT r = f32[8] collective-permute(x), channel_id=1, source_target_pairs={{0,2}}\n}", "target 2, which is not one of the 2"),
    (entry("x = f32[8] parameter(0)\nROOT r = (f32[8], f32[8]) all-to-all(x, x), replica_groups={{0,1,2}}"), "expected 3 operands, one for each participant"),
    (entry("x = f32[8] parameter(0)\nROOT r = f32[8] all-to-all(x), replica_groups={{0,1,2}}, dimensions={0}"), "to be split into 3 parts"),
    (entry("x = f32[8,2] parameter(0)\ny = f32[8,2]{0,1} parameter(1)\nROOT r = (f32[8,2], f32[8,2]) all-to-all(x, y), replica_groups={{0,1}}"), "operands of one shape"),
    (entry("x = f32[8] parameter(0)\ni = s32[2] parameter(1)\nj = s32[3] parameter(2)\nROOT r = f32[8] ragged-all-to-all(x, x, i, i, i, j), replica_groups={{0,1}}"), "offsets and sizes of one shape"),
    (entry("x = f32[8] parameter(0)\ns = f32[8] all-reduce-start(x), replica_groups={}, constrain_layout=true, to_apply=add\nd = f32[8] all-reduce-done(s)\nROOT r = f32[8] all-reduce(d), to_apply=add", ADD), "constrain_layout of all all-reduces or none"),
    (entry("ROOT x = f32[?] parameter(0)"), "dimensions that are bounded"),
    (entry("ROOT x = (f32[], (f32[?,2])) parameter(0)"), "dimensions that are bounded"),
    (entry('ROOT x = (f32[], f32[2]) parameter(0), origin={({"a"}, ({"b"}, {"c"}))}'), "an origin for each leaf of (f32[], f32[2])"),
    (entry('ROOT x = f32[2] parameter(0), origin={({"a"})}'), "an origin for each leaf"),
    (entry("x = f32[2] parameter(0)\nROOT a = f32[2] fusion(x), kind=kLoop, calls=f", "f {\n p = f32[2] parameter(0)\n m = f32[2] exponential(p)\n ROOT n = f32[2] negate(p)\n}"), "m is unused in the fused computation f"),
    (entry("x = s32[] parameter(0)\nROOT w = s32[] while(x), condition=c, body=b, sharding={maximal device=1}", WHILE.format("s32[]", "s32[]", "s32[]").replace("parameter(0)", "parameter(0), sharding={replicated}")), "to be sharded as w"),
    (entry("x = f32[2] parameter(0)\nk = token[] after-all()\na = (f32[2], u32[], token[]) send(x, k), channel_id=1, is_host_transfer=true\nd = token[] send-done(a), channel_id=1, is_host_transfer=true\ny = f32[3] parameter(1)\nb = (f32[3], u32[], token[]) send(y, d), channel_id=1, is_host_transfer=true\nROOT e = token[] send-done(b), channel_id=1, is_host_transfer=true"), "channel 1 is also used by a"),
    (entry("x = f32[4] parameter(0)\nu = bf16[2] parameter(1)\ni = s32[] parameter(2)\nROOT r = bf16[4] dynamic-update-slice(x, u, i)"), "expected the shape f32[4], not bf16[4]"),
]  # fmt: skip


TAKEN = {
    "a fusion that drops an operand": entry(
        "x = f32[2] parameter(0)\nROOT a = f32[2] fusion(x, x), kind=kLoop, calls=f",
        "f {\n p = f32[2] parameter(0)\n ROOT n = f32[2] negate(p)\n}",
    ),
    "a loop whose body gives more than it takes": entry(
        "x = s32[] parameter(0)\nROOT w = f32[] while(x), condition=c, body=b", WHILE.format("s32[]", "s32[]", "f32[]")
    ),
    "a channel of a transfer and of a reduction": entry(
        "x = f32[2] parameter(0)\nk = token[] after-all()\ns = (f32[2], u32[], token[]) send(x, k), channel_id=1\n"
        "d = token[] send-done(s), channel_id=1\nROOT r = f32[2] all-reduce(x), channel_id=1, to_apply=add",
        ADD,
    ),
    "a product narrower than its operands": entry(
        "x = s8[2] parameter(0)\ny = s64[2] parameter(1)\n"
        "ROOT z = s8[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    ),
    "origins": entry('ROOT x = (f32[], (f32[2], ())) parameter(0), origin={({"a" {0}}, ({}, ()))}'),
    "groups of unequal size in an all-reduce": entry(
        "x = f32[2] parameter(0)\nROOT r = f32[2] all-reduce(x), replica_groups={{0,2},{1}}, to_apply=add", ADD
    ),
    "groups by the axes of a mesh": entry(
        "x = f32[2] parameter(0)\n"
        "ROOT r = f32[8] all-gather(x), channel_id=1, replica_groups=mesh['x'=2,'y'=4] {'y'}, dimensions={0}, use_global_device_ids=true"
    ),
}


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_what_the_real_verifier_takes(text: str) -> None:
    hlo.parse(text).verify()


def test_unbounded_dimensions_are_an_option() -> None:
    module = hlo.parse(entry("ROOT x = f32[?] parameter(0)"))
    verify_module(module, VerifierOptions(allow_unbounded_dynamism=True))


@pytest.mark.parametrize(("text", "message"), BAD, ids=[m for _, m in BAD])
def test_broken_modules_are_refused(text: str, message: str) -> None:
    module = hlo.parse(text)
    with pytest.raises(HloVerifierError) as caught:
        module.verify()
    assert message in str(caught.value)


def refuse(module: HloModule, message: str) -> None:
    with pytest.raises(HloVerifierError) as caught:
        module.verify()
    assert message in str(caught.value)


# -- the graph itself, broken behind the mutators' back --------------------------------------------


def test_an_operand_of_another_computation_is_found() -> None:
    module = chain(2)
    other = module.add_computation("other")
    stranger = other.add(O.PARAMETER, (), array(F32, [2]), parameter_number=0)
    other.set_root(stranger)
    root = module.entry_computation.root
    root.operands = (stranger,)
    stranger._users[root] = 1
    refuse(module, f"its operand {stranger.name} is in computation other")


def test_an_operand_that_was_removed_is_found() -> None:
    module = chain(2)
    root = module.entry_computation.root
    del module.entry_computation._instructions[root.operands[0]]
    refuse(module, "was removed from computation chain")


def test_users_that_do_not_know_their_operands_are_found() -> None:
    module = chain(2)
    root = module.entry_computation.root
    root.operands[0]._users.clear()
    refuse(module, "does not list it as a user")


def test_an_instruction_that_belongs_elsewhere_is_found() -> None:
    module = chain(1)
    module.entry_computation.root.parent = module.add_computation("other")
    refuse(module, "it is in computation chain but belongs to other")


def test_a_cycle_is_found_and_shown() -> None:
    module = chain(4)
    c = module.entry_computation
    first, last = c.instructions[1], c.root
    c.set_operands(first, [last])
    refuse(module, "it depends on itself")


def test_a_cycle_through_control_dependencies_is_found() -> None:
    module = chain(3)
    c = module.entry_computation
    c.add_control_dependency(c.root, c.instructions[1])
    refuse(module, "it depends on itself")


def test_instructions_out_of_order_are_no_cycle() -> None:
    module = chain(3)
    c = module.entry_computation
    c._instructions = dict.fromkeys(reversed(c.instructions))
    module.verify()


@pytest.mark.parametrize("numbers", [(0, 0), (0, 2), (-1, 0)])
def test_parameters_are_numbered_without_gap(numbers: tuple[int, int]) -> None:
    b = HloBuilder("numbers")
    x, y = (b.parameter(n, array(F32)) for n in numbers)
    refuse(b.build(b.add(x, y)), "parameter")


def test_two_instructions_of_one_name_are_found_across_computations() -> None:
    module = chain(1)
    other = module.add_computation("other")
    other.set_root(other.add(O.PARAMETER, (), array(F32), name="p", parameter_number=0))
    other.root.name = module.entry_computation.root.name
    refuse(module, "the name is not unique")


def test_two_computations_of_one_name_are_found() -> None:
    module = chain(1)
    other = module.add_computation("other")
    other.set_root(other.add(O.PARAMETER, (), array(F32), parameter_number=0))
    other.name = "chain"
    refuse(module, "two computations are called chain")


def test_a_root_is_needed() -> None:
    module = chain(1)
    module.add_computation("empty")
    refuse(module, "computation empty has no root")


def test_an_entry_is_needed() -> None:
    refuse(HloModule("nothing"), "no entry computation")


def test_operand_count_and_attributes_follow_the_table() -> None:
    module = chain(1)
    c = module.entry_computation
    c.set_operands(c.root, [c.parameters[0], c.parameters[0]])
    refuse(module, "negate takes 1 operands, not 2")
    module = chain(1)
    module.entry_computation.update(module.entry_computation.root, attributes={"dimensions": (0,)})
    refuse(module, "negate has no attribute dimensions")


def test_a_computation_that_calls_itself_is_found() -> None:
    b = HloBuilder("m")
    first, second = b.sub_computation("first"), b.sub_computation("second")
    for one, other in ((first, second), (second, first)):
        x = one.parameter(0, array(F32))
        one.build_computation(one.instruction(O.CALL, (x,), array(F32), to_apply=other.computation))
    refuse(
        b.build(b.instruction(O.CALL, (b.parameter(0, array(F32)),), array(F32), to_apply=first.computation)),
        "calls itself",
    )


def test_a_called_computation_of_another_module_is_found() -> None:
    other = chain(1).entry_computation
    b = HloBuilder("m")
    refuse(b.build(b.call(other, [b.parameter(0, array(F32, [2]))])), "not in module m")


def test_the_entry_may_not_be_called() -> None:
    module = chain(1)
    other = module.add_computation("other")
    x = other.add(O.PARAMETER, (), array(F32, [2]), parameter_number=0)
    other.set_root(other.add(O.CALL, (x,), to_apply=module.entry_computation))
    refuse(module, "calls the entry computation")


def test_many_paths_through_few_computations_take_no_time() -> None:
    """2 ** 60 paths; the dead instruction is checked for side effects too."""
    b = HloBuilder("m")
    last = b.sub_computation("c")
    called = last.build_computation(last.negate(last.parameter(0, array(F32))))
    for _ in range(60):
        c = b.sub_computation("c")
        x = c.parameter(0, array(F32))
        called = c.build_computation(c.add(c.call(called, [x]), c.call(called, [x])))
    x = b.parameter(0, array(F32))
    dead = b.call(called, [x])
    module = b.build(x)
    module.verify()
    assert not dead.has_side_effect


# -- schedules -------------------------------------------------------------------------------------


def test_schedules_name_every_instruction_once_after_its_operands() -> None:
    module = chain(2)
    c = module.entry_computation
    x, first, second = c.instructions
    module.set_schedule(c, (x, first, second))
    module.verify()
    module.set_schedule(c, (x, second, first))
    refuse(module, f"puts it before {first.name}")
    module.set_schedule(c, (x, first))
    refuse(module, "leaves it out")
    module.set_schedule(c, (x, first, second, first))
    refuse(module, "twice")


# -- options ---------------------------------------------------------------------------------------


def test_mixed_precision_is_refused_where_it_is_not_allowed() -> None:
    module = hlo.parse(GOOD[2])
    with pytest.raises(HloVerifierError, match="expected the shape f32"):
        module.verify(allow_mixed_precision=False)
    module.entry_computation.update(module.entry_computation.root, shape=array(F32, [2]))
    with pytest.raises(HloVerifierError, match="one floating type, not of bf16 and f32"):
        verify_module(module, VerifierOptions(allow_mixed_precision=False))


def test_a_tuple_hands_layouts_on_where_layouts_count() -> None:
    text = entry("x = f32[2,3]{0,1} parameter(0)\nROOT t = (f32[2,3]{1,0}) tuple(x)")
    hlo.parse(text).verify()
    with pytest.raises(HloVerifierError, match="layouts of"):
        verify_module(hlo.parse(text), VerifierOptions(layout_sensitive=True))


def test_only_some_opcodes_change_layouts_where_layouts_count() -> None:
    text = entry("x = f32[2,3]{0,1} parameter(0)\ny = f32[2,3]{1,0} copy(x)\nROOT z = f32[2,3]{1,0} add(y, y)")
    hlo.parse(text).verify(layout_sensitive=True)
    wrong = text.replace("add(y, y)", "add(x, y)")
    hlo.parse(wrong).verify()
    with pytest.raises(HloVerifierError, match="the layout of its operand x"):
        hlo.parse(wrong).verify(layout_sensitive=True)


# -- what is shown ---------------------------------------------------------------------------------


def test_the_fault_stands_among_its_neighbours() -> None:
    module = chain(40)
    middle = module.entry_computation.instructions[20]
    module.entry_computation.update(middle, shape=array(F32, [3]))
    with pytest.raises(HloVerifierError) as caught:
        module.verify()
    shown = str(caught.value).splitlines()
    arrows = [i for i, line in enumerate(shown) if "-->" in line]
    assert len(arrows) == 1
    assert f"%{middle.name} = f32[3]{{0}} negate(" in shown[arrows[0]]
    instructions = [line for line in shown if " = " in line]
    assert len(instructions) == 2 * NEIGHBOURS + 1
    assert "(10 more)" in shown[2]
    assert shown[-1].strip() == "(10 more)"


def test_the_root_is_marked_and_long_lines_are_cut() -> None:
    b = HloBuilder("m")
    with b.metadata(OpMetadata(op_name="n" * 1000)):
        module = b.build(b.constant(np.float32(1)))
    text = context(module.entry_computation.root)
    assert "--> ROOT %constant" in text
    assert max(map(len, text.splitlines())) < 220


def test_context_shows_even_what_cannot_be_printed() -> None:
    module = chain(3)
    root = module.entry_computation.root
    root.shape = None  # type: ignore[assignment]
    root._record = None
    root.attributes["window"] = object()
    assert f"%{root.name}" in context(root)


def test_tokens_are_shapes_like_any_other() -> None:
    b = HloBuilder("m")
    x = b.parameter(0, array(F32))
    root = b.instruction(O.ADD_DEPENDENCY, (x, b.after_all()), array(F32))
    module = b.build(root)
    module.verify()
    b.computation.update(root.operands[1], shape=array(F32))
    assert TOKEN.is_token
    refuse(module, "expected the shape token[], not f32[]")


@pytest.mark.parametrize("text", ["f32[2,3] broadcast(x), dimensions={}", "f32[] reshape(x)"])
def test_a_given_shape_may_have_another_precision_only_where_precisions_may_mix(text: str) -> None:
    module = hlo.parse(f"HloModule m\nENTRY e {{\n  x = f16[] parameter(0)\n  ROOT r = {text}\n}}")
    module.verify()
    with pytest.raises(HloVerifierError, match="values of one floating type"):
        module.verify(allow_mixed_precision=False)


LONG_TRANSFORM = (
    "HloModule m\n\nENTRY e {\n  a = c64[8] parameter(0)\n  ROOT f = c64[8] fft(a), fft_type=FFT, fft_length={32}\n}\n"
)

GROWING_LOOP = """HloModule m

body {
  p = (f32[2], f32[2]) parameter(0)
  x = f32[2] get-tuple-element(p), index=0
  ROOT t = (f32[2], f32[2], f32[2]) tuple(x, x, x)
}

condition {
  p = (f32[2], f32[2]) parameter(0)
  ROOT r = pred[] constant(true)
}

ENTRY e {
  a = f32[2] parameter(0)
  t = (f32[2], f32[2]) tuple(a, a)
  ROOT w = (f32[2], f32[2], f32[2]) while(t), condition=condition, body=body
}
"""


WIDE_SCAN = """HloModule m

step {
  x = f32[4] parameter(0)
  c = f32[4] parameter(1)
  n = f32[4] add(x, c)
  ROOT t = (f32[4], f32[4]) tuple(n, n)
}

ENTRY e {
  a = f32[3,100] parameter(0)
  b = f32[4] parameter(1)
  ROOT s = (f32[3,4], f32[4]) scan(a, b), dimensions={0}, num_carries=1, to_apply=step
}
"""

WIDER_TRANSFORM = (
    "HloModule m\n\nENTRY e {\n  a = c64[3] parameter(0)\n  ROOT f = f64[4] fft(a), fft_type=IRFFT, fft_length={4}\n}\n"
)


CAST_TOKEN = (
    "HloModule m\n\nENTRY e {\n  a = token[] after-all()\n  b = f32[0] bitcast(a)\n  ROOT c = f32[0] negate(b)\n}\n"
)


KEPT = "c {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] copy(x)\n}\n"
GOES_ON = "d {\n  x = f32[4] parameter(0)\n  ROOT y = pred[] constant(false)\n}\n"
OTHER_SIZES = {
    "call": "r = f32[4] call(p), to_apply=c",
    "result of a call": "r = f32[<=4] call(q), to_apply=c",
    "conditional": "r = f32[4] conditional(n, p, q), true_computation=c, false_computation=c",
    "loop": "r = f32[<=4] while(p), condition=d, body=c",
    "fusion": "r = f32[4] fusion(p), kind=kLoop, calls=c",
    "tuple": "r = (f32[4]) tuple(p)",
    "barrier": "r = f32[4] opt-barrier(p)",
    "bitcast": "r = f32[4] bitcast(p)",
    "bitcast of a static array": "r = f32[<=4] bitcast(q)",
    "update in place": "r = f32[4] dynamic-update-slice(p, q, k)",
}
"""Values forwarded in one buffer, where only one side stores sizes after the elements."""


@pytest.mark.parametrize("last", OTHER_SIZES)
def test_a_value_is_taken_with_the_dynamic_dimensions_that_it_has(last):
    text = (
        f"HloModule m\n\n{KEPT}{GOES_ON}ENTRY e {{\n  p = f32[<=4] parameter(0)\n  q = f32[4] parameter(1)\n  n = pred[] parameter(2)\n"
        f"  k = s32[] parameter(3)\n  ROOT {OTHER_SIZES[last]}\n}}\n"
    )
    module = hlo.parse(text)
    module.verify()
    with pytest.raises(HloVerifierError, match=r"%r: cannot be compiled: .*dynamic"):
        xlanb.compile(module)


UNLIKE_SCATTER = """HloModule m

second {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT t = (f32[], f32[]) tuple(c, d)
}

ENTRY e {
  x = f32[50,5] parameter(0)
  y = f32[ROWS,5] parameter(1)
  i = s32[24,1] parameter(2)
  u = f32[24,1,3] parameter(3)
  v = f32[24,1,COLUMNS] parameter(4)
  ROOT s = (f32[50,5], f32[ROWS,5]) scatter(x, y, i, u, v), update_window_dims={1,2}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second
}
"""


@pytest.mark.parametrize(
    ("rows", "columns", "said"),
    [
        ("2", "3", r"arrays of the same dimensions, not \{2,5\} and \{50,5\}"),
        ("50", "2", "updates of the same dimensions"),
    ],
)
def test_one_index_leads_into_each_array_of_a_scatter(rows, columns, said):
    module = hlo.parse(UNLIKE_SCATTER.replace("ROWS", rows).replace("COLUMNS", columns))
    module.verify()
    with pytest.raises(HloVerifierError, match=rf"%s: cannot be compiled: expected {said}"):
        xlanb.compile(module)
    arguments = [np.zeros(p.array_shape.dimensions, p.array_shape.dtype) for p in module.entry_computation.parameters]
    arguments[2] += np.arange(24, dtype=np.int32)[:, None]
    with pytest.raises(InstructionError, match=said):
        evaluate(module, *arguments)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "c = f32[] constant(0.25)\n  ROOT b = bf16[4] broadcast(c), dimensions={}",
            "elements of f32, as the operand has, not bf16",
        ),
        (
            'x = f32[4] parameter(0)\n  n = s32[] parameter(1)\n  ROOT b = f32[<=4] custom-call(x, x, n), custom_call_target="SliceToDynamic"',
            r"s32\[\] for the size of each of 1 dimensions, not f32\[4\]\{0\}, s32\[\]",
        ),
        (
            'x = f32[4] parameter(0)\n  n = s32[] parameter(1)\n  ROOT b = f32[<=5] custom-call(x, n), custom_call_target="SliceToDynamic"',
            "SliceToDynamic to convert between an array",
        ),
        (
            'x = f32[<=4] parameter(0)\n  ROOT b = (f32[4], s32[], s32[]) custom-call(x), custom_call_target="PadToStatic"',
            "each of 1 dimensions",
        ),
        ('x = f32[<=4] parameter(0)\n  ROOT b = f32[4] custom-call(x), custom_call_target="PadToStatic"', "not none"),
        ('ROOT b = () custom-call(), custom_call_target="PadToStatic"', "PadToStatic to convert between an array"),
        ('ROOT b = f32[<=4] custom-call(), custom_call_target="SliceToDynamic"', "not none"),
    ],
)
def test_conversions_that_no_instruction_makes_are_refused(body, said):
    module = hlo.parse(f"HloModule m\n\nENTRY e {{\n  {body}\n}}\n")
    module.verify()
    with pytest.raises(HloVerifierError, match=rf"%b: cannot be compiled: .*{said}"):
        xlanb.compile(module)


def test_a_scatter_into_several_arrays_of_one_size_is_compiled():
    xlanb.compile(UNLIKE_SCATTER.replace("ROWS", "50").replace("COLUMNS", "3"))


@pytest.mark.parametrize(
    ("text", "name"),
    [(LONG_TRANSFORM, "%f"), (WIDER_TRANSFORM, "%f"), (WIDE_SCAN, "%s"), (GROWING_LOOP, "%w"), (CAST_TOKEN, "%b")],
)
def test_what_only_a_compiler_refuses(text, name):
    module = hlo.parse(text)
    module.verify()
    with pytest.raises(HloVerifierError, match=f"{name}: cannot be compiled"):
        module.verify(executable=True)
    with pytest.raises(HloVerifierError, match=f"{name}: cannot be compiled"):
        xlanb.compile(text)


def test_sizes_of_dynamic_arrays_fit_into_s32():
    module = hlo.parse("HloModule m\n\nENTRY e { ROOT p = f32[<=11,2147483648] parameter(0) }")
    module.verify()
    with pytest.raises(HloVerifierError, match=r"%p: cannot be compiled: .*at most 2147483647.*s32"):
        xlanb.compile(module)
