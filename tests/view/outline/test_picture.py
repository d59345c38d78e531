from __future__ import annotations

import pytest

from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo import parse
from xlanb.view.outline.picture import outline_drawing
from xlanb.view.outlines import Outlines


def layers(count):
    lines = ["x0 = f32[64,64] parameter(0)"]
    for k in range(count):
        meta = f'metadata={{op_name="jit(f)/layer_{k}/op"}}'
        lines.append(f"two{k} = f32[] constant(2)")
        lines.append(f"b{k} = f32[64,64] broadcast(two{k}), dimensions={{}}")
        lines.append(f"m{k} = f32[64,64] multiply(x{k}, b{k}), {meta}")
        lines.append(f"x{k + 1} = f32[64,64] tanh(m{k}), {meta}")
    lines[-1] = f"ROOT {lines[-1]}"
    return parse("HloModule m\n\nENTRY main {\n" + "\n".join(f"  {x}" for x in lines) + "\n}\n").record()


@pytest.mark.parametrize("count", [1, 3, 200])
def test_the_first_picture_is_drawn_small_whatever_the_program(count):
    made = outline_drawing(Outlines().program(layers(count)))
    assert 2 <= len(made.drawing.nodes) <= 30
    assert made.titles.keys() == made.drawing.nodes.keys()
    assert made.drawing.edges
    assert not any(name.startswith(("two", "b")) for name in made.drawing.nodes)


def test_a_repeat_tells_how_often_it_is_there():
    made = outline_drawing(Outlines().program(layers(200)), most=2)
    assert made.titles["@layer_*"] == ("layer 0-199 x200", "400 ops")
    assert ("x0", "@layer_*") in made.drawing.edges


def test_a_fusion_that_is_open_is_a_box():
    text = (
        "HloModule m\n\nf {\n  p = f32[4] parameter(0)\n  s = f32[4] sine(p)\n  ROOT t = f32[4] tanh(s)\n}\n\n"
        "ENTRY main {\n  x = f32[4] parameter(0)\n  fused = f32[4] fusion(x), kind=kLoop, calls=f\n"
        "  ROOT n = f32[4] negate(fused)\n}\n"
    )
    made = outline_drawing(Outlines().program(parse(text).record()))
    assert set(made.drawing.nodes) == {"x", "fused/s", "fused/t", "n"}
    assert set(made.drawing.groups) == {"fused"}
    assert {("x", "fused/s"), ("fused/s", "fused/t"), ("fused/t", "n")} == set(made.drawing.edges)


def test_a_group_counts_the_ops_in_what_it_calls():
    inside = "\n\n".join(
        f"f{k} {{\n  p = f32[4] parameter(0)\n  s = f32[4] sine(p)\n  ROOT t = f32[4] tanh(s)\n}}" for k in range(3)
    )
    lines = ["x0 = f32[4] parameter(0)"]
    for k in range(3):
        meta = f'metadata={{op_name="jit(f)/layer_{k}/op"}}'
        lines.append(f"m{k} = f32[4] fusion(x{k}), kind=kLoop, calls=f{k}, {meta}")
        lines.append(f"x{k + 1} = f32[4] negate(m{k}), {meta}")
    lines[-1] = f"ROOT {lines[-1]}"
    module = parse(f"HloModule m\n\n{inside}\n\nENTRY main {{\n" + "\n".join(lines) + "\n}\n")
    made = outline_drawing(Outlines().program(module.record()), most=2)
    assert made.titles["@layer_*"] == ("layer 0-2 x3", "9 ops")


def test_a_tensorflow_graph_is_drawn_with_its_scopes():
    nodes = (
        NodeRecord("x", "Placeholder"),
        NodeRecord("a/y", "Relu", ("x",)),
        NodeRecord("a/z", "Tanh", ("a/y",)),
        NodeRecord("b", "Mean", ("a/z",)),
    )
    made = outline_drawing(Outlines().program(GraphRecord("g", nodes)), most=3)
    assert set(made.drawing.nodes) == {"x", "@a", "b"}
    assert set(made.drawing.edges) == {("x", "@a"), ("@a", "b")}


def test_a_program_without_instructions_to_draw_is_an_empty_picture():
    made = outline_drawing(Outlines().program(GraphRecord("g", ())))
    assert not made.drawing.nodes


def test_the_box_of_many_parameters_leads_to_the_first_that_reads_one():
    lines = [f"  p{k} = f32[4] parameter({k})" for k in range(12)]
    sums = ["p0", *(f"r{k}" for k in range(1, 12))]
    lines += [
        f"  {'ROOT ' * (k == 11)}r{k} = f32[4] add({sums[k - 1]}, p{k}), "
        f'metadata={{op_name="jit(f)/part_{int(k > 6)}/add"}}'
        for k in range(1, 12)
    ]
    module = parse("HloModule m\n\nENTRY main {\n" + "\n".join(lines) + "\n}\n")
    made = outline_drawing(Outlines().program(module.record()))
    nodes = made.drawing.nodes
    (first,) = [b for a, b in made.drawing.edges if a == "@parameters"]
    assert nodes["@parameters"][1] < nodes[first][1]
    assert first == min(nodes.keys() - {"@parameters"}, key=lambda k: nodes[k][1])
