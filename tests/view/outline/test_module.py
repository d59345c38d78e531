from __future__ import annotations

import pytest

from xlanb.hlo import parse
from xlanb.view.outline.data import part_data
from xlanb.view.outline.module import ModuleOutlines
from xlanb.view.outline.opening import MOST, Insides, Opening, Spot, default_opening
from xlanb.view.outline.repeats import label_of_repeat
from xlanb.view.outline.tree import TreeBranch


def program_of(text):
    return ModuleOutlines().program(parse(text).record())


def entry_of(text):
    program = program_of(text)
    return program.parts[program.entry]


def module(*lines, before=""):
    return f"HloModule m\n\n{before}\nENTRY main {{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"


def chain(count, ops=("tanh", "negate", "exponential", "sine", "cosine", "sqrt", "abs")):
    lines = ["v0 = f32[64] parameter(0)"]
    # no period: the op is chosen by the square of its number
    lines += [f"v{k} = f32[64] {ops[k * k % len(ops) if k % 5 else k % 3]}(v{k - 1})" for k in range(1, count)]
    return module(*lines[:-1], f"ROOT {lines[-1]}")


def layers(count, scope="layer_{}", wide=2):
    lines = ["x0 = f32[64,64] parameter(0)", "w = f32[64,64] parameter(1)"]
    for k in range(count):
        meta = f', metadata={{op_name="jit(f)/{scope.format(k)}/op"}}' if scope else ""
        dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        lines.append(f"d{k} = f32[64,64] dot(x{k}, w), {dims}{meta}")
        lines += [f"t{k}.{n} = f32[64,64] tanh({f't{k}.{n - 1}' if n else f'd{k}'}){meta}" for n in range(wide)]
        lines.append(f"x{k + 1} = f32[64,64] add(t{k}.{wide - 1}, x{k}){meta}")
    return module(*lines[:-1], f"ROOT {lines[-1]}")


def nodes_drawn(program, opening):
    """Nodes of the first picture, its ports left out."""
    insides = Insides(program)
    opened = set(opening.open)
    todo = [Spot(program.parts[program.entry], -1, "")]
    count = 0
    while todo:
        spot = todo.pop()
        groups, own = insides.of(spot)
        for g in groups:
            is_open = f"{spot.prefix}@{spot.part.outline.groups[g].key}" in opened
            todo += [Spot(spot.part, g, spot.prefix)] if is_open else []
            count += not is_open
        for k in own:
            key = spot.prefix + spot.part.ops.names[k]
            todo += insides.callees(spot.part, k, key) if key in opened else ()
            count += key not in opened
    return count


def labels(part, kind):
    return [g.label for g in part.outline.groups if g.kind == kind]


def test_layers_of_one_name_and_content_are_a_repeat():
    part = entry_of(layers(6))
    assert labels(part, "repeat") == ["layer 0-5"]
    assert len(labels(part, "scope")) == 6
    repeat = next(k for k, g in enumerate(part.outline.groups) if g.kind == "repeat")
    assert sum(g.parent == repeat for g in part.outline.groups) == 6


def test_layers_of_one_name_and_other_content_are_none():
    text = layers(6).replace("tanh(t1.0)", "exponential(t1.0)").replace("tanh(d1)", "sine(d1)")
    assert labels(entry_of(text), "repeat") == ["layer 2-5"]


def test_what_repeats_without_names_is_found_by_its_period():
    part = entry_of(layers(40, scope=""))
    (repeat,) = (k for k, g in enumerate(part.outline.groups) if g.kind == "repeat")
    assert sum(g.parent == repeat for g in part.outline.groups) == 40
    assert part.outline.groups[repeat].label == "dot, 2 tanh, add"


def test_a_chain_is_cut_into_segments_in_its_order():
    part = entry_of(chain(300))
    assert {g.kind for g in part.outline.groups} == {"flow"}
    top = [k for k, g in enumerate(part.outline.groups) if g.parent == -1]
    assert 3 <= len(top) <= 12
    tops = []
    for k in range(1, 300):
        g = part.outline.member[k]
        while part.outline.groups[g].parent >= 0:
            g = part.outline.groups[g].parent
        tops.append(g)
    assert tops == sorted(tops)


@pytest.mark.parametrize("text", [chain(300), chain(3000), layers(40), layers(40, scope=""), layers(3), layers(300)])
def test_the_first_picture_has_some_nodes_and_not_too_many(text):
    program = program_of(text)
    assert 3 <= nodes_drawn(program, default_opening(program)) <= MOST


