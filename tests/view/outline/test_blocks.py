from __future__ import annotations

from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.view.outline.graph import GraphOutlines
from xlanb.view.parts.graph import function_of


def outline(*nodes):
    records = tuple(NodeRecord(name, op, inputs, outputs=(shape,)) for name, op, inputs, shape in nodes)
    return GraphOutlines(function_of).program(GraphRecord("g", records)).parts[""].outline


def top(found):
    """Label, kind and size of the groups at the top, in their order."""
    sizes = [0] * len(found.groups)
    for g in found.member:
        while g >= 0:
            sizes[g] += 1
            g = found.groups[g].parent
    return [(g.label, g.kind, n) for g, n in zip(found.groups, sizes, strict=True) if g.parent < 0]


def residual(names, shapes):
    """Return residual blocks of two convolutions, without scopes."""
    nodes, before = [("x", "Placeholder", (), "f32[8]")], "x"
    for n, (name, shape) in enumerate(zip(names, shapes, strict=True)):
        chain, last = [], before
        for k, op in enumerate(("Conv2D", "Mul", "Relu", "Conv2D", "Mul")):
            chain.append((f"{name}{n}_{k}", op, (last,), shape))
            last = f"{name}{n}_{k}"
        end = f"{name}{n}_out"
        nodes += [*chain, (f"{name}{n}_sum", "AddV2", (last, before), shape), (end, "Relu", (f"{name}{n}_sum",), shape)]
        before = end
    return nodes


def test_residual_blocks_without_scopes_are_found_and_equal_neighbours_are_one():
    found = outline(*residual("abcdef", ["f32[8]"] * 2 + ["f32[4]"] * 4))
    assert top(found) == [("2 Conv2D", "repeat", 14), ("2 Conv2D", "repeat", 28)]
    blocks = [g for g in found.groups if g.parent >= 0 and found.groups[g.parent].kind == "repeat"]
    assert len(blocks) == 6


def test_blocks_that_differ_stand_side_by_side():
    found = outline(*residual("abcdef", [f"f32[{n}]" for n in range(6)]))
    assert top(found) == [("2 Conv2D", "flow", 7)] * 6


def test_what_follows_a_heavy_op_is_one_with_it_where_nothing_is_narrow():
    nodes, before = [("x", "Placeholder", (), "f32[8]")], "x"
    for k in range(12):
        nodes += [
            (f"conv{k}x", "Conv2D", (before,), f"f32[{k}]"),
            (f"bias{k}x", "BiasAdd", (f"conv{k}x",), f"f32[{k}]"),
            (f"relu{k}x", "Relu", (f"bias{k}x",), f"f32[{k}]"),
        ]
        before = f"relu{k}x"
    assert top(outline(*nodes)) == [("Conv2D, BiasAdd, Relu", "flow", 3)] * 12


def test_a_loss_stays_apart_from_the_layer_that_it_reads():
    nodes, before = [("x", "Placeholder", (), "f32[8]")], "x"
    for k in range(9):
        nodes += [
            (f"dense_{k}/MatMul", "MatMul", (before,), f"f32[{k}]"),
            (f"dense_{k}/Add", "AddV2", (f"dense_{k}/MatMul",), f"f32[{k}]"),
            (f"norm_{k}/Mul", "Mul", (f"dense_{k}/Add",), f"f32[{k}]"),
            (f"norm_{k}/Sub", "Sub", (f"norm_{k}/Mul",), f"f32[{k}]"),
            (f"relu_{k}", "Relu", (f"norm_{k}/Sub",), f"f32[{k}]"),
        ]
        before = f"relu_{k}"
    nodes += [("loss/Square", "Square", (before,), "f32[8]"), ("loss/Mean", "Mean", ("loss/Square",), "f32[8]")]
    assert [(label, n) for label, _, n in top(outline(*nodes))] == [*((f"dense_{k}", 5) for k in range(9)), ("loss", 2)]
