"""Evaluate snapshots, flatten results to leaves, and compare two results."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.errors import XlanbError
from xlanb.hlo import HloModule
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.shape.narrow_types import finfo
from xlanb.shape.primitive_type import from_dtype

_ULPS = 16


def module_of(record: ModuleRecord) -> HloModule:
    """Return the live module of a snapshot.

    Raises:
        XlanbError: constants were dumped without their values.
    """
    elided = next((i.name for c in record.computations for i in c.instructions if _is_elided(i)), None)
    if elided is not None:
        raise XlanbError(
            f"the values of constant {elided} are not in the dump; dump again with --xla_dump_large_constants=true "
            "(or --xla_dump_hlo_as_proto)"
        )
    return HloModule.from_record(record)


def _is_elided(i: InstructionRecord) -> bool:
    literal = i.attributes.get("literal")
    return bool(getattr(literal, "is_elided", False))


def leaves_of(value: Any) -> list[NDArray[Any]]:
    """Return the arrays of a result, in order."""
    if isinstance(value, tuple | list):
        return [leaf for v in value for leaf in leaves_of(v)]
    return [] if value is None else [np.asarray(value)]


def compared(a: NDArray[Any], b: NDArray[Any]) -> tuple[float, int]:
    """Return the largest error, and how many elements are finite on one side only.

    The error is relative to the reference's largest magnitude.
    """
    if a.size == 0:
        return 0.0, 0
    if a.dtype.kind == "b" or from_dtype(a.dtype).is_integral:
        return float(np.max(a.astype(np.float64) != b.astype(np.float64))), 0
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    finite = np.isfinite(x) & np.isfinite(y)
    same = finite | (x == y) | (np.isnan(x) & np.isnan(y))
    scale = max(float(np.max(np.abs(y[finite]), initial=0.0)), np.finfo(np.float64).tiny)
    error = float(np.max(np.abs(x[finite] - y[finite]), initial=0.0)) / scale
    return error, int(np.sum(~same))


def tolerance_of(results: list[NDArray[Any]]) -> float:
    """Return some units in the last place of the coarsest floating dtype among the results."""
    steps = [float(finfo(r.dtype).eps) for r in results if not from_dtype(r.dtype).is_integral and r.dtype.kind != "b"]
    return _ULPS * max(steps, default=0.0)


def time_text(seconds: float | None) -> str:
    """Format a time: "1.23 ms"; "unknown" if it was not measured."""
    if seconds is None:
        return "unknown"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
