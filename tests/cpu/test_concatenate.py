"""Concatenations of many arrays: copied piece by piece, for any dimension, layout and type."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.codegen.lanes import MAX_CUTS
from xlanb.hlo import parse
from xlanb.shape import PrimitiveType

MANY = MAX_CUTS + 6


def _text(shapes: list[str], result: str, d: int) -> str:
    names = [f"p{k}" for k in range(len(shapes))]
    lines = [f" {p} = {s} parameter({k})\n" for k, (p, s) in enumerate(zip(names, shapes, strict=True))]
    return f"HloModule m\nENTRY e {{\n{''.join(lines)} ROOT r = {result} concatenate({', '.join(names)}), dimensions={{{d}}}\n}}\n"


@pytest.mark.parametrize("kind", ["f32", "pred", "bf16", "s16", "u4", "c128"])
@pytest.mark.parametrize(("d", "layout"), [(0, ""), (1, ""), (2, ""), (0, "{0,1,2}"), (1, "{0,2,1}"), (2, "{1,2,0}")])
def test_many_pieces_are_in_their_places(backend, kind, d, layout):
    sizes = [k % 4 for k in range(MANY)]
    dims = [[3 if a != d else n for a in range(3)] for n in sizes]
    whole = [3 if a != d else sum(sizes) for a in range(3)]
    shapes = [f"{kind}[{','.join(map(str, s))}]{layout}" for s in dims]
    exe = backend(_text(shapes, f"{kind}[{','.join(map(str, whole))}]{layout}", d))
    rng = np.random.default_rng(d)
    dtype = PrimitiveType[kind.upper()].dtype
    arrays = [rng.integers(0, 2, s).astype(dtype) for s in dims]
    np.testing.assert_array_equal(np.asarray(exe(*arrays)), np.concatenate(arrays, d))


def test_a_layout_of_an_operand_may_differ_and_operands_may_be_constants_and_repeat(backend):
    names = ["a", "b", "c"] * MANY
    text = (
        "HloModule m\nENTRY e {\n a = f32[2,3]{0,1} parameter(0)\n b = f32[2,3] parameter(1)\n"
        " c = f32[2,3] constant({{1,2,3},{4,5,6}})\n"
        f" ROOT r = f32[2,{9 * MANY}] concatenate({', '.join(names)}), dimensions={{1}}\n}}\n"
    )
    a, b = np.random.default_rng(0).random((2, 2, 3), np.float32)
    c = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(backend(text)(a, b), np.concatenate([a, b, c] * MANY, 1))


def test_many_large_pieces_are_shared_by_threads_and_whole(backend):
    rows = [f"f32[512,{300 + k}]" for k in range(MANY)]
    total = sum(300 + k for k in range(MANY))
    exe = backend(_text(rows, f"f32[512,{total}]", 1))
    arrays = [np.full((512, 300 + k), k, np.float32) for k in range(MANY)]
    np.testing.assert_array_equal(exe(*arrays), np.concatenate(arrays, 1))


@pytest.mark.parametrize("d", [0, 1])
def test_code_grows_by_a_few_lines_for_a_piece(backend, d):
    def lines(n: int) -> int:
        whole = f"f32[{5 * n},2]" if d == 0 else f"f32[5,{2 * n}]"
        return len(backend(_text(["f32[5,2]"] * n, whole, d)).llvm_ir.splitlines())

    few, many = lines(100), lines(300)
    assert many - few <= 5 * 200


def test_a_fusion_of_many_pieces_computes_them(backend):
    inner = "".join(f" p{k} = f32[2] parameter({k})\n n{k} = f32[2] negate(p{k})\n" for k in range(MANY))
    outer = "".join(f" p{k} = f32[2] parameter({k})\n" for k in range(MANY))
    text = (
        f"HloModule m\nf {{\n{inner} ROOT r = f32[{2 * MANY}] concatenate({', '.join(f'n{k}' for k in range(MANY))}), dimensions={{0}}\n}}\n"
        f"ENTRY e {{\n{outer} ROOT r = f32[{2 * MANY}] fusion({', '.join(f'p{k}' for k in range(MANY))}), kind=kLoop, calls=f\n}}\n"
    )
    arrays = list(np.random.default_rng(0).random((MANY, 2), np.float32))
    np.testing.assert_array_equal(backend(text)(*arrays), -np.concatenate(arrays))


@pytest.mark.parametrize("t", ["f32", "s8", "bf16"])
@pytest.mark.parametrize(
    ("sizes", "rest", "d"), [((3, 3), (40, 8), 0), ((40, 7, 40), (5, 8), 1), ((2, 9), (33, 7), 0), ((6, 1), (50, 3), 0)]
)
def test_pieces_that_are_contiguous_share_a_counter(backend, t, sizes, rest, d):
    def dims(n):
        made = list(rest)
        made.insert(d, n)
        return ",".join(map(str, made))

    lines, inside = [], []
    for k, n in enumerate(sizes):
        lines.append(f"p{k} = {t}[{dims(n)}] parameter({k})")
        inside += [lines[-1], f"a{k} = {t}[{dims(n)}] negate(p{k})"]
    names, result = ", ".join(f"p{k}" for k in range(len(sizes))), f"{t}[{dims(sum(sizes))}]"
    pieces = ", ".join(f"a{k}" for k in range(len(sizes)))
    inside.append(f"ROOT c = {result} concatenate({pieces}), dimensions={{{d}}}")
    entry = "\n".join([*lines, f"ROOT z = {result} fusion({names}), kind=kLoop, calls=f"])
    body = "\n".join(inside)
    text = f"HloModule m\nf {{\n{body}\n}}\nENTRY e {{\n{entry}\n}}\n"
    rng = np.random.default_rng(0)
    kind = parse(text).entry_computation.parameters[0].array_shape.element_type.dtype
    given = [rng.integers(-9, 9, [int(x) for x in dims(n).split(",")]).astype(kind) for n in sizes]
    exe = backend(text)
    np.testing.assert_array_equal(exe(*given), -np.concatenate(given, d))
    if 1 not in sizes:
        assert "split at" in "".join(map(str, exe.plans.values()))
