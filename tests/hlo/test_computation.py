"""Mutators: users, names, metadata and edits stay consistent.

Snapshots are shared exactly where nothing changed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlanb import hlo
from xlanb.errors import ShapeError
from xlanb.explorer.recorder import Recorder
from xlanb.hlo import HloComputation, HloInstruction, HloModule, HloOpcode
from xlanb.hlo.attributes import NO_METADATA, OpMetadata
from xlanb.hlo.builder import HloBuilder
from xlanb.hlo.computation import is_removable
from xlanb.hlo.records import ModuleRecord
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.stage import Stage
from xlanb.tracing import Edit, Event, StageFinished, because, observing

O = HloOpcode  # noqa: E741 - a table of opcodes
F32 = PrimitiveType.F32

TEXT = """
HloModule m

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}

ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] negate(a), metadata={op_name="node_b"}, sharding={replicated}
  c = f32[4] multiply(b, b)
  zero = f32[] constant(0)
  d = f32[] reduce(c, zero), dimensions={0}, to_apply=add
  ROOT t = (f32[], f32[4]) tuple(d, b)
}
"""


@pytest.fixture
def module() -> HloModule:
    return hlo.parse(TEXT)


@pytest.fixture
def main(module: HloModule) -> HloComputation:
    return module.entry_computation


def named(module: HloModule, name: str) -> HloInstruction:
    found = module.find(name)
    assert found is not None
    return found


class Edits:
    def __init__(self) -> None:
        self.seen: list[Edit] = []

    def on_event(self, event: Event) -> None:
        assert isinstance(event, Edit)
        self.seen.append(event)

    @property
    def kinds(self) -> list[str]:
        return [e.kind for e in self.seen]


@contextmanager
def edits() -> Iterator[Edits]:
    with observing(Edits()) as observer:
        assert isinstance(observer, Edits)
        yield observer


# -- adding ----------------------------------------------------------------------------------------


def test_added_instructions_are_used_and_named(module: HloModule, main: HloComputation) -> None:
    b = named(module, "b")
    first, second = main.add(O.NEGATE, (b,)), main.add(O.NEGATE, (b,))
    assert (first.name, second.name) == ("negate", "negate.1")
    assert b.users[-2:] == (first, second)
    assert first.shape == b.shape
    assert first.is_dead
    assert not first.is_root
    assert main.instructions[-2:] == (first, second)


def test_derived_instructions_carry_metadata_and_where_it_fits_sharding(
    module: HloModule, main: HloComputation
) -> None:
    b = named(module, "b")
    same = main.add(O.EXPONENTIAL, (b,), like=b)
    other = main.add(O.RESHAPE, (b,), array(F32, [2, 2]), like=b)
    assert same.metadata == other.metadata == b.metadata
    assert same.sharding == b.sharding == "{replicated}"
    assert other.sharding == ""


def test_attributes_that_are_none_are_left_out(module: HloModule, main: HloComputation) -> None:
    b = named(module, "b")
    made = main.add(O.COMPARE, (b, b), direction="LT", type=None)
    assert made.attributes == {"direction": "LT"}


def test_operands_must_be_here(module: HloModule, main: HloComputation) -> None:
    x, b = named(module, "x"), named(module, "b")
    removed = main.add(O.NEGATE, (b,))
    main.remove(removed)
    for wrong, message in ((x, "belongs to computation add, not main"), (removed, "was removed from computation main")):
        with pytest.raises(ShapeError, match=message):
            main.add(O.NEGATE, (wrong,))
        with pytest.raises(ShapeError, match=message):
            main.replace_operand(b, 0, wrong)
        with pytest.raises(ShapeError, match=message):
            main.set_operands(b, [wrong])
        with pytest.raises(ShapeError, match=message):
            main.clone_instruction(b, [wrong])
    with pytest.raises(ShapeError, match="belongs to computation add"):
        main.replace_uses(named(module, "zero"), x)
    module.verify()


# -- replacing -------------------------------------------------------------------------------------


def test_replace_hands_over_uses_metadata_and_sharding_and_removes_what_dies(
    module: HloModule, main: HloComputation
) -> None:
    a, b, c, t = (named(module, n) for n in "abct")
    new = main.add(O.EXPONENTIAL, (a,))
    main.replace(b, new)
    assert b not in main
    assert c.operands == (new, new)
    assert t.operands[1] is new
    assert new.users == (c, t)
    assert a.users == (new,)
    assert new.metadata.op_name == "node_b"
    assert new.sharding == "{replicated}"
    module.verify()


def test_replace_keeps_what_the_new_instruction_has(module: HloModule, main: HloComputation) -> None:
    a, b = named(module, "a"), named(module, "b")
    new = main.add(O.EXPONENTIAL, (a,), metadata=OpMetadata(op_name="mine"))
    main.update(new, sharding="{maximal device=0}")
    main.replace(b, new)
    assert (new.metadata.op_name, new.sharding) == ("mine", "{maximal device=0}")


def test_replacing_the_root_moves_it(module: HloModule, main: HloComputation) -> None:
    d, b, t = (named(module, n) for n in "dbt")
    new = main.add(O.TUPLE, (d, b))
    main.replace(t, new)
    assert main.root is new
    assert new.is_root
    assert t not in main


def test_an_instruction_may_be_replaced_by_one_that_uses_it(module: HloModule, main: HloComputation) -> None:
    b, c = named(module, "b"), named(module, "c")
    new = main.add(O.NEGATE, (b,))
    main.replace_uses(b, new)
    assert new.operands == (b,)
    assert c.operands == (new, new)
    assert b.users == (new,)
    module.verify()


def test_only_the_uses_of_some_users(module: HloModule, main: HloComputation) -> None:
    a, b, c, t = (named(module, n) for n in "abct")
    new = main.add(O.EXPONENTIAL, (a,))
    main.replace_uses(b, new, users=[c])
    assert c.operands == (new, new)
    assert t.operands[1] is b
    assert b.users == (t,)


def test_shapes_must_agree_but_for_layouts(module: HloModule, main: HloComputation) -> None:
    a, b = named(module, "a"), named(module, "b")
    wrong = main.add(O.RESHAPE, (a,), array(F32, [2, 2]))
    with pytest.raises(ShapeError, match="cannot replace b of shape"):
        main.replace(b, wrong)
    other = HloBuilder("layouts")
    x = other.parameter(0, array(F32, [2, 2]))
    y = other.computation.add(O.COPY, (x,), array(F32, [2, 2]).with_layout([0, 1]))
    other.build(x)
    other.computation.replace_uses(x, y, users=())
    other.computation.set_root(y)


def test_a_use_counts_as_often_as_it_is_there(module: HloModule, main: HloComputation) -> None:
    a, b, c = (named(module, n) for n in "abc")
    main.replace_operand(c, 0, a)
    assert c.operands == (a, b)
    assert c in b.users
    main.replace_operand(c, 1, a)
    assert c not in b.users
    assert a.users == (b, c)
    module.verify()


# -- removing --------------------------------------------------------------------------------------


def test_what_is_used_or_the_root_stays(module: HloModule, main: HloComputation) -> None:
    for name in ("b", "t"):
        with pytest.raises(ShapeError, match="it is used"):
            main.remove(named(module, name))
    removed = main.add(O.NEGATE, (named(module, "b"),))
    main.remove(removed)
    with pytest.raises(ShapeError, match="not in computation"):
        main.remove(removed)


def test_removing_takes_along_what_dies_but_parameters_and_side_effects(
    module: HloModule, main: HloComputation
) -> None:
    a = named(module, "a")
    effect = main.add(O.CUSTOM_CALL, (a,), a.shape, custom_call_target="print", custom_call_has_side_effect=True)
    x = main.add(O.ADD, (effect, a))
    y = main.add(O.NEGATE, (x,))
    assert main.remove_dead(y)
    assert effect in main
    assert a in main
    assert x not in main
    assert y not in main
    assert not main.remove_dead(effect)
    module.verify()


def test_control_dependencies_keep_an_instruction(module: HloModule, main: HloComputation) -> None:
    b = named(module, "b")
    first, second = main.add(O.NEGATE, (b,)), main.add(O.NEGATE, (b,))
    main.add_control_dependency(first, second)
    assert not is_removable(first)
    assert not is_removable(second)
    assert second.control_predecessors == (first,)
    assert second.record().control_predecessors == (first.name,)
    main.drop_control_dependencies(first)
    assert second.record().control_predecessors == ()
    assert is_removable(first)
    assert is_removable(second)


def test_a_call_of_what_has_side_effects_has_them(module: HloModule) -> None:
    b = HloBuilder("m")
    inner, outer = b.sub_computation("inner"), b.sub_computation("outer")
    effect = inner.custom_call("print", [inner.parameter(0, array(F32))], array(F32), custom_call_has_side_effect=True)
    middle = outer.build_computation(outer.call(inner.build_computation(effect), [outer.parameter(0, array(F32))]))
    assert b.call(middle, [b.parameter(0, array(F32))]).has_side_effect
    assert not named(module, "d").has_side_effect


# -- names -----------------------------------------------------------------------------------------


def test_instructions_and_computations_have_a_namespace_each(module: HloModule, main: HloComputation) -> None:
    """The computation is named add, and so may an instruction be."""
    b = named(module, "b")
    assert main.add(O.ADD, (b, b)).name == "add"
    assert main.add(O.ADD, (b, b)).name == "add.1"
    assert module.add_computation("b").name == "b"
    assert module.add_computation("add").name == "add.1"


def test_names_are_unique_in_the_module_and_not_used_twice(module: HloModule, main: HloComputation) -> None:
    assert main.add(O.NEGATE, (named(module, "b"),), name="x").name == "x.1"
    made = main.add(O.NEGATE, (named(module, "b"),))
    main.remove(made)
    assert main.add(O.NEGATE, (named(module, "b"),)).name != made.name


def test_renaming_reaches_the_records_of_users(module: HloModule, main: HloComputation) -> None:
    b, c, d = (named(module, n) for n in "bcd")
    d_before = d.record()
    main.rename(b, "c")
    assert b.name == "c.1"
    assert c.record().operands == ("c.1", "c.1")
    assert d.record() is d_before
    assert module.find("c.1") is b
    assert "%c.1" in str(module)
    assert "%b " not in str(module)
    assert str(hlo.parse(str(module))) == str(module)


def test_renaming_the_root_reaches_the_computations_record(module: HloModule, main: HloComputation) -> None:
    main.rename(main.root, "result")
    assert main.record().root == "result"


# -- updating --------------------------------------------------------------------------------------


def test_update_sets_and_removes_attributes_and_refuses_what_has_a_method(
    module: HloModule, main: HloComputation
) -> None:
    d, b = named(module, "d"), named(module, "b")
    main.update(d, attributes={"dimensions": ()})
    assert d.record().attributes["dimensions"] == ()
    main.update(d, attributes={"dimensions": None})
    assert "dimensions" not in d.record().attributes
    for slots in ({"operands": (b,)}, {"name": "z"}, {"parent": main}, {"nonsense": 1}):
        with pytest.raises(ShapeError, match=f"{next(iter(slots))} cannot be set"):
            main.update(b, **slots)


# -- edits -----------------------------------------------------------------------------------------


def test_every_change_is_an_edit_with_its_cause(module: HloModule, main: HloComputation) -> None:
    a, b = named(module, "a"), named(module, "b")
    with edits() as seen, because(pass_name="test", rule="--A => A"):
        new = main.replace_with(b, O.EXPONENTIAL, (a,))
    assert all(
        e.cause.pass_name == "test" and e.cause.rule == "--A => A" and e.computation == "main" for e in seen.seen
    )
    assert seen.kinds[0] == "add"
    assert seen.kinds[-1] == "remove"
    assert "replace" in seen.kinds
    replace = next(e for e in seen.seen if e.kind == "replace")
    assert (replace.old.name, replace.new.name) == ("b", new.name)
    assert seen.seen[-1].old.name == "b"


def test_updates_show_before_and_after(module: HloModule, main: HloComputation) -> None:
    b = named(module, "b")
    with edits() as seen:
        main.rename(b, "q")
        main.update(b, metadata=NO_METADATA)
        main.set_root(b)
    assert seen.kinds == ["update", "update", "set_root"]
    assert [(e.old.name, e.new.name) for e in seen.seen] == [("b", "q"), ("q", "q"), ("t", "q")]
    assert (seen.seen[1].old.metadata.op_name, seen.seen[1].new.metadata.op_name) == ("node_b", "")
    assert (seen.seen[2].old.is_root, seen.seen[2].new.is_root) == (False, True)


def test_a_change_of_nothing_is_no_edit(module: HloModule, main: HloComputation) -> None:
    a, b = named(module, "a"), named(module, "b")
    with edits() as seen:
        main.rename(b, "b")
        main.set_root(main.root)
        main.replace_uses(b, b)
        main.replace_operand(b, 0, a)
    assert seen.seen == []


# -- snapshots -------------------------------------------------------------------------------------


def test_a_snapshot_is_the_same_object_as_long_as_nothing_changes(module: HloModule, main: HloComputation) -> None:
    before = module.record()
    assert module.record() is before
    str(module)
    module.verify()
    assert module.record() is before


def test_what_changes_and_changes_back_gives_the_first_snapshot(module: HloModule, main: HloComputation) -> None:
    before = module.record()
    b = named(module, "b")
    main.update(b, backend_config='"x"')
    main.update(b, backend_config="")
    main.remove(main.add(O.NEGATE, (b,)))
    assert module.record() is before


def test_only_what_changed_is_new(module: HloModule, main: HloComputation) -> None:
    before = module.record()
    main.update(named(module, "c"), metadata=OpMetadata(op_name="n"))
    after = module.record()
    assert after is not before
    assert after.by_name["add"] is before.by_name["add"]
    assert after.by_name["main"] is not before.by_name["main"]
    old, new = before.by_name["main"].by_name, after.by_name["main"].by_name
    assert [n for n in new if new[n] is not old[n]] == ["c"]


@pytest.mark.parametrize("field", ["name", "tables", "header"])
def test_the_modules_own_fields_are_in_the_snapshot(module: HloModule, field: str) -> None:
    before = module.record()
    if field == "header":
        module.header["num_partitions"] = "2"
    else:
        setattr(module, field, "other")
    assert module.record() is not before
    assert module.record() is module.record()


def test_an_old_snapshot_does_not_move(module: HloModule, main: HloComputation) -> None:
    before, text = module.record(), str(module)
    named(module, "b").record()
    main.replace_with(named(module, "b"), O.EXPONENTIAL, (named(module, "a"),))
    main.update(named(module, "d"), attributes={"dimensions": ()})
    assert before.text == text


def test_the_root_knows_that_it_is_one(module: HloModule, main: HloComputation) -> None:
    module.record()
    b, t = named(module, "b"), named(module, "t")
    main.set_root(b)
    assert b.record().is_root
    assert not t.record().is_root
    assert sum(i.is_root for i in main.record().instructions) == 1


def test_a_schedule_that_is_out_of_date_is_not_printed(module: HloModule, main: HloComputation) -> None:
    order = list(reversed(main.post_order()))
    module.set_schedule(main, order)
    assert [i.name for i in main.record().instructions] == [i.name for i in order]
    new = main.add(O.NEGATE, (named(module, "b"),))
    assert new.name in main.record().by_name
    main.remove(new)
    assert [i.name for i in main.record().instructions] == [i.name for i in order]
    module.clear_schedule()
    assert main.record().instructions[0].name == "a"


# -- modules ---------------------------------------------------------------------------------------


def test_a_clone_prints_the_same_and_shares_nothing(module: HloModule) -> None:
    copy = module.clone()
    assert str(copy) == str(module)
    copy.verify()
    ours, theirs = set(module.instructions()), set(copy.instructions())
    assert not ours & theirs
    copy.entry_computation.update(named(copy, "b"), metadata=NO_METADATA)
    assert named(module, "b").metadata.op_name == "node_b"
    assert (
        copy.entry_computation.add(O.NEGATE, (named(copy, "b"),)).name
        == module.entry_computation.add(O.NEGATE, (named(module, "b"),)).name
    )


def test_a_cloned_computation_is_called_alike_and_calls_the_same(module: HloModule, main: HloComputation) -> None:
    copy = module.clone_computation(main)
    assert copy.name == "main.1"
    assert next(i for i in copy if i.opcode is O.REDUCE).to_apply is named(module, "d").to_apply
    assert [i.opcode for i in copy] == [i.opcode for i in main]
    module.verify()


def test_unused_computations_go_and_the_entry_stays(module: HloModule, main: HloComputation) -> None:
    d = named(module, "d")
    assert not module.remove_unused_computations()
    main.replace(d, named(module, "zero"))
    assert module.remove_unused_computations()
    assert [c.name for c in module.computations] == ["main"]
    with pytest.raises(ShapeError, match="entry"):
        module.remove_computation(main)


def test_callers_and_order_of_computations(module: HloModule, main: HloComputation) -> None:
    (add,) = (c for c in module.computations if c.name == "add")
    assert module.callers(add) == [named(module, "d")]
    assert module.post_order() == [add, main]
    assert named(module, "d").called_computations == (add,)


def test_a_call_of_what_is_being_built_can_be_recorded() -> None:
    b = HloBuilder("m")
    inner = b.sub_computation("inner")
    call = b.instruction(O.CALL, (b.parameter(0, array(F32)),), array(F32), to_apply=inner.computation)
    assert call.record().called_computations == ("inner",)
    assert not call.has_side_effect


# -- any sequence of changes -----------------------------------------------------------------------


def scratch(record: ModuleRecord) -> str:
    """The snapshot's text, without caches."""
    return ModuleRecord(record.name, record.computations, record.entry, record.header, record.tables).text


