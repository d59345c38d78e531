"""What XLA:GPU made, as plain data and as text."""

from __future__ import annotations

import json

from xlanb.dump.gpu.backend import KernelBackend
from xlanb.dump.gpu.fusion_process import FusionStep
from xlanb.dump.gpu.ptxas import KernelResources
from xlanb.dump.gpu.thunks import Thunk
from xlanb.explorer.gpu_fusion import HEAVY_BYTES, FusionDecisions
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.gpu.devices import gpu_device
from xlanb.gpu.kernel_cost import KernelCost
from xlanb.gpu.occupancy import occupancy
from xlanb.gpu.roofline import estimate
from xlanb.hlo import parse
from xlanb.runtime.gpu_program import GpuKernel, GpuProgram, KernelCode, Launch
from xlanb.view.parts.gpu import gpu_data
from xlanb.view.payload import build_payload
from xlanb.view.reprs import mimebundle
from xlanb.view.text import artifact_text

EVIL = "<script>alert(1)</script>"
H100 = gpu_device("h100")


def kernel(name: str, blocks: int = 128, lines: int = 3) -> GpuKernel:
    held = occupancy(H100, 128, 40, 0, blocks)
    work = KernelCost(1e6, blocks * 1e5, 1e6)
    code = KernelCode(EVIL, "", "", "\n".join(f"ptx {k}" for k in range(lines)), "EXIT\nEXIT", (2, 0))
    return GpuKernel(
        name, (f"{name}.1", f"{name}.2"), KernelBackend("loop"), (blocks, 1, 1), (128, 1, 1), 0, 2,
        KernelResources(name, "sm_90a", 40), held, work, estimate(H100, work, blocks, 128, held),
        op_name=EVIL, code=code,
    )  # fmt: skip


def program(**more: object) -> GpuProgram:
    kernels = (kernel("short"), kernel("long", 5000))
    loop = Launch(Thunk(3, "kWhile", "while.1", "while.1"), "", 0.0, 2e-6, detail="3 iterations")
    inside = Launch(
        Thunk(4, "kCustomKernel", "long", "long.1", (5000, 1, 1), (128, 1, 1), depth=1, parent=0),
        "stream 0",
        0.0,
        2e-6,
        3,
        "memory",
    )
    return GpuProgram("jit_f", H100.name, H100, kernels, (loop, inside), **more)  # type: ignore[arg-type]


def test_kernels_come_with_the_slowest_first() -> None:
    data = gpu_data(program(note="A word."), 100)
    assert [k["n"] for k in data["kernels"]] == ["long", "short"]
    first = data["kernels"][0]
    assert (first["op"], first["ops"], first["row"][0], first["row"][3:6]) == (
        "long.1",
        ["long.1", "long.2"],
        2,
        [40, 0, 0.75],
    )
    assert first["code"] == {"ptx": ["ptx 0", "ptx 1", "ptx 2"], "sass": ["EXIT", "EXIT"], "hlo": [EVIL]}
    assert (first["at"], first["cut"]) == ([2, 0], {})
    assert data["launches"][1][:9] == [4, "kernel", "long", "long.1", "stream 0", 0.0, 2e-6, 3, "memory"]
    assert data["note"] == "A word."
    json.dumps(data)


def test_long_texts_are_cut_with_a_word() -> None:
    long = GpuProgram("jit_f", "", None, (kernel("k", lines=500),))
    data = gpu_data(long, 10)["kernels"][0]
    assert (len(data["code"]["ptx"]), data["cut"]["ptx"]) == (10, 500)
    assert "sass" not in data["cut"]


def test_texts_that_are_too_many_are_left_out_but_counted() -> None:
    wide = GpuKernel("k", code=KernelCode(ptx="x" * 300, sass="y" * 300, hlo="z" * 300))
    data = gpu_data(GpuProgram("jit_f", "", None, (wide,)), 1)["kernels"][0]
    assert (list(data["code"]), data["cut"]) == (["ptx"], {"hlo": 1, "sass": 1})


def test_the_text_is_a_table() -> None:
    lines = artifact_text(program()).splitlines()
    assert lines[0].startswith("jit_f on NVIDIA H100 80GB HBM3: 2 kernels, 1 launch, ")
    assert lines[1].split() == ["kernel", "time", "times", "bound", "regs", "occ.", "blocks", "x", "threads", "emitter"]
    assert lines[2].startswith("long ")


def test_what_a_dump_says_is_never_markup() -> None:
    html = mimebundle(program())["text/html"]
    assert EVIL not in html
    assert EVIL in mimebundle(kernel("k"))["text/plain"]
    assert EVIL not in mimebundle(kernel("k"))["text/html"]


def test_a_page_does_not_wait_for_very_many_decisions() -> None:
    module = parse("HloModule m\nENTRY e { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }").record()
    read = []

    def load() -> list[FusionStep]:
        read.append(1)
        return [FusionStep("ineligible", "x", reason="the producer is not fusible")]

    many, few = (FusionDecisions(load, lambda: module, size) for size in (HEAVY_BYTES + 1, HEAVY_BYTES))
    traces = [Trace("m", [Stage("hlo_pass", "priority-fusion", None, module, decisions=d)]) for d in (many, few)]
    first, second = (build_payload([t])["traces"][0]["stages"][0] for t in traces)
    assert ("why" in first, "why" in second, len(read)) == (False, True, 1)
    assert [d.taken for d in traces[0].why("x")] == [False]
    assert "why" in build_payload([traces[0]])["traces"][0]["stages"][0]


def test_a_page_holds_the_program_beside_its_hlo() -> None:
    module = parse("HloModule m\nENTRY e { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }").record()
    made = program()
    trace = Trace("m", [Stage("hlo", "hlo", None, module), Stage("gpu_program", "kernels", module, made, index=1)])
    payload = build_payload([trace])
    stage = payload["traces"][0]["stages"][1]
    assert payload["artifacts"][stage["a"]]["k"] == "gpu"
    assert payload["artifacts"][stage["ctx"]]["k"] == "module"
