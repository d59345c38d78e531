"""XLA:GPU's output as plain data for the Kernels pane.

Launches as a timeline, kernels as a table, each with its texts.
"""

from __future__ import annotations

from typing import Any

from xlanb.runtime.gpu_program import FORMS, GpuKernel, GpuProgram, Launch, by_time
from xlanb.view.parts.items import clip

MAX_LAUNCHES = 3000
MAX_KERNELS = 600
MAX_LINE = 400
CHARACTERS_PER_LINE = 400
"""Characters of code in a page per line of the limit."""

_ORDER = ("ptx", "sass", "hlo", "triton", "llvm_optimized", "llvm")  # kept first if there is too much


def gpu_data(program: GpuProgram, max_lines: int) -> dict[str, Any]:
    """Plain data of a program.

    Texts are cut to `max_lines` each, and left out once all together are too long: PTX and SASS of
    the slowest kernels are kept first.
    """
    kernels = by_time(program.kernels)
    texts = _texts(kernels, max_lines)
    data: dict[str, Any] = {
        "k": "gpu",
        "name": program.name,
        "device": program.device_name,
        "head": program.headline,
        "s": program.seconds,
        "launches": [_launch_row(x) for x in program.launches[:MAX_LAUNCHES]],
        "kernels": [_kernel_data(k, texts.get(k.name, {})) for k in kernels[:MAX_KERNELS]],
        "forms": [list(f) for f in FORMS],
    }
    hidden = (len(program.launches) - MAX_LAUNCHES, len(kernels) - MAX_KERNELS)
    notes = [program.note] if program.note else []
    notes += [f"{n:,} more {what} not shown." for n, what in zip(hidden, ("launches", "kernels"), strict=True) if n > 0]
    if notes:
        data["note"] = " ".join(notes)
    return data


def _texts(kernels: list[GpuKernel], max_lines: int) -> dict[str, dict[str, list[str]]]:
    """Lines of each text of each kernel, as far as the limit on characters goes."""
    left = max_lines * CHARACTERS_PER_LINE
    found: dict[str, dict[str, list[str]]] = {}
    for form in _ORDER:
        for k in kernels[:MAX_KERNELS]:
            text = getattr(k.code, form)
            if not text:
                continue
            lines = [clip(line, MAX_LINE) for line in text[: max_lines * MAX_LINE].split("\n")[:max_lines]]
            size = sum(map(len, lines))
            if size <= left:
                left -= size
                found.setdefault(k.name, {})[form] = lines
    return found


def _launch_row(x: Launch) -> list[Any]:
    t = x.thunk
    return [
        t.number,
        t.words,
        clip(t.name, 200),
        clip(t.instruction, 200),
        x.row,
        x.start,
        x.seconds,
        x.times,
        x.bound,
        clip(x.detail, 300),
        t.depth,
        t.engine,
        list(t.grid),
        list(t.block),
        t.branch,
    ]


def _kernel_data(k: GpuKernel, texts: dict[str, list[str]]) -> dict[str, Any]:
    used, held, cost, time = k.resources, k.occupancy, k.cost, k.estimate
    data: dict[str, Any] = {
        "n": k.name,
        "op": k.instruction,
        "ops": list(k.instructions[:50]),
        "facts": [[name, clip(value, 600)] for name, value in k.facts],
        "row": [
            k.launches,
            time.seconds if time is not None else None,
            time.bound if time is not None else "",
            used.registers if used is not None else None,
            used.spill_stores + used.spill_loads if used is not None else None,
            held.fraction if held is not None else None,
            held.limited_by if held is not None else "",
            k.grid[0] * k.grid[1] * k.grid[2] or None,
            k.block[0] * k.block[1] * k.block[2] or None,
            cost.flops if cost is not None else None,
            cost.bytes if cost is not None else None,
            clip(str(k.emitter or ""), 200),
        ],
        "code": texts,
        "cut": {form: text.count("\n") + 1 for form, _, text in k.code.forms if _is_cut(text, texts.get(form))},
    }
    if "sass" in texts:
        data["at"] = list(k.code.sass_lines[: len(texts["sass"])])
    return data


def _is_cut(text: str, lines: list[str] | None) -> bool:
    return lines is None or text.count("\n") + 1 > len(lines)