@settings(max_examples=60)
@given(st.data())
def test_any_changes_keep_the_module_right(data: st.DataObject) -> None:
    b = HloBuilder("m")
    x = b.parameter(0, array(F32, [2]))
    module = b.build(b.negate(x))
    c = b.computation
    for _ in range(data.draw(st.integers(1, 12))):
        some = list(c)

        def pick(items: list[HloInstruction] = some) -> HloInstruction:
            return items[data.draw(st.integers(0, len(items) - 1))]

        action = data.draw(
            st.sampled_from(
                ["unary", "binary", "constant", "replace", "root", "rename", "remove", "operand", "snapshot"]
            )
        )
        if action == "unary":
            c.add(O.NEGATE, (pick(),))
        elif action == "binary":
            c.add(O.ADD, (pick(), pick()))
        elif action == "constant":
            c.constant(np.ones(2, np.float32))
        elif action == "root":
            c.set_root(pick())
        elif action == "rename":
            c.rename(pick(), data.draw(st.sampled_from(["p", "q", "add"])))
        elif action == "remove":
            c.remove_dead(pick())
        elif action == "snapshot":
            assert module.record() is module.record()
        else:
            _rewire(c, action, pick())
        check(module)


def _rewire(c: HloComputation, action: str, old: HloInstruction) -> None:
    """Replace an instruction, or the first operand of one, by the parameter.

    The parameter does not depend on it.
    """
    parameter = c.parameters[0]
    if action == "replace" and old is not parameter:
        c.replace(old, parameter)
    elif action == "operand" and old.operands:
        c.replace_operand(old, 0, parameter)


