"""The film: scrub by keys and mouse, pin, save and read back, reduced motion, axe."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import xlanb

sys.path.insert(0, str(Path(__file__).parent))
from stepper import opened

TEXT = """HloModule small

ENTRY main {
  a = f32[64,64] parameter(0)
  b = f32[64,64] parameter(1)
  zero = f32[] constant(0)
  zeros = f32[64,64] broadcast(zero), dimensions={}
  sum = f32[64,64] add(a, zeros)
  again = f32[64,64] multiply(sum, b)
  same = f32[64,64] multiply(sum, b)
  both = f32[64,64] add(again, same)
  bent = f32[64,64] tanh(both)
  ROOT product = f32[64,64] dot(bent, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


@pytest.fixture(scope="module")
def trace():
    return xlanb.trace(TEXT)


@pytest.fixture
def film(context, tmp_path, trace):
    """Open the Film pane of the explorer's page, without animation."""
    context.set_offline(True)
    path = tmp_path / "page.html"
    trace.to_html(path)
    with opened(context, path) as stepper:
        stepper.page.emulate_media(reduced_motion="reduce")
        stepper.press("v")
        yield stepper


def words(stepper):
    return stepper.page.get_by_role("slider", name="Time of the compilation").get_attribute("aria-valuetext")


def time(stepper):
    return float(stepper.page.locator(".film").get_attribute("data-time"))


def marks(stepper):
    return int(stepper.page.locator(".film").get_attribute("data-marks"))


def test_every_instruction_is_a_mark_first_and_kernels_stand_last(film, trace):
    first = trace.stages[0].after.instruction_count
    assert (film.tab, marks(film), time(film)) == ("Film", first, 0)
    assert words(film) == f"before_optimizations; {first} instructions"
    film.press("End")
    assert f"{trace.kernel_count} kernels" in words(film)
    assert words(film).endswith("shares by the cost model")
    assert marks(film) > 0
    assert film.step == len(trace) - 1


def test_arrows_go_from_change_to_change_and_the_list_follows(film, trace):
    changed = [s for s in trace.changed if s.kind == "hlo_pass"]
    for stage in changed:
        film.press("ArrowRight")
        assert words(film).startswith(f"{stage.name};")
        assert film.step == stage.index
        for count, word in zip(stage.changes.counts, ("added", "removed", "changed"), strict=True):
            assert (f"{count} {word}" in words(film)) == (count > 0)
    film.press("ArrowLeft")
    assert film.step == changed[-2].index
    film.press("Home")
    assert (film.step, time(film)) == (0, 0)


def test_a_pass_that_is_chosen_elsewhere_is_shown(film, trace):
    film.choose("fusion")
    assert film.step == trace["fusion"].index
    assert words(film).startswith("fusion;")
    assert "fusion" in words(film).split("; ")[2]


def test_the_scrubber_is_dragged_and_its_ticks_clicked(film, trace):
    bar = film.page.locator(".filmbar")
    box = bar.bounding_box()
    y = box["y"] + 39
    film.page.mouse.move(box["x"] + 12, y)
    film.page.mouse.down()
    film.page.mouse.move(box["x"] + box["width"] / 2, y, steps=4)
    half = time(film)
    film.page.mouse.move(box["x"] + box["width"] - 2, y, steps=4)
    film.page.mouse.up()
    assert 0 < half < time(film)
    assert film.step == len(trace) - 1
    tick = film.page.locator(".tick:not(.quiet)").first.bounding_box()
    film.page.mouse.click(tick["x"] + 1, y)
    assert film.step == next(s for s in trace.changed if s.kind == "hlo_pass").index


def test_a_mark_is_pointed_at_clicked_and_pinned_everywhere(film):
    place = film.page.evaluate(
        """() => {
          const canvas = document.querySelector(".xlanb-step").shadowRoot.querySelector(".filmpicture");
          const ink = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const matrix = (k) => Math.abs(ink.data[k] - 211) + Math.abs(ink.data[k + 1] - 104) + Math.abs(ink.data[k + 2] - 47) < 12;
          const found = [];
          for (let y = 60; y < canvas.height - 40; y += 1) for (let x = 0; x < canvas.width; x += 1) if (matrix(4 * (y * canvas.width + x))) found.push([x, y]);
          const middle = (i) => found.reduce((t, p) => t + p[i], 0) / found.length / devicePixelRatio;
          return [middle(0), middle(1)];
        }"""
    )
    box = film.page.locator(".filmpicture").bounding_box()
    film.page.mouse.move(box["x"] + place[0], box["y"] + place[1])
    film.page.locator(".filmpicture.over").wait_for()
    film.page.mouse.click(box["x"] + place[0], box["y"] + place[1])
    assert film.page.locator(".card .opname").inner_text() == "product"
    film.press("t")
    assert film.page.locator(".line.pinned").get_attribute("data-op") == "product"


def test_it_plays_and_stops_and_cuts_where_motion_is_not_wanted(film):
    assert time(film) == 0  # it did not begin by itself
    film.press(" ")
    film.page.wait_for_function(
        "document.querySelector('.xlanb-step').shadowRoot.querySelector('.film').dataset.time > 0.2"
    )
    film.button("Pause the film").click()
    stopped = time(film)
    film.button("Play the film").wait_for()
    assert stopped == time(film)


def test_it_begins_by_itself_where_motion_is_wanted(context, tmp_path, trace):
    path = tmp_path / "film.html"
    trace.film().to_html(path)
    with opened(context, path) as stepper:
        stepper.page.emulate_media(reduced_motion="no-preference")
        stepper.page.reload()
        stepper.button("Pause the film").click()
        assert stepper.page.get_by_role("tab").count() == 0  # nothing but the film
        assert stepper.requests == []


def chunks(data: bytes):
    """The chunks of a RIFF file: (name, body)."""
    at, found = 12, []
    while at < len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        found.append((data[at : at + 4], data[at + 8 : at + 8 + size]))
        at += 8 + size + size % 2
    assert at == len(data)
    return found


def number(body, at, size=3):
    return int.from_bytes(body[at : at + size], "little")


def test_the_film_is_saved_as_a_webp_that_can_be_read_back(film, tmp_path):
    film.button("Save the film").click()
    film.page.get_by_role("spinbutton", name="Seconds").fill("3")
    film.page.get_by_role("combobox", name="Width").select_option("480")
    film.page.get_by_role("combobox", name="Frames per second").select_option("10")
    with film.page.expect_download(timeout=90_000) as download:
        film.button("Save").click()
    path = tmp_path / "film.webp"
    download.value.save_as(path)
    data = path.read_bytes()
    assert (data[:4], data[8:12]) == (b"RIFF", b"WEBP")
    assert number(data, 4, 4) == len(data) - 8
    (head, canvas), (loop, times), *frames = chunks(data)
    assert (head, loop, canvas[0]) == (b"VP8X", b"ANIM", 2)
    width, height = number(canvas, 4) + 1, number(canvas, 7) + 1
    assert (width, height) == (480, 270)
    assert number(times, 4, 2) == 0  # for ever
    assert {name for name, _ in frames} == {b"ANMF"}
    assert 8 < len(frames) <= 30
    assert sum(number(f, 12) for _, f in frames) == 3000
    for _, f in frames:
        x, y, w, h = 2 * number(f, 0), 2 * number(f, 3), number(f, 6) + 1, number(f, 9) + 1
        assert x + w <= width
        assert y + h <= height
        assert f[16:20] in {b"VP8 ", b"VP8L", b"ALPH"}
    assert decoded(film.page, data) == [480, 270, len(frames)]


def decoded(page, data: bytes):
    """Width, height and number of frames, as the browser itself reads the picture."""
    return page.evaluate(
        """async (bytes) => {
          const decoder = new ImageDecoder({ data: new Uint8Array(bytes), type: "image/webp" });
          await decoder.tracks.ready;
          await decoder.completed;
          const { image } = await decoder.decode({ frameIndex: decoder.tracks.selectedTrack.frameCount - 1 });
          return [image.displayWidth, image.displayHeight, decoder.tracks.selectedTrack.frameCount];
        }""",
        list(data),
    )


def test_saving_can_be_cancelled(film):
    film.button("Save the film").click()
    film.page.get_by_role("spinbutton", name="Seconds").fill("120")
    film.page.get_by_role("combobox", name="Frames per second").select_option("30")
    film.button("Save").click()
    film.button("Cancel").click()
    film.page.locator(".filmsave").get_by_text("Cancelled.").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(film, theme):
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None:
        pytest.skip("axe-playwright-python is not installed: pip install 'xlanb[browser]'")
    from test_accessibility import serious

    film.page.emulate_media(color_scheme=theme)
    assert serious(film.page) == []
    film.press("End")
    film.button("Save the film").click()
    assert serious(film.page) == []


def ebml_elements(data):
    """Yield ids and contents of consecutive EBML elements; one of unknown size extends to the
    end.
    """
    at = 0
    while at < len(data):
        width = 9 - data[at].bit_length()
        ident, at = data[at : at + width].hex(), at + width
        width = 9 - data[at].bit_length()
        size = int.from_bytes(data[at : at + width], "big") & ((1 << 7 * width) - 1)
        at += width
        end = len(data) if size == (1 << 7 * width) - 1 else at + size
        yield ident, data[at:end]
        at = end


def test_the_film_is_saved_as_a_webm_with_frames_in_its_clusters(film, tmp_path):
    film.button("Save the film").click()
    film.page.get_by_role("combobox", name="As").select_option("webm")
    film.page.get_by_role("spinbutton", name="Seconds").fill("2")
    film.page.get_by_role("combobox", name="Width").select_option("480")
    with film.page.expect_download(timeout=90_000) as download:
        film.button("Save").click()
    path = tmp_path / "film.webm"
    download.value.save_as(path)
    (head, kind), (segment, content) = ebml_elements(path.read_bytes())
    assert head == "1a45dfa3"
    assert dict(ebml_elements(kind))["4282"] == b"webm"
    assert segment == "18538067"
    clusters = [inside for ident, inside in ebml_elements(content) if ident == "1f43b675"]
    frames = [block for inside in clusters for ident, block in ebml_elements(inside) if ident in ("a3", "a0")]
    assert len(frames) > 4
    assert max(map(len, frames)) > 1000, "a picture, not an empty frame"
