"""XLA:GPU's layout constraints, by device."""

from __future__ import annotations

import pytest

from xlanb.gpu.layouts import is_matrix
from xlanb.hlo import parse
from xlanb.hlo.instruction import HloInstruction
from xlanb.transforms import make_pass

CONVOLUTION = """HloModule m
ENTRY main {{
  x = {t}[2,6,6,4] parameter(0)
  k = {t}[3,3,4,8] parameter(1)
  ROOT conv = ({t}[2,6,6,8], u8[0]) custom-call(x, k), window={{size=3x3 pad=1_1x1_1}},
    dim_labels=b01f_01io->b01f, custom_call_target="__cudnn$convForward"
}}
"""


def _assigned(text: str, device: str) -> HloInstruction:
    m = parse(text)
    make_pass("layout-assignment", "layout_assignment", device).run(m)
    return next(i for i in m.entry.post_order() if i.opcode.text in ("custom-call", "dot"))


@pytest.mark.parametrize(
    ("device", "kind", "features_last"),
    [
        ("a100", "f32", False),
        ("a100", "bf16", True),
        ("p100", "f16", False),
        ("h100", "f32", True),
        ("h100", "f64", False),
        ("a100", "s8", True),
    ],
)
def test_convolutions(device: str, kind: str, features_last: bool) -> None:
    conv = _assigned(CONVOLUTION.format(t=kind), device)
    x, k = (o.array_shape.minor_to_major for o in conv.operands)
    assert x == ((3, 2, 1, 0) if features_last else (2, 1, 3, 0))
    assert k == ((2, 1, 0, 3) if features_last else (1, 0, 2, 3))


DOT = """HloModule m
ENTRY main {{
  x = {t}[16,32] parameter(0)
  y = {t}[32,16] parameter(1)
  ROOT d = {r}[16,16] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


@pytest.mark.parametrize(
    ("device", "kind", "result", "is_column_major"),
    [
        ("a100", "f32", "f32", False),
        ("a100", "s8", "s32", True),
        ("h100", "f8e4m3fn", "f32", True),
        ("b200", "f8e4m3fn", "f32", False),
    ],
)
def test_second_operands_of_dots(device: str, kind: str, result: str, is_column_major: bool) -> None:
    dot = _assigned(DOT.format(t=kind, r=result), device)
    assert dot.operands[1].array_shape.minor_to_major == ((0, 1) if is_column_major else (1, 0))


@pytest.mark.parametrize(
    ("order", "batch", "rows", "columns", "taken"),
    [
        ((2, 1, 0), [0], [1], [2], True),
        ((1, 2, 0), [0], [1], [2], True),
        ((2, 0, 1), [0], [1], [2], True),  # a row of each matrix in turn
        ((0, 2, 1), [0], [1], [2], False),  # the batch is most minor
        ((3, 2, 1, 0), [0], [1, 2], [3], True),
        ((3, 1, 2, 0), [0], [1, 2], [3], False),  # rows in the wrong order
        ((1, 2, 0), [0], [], [1, 2], False),
        ((1, 0), [0], [], [1], True),
        ((0, 1), [0], [], [1], False),
    ],
)
def test_matrices(order: tuple[int, ...], batch: list[int], rows: list[int], columns: list[int], taken: bool) -> None:
    assert is_matrix(order, batch, rows, columns) is taken


@pytest.mark.parametrize(("size", "pays"), [(64, True), (8, False)])
def test_rows_are_reduced_where_it_pays(size: int, pays: bool) -> None:
    m = parse(f"""HloModule m
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}
ENTRY main {{
  x = f32[6,{size},5] parameter(0)
  y = f32[6,{size},5] sine(x)
  zero = f32[] constant(0)
  ROOT s = f32[6,5] reduce(y, zero), dimensions={{1}}, to_apply=add
}}
""")
    make_pass("layout-assignment", "layout_assignment", "a100").run(m)
    assert (m.entry.root.operands[0].array_shape.minor_to_major[0] == 1) is pays