def check(module: HloModule) -> None:
    module.verify()
    c: Any = module.entry_computation
    for i in c:
        assert set(i.users) == {u for u in c if i in u.operands}
        assert all(i._users[u] == u.operands.count(i) for u in i.users)
    cached = str(module)
    for i in c:
        i._record = None
    c.invalidate()
    assert scratch(module.record()) == cached


def test_parameters_are_those_of_the_numbers_that_they_have_now():
    module = hlo.parse(
        "HloModule m\nENTRY e { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
    )
    e = module.entry_computation
    a, b = e.parameters
    e.update(a, attributes={"parameter_number": 1})
    e.update(b, attributes={"parameter_number": 0})
    assert e.parameters == [b, a]
    c = e.add(HloOpcode.PARAMETER, (), a.shape, parameter_number=2)
    assert e.parameters == [b, a, c]
    e.remove(c)
    assert e.parameters == [b, a]


@pytest.mark.parametrize("operands", ["ab", "ba", "bc", "abc", "aab", "cc", ""])
@pytest.mark.parametrize("before", ["ab", "abc", "aa"])
def test_set_operands_keeps_count_of_every_use(before, operands):
    module = hlo.parse(
        "HloModule m\nENTRY e { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
    )
    e = module.entry_computation
    by_name = {i.name: i for i in e}
    user = e.add(HloOpcode.TUPLE, [by_name[n] for n in before])
    other = e.add(HloOpcode.TUPLE, list(by_name.values()))
    e.set_operands(user, [by_name[n] for n in operands])
    for name, i in by_name.items():
        assert i.uses_by(user) == operands.count(name)
        assert i.users[-1] is (user if name in operands else other)
        assert (user in i.users) is (name in operands)


