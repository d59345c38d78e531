"""Linear algebra kernels for other machines: their code can at least be generated."""

from __future__ import annotations

from dataclasses import replace

import llvmlite.binding as llvm
import pytest

from xlanb.codegen.target import Target
from xlanb.cpu import objects
from xlanb.cpu.codegen.program import emit_program

ARM = Target("aarch64-unknown-linux-gnu", "generic", "+neon", "", 2)
PLAIN = Target("x86_64-unknown-linux-gnu", "x86-64", "", "", 1)
TRSM = "side = 76 : ui8, uplo = 76 : ui8, trans_x = 84 : ui8, diag = 78 : ui8"
CALLS = [
    ("potrf", "s", (), ((130, 130),), ((130, 130), ("s",)), "uplo = 85 : ui8"),
    ("potrf", "z", (3,), ((4, 4),), ((4, 4), ("s",)), "uplo = 85 : ui8"),
    ("getrf", "d", (), ((110, 105),), ((110, 105), ("s", 105), ("s",)), ""),
    ("getrf", "s", (9,), ((3, 5),), ((3, 5), ("s", 3), ("s",)), ""),
    ("trsm", "d", (), ((120, 120), (120, 7)), ((120, 7),), TRSM),
    ("trsm", "c", (7,), ((3, 3), (3, 7)), ((3, 7),), TRSM),
]


def build(lapack, *call):
    return lapack(*call)


@pytest.mark.parametrize("target", [ARM, PLAIN], ids=["aarch64", "x86-64"])
@pytest.mark.parametrize("call", CALLS, ids=lambda c: f"{c[1]}{c[0]}")
def test_code_can_be_made(compiled_once, call, target):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(cpu=target.cpu, features=target.features)
    target = replace(target, data_layout=str(machine.target_data))
    exe = compiled_once(build, *call)
    for unit in emit_program(exe.buffer_assignment, target).units():
        assert objects.compile_unit(unit, target, relocation="pic").startswith(b"\x7fELF")
