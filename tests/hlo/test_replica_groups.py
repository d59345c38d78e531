"""Replica groups in XLA's three texts name the same devices."""

import pytest

from xlanb.hlo.replica_groups import iota, replica_groups


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{}", ()),
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{{0,2,4,6},{1,3}}", ((0, 2, 4, 6), (1, 3))),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[2,4]<=[4,2]T(1,0)", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['x'=4,'y'=1,'z'=2] {'x'}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['x'=2,'y'=2,'z'=2] {'x','z'}", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("mesh['x'=8] {'x':(1)2}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['x'=8] {'x':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("mesh['x'=8] {'x':(4)2,'x':(1)2}", ((0, 4, 1, 5), (2, 6, 3, 7))),
        ("mesh['x'=2,'y'=2], device_ids=(3,1,2,0) {'y'}", ((3, 1), (2, 0))),
        ("mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'y'}", ((0, 2), (1, 3))),
    ],
)
def test_groups_are_read_from_every_text(text, groups):
    assert replica_groups(text) == groups


def test_a_malformed_iota_is_shown():
    with pytest.raises(ValueError, match="expected an iota"):
        iota("4,2")