@pytest.mark.parametrize(
    ("before", "index", "new"), [("ab", 0, "c"), ("ab", 1, ""), ("abc", 1, "d"), ("aab", 0, "cd"), ("aab", 2, "")]
)
def test_exchange_operand_gives_what_set_operands_does(before, index, new):
    def made(exchange):
        lines = "\n".join(f"  {n} = f32[] parameter({k})" for k, n in enumerate("abcd"))
        e = hlo.parse(f"HloModule m\nENTRY e {{\n{lines}\n  ROOT r = f32[] add(a, b)\n}}").entry_computation
        by_name = {i.name: i for i in e}
        user = e.add(HloOpcode.TUPLE, [by_name[n] for n in before])
        e.add(HloOpcode.TUPLE, e.parameters)
        exchange(e, user, [by_name[n] for n in new])
        users = [[(u.name, i.uses_by(u)) for u in i.users] for i in e]
        return [o.name for o in user.operands], users

    def by_set(e, user, added):
        e.set_operands(user, [*user.operands[:index], *user.operands[index + 1 :], *added])

    assert made(lambda e, user, added: e.exchange_operand(user, index, added)) == made(by_set)


def test_set_operands_refuses_what_was_removed():
    module = hlo.parse(
        "HloModule m\nENTRY e { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
    )
    e = module.entry_computation
    gone = e.add(HloOpcode.NEGATE, [e.parameters[0]])
    e.remove(gone)
    with pytest.raises(ShapeError, match="was removed"):
        e.set_operands(e.root, [e.parameters[0], gone])


