"""The instruction of a fusion that determines its emitter."""

import pytest

from xlanb.gpu.heroes import find_hero, grouped_transpose, is_tiled_transpose
from xlanb.hlo import parse


def _root(body: str):
    return parse(f"HloModule m\n{body}").entry_computation.root


@pytest.mark.parametrize(
    ("operand", "result", "permutation", "sizes", "grouped", "tiled"),
    [
        ("f32[64,32]", "f32[32,64]", "1,0", (64, 32), (1, 0), True),
        ("f32[5,5,6,16]", "f32[16,6,5,5]", "3,2,0,1", (25, 6, 16), (2, 1, 0), True),
        ("f32[2,8,16,16]", "f32[2,16,16,8]", "0,2,3,1", (2, 8, 256), (0, 2, 1), False),
        ("f32[8,2048]", "f32[2048,8]", "1,0", (8, 2048), (1, 0), True),
        ("f32[64,1,32]", "f32[32,64,1]", "2,0,1", (64, 32), (1, 0), True),
        ("f32[64,32,2]", "f32[32,64,2]", "1,0,2", (64, 32, 2), (1, 0, 2), True),
        ("f32[64,32,4]", "f32[32,64,4]", "1,0,2", (64, 32, 4), (1, 0, 2), False),
    ],
)
def test_a_transpose_is_tiled_where_what_it_exchanges_is_long(
    operand: str, result: str, permutation: str, sizes: tuple[int, ...], grouped: tuple[int, ...], tiled: bool
) -> None:
    t = _root(
        f"ENTRY e {{ p = {operand} parameter(0)\n ROOT t = {result} transpose(p), dimensions={{{permutation}}} }}"
    )
    assert grouped_transpose(t) == (sizes, grouped)
    assert is_tiled_transpose(t) is tiled


@pytest.mark.parametrize(
    ("body", "hero"),
    [
        (
            "t = f32[32,64] transpose(p), dimensions={1,0}\n a = f32[32,64] add(t, q)\n ROOT n = f32[32,64] negate(a)",
            "t",
        ),
        (
            "t = f32[32,64] transpose(p), dimensions={1,0}\n s = f32[32,64] reverse(t), dimensions={0}\n ROOT n = f32[32,64] negate(s)",
            "n",
        ),
        (
            "t = f32[32,64] transpose(p), dimensions={1,0}\n u = f32[32,64] transpose(r), dimensions={1,0}\n"
            " ROOT n = f32[32,64] add(t, u)",
            "n",
        ),
        ("c = f32[64,64] concatenate(q, q), dimensions={0}\n ROOT n = f32[64,64] negate(c)", "c"),
        ("b = f32[2048] bitcast(q)\n ROOT n = f32[2048] negate(b)", "n"),
    ],
)
def test_the_hero_of_a_root(body: str, hero: str) -> None:
    root = _root(
        "ENTRY e {\n p = f32[64,32] parameter(0)\n q = f32[32,64] parameter(1)\n r = f32[64,32] parameter(2)\n "
        + body
        + "\n}"
    )
    assert find_hero(root).name == hero
