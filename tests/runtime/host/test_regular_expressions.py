"""RE2's semantics of patterns and rewrites, by RE2 if installed, or by Python's re in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError, GraphValueError
from xlanb.runtime.host import regular_expressions
from xlanb.runtime.host.regular_expressions import Re2Pattern


@pytest.fixture(params=["re", "re2"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    found = pytest.importorskip("re2") if request.param == "re2" else None
    monkeypatch.setattr(regular_expressions, "_re2", lambda: found)
    regular_expressions.compiled.cache_clear()
    yield found
    regular_expressions.compiled.cache_clear()


@pytest.fixture
def python_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, "_re2", lambda: None)


@pytest.mark.parametrize(
    ("pattern", "rewrite", "text", "everywhere", "expected"),
    [
        (b"(a)b", rb"<\1\0>", b"abcab", True, b"<aab>c<aab>"),
        (b"(a)b", rb"<\1>", b"abcab", False, b"<a>cab"),
        (b"a*", b"-", b"baac", True, b"-b-c-"),
        (b"(a)|(b)", rb"\2\\", b"ab", True, rb"\b\ ".strip()),
        (rb"\s+", b" ", b"a \t b", True, b"a b"),
        (b"x", b"y", b"\xff\x00x", True, b"\xff\x00y"),
    ],
)
@pytest.mark.usefixtures("engine")
def test_replacements(pattern, rewrite, text, everywhere, expected):
    assert Re2Pattern(pattern).replaced([text, b""], rewrite, everywhere=everywhere)[0] == expected


@pytest.mark.parametrize(
    ("pattern", "text", "whole"),
    [(b"a+", b"aaa", True), (b"a+", b"aab", False), (b"(?:ab)+", b"abab", True), (rb"[\w.]+@\w+", b"a.b@c", True)],
)
@pytest.mark.usefixtures("engine")
def test_whole_matches(pattern, text, whole):
    assert Re2Pattern(pattern).matches_whole([text]) == [whole]


@pytest.mark.parametrize(
    ("rewrite", "said"),
    [(rb"\2", r"names group 2; b'\(a\)' has 1"), (rb"\n", "backslash before b'n'"), (b"\\", "backslash")],
)
@pytest.mark.usefixtures("engine")
def test_rewrites_that_re2_refuses(rewrite, said):
    with pytest.raises(GraphValueError, match=said):
        Re2Pattern(b"(a)").replaced([b"a"], rewrite, everywhere=True)


@pytest.mark.usefixtures("engine")
def test_no_regular_expression():
    with pytest.raises(GraphValueError, match=r"b'\(' is not a regular expression: "):
        Re2Pattern(b"(")


@pytest.mark.parametrize("pattern", [rb"(a)\1", b"(?=a)"])
def test_re2_refuses_what_takes_more_than_linear_time(pattern):
    pytest.importorskip("re2")
    with pytest.raises(GraphValueError, match="not a regular expression"):
        Re2Pattern(pattern)


def test_re2_reads_utf8_and_takes_linear_time():
    pytest.importorskip("re2")
    assert Re2Pattern(b".").replaced(["é€".encode()], b"x", everywhere=True) == [b"xx"]
    assert Re2Pattern(b"y*").replaced(["é".encode()], b"-", everywhere=True) == ["-é-".encode()]
    assert Re2Pattern(b"(a+)+$").matches_whole([b"a" * 5000 + b"b"]) == [False]


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        (b"(a+)+$", 30),
        (b"(a|a)*b", 30),
        (b"(?:a|aa)+$", 40),
        (b"(a*)*b", 30),
        (b"a?" * 30 + b"a" * 30, 30),
        (b"(a|a)" * 40 + b"b", 40),
        (b"a*" * 8 + b"b", 200),
        (b"(a{1,9}){1,99}b", 40),
        (b"(?P<x>a+?)+b", 40),
        (b"x|(a+)+$", 30),
        (b".*a.*b.*c", 20_000),
    ],
)
@pytest.mark.usefixtures("python_alone")
def test_what_pythons_re_may_try_for_ever_is_refused(pattern, size):
    for work in (
        lambda p, texts: p.matches_whole(texts),
        lambda p, texts: p.replaced(texts, b"", everywhere=True),
    ):
        with pytest.raises(GraphValueError, match=r"install google-re2 \(pip install 'xlanb\[re2\]'\)"):
            work(Re2Pattern(pattern), [b"a" * size + b"c"])


@pytest.mark.parametrize(
    "pattern",
    [rb"\s+", rb"[^a-z0-9]+", b"<[^>]*>", rb"^\s+|\s+$", rb"(\w+)@(\w+)\.com", b"(?:ab)+", b"colou?r", rb"\d{4}-\d{2}"],
)
@pytest.mark.usefixtures("python_alone")
def test_usual_patterns_are_not(pattern):
    assert len(Re2Pattern(pattern).replaced([b"some words of 2020-10 " * 5], b"", everywhere=True)) == 1


@pytest.mark.usefixtures("python_alone")
def test_the_error_names_the_node():
    given = [np.array([b"a" * 40 + b"b"], object), np.array(b"(a+)+$", object), np.array(b"", object)]
    regular_expressions.compiled.cache_clear()
    graph = tf.Graph()
    with graph.as_default():
        placeholders = [tf.placeholder(tf.string, a.shape) for a in given]
        op = graph.create_op("RegexReplace", placeholders, name="clean")
    with tf.Session(graph=graph) as session, pytest.raises(GraphError, match=r"node 'clean' .*google-re2"):
        session.run(op.outputs, dict(zip(placeholders, given, strict=True)))
    regular_expressions.compiled.cache_clear()