def _with_parameters(count: int) -> HloComputation:
    lines = [f"  p{k} = f32[{k + 1}] parameter({k})" for k in reversed(range(count))]
    return hlo.parse(
        "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n  ROOT r = f32[1] copy(p0)\n}\n"
    ).entry_computation


def test_parameters_are_in_the_order_of_their_numbers_whatever_is_done() -> None:
    c = _with_parameters(6)
    assert [p.name for p in c.parameters] == ["p0", "p1", "p2", "p3", "p4", "p5"]
    c.remove(c.parameters[2])
    assert [p.parameter_number for p in c.parameters] == [0, 1, 3, 4, 5]
    c.renumber_parameters(2)
    assert [(p.name, p.parameter_number) for p in c.parameters] == [
        ("p0", 0), ("p1", 1), ("p3", 2), ("p4", 3), ("p5", 4)
    ]  # fmt: skip
    last = c.add(HloOpcode.PARAMETER, (), array(PrimitiveType.F32, (2,)), name="q", parameter_number=5)
    assert c.parameters[-1] is last
    c.update(last, attributes={"parameter_number": -1})
    assert c.parameters[0] is last


def test_a_new_last_parameter_needs_no_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    from xlanb.hlo import computation

    c = _with_parameters(50)
    assert len(c.parameters) == 50
    asked, number = [], computation._number
    monkeypatch.setattr(computation, "_number", lambda p: asked.append(p) or number(p))
    c.add(HloOpcode.PARAMETER, (), array(PrimitiveType.F32, (2,)), name="q", parameter_number=50)
    assert len(c.parameters) == 51
    assert len(asked) < 5


