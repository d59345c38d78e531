"""Readers' actions in a page from disk: fold, focus, save, compare, search, why, guess."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import xlanb
from xlanb.view.page import write_page

sys.path.insert(0, str(Path(__file__).parents[1] / "view"))
sys.path.insert(0, str(Path(__file__).parent))
from factory import make_trace
from stepper import Stepper


@pytest.fixture
def stepper(context, tmp_path):
    context.set_offline(True)
    stepper = Stepper(context.new_page())
    path = tmp_path / "page.html"
    write_page([make_trace()], path)
    stepper.open(path)
    stepper.page.set_default_timeout(30_000)
    yield stepper
    assert stepper.errors == []
    assert stepper.requests == []


def ops(stepper):
    return stepper.page.evaluate(
        "() => [...document.querySelector('.xlanb-step').shadowRoot.querySelectorAll('.node')].map(n => n.dataset.op)"
    )


def test_a_fusion_folds_into_one_node_and_unfolds(stepper):
    stepper.choose("fusion")
    stepper.button("unfold").click()
    whole = ops(stepper)
    stepper.page.locator(".group.fusion .handle").first.click()
    folded = ops(stepper)
    assert "fusion" in folded
    assert len(folded) < len(whole)
    assert stepper.page.locator(".group.fusion").count() == 0
    stepper.page.locator(".node[data-op='fusion'] .handle").click()
    assert sorted(ops(stepper)) == sorted(whole)
    stepper.button("fold").click()
    assert stepper.page.locator(".group").count() == 0
    assert len(ops(stepper)) < len(folded)


def test_focus_shows_what_is_near_and_more_with_a_larger_radius(stepper):
    stepper.choose("algsimp")
    everything = len(ops(stepper))
    stepper.page.locator(".node[data-op='reduce']").click()
    stepper.button("focus").click()
    near = len(ops(stepper))
    assert 1 < near < everything
    assert "within 2 steps of reduce" in stepper.page.locator(".graph .note").inner_text()
    stepper.button("Smaller radius").click()
    assert len(ops(stepper)) < near
    stepper.button("whole graph").click()
    assert len(ops(stepper)) == everything


@pytest.mark.parametrize(("kind", "has"), [("SVG", b"<svg"), ("PNG", b"\x89PNG"), ("DOT", b"digraph")])
def test_the_graph_is_saved(stepper, tmp_path, kind, has):
    stepper.choose("fusion")
    with stepper.page.expect_download() as download:
        stepper.page.get_by_label("Save the graph as").select_option(kind)
    path = tmp_path / "graph"
    download.value.save_as(path)
    data = path.read_bytes()
    assert data.startswith(has)
    assert download.value.suggested_filename.endswith(kind.lower())
    if kind != "PNG":
        assert b"reduce" in data
        assert b"var(--" not in data


def test_colours_have_a_legend_in_words(stepper):
    stepper.choose("fusion")
    stepper.page.get_by_label("Colour by").select_option("memory")
    assert re.search(r"≤ \d+ (?:B|KiB)", stepper.page.locator(".legend").inner_text())
    stepper.page.get_by_label("Colour by").select_option("name scope")
    assert stepper.page.locator(".legend .key").count() >= 1


def test_any_two_passes_are_compared(stepper):
    stepper.choose("algsimp")
    other = stepper.page.locator(".pass").filter(has_text="tuple-simplifier").first
    other.click(modifiers=["Shift"])
    assert stepper.tab == "Diff"
    assert "after tuple-simplifier → after algsimp" in stepper.page.locator(".textpane .tools").inner_text()
    side = stepper.page.locator(".cell.removed").count()
    assert side > 0
    stepper.button("unified").click()
    assert stepper.page.locator(".rows.unified .cell.removed").count() > side, "a change is one line less, one more"
    stepper.page.locator("button.skip").first.click()
    stepper.page.locator(".root").focus()
    stepper.press("Escape")
    assert "algsimp: before and after" in stepper.page.locator(".textpane .tools").inner_text()


def test_text_is_searched_and_folded(stepper):
    stepper.choose("fusion")
    stepper.page.locator(".root").focus()
    stepper.press("f")
    stepper.page.keyboard.type("reduce(")
    count = stepper.page.locator(".count")
    assert re.fullmatch(r"1 of \d+", count.inner_text())
    assert "reduce(" in stepper.page.locator(".line.found .tx").inner_text()
    stepper.button("Fold all computations").click()
    assert count.inner_text() == "not found"
    stepper.page.locator(".line.heading .twist").last.click()
    stepper.page.get_by_label("Find in text").fill("reduce(")
    assert "of" in count.inner_text()


def test_the_same_op_is_lit_in_hlo_llvm_and_assembly(stepper):
    stepper.press("End", "c")
    assert stepper.page.locator(".column h4").all_inner_texts() == ["HLO", "LLVM IR", "Assembly"]
    op = stepper.page.locator(".column").nth(2).locator(".line[data-op]").first
    op.hover()
    lit = stepper.page.locator(".line.lit")
    assert stepper.page.locator(".column").filter(has=lit).count() >= 2


def test_two_ops_and_why(stepper):
    stepper.choose("fusion")
    stepper.press("b")
    stepper.page.locator(".node[data-op='subtract']").click()
    stepper.page.locator(".node[data-op='reduce']").click(modifiers=["Shift"])
    card = stepper.page.get_by_role("complementary").inner_text()
    assert "Decisions about this pair" in card
    assert "producer has one user" in card
    assert "2 users: multiply.9, grad" in card


def test_one_rewrite_is_seen_in_graph_difference_text_and_card(stepper):
    stepper.choose("algsimp")
    stepper.press("g")
    whole = set(ops(stepper))
    stepper.press("ArrowRight")
    assert stepper.tab == "Graph"
    first = set(ops(stepper))
    assert "w.one" not in first, "A * 1 => A took it away"
    assert {"divide"} <= first, "the second rewrite is still to come"
    assert first != whole
    card = stepper.page.get_by_role("complementary")
    assert "rewrite 1 of 2" in card.inner_text()
    assert "Looked for" in card.inner_text()
    assert "w.one" in card.locator(".parts").inner_text()
    assert card.locator(".keeps").inner_text() == "exact"
    assert ".py:" in card.inner_text()
    stepper.press("d")
    assert "rewrite 1 of 2" in stepper.page.locator(".textpane .tools").inner_text()
    assert stepper.page.locator(".cell.removed").count() > 0
    stepper.press("t")
    text = stepper.page.locator(".textpane .line .tx").all_inner_texts()
    assert not any("%w.one =" in line for line in text)
    assert any("%divide =" in line for line in text)
    stepper.press("g", "ArrowRight")
    assert "rewrite 2/2" in stepper.status
    last = set(ops(stepper))
    assert "divide" not in last
    assert len(whole ^ last) <= 1, "what is quiet was decided before and after the pass"
    stepper.press("Escape")
    assert "rewrite" not in stepper.status


def test_predict_then_reveal(stepper):
    stepper.choose("tuple-simplifier")
    stepper.button("predict").click()
    question = stepper.page.locator(".question")
    assert "comes next" in question.inner_text()
    here = stepper.step
    assert stepper.page.locator(".pass .glyph").nth(here + 1).inner_text() == "?"
    stepper.press(" ")  # all of it
    stepper.page.locator(".node[data-op='w.one']").click()
    stepper.page.locator(".node[data-op='reduce']").click()
    assert "2 marked" in question.inner_text()
    stepper.button("Reveal").click()
    assert re.search(r"1 of \d+ found, 1 wrong", question.inner_text())
    assert stepper.page.locator(".node.right").get_attribute("data-op") == "w.one"
    stepper.button("Go there").click()
    assert stepper.step > here
    assert question.count() == 0


def test_the_answer_is_nowhere_while_one_guesses(stepper):
    page = stepper.page
    stepper.choose("tuple-simplifier")
    stepper.page.locator(".node[data-op='w.one']").click()
    assert "algsimp" in page.get_by_role("complementary").inner_text(), "what happens to it later is told"
    page.locator(".root").focus()
    stepper.press("Escape")
    stepper.button("predict").click()
    page.locator(".root").focus()
    shown = page.locator(".root").inner_text()
    here = stepper.step
    rows = page.locator(".pass")
    assert all("?" in text for text in rows.locator(".glyph").all_inner_texts()[here + 1 :])
    assert rows.locator(".tally").nth(here + 1).inner_text() == ""
    assert rows.locator(".ms").nth(here + 1).inner_text() == ""
    assert "kernel" not in shown.split("Pipeline")[0]
    assert page.get_by_role("tab", name="Compare").count() == 0
    for key in ("ArrowDown", "n", "End", "]"):
        stepper.press(key)
        assert stepper.step == here
    rows.nth(here + 1).click()
    assert stepper.step == here
    assert "Reveal first" in stepper.status
    stepper.press("h")
    assert page.locator(".pass").count() >= rows.locator(".glyph").get_by_text("?").count()
    stepper.press("h")
    stepper.press("t")
    page.locator(".line[data-op='w.one']").first.click()
    assert "algsimp" not in page.get_by_role("complementary").inner_text()
    stepper.press("g")
    stepper.button("Reveal").click()
    assert rows.locator(".tally").nth(here + 1).inner_text() != ""


def test_the_ribbon_leads_to_the_pass_that_did_it(stepper):
    stepper.page.get_by_role("navigation", name="Pipeline").get_by_role("button", name="Fusion").click()
    assert stepper.page.locator(".pass.current .name").inner_text() == "fusion"


def test_a_pipeline_folds_in_the_list(stepper):
    rows = stepper.page.locator(".pass")
    count = rows.count()
    head = stepper.page.get_by_role("treeitem", expanded=True).first
    head.click()
    assert rows.count() < count
    assert "changed" in stepper.page.get_by_role("treeitem", expanded=False).first.inner_text()


def test_a_double_click_goes_to_where_an_op_lives_on(stepper):
    stepper.choose("algsimp")
    stepper.press("g")
    before = stepper.step
    node = stepper.page.locator(".node[data-op='reduce']")
    node.dblclick()
    assert stepper.step >= before


def test_branches_are_compared(context, tmp_path):
    path = tmp_path / "two.html"
    write_page([make_trace("one"), make_trace("two")], path)
    stepper = Stepper(context.new_page())
    stepper.open(path)
    stepper.page.get_by_role("tab", name="Compare", exact=True).click()
    pane = stepper.page.get_by_role("region", name="Compare")
    assert "ops at the end" in pane.inner_text()
    assert stepper.page.locator(".thumb").count() == 2
    pane.get_by_role("button", name="two").click()
    assert stepper.page.get_by_role("tab", name="two").get_attribute("aria-selected") == "true"
    assert stepper.errors == []


STACKS = """HloModule jit_train

