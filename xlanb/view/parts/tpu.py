"""XLA:TPU's dumps as plain data for the panes.

These are VLIW bundles with the use of units, memory spaces over the schedule, and the schedule with
concurrent transfers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from xlanb.dump.tpu.bundles import UNIT_WORDS, Bundle
from xlanb.dump.tpu.memory_space import MemorySpaceRecord, SpaceBuffer
from xlanb.dump.tpu.program import TpuProgram
from xlanb.dump.tpu.schedule import TpuScheduleRecord
from xlanb.dump.tpu.utilization import Utilization, matrix_share, unit_words
from xlanb.view.parts.items import clip

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_STEPS = 4000
_BUFFERS = 600
_ROWS = 1500
_SPANS = 600
_CHARACTERS = 160  # of one instruction
_BINS = 300


def program_data(program: TpuProgram, max_bundles: int) -> dict[str, Any]:
    """Plain data of a program.

    Bundles up to a limit, in each row [address, label, loops, called instruction, unit, text, unit,
    text, ...].

    `use` has a row of digits for each bundle shown (base 36, one for each unit in use), `profile`
    for each unit its share over stretches of the whole program.
    """
    final = program.final
    shown = final.bundles[:max_bundles]
    units = sorted(final.counts, key=lambda u: (u == "OTHER", -final.counts[u]))
    data: dict[str, Any] = {
        "k": "bundles",
        "name": program.name,
        "op": "" if program.is_top_level else program.name,
        "serves": list(program.serves[:50]),
        "head": program.headline(),
        "units": [[u, UNIT_WORDS[u], final.counts[u]] for u in units],
        "rows": [_bundle_row(b, units) for b in shown],
        "total": len(final),
        "loops": [[loop.start, loop.end, loop.depth] for loop in final.loops[:_ROWS]],
        "stages": _stage_rows(program),
    }
    if program.chip is not None:
        data["chip"] = [program.chip.name, program.chip.clock]
    if program.utilization is not None:
        data |= _use_data(program.utilization, len(shown))
    if len(final) > len(shown):
        data["note"] = (
            f"Shown: {len(shown):,} of {len(final):,} bundles; the record's .final contains all, "
            "and .frame() is a table of them."
        )
    return data


def _bundle_row(b: Bundle, units: Sequence[str]) -> list[Any]:
    row: list[Any] = [b.address, b.label, b.loops, b.calls]
    for o in b.operations:
        row += [units.index(o.unit), clip(o.text, _CHARACTERS)]
    return row


def _use_data(used: Utilization, count: int) -> dict[str, Any]:
    digits = ["".join(_DIGITS[min(n, 35)] for n in row) for row in used.rows[:count]]
    legend = [
        [unit, unit_words(unit), capacity, round(used.shares[unit], 4)]
        for unit, capacity in zip(used.units, used.capacity, strict=True)
    ]
    return {"capacity": legend, "use": digits, "profile": _profile(used)}


def _profile(used: Utilization) -> list[list[int]]:
    """Return each unit's utilization in percent, over equal intervals of the program."""
    bins = min(_BINS, len(used.rows))
    edges = [len(used.rows) * k // bins for k in range(bins + 1)] if bins else []
    columns = list(zip(*used.rows, strict=True)) or [()] * len(used.units)
    return [
        [round(100 * sum(column[a:b]) / max((b - a) * capacity, 1)) for a, b in pairwise(edges)]
        for column, capacity in zip(columns, used.capacity, strict=True)
    ]


def _stage_rows(program: TpuProgram) -> list[list[Any]]:
    return [
        [s.label, s.form, s.fingerprint.instructions if s.fingerprint is not None else None, int(changed)]
        for s, changed in zip(program.stages, program.changed, strict=True)
    ][:400]


def space_data(record: MemorySpaceRecord) -> dict[str, Any]:
    """Plain data of memory space assignment.

    The schedule, bytes in use in the fast memory and of buffers that are only in HBM, and the
    buffers.
    """
    buffers = sorted(record.buffers, key=lambda b: -b.size)
    data: dict[str, Any] = {
        "k": "spaces",
        "name": record.module,
        "space": record.space,
        "capacity": record.capacity,
        "extent": record.extent,
        "steps": len(record.schedule),
        "sequence": [clip(n, 200) for n in record.schedule[:_STEPS]],
        "fast": list(record.fast_bytes[:_STEPS]),
        "slow": list(record.slow_bytes[:_STEPS]),
        "buffers": [_buffer_row(b) for b in buffers[:_BUFFERS]],
        "placed": sum(bool(b.fast) for b in record.buffers),
        "count": len(record.buffers),
    }
    if len(buffers) > _BUFFERS:
        data["hidden"] = len(buffers) - _BUFFERS
    return data


def _buffer_row(b: SpaceBuffer) -> list[Any]:
    stretches = [[s.offset, s.size, s.start, s.end] for s in b.fast[:50]]
    return [
        b.instruction,
        b.place,
        b.size,
        b.benefit,
        b.defined,
        b.last,
        stretches,
        [list(s) for s in b.slow[:50]],
        len(b.uses),
    ]


def schedule_data(record: TpuScheduleRecord) -> dict[str, Any]:
    """Return plain data of a schedule.

    It has the instructions that take time, and those that run concurrently, both by the bundles
    before them.
    """
    starts = [0.0]
    for i in record.instructions:
        starts.append(starts[-1] + i.bundles + i.call_bundles)
    rows = [
        [
            i.name,
            i.opcode,
            starts[i.position],
            i.bundles,
            i.call_bundles,
            i.depth,
            *_busy(i.shares),
            clip(i.shape, 200),
            int(i.is_collective),
            i.flops,
            i.hbm_bytes,
            i.scoped_vmem,
        ]
        for i in record.instructions
        if i.bundles or i.call_bundles
    ]
    spans = [
        [s.name, s.kind, starts[s.start], starts[s.end], s.size, s.source, s.target, s.bundles, int(s.is_collective)]
        for s in record.spans
    ]
    data: dict[str, Any] = {
        "k": "tpu_schedule",
        "name": record.module,
        "total": starts[-1],
        "rows": rows[:_ROWS],
        "spans": spans[:_SPANS],
        "hidden": max(len(rows) - _ROWS, 0) + max(len(spans) - _SPANS, 0),
    }
    if record.chip is not None:
        data["chip"] = [record.chip.name, record.chip.clock]
        limits = record.roofline()
        data["roof"] = [
            limits.compute_seconds,
            limits.memory_seconds,
            round(limits.mxu_share, 4),
            limits.optimal_seconds,
        ]
    return data


def _busy(shares: Sequence[tuple[str, float]]) -> tuple[str, float, float]:
    """The unit used most, its share, and that of the matrix units."""
    unit, share = max(shares, key=lambda s: s[1], default=("", 0.0))
    return unit, round(share, 3), round(matrix_share(dict(shares)), 3)


def program_text(program: TpuProgram) -> str:
    """A program as text: in front of each bundle how many of each unit it keeps busy."""
    served = [n for n in program.serves if n != program.name]
    also = f" (also {', '.join(served)})" if served else ""
    lines = [f"{program.name}{also}: {program.headline()}"]
    used = program.utilization
    if used is None:
        return "\n".join([*lines, str(program.final)])
    shares = ", ".join(f"{u} {100 * used.shares[u]:.0f}%" for u in used.units if used.shares[u] >= 0.005)
    lines += [f"use of units, of {dict(zip(used.units, used.capacity, strict=True))}: {shares or 'none'}"]
    for k, b in enumerate(program.final.bundles):
        digits = "".join("." if n == 0 else _DIGITS[min(n, 35)] for n in used.rows[k]) if k < len(used.rows) else ""
        lines.append(f"{digits:{len(used.units)}} {b}")
    return "\n".join(lines)
