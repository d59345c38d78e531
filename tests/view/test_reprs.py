"""What objects show of themselves is short enough to be kept in a notebook."""

from __future__ import annotations

import base64
import re
import time

import numpy as np
import pytest
from factory import make_trace
from unpacking import payload_of

from xlanb.cpu.records import CodeRecord
from xlanb.hlo import HloModule, HloOpcode, parse
from xlanb.reducer import reduction
from xlanb.shape import ArrayShape, Layout, PrimitiveType
from xlanb.tracing import observing
from xlanb.transforms import PASSES
from xlanb.view import brief
from xlanb.view.parts.fusion import traffic
from xlanb.view.parts.hlo import near
from xlanb.view.parts.llvm import code_data
from xlanb.view.reprs import mimebundle
from xlanb.view.shape import place_of, shape_text


def llvm(functions: int) -> CodeRecord:
    text = []
    for k in range(functions):
        text.append(f"define void @f{k}() {{")
        text += [
            f"  %{i} = fadd <16 x float> %{i - 1}, <float {i}.0, float {k}.0>, !dbg !{i * 7 + k}" for i in range(98)
        ]
        text.append("}")
    names = tuple(f"f{k}" for k in range(functions))
    return CodeRecord("llvm", "\n".join(text), names, {n: f"op.{n}" for n in names})


def test_five_megabytes_of_ir_show_at_once_and_say_how_much_is_shown():
    record = llvm(900)
    assert len(record.text) > 5_000_000
    begin = time.process_time()
    bundle = mimebundle(record)
    assert time.process_time() - begin < 2  # a tenth of it on an idle machine
    assert len(bundle["text/html"]) < 2_000_000
    assert len(bundle["text/plain"]) < 200_000
    assert bundle["text/plain"].splitlines()[-1] == "... shown: 60 of 90,000 lines; its .text has them all"


def test_a_text_is_cut_by_lines_and_by_characters():
    record = llvm(3)
    data = code_data(record, 150)
    assert (len(data["lines"]), data["total"]) == (150, 300)
    assert data["note"].startswith("Shown: 150 of 300 lines")
    assert data["ops"][1] == [101, "op.f1"]
    short = code_data(record, 10_000, 1000)
    assert sum(map(len, short["lines"])) <= 1000
    assert short["total"] == 300
    whole = code_data(record, 10_000)
    assert "note" not in whole
    assert whole["lines"] == record.text.splitlines()


def test_one_endless_line_is_cut():
    record = CodeRecord("llvm", "x" * 3_000_000)
    assert len(mimebundle(record)["text/html"]) < 500_000
    assert len(mimebundle(record)["text/plain"]) < 200_000


FUSED = """HloModule m
f {
  p = f32[64] parameter(0)
  q = f32[64] parameter(1)
  a = f32[64] add(p, q)
  b = f32[64] negate(a)
  ROOT c = f32[64] multiply(a, b)
}
ENTRY e {
  x = f32[64] parameter(0)
  y = f32[64] parameter(1)
  ROOT r = f32[64] fusion(x, y), kind=kLoop, calls=f, metadata={op_name="<script>alert(1)</script>"}
}"""


def test_a_fusion_says_what_it_saves() -> None:
    module = parse(FUSED)
    found = traffic(module.record().by_name["f"])
    # Saved: a is written, and read by b and c; b is written, and read by c: five times 64 floats.
    assert (found.reads, found.writes, found.saved, found.operations) == (512, 256, 5 * 256, 3)
    bundle = module.entry_computation.root._repr_mimebundle_()
    assert bundle["text/plain"].endswith("would move 1.25 KiB more")
    assert "<script>alert" not in bundle["text/html"]


def test_an_instruction_and_a_computation_show_themselves() -> None:
    module = parse(FUSED)
    x = next(iter(module.entry_computation))
    assert x._repr_mimebundle_()["text/plain"].startswith("%x = f32[64]{0} parameter(0)")
    assert "xlanb-static" in x._repr_mimebundle_()["text/html"]
    assert "xlanb-static" in module.entry_computation._repr_mimebundle_()["text/html"]


def test_a_pass_result_is_one_line_and_its_difference() -> None:
    class Watch:
        def on_event(self, event: object) -> None:
            pass

    module = parse(
        "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  n = f32[4] negate(x)\n  ROOT r = f32[4] negate(n)\n}"
    )
    with observing(Watch()):
        result = PASSES["algsimp"]().run(module)
    bundle = mimebundle(result)
    assert bundle["text/plain"].startswith("algsimp: changed")
    assert len(bundle["text/html"]) < 200_000


