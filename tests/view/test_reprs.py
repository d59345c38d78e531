"""What objects show of themselves is short enough to be kept in a notebook."""

from __future__ import annotations

import time

from xlanb.cpu.records import CodeRecord
from xlanb.view.parts.llvm import code_data
from xlanb.view.reprs import mimebundle


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
    assert bundle["text/plain"].splitlines()[-1] == "... shown: 1,500 of 90,000 lines; its .text has them all"


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
