from __future__ import annotations

import pytest

import xlanb
from xlanb.analysis.cost import cost
from xlanb.analysis.expansion import check_expansion, expanded_sizes
from xlanb.errors import PassError
from xlanb.hlo import parse
from xlanb.hlo.module import HloModule
from xlanb.transforms import PASSES

CALLS = {
    "call": "call({x}), to_apply=comp{k}",
    "fusion": "fusion({x}), kind=kLoop, calls=comp{k}",
    "while": "while({x}), condition=cond, body=comp{k}",
    "conditional": "conditional(q, {x}, {x}), true_computation=comp{k}, false_computation=comp{k}",
}


def doubling(levels: int, kind: str = "call") -> HloModule:
    """Each computation calls the previous one twice (a conditional four times)."""
    text = ["HloModule m\ncond { p = f32[4] parameter(0)  ROOT t = pred[] constant(false) }\n"]
    text += ["comp0 { p = f32[4] parameter(0)  ROOT r = f32[4] tanh(p) }\n"]
    for k in range(1, levels):
        a, b = (f"f32[4] {CALLS[kind].format(x=x, k=k - 1)}" for x in "pa")
        q = "q = pred[] constant(true)" if kind == "conditional" else ""
        text += [f"comp{k} {{ p = f32[4] parameter(0) {q} a = {a}  b = {b}\n"]
        text += [" ROOT r = f32[4] add(a, b) }\n"]
    text += [f"ENTRY e {{ p = f32[4] parameter(0)  ROOT r = f32[4] call(p), to_apply=comp{levels - 1} }}"]
    return parse("".join(text))


def test_sizes_count_a_copy_for_each_call():
    module = doubling(3)
    sizes = {c.name: n for c, n in expanded_sizes(module).items()}
    assert sizes == {"cond": 2, "comp0": 2, "comp1": 4 + 4, "comp2": 4 + 16, "e": 2 + 20}


def test_sizes_are_those_after_flattening():
    module = doubling(6)
    expected = expanded_sizes(module)[module.entry_computation]
    PASSES["flatten-call-graph"]().run(module)
    assert module.instruction_count == expected + 2  # cond, which has no caller


# a fused computation belongs to one fusion
@pytest.mark.parametrize("kind", sorted(CALLS.keys() - {"fusion"}))
def test_compiling_refuses_what_doubles_without_end(kind):
    with pytest.raises(
        PassError, match=r"m has \d+ instructions; .* would have about 10\^\d+, more than the limit of 20,000"
    ):
        xlanb.compile(doubling(60, kind))


@pytest.mark.parametrize("name", ["call-inliner", "flatten-call-graph"])
def test_passes_refuse_before_they_change_anything(name):
    module = doubling(40)
    before = str(module)
    with pytest.raises(PassError, match=rf"{name}: .* raise --xlanb_max_expanded_instructions"):
        PASSES[name]().run(module)
    assert str(module) == before


def test_simplify_conditional_refuses_before_it_changes_anything():
    module = doubling(40, "conditional")
    before = str(module)
    with pytest.raises(PassError, match=r"simplify-conditional: .* raise --xlanb_max_expanded_instructions"):
        PASSES["simplify-conditional"]().run(module)
    assert str(module) == before


def test_only_branches_that_are_taken_count():
    """simplify-conditional copies only the branch that is taken.

    It copies no calls either, which another pass inlines.
    """
    module = parse(
        str(doubling(40)).replace("ENTRY %e", "%calls")
        + "\nf { p = f32[4] parameter(0)  ROOT t = f32[4] tanh(p) }\n"
        + "ENTRY m { p = f32[4] parameter(0)  q = pred[] constant(false)\n"
        + " ROOT r = f32[4] conditional(q, p, p), true_computation=calls, false_computation=f }"
    )
    PASSES["simplify-conditional"]().run(module)
    assert module.entry_computation.root.opcode.text == "tanh"


def test_conditional_to_select_counts_the_copies_of_branches():
    branch = "f { p = f32[] parameter(0)\n" + "".join(
        f" v{k} = f32[] tanh({f'v{k - 1}' if k else 'p'})\n" for k in range(50)
    )
    chosen = "".join(
        f" c{k} = f32[] conditional(q, {x}, {x}), true_computation=f, false_computation=f\n"
        for k in range(40)
        for x in ([f"c{k - 1}"] if k else ["p"])
    )
    module = parse(
        f"HloModule m\n{branch} ROOT r = f32[] negate(v49) }}\ng {{ p = f32[] parameter(0)\n q = pred[] compare(p, p), direction=EQ\n"
        f"{chosen} ROOT r = f32[] negate(c39) }}\nENTRY e {{ p = f32[4] parameter(0)  ROOT r = f32[4] map(p), dimensions={{0}}, to_apply=g }}"
    )
    with (
        xlanb.flags("--xlanb_max_expanded_instructions=2000"),
        pytest.raises(PassError, match="conditional-to-select: m"),
    ):
        PASSES["conditional-to-select"]().run(module)
    PASSES["conditional-to-select"]().run(module)
    assert module.instruction_count > 2000


def test_inlining_loops_of_one_round_copies_nothing():
    module = doubling(10, "while")
    before = module.instruction_count
    PASSES["simplify-while-loops"]().run(module)
    assert module.instruction_count <= before


def test_the_limit_is_a_flag():
    module = doubling(5)
    with xlanb.flags("--xlanb_max_expanded_instructions=10"):
        check_expansion(module, "a pass")  # not more than eight times as large
        with pytest.raises(PassError, match="a pass: m has"):
            check_expansion(doubling(9), "a pass")


def test_many_calls_of_a_small_computation_are_no_expansion():
    calls = "".join(f" r{k} = f32[4] call({f'r{k - 1}' if k else 'p'}), to_apply=f\n" for k in range(100))
    module = parse(
        "HloModule m\nf { p = f32[4] parameter(0)  ROOT t = f32[4] tanh(p) }\n"
        f"ENTRY e {{ p = f32[4] parameter(0)\n{calls} ROOT r = f32[4] negate(r99) }}"
    )
    with xlanb.flags("--xlanb_max_expanded_instructions=10"):
        check_expansion(module, "a pass")


@pytest.mark.parametrize("kind", CALLS)
def test_cost_visits_each_computation_once(kind):
    calls = 4 if kind == "conditional" else 2
    counted = 2 if kind == "conditional" else calls  # the most expensive branch of a conditional
    assert cost(doubling(4, kind)).transcendentals == 4 * counted**3
    assert cost(doubling(60, kind)).transcendentals == 4 * counted**59


def test_cost_beyond_floats_is_infinite():
    assert cost(doubling(1200)).transcendentals == float("inf")
