"""Views of one notebook that share one copy of the code, on a page from disk."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xlanb.view.page import code_shared_by, fragment_html, whole_page

sys.path.insert(0, str(Path(__file__).parents[1] / "view"))
from factory import make_trace


@pytest.fixture
def views():
    """A view with the code, and one without."""
    with code_shared_by(lambda: True):
        lean = fragment_html([make_trace()])
    return fragment_html([make_trace()]), lean


@pytest.fixture
def page(context):
    context.set_offline(True)
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    assert errors == []


def _open(page, tmp_path, body):
    path = tmp_path / "notebook.html"
    path.write_text(whole_page(body, "notebook"), encoding="utf-8")
    page.goto(path.as_uri())


@pytest.mark.parametrize("order", [(0, 1, 1), (1, 0, 1)])
def test_every_view_finds_the_code_before_or_after_it(page, views, tmp_path, order):
    _open(page, tmp_path, "\n".join(views[k] for k in order))
    page.wait_for_function("document.querySelectorAll('.xlanb-fallback[hidden]').length === 3")
    assert page.locator(".xlanb-static > p").count() == 0


def test_a_view_whose_code_is_gone_says_what_to_do_and_wakes_when_it_comes(page, views, tmp_path):
    whole, lean = views
    _open(page, tmp_path, f"{lean}\n<template>{whole}</template>")
    note = page.locator(".xlanb-static > p")
    note.wait_for()
    assert "run this cell again" in note.inner_text()
    assert page.locator(".xlanb-fallback").is_visible()
    page.evaluate(
        """() => {
            const box = document.querySelector("template").content.firstElementChild.cloneNode(true);
            document.body.append(box);
            for (const old of box.querySelectorAll("script")) {
                const fresh = document.createElement("script");
                for (const a of old.attributes) fresh.setAttribute(a.name, a.value);
                fresh.textContent = old.textContent;
                old.replaceWith(fresh);
            }
        }"""
    )
    page.wait_for_function("document.querySelectorAll('.xlanb-fallback[hidden]').length === 2")
    assert note.count() == 0