@pytest.mark.parametrize(
    ("layout", "dimensions", "places"),
    [
        (Layout((1, 0)), (2, 3), [0, 1, 2, 3, 4, 5]),
        (Layout((0, 1)), (2, 3), [0, 2, 4, 1, 3, 5]),
        # XLA's example of tiled layouts: f32[3,5], tiles of 2 x 2, padded to 4 x 6
        # (docs/tiled_layout.md)
        (Layout((1, 0), ((2, 2),)), (3, 5), [0, 1, 4, 5, 8, 2, 3, 6, 7, 10, 12, 13, 16, 17, 20]),
        # pairs of rows share a word: bf16 on a TPU
        (Layout((1, 0), ((2, 2), (2, 1))), (2, 4), [0, 2, 4, 6, 1, 3, 5, 7]),
        (Layout((1, 0), ((None, 4),)), (2, 3), [0, 1, 2, 3, 4, 5]),
        (Layout((0,), ((2, 2),)), (3,), [0, 1, 4]),
    ],
)
def test_where_an_element_lies_in_memory(layout: Layout, dimensions: tuple[int, ...], places: list[int]) -> None:
    shape = ArrayShape(PrimitiveType.F32, dimensions, layout)
    assert [place_of(index, shape) for index in np.ndindex(*dimensions)] == places


def test_shapes_show_tiles_and_padding() -> None:
    shape = ArrayShape(PrimitiveType.F32, (3, 5), Layout((1, 0), ((2, 2),)))
    assert "padded to whole tiles: 24 elements" in shape_text(shape)
    assert "<svg" in mimebundle(shape)["text/html"]
    assert "tiles of 2 x 2" in mimebundle(shape.layout)["text/plain"]
    for odd in ("f32[]", "f32[0,4]", "token[]", "(f32[2], (s32[], pred[3,3]))", "f32[<=5]", "s4[1000000,1000000,7]"):
        root = parse(f"HloModule m\nENTRY e {{ ROOT p = {odd} parameter(0) }}").entry_computation.root
        bundle = root.shape._repr_mimebundle_()
        assert len(bundle["text/html"]) < 200_000


def test_what_is_near_a_wide_tuple_is_not_only_its_operands() -> None:
    neighbours = {"root": [f"a{k}" for k in range(300)], **{f"a{k}": [f"b{k}"] for k in range(300)}}
    neighbours |= {f"b{k}": [f"c{k}"] for k in range(300)}
    kept = near(neighbours, ["root"], 100)
    assert len(kept) == 100
    assert {"root", "a0", "b0", "c0"} <= kept


def is_negated(module: HloModule) -> bool:
    """Something is <negated>."""
    return any(i.opcode is HloOpcode.NEGATE for i in module.instructions())


def test_a_reduction_can_be_saved_as_a_file() -> None:
    text = "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  n = f32[4] negate(x)\n  ROOT t = f32[4] tanh(n)\n}\n"
    found = reduction(text, is_negated)
    html = mimebundle(found)["text/html"]
    link = re.search(r'download="fault.py" href="data:text/x-python;base64,([^"]+)"', html)
    assert link is not None
    assert base64.b64decode(link[1]).decode() == found.reproducer().text
    assert "Something is &lt;negated&gt;" in mimebundle(found.reproducer())["text/html"]
    unknown = mimebundle(reduction(text, lambda module: module.instruction_count > 1))["text/html"]
    assert "not a named function" in unknown
    assert "3 instructions -&gt; " in unknown


@pytest.mark.parametrize("width", [60, 90, 130])
def test_a_brief_names_whole_passes_only(monkeypatch, width):
    trace = make_trace()
    monkeypatch.setattr(brief, "_WIDTH", width)
    lines = brief.trace_brief(trace).splitlines()
    named = [line for line in lines if line.startswith("passes that changed most")]
    changed = sum(s.kind == "hlo_pass" for s in trace.changed)
    for line in named:
        assert len(line) <= width
        shown, more = line.count("("), re.search(r" and (\d+) more$", line)
        assert shown + (int(more[1]) if more else 0) == changed
    assert named or width == 60


@pytest.mark.parametrize(("language", "title"), [("llvm", "LLVM IR"), ("asm", "assembly"), ("mystery", "mystery")])
def test_code_is_titled_by_its_language(language, title):
    html = mimebundle(CodeRecord(language, "some code\n"))["text/html"]
    assert payload_of(html)["traces"][0]["name"] == title
