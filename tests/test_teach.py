"""Exercises: the verdicts on answers, and what they never reveal."""

from __future__ import annotations

import html5lib
import numpy as np
import pytest

from xlanb import teach
from xlanb.errors import XlanbError


@pytest.fixture(autouse=True)
def one_exercise(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(teach, "_EXERCISES", {})
    teach.exercise(
        "kernels", lambda n: n == 3, hints=["count <roots>", "twice"], right="three & no more", truth=lambda: 3
    )


def test_dots_are_no_answer():
    verdict = teach.check("kernels", ...)
    assert verdict.outcome == "open"
    assert not verdict.is_right
    assert "predict first" in str(teach.reveal("kernels"))


def test_a_right_and_a_wrong_answer():
    assert str(teach.check("kernels", 3)) == "✓ kernels: right: three & no more"
    wrong = teach.check("kernels", 4)
    assert wrong.outcome == "wrong"
    assert "3" not in wrong.text


def test_a_predicate_says_what_is_wrong():
    teach.exercise("name", lambda s: True if s == "cse" else f"{s} leaves it as it is")
    assert teach.check("name", "dce").text == "dce leaves it as it is"
    assert teach.check("name", "cse").is_right


def test_a_numpy_answer_is_judged():
    assert teach.check("kernels", np.int64(3)).is_right


@pytest.mark.parametrize("answer", [np.zeros(2), "three", None, object()])
def test_an_answer_of_another_kind_is_wrong(answer: object):
    teach.exercise("more", lambda n: bool(n + 0 > 2))
    verdict = teach.check("more", answer)
    assert verdict.outcome == "wrong"
    assert type(answer).__name__ in verdict.text


def test_a_bug_of_the_predicate_is_not_hidden():
    def broken(answer: int) -> bool:
        raise OSError("disk")

    teach.exercise("broken", broken)
    with pytest.raises(OSError, match="disk"):
        teach.check("broken", 1)


def test_hints_come_one_by_one():
    texts = [teach.hint("kernels").text for _ in range(3)]
    assert texts == ["hint 1 of 2: count <roots>", "hint 2 of 2: twice", "hint 2 of 2: twice"]
    assert "hint" not in teach.check("kernels", 0).text


def test_the_truth_comes_after_a_guess():
    teach.check("kernels", 5)
    assert teach.reveal("kernels").text == "3"


def test_an_exercise_without_truth_or_hints():
    teach.exercise("bare", bool)
    assert "folded" in teach.reveal("bare").text
    assert "no hint" in teach.hint("bare").text


def test_html_is_escaped_and_well_formed():
    teach.exercise("<b>&", lambda s: f"<script>{s}</script>\nno", hints=["<i>"])
    for verdict in (teach.check("<b>&", "<x>"), teach.hint("<b>&"), teach.check("<b>&")):
        html = verdict._repr_html_()
        html5lib.HTMLParser(strict=True).parseFragment(html)
        assert "<script>" not in html
        assert "<x>" not in html


def test_an_unknown_exercise_names_those_there_are():
    with pytest.raises(XlanbError, match="kernels"):
        teach.check("no such", 1)


def test_a_lesson_stops_kindly():
    teach.needs("numpy")
    with pytest.raises(teach.LessonStopped, match="pip install 'xlanb\\[peers\\]'") as stopped:
        teach.needs("no_such_package_at_all")
    assert stopped.value._render_traceback_() == [str(stopped.value)]


def test_a_table_shows_words_in_full_and_at_the_left() -> None:
    pd = pytest.importorskip("pandas")
    long = "why " * 40
    shown = teach.table(pd.DataFrame({"n": [3], "why": [long + "<b>"]}))
    html = shown._repr_html_()
    assert long in html
    assert "<b>" not in html
    assert html.count("text-align:right") == 2
    assert html.count("text-align:left") == 3
    assert "why" in str(shown)
