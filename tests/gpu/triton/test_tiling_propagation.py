"""How a dot's dimensions are arranged in the memory of the instructions around it."""

from __future__ import annotations

import pytest

from xlanb.gpu.triton.tiling_propagation import (
    WHOLE,
    DimensionOrder,
    DotSide,
    Propagated,
    TilingDirection,
    combined,
    propagate,
)
from xlanb.hlo import parse


def _operand_of(lines: str, root: str):
    """Return the instruction `x` that a dot reads, and the order of its result's dimensions."""
    i = parse(f"HloModule m\n\nENTRY e {{\n{lines}\n  ROOT {root}\n}}\n").entry_computation.root
    return i, DimensionOrder.of(i.array_shape)


def _runs(found: Propagated | str, i) -> dict[int, list[tuple[int, ...]]]:
    assert isinstance(found, Propagated), found
    return {label: [tuple(run[:4]) for run in runs] for label, runs in found.orders[i.operands[0]].strides()}


def test_bitcast_cuts_a_dimension_that_lies_together() -> None:
    i, order = _operand_of("  p = f32[2,3,8] parameter(0)", "b = f32[6,8] bitcast(p)")
    found = propagate(i, order, TilingDirection.TO_OPERANDS, DotSide(free=0))
    # Six rows, eight elements apart: that they are two dimensions of the operand does not matter.
    assert _runs(found, i) == {0: [(8, 6, 0, 6)], 1: [(1, 8, 0, 8)]}
    assert found.major_part == WHOLE


def test_transpose_exchanges_strides() -> None:
    i, order = _operand_of("  p = f32[8,6] parameter(0)", "t = f32[6,8] transpose(p), dimensions={1,0}")
    found = propagate(i, order, TilingDirection.TO_OPERANDS, DotSide(free=0))
    assert _runs(found, i) == {0: [(1, 6, 0, 6)], 1: [(6, 8, 0, 8)]}


def test_slice_begins_later_and_uses_less() -> None:
    i, order = _operand_of("  p = f32[10,8] parameter(0)", "s = f32[6,8] slice(p), slice={[3:9],[0:8]}")
    found = propagate(i, order, TilingDirection.TO_OPERANDS, DotSide(free=0))
    assert _runs(found, i) == {0: [(8, 10, 3, 6)], 1: [(1, 8, 0, 8)]}


def test_broadcast_drops_a_dimension() -> None:
    i, order = _operand_of("  p = f32[8] parameter(0)", "b = f32[6,8] broadcast(p), dimensions={1}")
    assert _runs(propagate(i, order, TilingDirection.TO_OPERANDS, DotSide(free=0)), i) == {1: [(1, 8, 0, 8)]}


@pytest.mark.parametrize(("splittable", "major_part"), [(0, 2), (1, None)])
def test_only_one_dimension_may_lie_in_two_parts(splittable: int, major_part: int | None) -> None:
    lines = "  p = f32[2,8,3] parameter(0)\n  t = f32[2,3,8] transpose(p), dimensions={0,2,1}"
    b, order = _operand_of(lines, "b = f32[6,8] bitcast(t)")
    side = DotSide(free=0, splittable=splittable)
    above = propagate(b, order, TilingDirection.TO_OPERANDS, side)
    assert isinstance(above, Propagated)
    t = b.operands[0]
    found = propagate(t, above.orders[t], TilingDirection.TO_OPERANDS, side)
    if major_part is None:
        assert found == "other dimensions would be placed inside one that cannot be split"
    else:
        assert isinstance(found, Propagated)
        assert found.major_part == major_part


def test_transpose_within_a_dimension_is_refused() -> None:
    lines = "  p = f32[3,2,8] parameter(0)\n  t = f32[2,3,8] transpose(p), dimensions={1,0,2}"
    b, order = _operand_of(lines, "b = f32[6,8] bitcast(t)")
    t = b.operands[0]
    above = propagate(b, order, TilingDirection.TO_OPERANDS, DotSide(free=0, splittable=0))
    assert isinstance(above, Propagated)
    found = propagate(t, above.orders[t], TilingDirection.TO_OPERANDS, DotSide(free=0, splittable=0))
    assert found == "it transposes parts of one dimension"


def test_concatenation_is_followed_in_whole_tiles_along_the_free_dimension() -> None:
    lines = "  p = f32[64,8] parameter(0)\n  q = f32[128,8] parameter(1)"
    i, order = _operand_of(lines, "c = f32[192,8] concatenate(p, q), dimensions={0}")
    found = propagate(i, order, TilingDirection.TO_OPERANDS, DotSide(free=0))
    assert isinstance(found, Propagated)
    starts = [dict(found.orders[o].strides())[0][0].start for o in i.operands]
    assert starts == [0, -64]
    assert isinstance(propagate(i, order, TilingDirection.TO_OPERANDS, DotSide(free=1)), str)


def test_reshape_that_moves_elements_is_refused() -> None:
    i, order = _operand_of("  p = f32[2,3]{0,1} parameter(0)", "r = f32[6]{0} reshape(p)")
    assert propagate(i, order, TilingDirection.TO_OPERANDS, DotSide(free=0)) == "it moves elements"


def test_uneven_cuts_are_refused() -> None:
    i, order = _operand_of("  p = f32[4,3] parameter(0)", "b = f32[2,6] bitcast(p)")
    # 6 elements of the fastest dimension are 3, and 2 of the 4.
    assert _runs(propagate(i, order, TilingDirection.TO_OPERANDS, DotSide(free=0)), i) == {
        0: [(6, 2, 0, 2)],
        1: [(1, 6, 0, 6)],
    }
    i, order = _operand_of("  p = f32[2,9] parameter(0)", "b = f32[3,6] bitcast(p)")
    assert (
        propagate(i, order, TilingDirection.TO_OPERANDS, DotSide(free=0))
        == "its dimensions do not align with those of the dot"
    )


def test_physically_equal_orders_differ_in_parts_only() -> None:
    i, order = _operand_of("  p = f32[2,3,8] parameter(0)", "b = f32[6,8] bitcast(p)")
    found = propagate(i, order, TilingDirection.TO_OPERANDS, DotSide(free=0))
    assert isinstance(found, Propagated)
    cut = found.orders[i.operands[0]]
    assert cut.strides() != order.strides()
    assert cut.is_physically_equal(order)


@pytest.mark.parametrize(("a", "b", "both"), [(1, 1, 1), (1, 4, 4), (4, 1, 4), (4, 4, 4), (2, 4, None)])
def test_two_cuts_of_a_dimension(a: int, b: int, both: int | None) -> None:
    assert combined(a, b) == both