def test_renumbering_is_told() -> None:
    c = _with_parameters(4)
    c.remove(c.parameters[1])
    edits = Edits()
    with observing(edits):
        c.renumber_parameters(1)
    assert [(e.kind, e.new.name) for e in edits.seen if e.new is not None] == [("update", "p2"), ("update", "p3")]


def test_expanding_a_parameter_tells_of_what_came_and_went() -> None:
    module = hlo.parse(
        "HloModule m\nf {\n  p0 = f32[] parameter(0)\n  p1 = f32[] parameter(1)\n  p2 = f32[] parameter(2)\n"
        "  s = f32[] add(p0, p1)\n  ROOT r = f32[] add(s, p2)\n}\n"
        "ENTRY e {\n  a = f32[] parameter(0)\n  n = f32[] negate(a)\n"
        "  ROOT c = f32[] fusion(n, a, n), kind=kLoop, calls=f\n}\n"
    )
    fused = next(c for c in module.computations if c.name == "f")
    source = module.entry_computation.find("n")
    assert source is not None
    edits, recorder = Edits(), Recorder()
    with observing(edits), observing(recorder), because(rule="fuse", where="here:1"):
        copy = fused.expand_parameter(0, source, [3], [source.shape])
    assert [p.name for p in fused.parameters] == ["p1", "p2", "param_3"]
    assert [p.parameter_number for p in fused.parameters] == [0, 1, 2]
    assert [o.name for o in copy.operands] == ["param_3"]
    assert [o.name for o in fused.find("s").operands] == [copy.name, "p1"]  # type: ignore[union-attr]
    told = [(e.kind, e.old and e.old.name, e.new and e.new.name) for e in edits.seen]
    assert told == [
        ("add", None, "param_3"),
        ("add", "n", copy.name),
        ("replace", "p0", copy.name),
        ("remove", "p0", None),
    ]
    added = edits.seen[0].new
    assert (added.attributes, added.uid) == ({"parameter_number": 3}, fused.parameters[2].uid)
    recorder.on_event(StageFinished(1, Stage("hlo_pass", "fusion", None, None)))
    recorded = recorder.traces[0].stages[0].edits
    assert recorded == tuple(edits.seen)
    assert pickle.loads(pickle.dumps(recorded)) == recorded  # noqa: S301 - made here


def test_expanding_a_parameter_refuses_another_shape() -> None:
    module = hlo.parse(
        "HloModule m\nf { p0 = f32[] parameter(0) ROOT s = f32[] negate(p0) }\n"
        "ENTRY e { a = f32[2] parameter(0) ROOT n = f32[2] negate(a) }\n"
    )
    fused = next(c for c in module.computations if c.name == "f")
    with pytest.raises(ShapeError, match="of shape"):
        fused.expand_parameter(0, module.entry_computation.root, [0], [])
