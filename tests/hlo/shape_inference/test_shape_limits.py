from __future__ import annotations

import pytest

from xlanb.errors import HloParseError, ShapeError
from xlanb.hlo import parse
from xlanb.shape import PrimitiveType, TupleShape
from xlanb.shape.shape import MAX_DEPTH, MAX_LEAVES, array

SCALAR = array(PrimitiveType.F32)


def test_a_tuple_counts_its_arrays_and_levels():
    inner = TupleShape((SCALAR,) * 3)
    shape = TupleShape((inner, SCALAR, inner, TupleShape(())))
    assert (shape.leaf_count, shape.depth) == (7, 2)
    assert shape == TupleShape((inner, SCALAR, inner, TupleShape(())))
    assert len(list(shape.leaves())) == 7


def test_too_many_arrays_are_refused():
    TupleShape((SCALAR,) * MAX_LEAVES)
    with pytest.raises(ShapeError, match="the tuple has 100,001 arrays: at most 100,000"):
        TupleShape((SCALAR,) * (MAX_LEAVES + 1))


def test_too_many_levels_are_refused():
    shape = TupleShape(())
    for _ in range(MAX_DEPTH - 1):
        shape = TupleShape((shape,))
    with pytest.raises(ShapeError, match="the tuple is nested 101 levels deep: at most 100 levels"):
        TupleShape((shape,))


def test_tuples_of_tuples_without_shapes_are_refused_by_the_parser():
    text = "".join(f" t{k} = tuple({x}, {x})\n" for k in range(60) for x in [f"t{k - 1}" if k else "p"])
    with pytest.raises(HloParseError, match="the tuple has 131,072 arrays"):
        parse(f"HloModule m\nENTRY e {{\n p = f32[] parameter(0)\n{text} ROOT r = f32[] negate(p)\n}}")