def test_programs_of_one_instruction_or_two_are_shown():
    for text in (
        module("ROOT c = f32[] constant(3)"),
        module("ROOT p = f32[4] parameter(0)"),
        module("p = f32[4] parameter(0)", "ROOT t = f32[4] tanh(p)"),
    ):
        program = program_of(text)
        assert default_opening(program).open == ()
        assert len(program.parts["main"].outline.member) == len(program.parts["main"].ops)


def test_quiet_ops_are_inlined_or_edges():
    part = entry_of(
        module(
            "p = f32[4] parameter(0)",
            "s = f32[] parameter(1)",
            "half = f32[] constant(0.5)",
            "halves = f32[4] broadcast(half), dimensions={}",
            "wide = f32[4] broadcast(s), dimensions={}",
            "m = f32[4] multiply(p, halves)",
            "a = f32[4] add(m, wide)",
            "pair = (f32[4], f32[4]) tuple(a, m)",
            "first = f32[4] get-tuple-element(pair), index=0",
            "n = f32[4] negate(first)",
            "ROOT r = (f32[4]) tuple(n)",
        )
    )
    roles = dict(zip(part.ops.names, part.ops.roles, strict=True))
    assert [k for k, r in roles.items() if r == "q"] == ["half", "halves"]
    assert [k for k, r in roles.items() if r == "p"] == ["wide", "pair", "first"]
    assert [k for k, r in roles.items() if r == "."] == ["m", "a", "n"]
    assert roles["r"] == "o"
    assert {part.ops.names[k] for k in part.ops.sources[part.ops.names.index("n")]} == {"a"}


def test_what_only_adds_or_removes_dimensions_of_one_element_is_an_edge():
    part = entry_of(
        module(
            "p = f32[4,8] parameter(0)",
            "n = f32[4,8] negate(p)",
            "more = f32[4,1,8] reshape(n)",
            "same = f32[4,1,8] broadcast(more), dimensions={0,1,2}",
            "flat = f32[32] reshape(same)",
            "wide = f32[2,32] broadcast(flat), dimensions={1}",
            "ROOT r = f32[1,2,32] reshape(wide)",
        )
    )
    roles = dict(zip(part.ops.names, part.ops.roles, strict=True))
    assert [k for k, r in roles.items() if r == "p"] == ["more", "same"]
    assert [k for k, r in roles.items() if r == "."] == ["n", "flat", "wide", "r"]


@pytest.mark.parametrize(
    ("root", "home"),
    [
        ('ROOT n = f32[8,8] negate(x), metadata={op_name="jit(f)/light/neg"}', "light"),
        ("ROOT n = f32[8,8] negate(x)", "heavy"),
        (
            'l = f32[8,8] negate(x), metadata={op_name="jit(f)/light/neg"}\n  ROOT n = (f32[8,8], f32[8,8]) tuple(l, x)',
            "light",
        ),
        (
            'z = f32[] constant(0), metadata={op_name="jit(f)/light/zero"}\n'
            '  s = f32[8,8] broadcast(z), dimensions={}, metadata={op_name="jit(f)/light/zero"}\n'
            "  ROOT n = f32[8,8] maximum(s, x)",
            "heavy",
        ),
        ('ROOT n = f32[64] bitcast(x), metadata={op_name="jit(f)/light/reshape"}', "heavy"),
    ],
)
def test_a_fusion_lies_where_its_root_does_else_where_most_of_its_work_was(root, home):
    is_tuple = "tuple" in root
    shape = "(f32[8,8], f32[8,8])" if is_tuple else "f32[64]" if "bitcast" in root else "f32[8,8]"
    text = module(
        "p = f32[8,8] parameter(0)",
        'a = f32[8,8] tanh(p), metadata={op_name="jit(f)/light/tanh"}',
        'b = f32[8,8] sine(a), metadata={op_name="jit(f)/light/sin"}',
        f"fused = {shape} fusion(b), kind=kLoop, calls=inner",
        *(["e = f32[8,8] get-tuple-element(fused), index=0"] if is_tuple else []),
        f"g = f32[8,8] {'copy' if shape == 'f32[8,8]' else 'reshape'}({'e' if is_tuple else 'fused'})",
        'c = f32[8,8] sine(g), metadata={op_name="jit(f)/heavy/sin"}',
        'ROOT d = f32[8,8] cosine(c), metadata={op_name="jit(f)/heavy/cos"}',
        before="inner {\n  i = f32[8,8] parameter(0)\n"
        "  x = f32[8,8] dot(i, i), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        f'metadata={{op_name="jit(f)/heavy/dot"}}\n  {root}\n}}\n',
    )
    part = entry_of(text)
    keys = [g.key for g in part.outline.groups]
    homes = {n: keys[g] if g >= 0 else "" for n, g in zip(part.ops.names, part.outline.member, strict=True)}
    assert homes["fused"] == home
    assert homes["a"] == homes["b"] == "light"


