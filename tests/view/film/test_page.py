"""A film as HTML: one page without code and reasons, and what its pane reads."""

from __future__ import annotations

import json

import pytest

import xlanb
from xlanb.view.film.page import film_html, film_payload
from xlanb.view.payload import build_payload

TEXT = """HloModule m

ENTRY main {
  x = f32[8] parameter(0)
  one = f32[8] add(x, x)
  two = f32[8] add(x, x)
  both = f32[8] multiply(one, two)
  ROOT z = f32[8] tanh(both)
}
"""


@pytest.fixture(scope="module")
def trace():
    return xlanb.trace(TEXT)


def test_programs_and_counts_are_all_there_but_no_code(trace):
    payload, whole = film_payload(trace.film()), build_payload([trace])
    assert payload["film"] == 1
    assert payload["items"] == whole["items"]
    assert payload["chunks"] == whole["chunks"]
    counts = [s.get("n") for s in payload["traces"][0]["stages"]]
    assert counts == [s.get("n") for s in whole["traces"][0]["stages"]]
    code = [a for a in payload["artifacts"] if a["k"] == "code"]
    assert code
    assert all(a["lines"] == [] for a in code)
    assert len(json.dumps(payload)) < len(json.dumps(whole))


def test_the_kernels_ops_are_known(trace):
    code = next(a for a in film_payload(trace.film())["artifacts"] if a["k"] == "code")
    names = {i["n"] for i in film_payload(trace.film())["items"]}
    assert {op for _, op in code["ops"] if op} <= names
    assert any(op for _, op in code["ops"])


def test_edits_say_what_replaced_what(trace):
    stages = film_payload(trace.film())["traces"][0]["stages"]
    cse = next(s for s in stages if s["name"] == "cse" and s["ch"])
    assert cse["why"]["decisions"] == []
    edits = [e for r in cse["why"]["rewrites"] for e in r["edits"]]
    assert ("replace", "two", "one") in {(e["kind"], e.get("a"), e.get("b")) for e in edits}
    assert all(set(e) <= {"kind", "in", "a", "b"} for e in edits)


def test_a_notebook_keeps_the_film_and_its_text(trace, tmp_path):
    film = trace.film()
    bundle = film._repr_mimebundle_()
    assert bundle["text/plain"] == str(film)
    assert bundle["text/html"].startswith('<div class="xlanb-static"')
    assert str(film) in film_html(film)
    path = tmp_path / "film.html"
    film.to_html(path)
    assert "<title>m: the film</title>" in path.read_text(encoding="utf-8")
