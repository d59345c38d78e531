"""Code as a table: instructions, their HLO, vectors and loops."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.cpu.listing import instructions
from xlanb.cpu.records import CodeRecord

X86 = """\t.text
f:
.Lfunc_begin0:
\t.loc\t1 3 0
\tmovq\t%rdi, %rax
.LBB0_1:
\tvmovups\t(%rsi), %ymm0  # from x
\tvaddps\t%ymm0, %ymm1, %ymm1
.LBB0_2:
\tvaddss\t%xmm0, %xmm1, %xmm1
\tjne\t.LBB0_2
\tvpabsd\t%xmm0, %xmm1
\tjne\t.LBB0_1
\tretq
g:
.LBB0_1:
\tvmulps\t%zmm0, %zmm1, %zmm1
\tvmulps\t%zmm0, %zmm1, %zmm1
\tjb\t.LBB0_1
\tjmp\t.LBB9_9
"""
ARM = """f:
.LBB0_1:
\tldr\tq0, [x1], #16
\tfmul\tv0.4s, v0.4s, v1.4s  // a comment
\tcbnz\tx2, .LBB0_1
\tb.ne\t.LBB0_1
\tret
"""
LLVM = """define void @"a fusion"(ptr %0) {
entry:
  br label %loop
loop:
  %v = fadd <16 x float> %a, %b, !dbg !3
  %w = tail call <8 x i8> @llvm.abs.v8i8(<8 x i8> %c)
  br i1 %d, label %loop, label %exit
exit:
  ret void
}
"""


def test_x86_loops_vectors_and_hlo():
    rows = instructions(X86, "asm", {7: "add.1"})
    assert [(r[1], r[2], r[5], r[6]) for r in rows] == [
        ("f", "movq", 0, ""),
        ("f", "vmovups", 256, ""),
        ("f", "vaddps", 256, ""),
        ("f", "vaddss", 0, "inner"),
        ("f", "jne", 0, "inner"),
        ("f", "vpabsd", 128, ""),
        ("f", "jne", 0, ""),
        ("f", "retq", 0, ""),
        ("g", "vmulps", 512, "hot"),
        ("g", "vmulps", 512, "hot"),
        ("g", "jb", 0, "hot"),
        ("g", "jmp", 0, ""),
    ]
    assert rows[1] == (7, "f", "vmovups", "(%rsi), %ymm0", "add.1", 256, "")


def test_arm():
    rows = instructions(ARM, "asm", {})
    assert [(r[2], r[3], r[5], r[6]) for r in rows] == [
        ("ldr", "q0, [x1], #16", 0, "hot"),
        ("fmul", "v0.4s, v0.4s, v1.4s", 128, "hot"),
        ("cbnz", "x2, .LBB0_1", 0, "hot"),
        ("b.ne", ".LBB0_1", 0, "hot"),
        ("ret", "", 0, ""),
    ]


def test_llvm():
    rows = instructions(LLVM, "llvm", {5: "add.1"})
    assert [(r[1], r[2], r[4], r[5], r[6]) for r in rows] == [
        ("a fusion", "br", "", 0, ""),
        ("a fusion", "fadd", "add.1", 512, "hot"),
        ("a fusion", "call", "", 64, "hot"),
        ("a fusion", "br", "", 0, "hot"),
        ("a fusion", "ret", "", 0, ""),
    ]
    assert rows[1][3] == "<16 x float> %a, %b"


def test_what_is_no_code_has_no_rows():
    assert instructions("mlir", "mlir", {}) == []
    table = CodeRecord("asm", "").to_dataframe()
    assert len(table) == 0
    assert "vector_bits" in table


@pytest.mark.parametrize("form", ["llvm_record", "optimized_record", "assembly_record"])
def test_a_compiled_loop_is_found_in_all_three_texts(form):
    text = (
        "HloModule m\nENTRY e {\n  x = f32[64,1024]{1,0} parameter(0)\n  ROOT y = f32[64,1024]{1,0} exponential(x)\n}"
    )
    executable = xlanb.compile(text)
    table = getattr(executable, form).to_dataframe()
    hot = table[table.loop == "hot"]
    assert set(hot.hlo) - {""} == {"y"}
    assert (hot.vector_bits > 0).mean() > 0.5
    assert np.array_equal(np.unique(hot.function), [hot.function.iloc[0]])