def test_scopes_of_which_one_op_is_left_are_grouped_by_their_names_as_before():
    text = ["p0 = f32[8,8] parameter(0)", "w = f32[8,8] parameter(1)"]
    for k in range(30):
        meta = f'metadata={{op_name="jit(f)/conv{k // 10}_block{k // 2}_{k % 2}_conv/dot"}}'
        text.append(f"p{k + 1} = f32[8,8] dot(p{k}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {meta}")
    part = entry_of(module(*text[:-1], f"ROOT {text[-1]}"))
    labels = {g.label for g in part.outline.groups}
    assert labels == {
        "conv0-2",
        "conv0",
        "conv1",
        "conv2",
        *(f"block{k}" for k in range(15)),
        "block0-4",
        "block5-9",
        "block10-14",
    }


def test_a_first_picture_may_be_asked_to_be_small():
    program = program_of(layers(12).replace("layer_1/", "stem/").replace("layer_2/", "head/"))
    assert nodes_drawn(program, default_opening(program, most=3)) < nodes_drawn(program, default_opening(program))


def test_what_was_open_stays_open():
    program = program_of(layers(6))
    first = default_opening(program)
    assert "@layer_*" in first.open
    closed = Opening((), first.known)
    assert default_opening(program, closed).open == first.open  # nothing open would be too little
    assert default_opening(program, first).open == first.open


def test_of_a_computation_that_is_cut_groups_and_their_edges_are_told():
    part = entry_of(layers(300))
    data = part_data(part, len(part.ops) - 40)
    assert len(data["r"]) == 40
    assert data["g"][0][1] == "repeat"
    assert data["g"][0][-1] == 300
    assert sum(data["m"][1::2]) == 40
    rest = data["x"]
    assert sum(row[1] for row in (*rest["n"], *rest["o"])) == sum(map(part.ops.is_shown, range(len(part.ops) - 40)))
    assert rest["n"] == [], "the ops of one layer that is there stand for those of all"
    assert [row[1] for row in rest["o"]] == [290] * 4
    assert rest["t"] == [x for k in range(4, 40) for x in (k, -2 - k % 4)]
    assert data["m"] == [1, 4, 0, 36]
    assert data["x"]["p"] == 2


@pytest.mark.parametrize(
    ("numbers", "label"),
    [((0, 1, 2), "block 0-2"), ((2, 1, 0), "block 0-2"), ((0, 2, 1), "block 0-2"), ((9, 1, 5), "block 1, 5, 9")],
)
def test_a_stack_is_named_by_its_numbers_in_order(numbers, label):
    assert label_of_repeat([TreeBranch(f"block_{k}", f"block_{k}") for k in numbers]) == label


def beside_a_group(count):
    """Light ops without a scope before and after a scope that does the work."""
    meta, light = (f', metadata={{op_name="jit(f)/{scope}op"}}' for scope in ("net/", ""))
    dot = "dot(a{k}, a{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    lines = ["x0 = f32[256,256] parameter(0)"]
    lines += [f"x{k} = f32[256,256] tanh(x{k - 1}){light}" for k in range(1, count + 1)]
    lines += [f"a0 = f32[256,256] negate(x{count}){meta}"]
    lines += [f"a{k + 1} = f32[256,256] {dot.format(k=k)}{meta}" for k in range(40)]
    lines += [
        f"y{k} = f32[256,256] abs({before}){light}"
        for k, before in enumerate(("a40", *(f"y{k}" for k in range(count - 1))))
    ]
    return module(*lines[:-1], f"ROOT {lines[-1]}")


@pytest.mark.parametrize(("count", "labels"), [(4, ["4 tanh", "net", "4 abs"]), (1, ["net"])])
def test_light_ops_beside_a_group_that_does_the_work_are_boxes_too(count, labels):
    part = entry_of(beside_a_group(count))
    found = [g.label for g in part.outline.groups if g.parent < 0]
    assert sorted(found) == sorted(labels)


