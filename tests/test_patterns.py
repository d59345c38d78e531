"""Regular expressions that are compiled at their first use."""

from __future__ import annotations

import re

import pytest

from xlanb.patterns import pattern


def test_a_pattern_does_what_the_compiled_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    made, compiled = [], re.compile

    def counted(text: str, flags: int = 0) -> re.Pattern[str]:
        made.append(text)
        return compiled(text, flags)

    monkeypatch.setattr(re, "compile", counted)
    word = pattern(r"[a-z]+", re.IGNORECASE)
    assert made == []
    assert word.fullmatch("Abc")
    assert word.findall("a, B") == ["a", "B"]
    assert word.sub("-", "a1b") == "-1-"
    assert word.pattern == r"[a-z]+"
    assert pattern(rb"\d").search(b"a1")
    assert made == [r"[a-z]+", r"[a-z]+", rb"\d"]


def test_a_wrong_expression_is_an_error_at_its_first_use() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("")