FileNames
1 "/home/me/train.py"
2 "/home/me/layers.py"

FunctionNames
1 "train"
2 "<img src=x onerror=alert(1)>"

FileLocations
1 {file_name_id=1 function_name_id=1 line=40 end_line=40 column=4 end_column=9}
2 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=11 end_column=20}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] tanh(x), metadata={op_name="jit(train)/jvp(a/b)/tanh" stack_frame_id=2}
  z = f32[4] exponential(y), metadata={op_name="jit(train)/transpose(jvp(a/b))/exp" stack_frame_id=2}
  ROOT w = f32[4] sine(z), metadata={op_name="jit(train)/transpose(jvp(a/b))/sin" stack_frame_id=1}
}
"""


def test_the_card_shows_the_python_stack_and_a_line_lists_its_ops(context, tmp_path):
    path = tmp_path / "jax.html"
    write_page([xlanb.trace(STACKS)], path)
    stepper = Stepper(context.new_page())
    stepper.open(path)
    page = stepper.page
    page.get_by_label("Colour by").select_option("name scope")
    assert page.locator(".legend .key").all_inner_texts() == [
        "jit(train)/transpose(jvp(a/b))",
        "jit(train)/jvp(a/b)",
        "none",
    ]
    page.locator(".node[data-op='y']").click()
    card = page.get_by_role("complementary")
    assert card.locator(".stack li").all_inner_texts() == [
        "layers.py:7 in <img src=x onerror=alert(1)>",
        "train.py:40 in train",
    ]
    page.get_by_role("button", name="train.py:40 in train").click()
    assert card.locator(".of-line .link").all_inner_texts() == ["y", "z", "w"]
    page.get_by_role("button", name="layers.py:7").click()
    assert card.locator(".of-line .link").all_inner_texts() == ["y", "z"]
    assert page.locator(".node.of-this-line").count() == 2
    page.locator(".pass .name").get_by_text("fusion", exact=True).first.click()
    fusion = page.locator(".group[data-op*='fusion'] text, .node[data-op*='fusion']").first
    fusion.click()
    assert "In it: 3 ops" in card.inner_text()
    assert "layers.py:7 × 2" in card.inner_text()
    assert stepper.errors == []


def test_the_users_lines_stand_first_with_their_text_and_libraries_are_folded(context, tmp_path):
    path = tmp_path / "jax.html"
    library = "/env/lib/python3.12/site-packages/flax/linear.py"
    trace = xlanb.trace(STACKS.replace("/home/me/layers.py", library))
    trace.sources[("/home/me/train.py", 40)] = "loss = model(x) <b>"
    trace.sources[(library, 7)] = "y = tanh(x)"
    write_page([trace], path)
    stepper = Stepper(context.new_page())
    stepper.open(path)
    stepper.page.locator(".node[data-op='y']").click()
    card = stepper.page.get_by_role("complementary")
    own = card.locator("ol.stack").first
    assert own.locator(".link").all_inner_texts() == ["train.py:40 in train"]
    assert own.locator(".srcline").inner_text() == "loss = model(x) <b>"
    assert not card.locator(".libraries .link").first.is_visible()
    card.get_by_text("1 line of libraries").click()
    assert card.locator(".libraries .srcline").inner_text() == "y = tanh(x)"
    assert stepper.errors == []


JAX_MODULE = """HloModule m