def test_costs_are_those_of_the_analysis():
    from xlanb.analysis.cost import cost

    text = layers(2)
    part = entry_of(text)
    whole = cost(parse(text))
    assert sum(f for f, _ in part.costs) == whole.flops + whole.transcendentals
    assert sum(b for _, b in part.costs) == whole.bytes_accessed


def test_what_has_no_scope_beside_a_forward_and_a_backward_pass_is_one_group():
    ops = ("tanh", "negate", "exponential", "sine", "cosine", "sqrt", "abs")

    def scoped(start, count, scope):
        meta = f', metadata={{op_name="{scope}/op"}}'
        numbers = range(start, start + count)
        return [f"v{k} = f32[64] {ops[k * k % len(ops) if k % 5 else k % 3]}(v{k - 1}){meta}" for k in numbers]

    forward = scoped(1, 8, "jit(step)/jvp(layer)")
    backward = scoped(9, 8, "jit(step)/transpose(jvp(layer))")
    rest = scoped(17, 84, "jit(step)")
    part = entry_of(module("v0 = f32[64] parameter(0)", *forward, *backward, *rest[:-1], f"ROOT {rest[-1]}"))
    top = [g for g in part.outline.groups if g.parent < 0]
    assert [g.label for g in top] == ["forward/layer", "backward/layer", "update"]
    inside = [g for g in part.outline.groups if g.parent == part.outline.groups.index(top[-1])]
    assert len(inside) > 3, "it is cut as the flow goes"


def test_an_optimizer_is_a_group_though_its_ops_are_few():
    def scoped(name, code, scope):
        return f'{name} = f32[64] {code}, metadata={{op_name="{scope}/op"}}'

    passes = [scoped(f"f{k}", f"tanh(f{k - 1})", "jit(step)/jvp(layer)") for k in range(1, 4)]
    passes += [
        scoped(f"b{k}", f"sine({f'b{k - 1}' if k else 'f3'})", "jit(step)/transpose(jvp(layer))") for k in range(4)
    ]
    updates = [
        scoped(f"{name}{k}", code, "jit(step)")
        for k in range(6)
        for name, code in (("m", "multiply(b3, f0)"), ("new", f"subtract(f0, m{k})"))
    ]
    root = f"ROOT r = ({', '.join(['f32[64]'] * 6)}) tuple({', '.join(f'new{k}' for k in range(6))})"
    part = entry_of(module("f0 = f32[64] parameter(0)", *passes, *updates, root))
    top = [g for g in part.outline.groups if g.parent < 0]
    assert [(g.label, g.kind) for g in top] == [
        ("forward/layer", "scope"),
        ("backward/layer", "scope"),
        ("update", "repeat"),
    ]
    assert all(part.outline.member[part.ops.names.index(f"m{k}")] >= 0 for k in range(6))


FRAMES = """FileNames
1 "/lib/python3.11/site-packages/optax/_src/combine.py"
2 "/lib/python3.11/site-packages/optax/_src/transform.py"
3 "/home/me/train.py"

FunctionNames
1 "step"
2 "chain.<locals>.update_fn"
3 "clip.<locals>.update_fn"
4 "adam.<locals>.update_fn.<locals>.<lambda>"
5 "<module>"
6 "step.<locals>.<lambda>"
7 "own_update"

FileLocations
1 {file_name_id=3 function_name_id=5 line=9 end_line=9 column=1 end_column=2}
2 {file_name_id=3 function_name_id=1 line=5 end_line=5 column=1 end_column=2}
3 {file_name_id=1 function_name_id=2 line=90 end_line=90 column=1 end_column=2}
4 {file_name_id=2 function_name_id=3 line=20 end_line=20 column=1 end_column=2}
5 {file_name_id=2 function_name_id=4 line=30 end_line=30 column=1 end_column=2}
6 {file_name_id=3 function_name_id=6 line=6 end_line=6 column=1 end_column=2}
7 {file_name_id=3 function_name_id=7 line=2 end_line=2 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}
4 {file_location_id=4 parent_frame_id=4}
5 {file_location_id=5 parent_frame_id=4}
6 {file_location_id=6 parent_frame_id=3}
7 {file_location_id=7 parent_frame_id=3}
"""


def step_by_a_library(*, has_backward=True):
    scopes = ["jvp(layer)", "transpose(jvp(layer))" if has_backward else "jvp(other)"]
    lines = ["v0 = f32[64] parameter(0)"]
    for name in [f"{scope}/sin" for scope in scopes for _ in range(3)]:
        k = len(lines)
        lines.append(f'v{k} = f32[64] sine(v{k - 1}), metadata={{op_name="jit(step)/{name}"}}')
    for frame in (4, 4, 5, 5, 5, 6, 7, 7):
        k = len(lines)
        lines.append(f'v{k} = f32[64] abs(v{k - 1}), metadata={{op_name="jit(step)/abs" stack_frame_id={frame}}}')
    return module(*lines[:-1], f"ROOT {lines[-1]}").replace("HloModule m\n\n", f"HloModule m\n\n{FRAMES}\n")


