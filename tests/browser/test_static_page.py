"""The step view on a page from disk, with no kernel and no network."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xlanb.view.page import page_html, write_page

sys.path.insert(0, str(Path(__file__).parents[1] / "view"))
sys.path.insert(0, str(Path(__file__).parent))
from factory import EVIL, make_trace
from stepper import Stepper


@pytest.fixture
def stepper(context, tmp_path):
    context.set_offline(True)
    stepper = Stepper(context.new_page())
    path = tmp_path / "page.html"
    write_page([make_trace()], path)
    stepper.open(path)
    yield stepper
    assert stepper.errors == []
    assert stepper.requests == []


def test_every_stage_by_button_and_back_by_key(stepper):
    names = [stepper.status]
    while stepper.button("Next pass").is_enabled():
        stepper.button("Next pass").click()
        names.append(stepper.status)
    assert stepper.step == 17
    assert len(set(names)) == 18
    assert "second run" in names[-1]
    stepper.page.locator(".root").focus()
    stepper.press(*["ArrowUp"] * 17)
    assert stepper.step == 0
    assert not stepper.button("Previous pass").is_enabled()


def test_first_and_last(stepper):
    stepper.button("Last pass").click()
    assert stepper.step == 17
    stepper.button("First pass").click()
    assert stepper.step == 0


def test_keys_jump_to_changes_kinds_and_panes(stepper):
    stepper.press("n")
    assert stepper.step == 2  # constant folding changed nothing
    stepper.press("]", "]", "]")
    assert "tf2xla" in stepper.status
    stepper.press("n", "d")
    assert (stepper.step, stepper.tab) == (6, "Diff")
    assert stepper.page.locator(".cell.added").count() == 1
    assert stepper.page.locator(".cell.added .mk").first.inner_text() == "+"
    stepper.press("t")
    assert stepper.tab == "Text"
    stepper.press("n", "w", "ArrowRight")
    assert stepper.tab == "Why"
    assert "rewrite 1/2" in stepper.status
    stepper.press("ArrowRight")
    assert "rewrite 2/2" in stepper.status
    assert stepper.page.locator(".rewrite.current b").inner_text() == "A / C => A * (1 / C)"
    stepper.press("[")
    assert "build_xla_ops" in stepper.status
    stepper.press("?")
    assert stepper.page.get_by_role("dialog").is_visible()
    stepper.press("Escape")
    assert not stepper.page.get_by_role("dialog").is_visible()


def test_the_assembly_is_on_the_screen(stepper):
    stepper.press("End", *["ArrowUp"] * 2)
    assert stepper.tab == "Text"
    assert stepper.page.get_by_text("vmulps").is_visible()


def test_the_text_is_the_records_own_to_the_letter(stepper):
    trace = make_trace()
    stepper.press(*["ArrowDown"] * 6, "t")
    shown = [line.rstrip("\n") for line in stepper.page.locator(".line .tx").all_inner_texts()]
    expected = [i.text for c in trace[6].after.computations for i in c.instructions]
    assert [line.strip().removeprefix("ROOT ") for line in shown if " = " in line] == expected
    stepper.press("End", *["ArrowUp"] * 2)
    assert stepper.page.locator(".line .tx").all_inner_texts() == trace["assembly"].after.text.splitlines()


def test_pointing_at_an_op_lights_it_everywhere_and_a_click_pins_it(stepper):
    stepper.press(*["ArrowDown"] * 10)
    node = stepper.page.locator(".node[data-op='reduce']")
    node.hover()
    assert "lit" in node.get_attribute("class")
    node.click()
    card = stepper.page.get_by_role("complementary")
    assert "Mean" in card.inner_text()
    assert "cell.py:7" in card.inner_text()
    stepper.press("t")
    assert stepper.page.locator(".line.pinned[data-op='reduce']").count() == 1
    card.get_by_role("button", name="zero", exact=True).click()
    assert "constant" in card.inner_text()
    stepper.press("Escape")
    assert "Hover over an op" in card.inner_text()


def test_filter_and_hide(stepper):
    rows = stepper.page.locator(".pass")
    assert rows.count() == 18
    stepper.press("h")
    assert rows.count() == 14
    stepper.press("h", "/")
    stepper.page.keyboard.type("simp")
    assert rows.count() == 4  # three of a pipeline called simplification, and tuple-simplifier in it
    stepper.page.get_by_label("Filter").fill("dce")
    assert rows.count() == 1
    rows.first.click()
    assert "dce" in stepper.status


def test_play_goes_on_by_itself_and_stops(stepper):
    stepper.button("Play").click()
    stepper.page.wait_for_function(
        "() => document.querySelector('.xlanb-step').shadowRoot.querySelector('.root').dataset.step >= 2"
    )
    stepper.button("Play").click()
    here = stepper.step
    stepper.page.wait_for_timeout(1200)
    assert stepper.step == here


def test_survivors_stand_still(stepper):
    stepper.press(*["ArrowDown"] * 7)
    place = "() => [...document.querySelector('.xlanb-step').shadowRoot.querySelectorAll('.node')].map(n => [n.dataset.op, n.style.transform])"
    before = dict(stepper.page.evaluate(place))
    stepper.press("ArrowDown")
    after = dict(stepper.page.evaluate(place))
    assert "w.one" in before
    assert "w.one" not in after
    assert {n: t for n, t in before.items() if n in after} == {n: t for n, t in after.items() if n in before}


def test_the_page_exports_itself(stepper, tmp_path):
    with stepper.page.expect_download() as download:
        stepper.button("Export").click()
    path = tmp_path / "again.html"
    download.value.save_as(path)
    stepper.open(path)
    stepper.press("End")
    assert stepper.step == 17


def test_dark_and_light_follow_the_system(stepper):
    root = stepper.page.locator(".root")
    assert root.get_attribute("data-theme") == "light"
    stepper.page.emulate_media(color_scheme="dark")
    stepper.page.locator(".root[data-theme=dark]").wait_for()


def test_nothing_leaks_into_the_page(stepper):
    assert stepper.page.evaluate("() => document.styleSheets.length") == 0
    assert stepper.page.evaluate("() => Object.keys(window).filter(k => /xlanb|StepView/.test(k))") == []


@pytest.mark.parametrize("keys", [("t",), ("d",), ("w",), ("g",), ("i",), ("g", "ArrowRight"), ("d", "ArrowRight")])
def test_an_evil_name_does_nothing(context, tmp_path, keys):
    page = tmp_path / "evil.html"
    page.write_text(page_html([make_trace(EVIL, evil=True), make_trace(EVIL)]), encoding="utf-8")
    stepper = Stepper(context.new_page())
    stepper.open(page)
    for _ in range(5):
        stepper.press(*keys, "ArrowDown")
    stepper.press("Home", "g")
    stepper.page.evaluate(
        "() => { for (const n of document.querySelectorAll('.xlanb-step')[0].shadowRoot.querySelectorAll('.node')) n.dispatchEvent(new MouseEvent('click', {bubbles: true, composed: true})) }"
    )
    assert stepper.page.title() == f"{EVIL}, {EVIL}"
    assert (
        stepper.page.evaluate(
            "() => document.querySelectorAll('img:not([src^=\"data:image/svg+xml;base64,\"])').length + document.querySelector('.xlanb-step').shadowRoot.querySelectorAll('img').length"
        )
        == 0
    )
    assert stepper.errors == []


def test_several_traces_have_a_tab_each_and_a_failure_shows_its_error(context, tmp_path):
    path = tmp_path / "two.html"
    write_page([make_trace("first"), make_trace("second", fail=True)], path)
    stepper = Stepper(context.new_page())
    stepper.open(path)
    stepper.page.get_by_role("tab", name="second").click()
    stepper.page.locator(".root").focus()
    stepper.press("End")
    assert "fusion broke the module" in stepper.page.locator(".error").first.inner_text()
    stepper.press("g")
    assert stepper.page.locator(".node").count() > 10, "the last good graph"


def test_two_views_on_one_page_do_not_disturb_each_other(context, tmp_path):
    from xlanb.view.page import fragment_html

    path = tmp_path / "two.html"
    path.write_text(
        f"<!doctype html><title>t</title><body>{fragment_html([make_trace('a')])}{fragment_html([make_trace('b')])}</body>",
        encoding="utf-8",
    )
    page = context.new_page()
    page.goto(path.as_uri())
    roots = page.locator(".root")
    roots.nth(1).wait_for()
    roots.nth(1).focus()
    page.keyboard.press("End")
    assert [r.get_attribute("data-step") for r in roots.all()] == ["0", "17"]


def test_without_javascript_the_text_is_there(chromium, tmp_path):
    path = tmp_path / "page.html"
    write_page([make_trace()], path)
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(path.as_uri())
        assert "algsimp (+2 -4 ~3)" in page.locator("pre").inner_text()