ENTRY e {
  params__w__.1 = f32[4]{0} parameter(0), metadata={op_name="params['w']"}
  x.1 = f32[4]{0} parameter(1), metadata={op_name="x"}
  ROOT add.1 = f32[4]{0} add(params__w__.1, x.1), metadata={op_name="jit(f)/add"}
}
"""


@pytest.fixture
def of_jax(context, tmp_path):
    stepper = Stepper(context.new_page())
    path = tmp_path / "page.html"
    xlanb.trace(JAX_MODULE).to_html(path)
    stepper.open(path)
    yield stepper
    assert stepper.errors == []


def test_arguments_have_the_names_that_the_function_gives_them(of_jax):
    page = of_jax.page
    node = page.locator(".node[data-op='params__w__.1']").first
    assert node.locator("title").inner_html().startswith("params['w']\n%params__w__.1 = ")
    node.click()
    card = page.locator(".card-body")
    assert card.locator(".opname").inner_text() == "params['w']"
    assert card.locator("dl").inner_text().split("\n")[:2] == ["HLO name", "params__w__.1"]
    page.locator(".node[data-op='add.1']").first.click()
    card.locator("dd", has_text="jit(f)/add").wait_for()
    assert card.locator(".links button").all_inner_texts() == ["params['w']", "x"]
    of_jax.press("End")
    page.get_by_role("tab", name="Memory").click()
    rows = page.locator(".memory td.mono").all_inner_texts()
    assert {"params['w']", "x"} <= set(rows)
    assert not any("params__w__" in text for text in rows)
