"""How the row and column emitters classify reductions."""

import pytest

from xlanb.gpu.reductions import dimensions_of, is_real_reduction_hero, is_reduction_of_rows_or_columns
from xlanb.hlo import parse


def _reduce(operand: str, result: str, dimensions: str):
    text = f"""HloModule m
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
ENTRY e {{
  p = {operand} parameter(0)
  z = f32[] constant(0)
  r = {result} reduce(p, z), dimensions={{{dimensions}}}, to_apply=sum
  ROOT n = {result} negate(r)
}}"""
    root = parse(text).entry_computation.root
    return root, root.operands[0]


@pytest.mark.parametrize(
    ("operand", "result", "dimensions", "is_row", "sizes", "taken"),
    [
        ("f32[8,512,64]", "f32[8,512]", "2", True, (1, 4096, 64), True),
        ("f32[8,512,64]", "f32[8,64]", "1", False, (8, 512, 64), True),
        ("f32[8,512,64]", "f32[512]", "0,2", True, (8, 512, 64), True),
        ("f32[8,512,64]{1,2,0}", "f32[8,512]{1,0}", "2", False, (8, 64, 512), True),
        ("f32[8,512]", "f32[]", "0,1", True, (1, 1, 4096), True),
        ("f32[512,16]", "f32[512]", "1", True, (1, 512, 16), True),
        ("f32[512,17]", "f32[512]", "1", True, (1, 512, 17), False),
        ("f32[16,512]", "f32[512]", "0", False, (1, 16, 512), False),
        ("f32[4,8,16,32]", "f32[4,16]", "1,3", None, None, False),
    ],
)
def test_rows_and_columns(operand, result, dimensions, is_row, sizes, taken) -> None:
    _, reduce = _reduce(operand, result, dimensions)
    assert is_reduction_of_rows_or_columns(reduce) is taken
    if sizes is not None:
        found = dimensions_of(reduce)
        assert (found.is_row, found.dimensions) == (is_row, sizes)


def test_a_long_reduction_is_a_hero_only_at_the_root() -> None:
    root, reduce = _reduce("f32[4,20000]", "f32[4]", "1")
    assert is_real_reduction_hero(reduce, reduce)
    assert not is_real_reduction_hero(root, reduce)
    root, reduce = _reduce("f32[4,16384]", "f32[4]", "1")
    assert is_real_reduction_hero(root, reduce)
