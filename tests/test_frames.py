"""Tables that show every cell whole, and are pandas' in all else."""

import pickle

import pandas as pd

from xlanb.frames import framed
from xlanb.frames.frame import Frame

LONG = "a reason that goes on and on " * 8


def test_cells_are_whole_and_the_users_options_stay():
    before = pd.get_option("display.max_colwidth")
    table = framed([(LONG, 1)], ["reason", "count"])
    assert LONG.strip() in repr(table)
    assert LONG.strip() in table._repr_html_()
    assert pd.get_option("display.max_colwidth") == before
    assert LONG.strip() not in repr(pd.DataFrame(table))


def test_what_is_made_of_it_shows_itself_alike():
    table = framed([(LONG, k) for k in range(3)], ["reason", "count"])
    assert isinstance(table[table["count"] > 1], Frame)
    assert isinstance(table.sort_values("count"), Frame)
    assert LONG.strip() in repr(table.head(1))
    assert table["count"].sum() == 3


def test_long_tables_are_cut_and_say_so():
    table = framed([(k,) for k in range(200)], ["k"])
    assert repr(table).endswith("[200 rows x 1 columns]")
    assert "200 rows, the first 60 shown" in table._repr_html_()


def test_markup_in_cells_is_text():
    html = framed([("<script>alert(1)</script>",)], ["<b>name</b>"])._repr_html_()
    assert "<script>" not in html
    assert "<b>name" not in html


def test_a_table_is_pickled():
    table = framed([(LONG, 1)], ["reason", "count"])
    again = pickle.loads(pickle.dumps(table))  # noqa: S301 - its own
    assert isinstance(again, Frame)
    pd.testing.assert_frame_equal(again, table)


def test_an_empty_table_has_its_columns():
    table = framed([], ["a", "b"])
    assert list(table.columns) == ["a", "b"]
    assert "Empty" in repr(table)