def test_what_a_step_does_without_a_scope_is_known_by_the_python_functions_that_ask_for_it():
    part = entry_of(step_by_a_library())
    keys = [g.key for g in part.outline.groups]
    home = [keys[g] if g >= 0 else "" for g in part.outline.member]
    assert home[7:] == [
        "optax/clip",
        "optax/clip",
        "optax/adam",
        "optax/adam",
        "optax/adam",
        "",
        "own_update",
        "own_update",
    ]


def test_python_functions_are_no_scopes_of_a_program_without_a_backward_pass():
    part = entry_of(step_by_a_library(has_backward=False))
    assert not any("optax" in g.key for g in part.outline.groups)


LOOP = """HloModule m

body {
  p = (s32[], f32[64,64]) parameter(0)
  k = s32[] get-tuple-element(p), index=0
  x = f32[64,64] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(k, one)
  grown = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[64,64]) tuple(next, grown)
}

condition {
  p = (s32[], f32[64,64]) parameter(0)
  k = s32[] get-tuple-element(p), index=0
  ten = s32[] constant(10)
  ROOT less = pred[] compare(k, ten), direction=LT
}

called {
  c = f32[64,64] parameter(0)
  ROOT product = f32[64,64] dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY main {
  zero = s32[] constant(0)
  x = f32[64,64] parameter(0)
  dead1 = f32[64,64] tanh(x), metadata={op_name="jit(f)/layer/tanh"}
  dead2 = f32[64,64] negate(dead1), metadata={op_name="jit(f)/layer/neg"}
  live1 = f32[64,64] sine(x), metadata={op_name="jit(f)/layer/sin"}
  live2 = f32[64,64] cosine(live1), metadata={op_name="jit(f)/layer/cos"}
  t = (s32[], f32[64,64]) tuple(zero, live2)
  loop = (s32[], f32[64,64]) while(t), condition=condition, body=body
  g = f32[64,64] get-tuple-element(loop), index=1
  told = f32[64,64] negate(g), metadata={op_name="jit(f)/neg"}
  side = () custom-call(told), custom_call_target="told", custom_call_has_side_effect=true
  ROOT r = f32[64,64] call(g), to_apply=called
}
"""


def test_a_loop_costs_what_its_body_does_so_often_and_a_call_what_it_calls():
    part = entry_of(LOOP)
    costs = dict(zip(part.ops.names, part.costs, strict=True))
    product = 2 * 64**3
    assert costs["r"][0] == product
    assert 10 * product <= costs["loop"][0] < 10 * (product + 10)
    assert costs["loop"][1] >= 10 * 2 * 64 * 64 * 4
    assert part.trips == {part.ops.names.index("loop"): 10}


def test_what_nothing_depends_on_is_a_group_in_its_scope():
    part = entry_of(LOOP)
    (unused,) = (k for k, g in enumerate(part.outline.groups) if g.label == "unused")
    assert [n for n, g in zip(part.ops.names, part.outline.member, strict=True) if g == unused] == ["dead1", "dead2"]
    assert part.outline.groups[part.outline.groups[unused].parent].label == "layer"


def test_a_fusion_belongs_to_what_it_gives_back():
    text = """HloModule m

fused {
  p = f32[8,64] parameter(0)
  a = f32[8,64] tanh(p), metadata={op_name="jit(f)/first/tanh"}
  b = f32[8,64] exponential(a), metadata={op_name="jit(f)/first/exp"}
  c = f32[8,64] add(b, p), metadata={op_name="jit(f)/second/add"}
  ROOT m = f32[8,64] maximum(c, p), metadata={op_name="max"}
}

ENTRY main {
  x = f32[8,64] parameter(0)
  n = f32[8,64] negate(x), metadata={op_name="jit(f)/first/neg"}
  f = f32[8,64] fusion(n), kind=kLoop, calls=fused, metadata={op_name="max"}
  ROOT r = f32[8,64] negate(f), metadata={op_name="jit(f)/third/neg"}
}
"""
    part = entry_of(text)
    assert part.ops.paths[part.ops.names.index("f")] == ("second",)
