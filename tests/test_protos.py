"""Message classes from a table."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import HloParseError
from xlanb.protos import Schema, decode, extend_floats, floats_of, top_level_fields

TABLE = """
message Point
  1 x int64
  2 y int32?
message Path
  1 points Point*
  3 name string
  4 lengths double*
"""


def test_the_classes_hold_what_the_table_says() -> None:
    schema = Schema("test.paths", TABLE)
    path = schema.Path(name="p", lengths=[1.5])
    path.points.add(x=-1, y=0)
    # By the wire format: a point of ten bytes for -1 and two for a present zero, a string, doubles.
    assert (
        path.SerializeToString().hex() == "0a0d08" + "ff" * 9 + "01" + "1000" + "1a0170" + "2208" + "000000000000f83f"
    )
    again = schema.Path.FromString(path.SerializeToString())
    assert again.points[0].HasField("y")
    assert not schema.Point(x=1).HasField("y")


def test_an_unknown_message_names_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="unknown message Line; known messages: Point, Path"):
        _ = Schema("test.lines", TABLE).Line


def test_two_tables_of_one_package_do_not_meet() -> None:
    first, second = Schema("test.same", TABLE), Schema("test.same", "message Point\n 9 z bool")
    assert [f.name for f in first.Point.DESCRIPTOR.fields] == ["x", "y"]
    assert [f.name for f in second.Point.DESCRIPTOR.fields] == ["z"]


def test_what_is_no_message_is_refused_with_the_error_asked_for() -> None:
    with pytest.raises(HloParseError, match="2 bytes are not a Point"):
        decode(Schema("test.bad", TABLE).Point(), b"\x0a\xff", HloParseError)


@pytest.mark.parametrize(
    ("data", "counts"),
    [
        (b"", {}),
        (b"\x08\x01\x08\x02", {1: 2}),
        (b"\x0a\x02\x08\x01\x1d\0\0\0\0\x21\0\0\0\0\0\0\0\0", {1: 1, 3: 1, 4: 1}),
        (b"\x08\x01\xff", {1: 1}),
        (b"\x08\x01\x07", {1: 1}),
    ],
)
def test_fields_at_the_top(data: bytes, counts: dict[int, int]) -> None:
    assert top_level_fields(data) == counts


@pytest.mark.parametrize(("kind", "integers"), [("float", np.uint32), ("double", np.uint64)])
def test_numbers_keep_every_bit(kind: str, integers: type[np.unsignedinteger]) -> None:
    schema = Schema(f"test.{kind}s", f"message Row\n 1 name string\n 2 values {kind}*\n 3 others {kind}*")
    floating = np.dtype(f"f{np.dtype(integers).itemsize}")
    signaling = np.array([np.inf, -np.inf]).astype(floating).view(integers) | 1
    values = np.concatenate([signaling.view(floating), np.array([0.0, -0.0, 1.5], floating)])
    row = schema.Row(name="row", others=[1.0])
    assert floats_of(row, "values", floating).size == 0
    extend_floats(row, "values", values)
    np.testing.assert_array_equal(floats_of(row, "values", floating).view(integers), values.view(integers))
    assert (row.name, list(row.others)) == ("row", [1.0])
