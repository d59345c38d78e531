"""The roofline of a TPU program by the chip's peaks, compared with its bundles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlanb.display import Displayable
from xlanb.dump.tpu.chips import TpuChip

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Roofline(Displayable):
    """Times in seconds of one run on one device of `chip`; none is measured.

    `compute_seconds` is the time of `flops` at the chip's bfloat16 peak, `memory_seconds` that of
    `hbm_bytes` at its HBM bandwidth. `static_seconds` is the time of the bundles, one per cycle,
    loops once. The units queue their work, and a bundle waits for a full queue, so the program may
    take longer. `optimal_seconds` is XLA's own estimate (cost_analysis), None if unknown.
    `mxu_share` is the share of the matrix units' capacity that the bundles use.
    """

    chip: TpuChip
    flops: float
    hbm_bytes: float
    static_seconds: float
    mxu_share: float
    optimal_seconds: float | None = None

    @property
    def compute_seconds(self) -> float:
        """The minimum time for arithmetic."""
        return self.flops / self.chip.device_flops

    @property
    def memory_seconds(self) -> float:
        """The minimum time for HBM traffic."""
        return self.hbm_bytes / self.chip.device_bandwidth

    @property
    def bound(self) -> str:
        """The bound: "compute" or "memory"."""
        return self.chip.roofline(self.flops, self.hbm_bytes)[1]

    @property
    def intensity(self) -> float:
        """Operations per byte of HBM; above the chip's ridge, arithmetic is the limit."""
        return self.flops / self.hbm_bytes if self.hbm_bytes else 0.0

    @property
    def times(self) -> tuple[tuple[str, float], ...]:
        """Each limit and estimate in words, with its seconds."""
        rows = [
            (f"arithmetic: {self.flops:,.0f} operations at the bfloat16 peak", self.compute_seconds),
            (f"HBM: {self.hbm_bytes:,.0f} bytes at its bandwidth", self.memory_seconds),
            ("bundles issued once each, loops once", self.static_seconds),
        ]
        if self.optimal_seconds is not None:
            rows.append(("XLA's estimate (cost_analysis)", self.optimal_seconds))
        return tuple(rows)

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for notebooks."""
        return ((f"one device of {self.chip.name}, bound by {self.bound}", self.frame()),)

    @property
    def headline(self) -> str:
        """Return the line above the table."""
        return f"the bundles use {100 * self.mxu_share:.0f}% of the matrix units"

    def frame(self) -> pd.DataFrame:
        """Return one row for each of `times`: what it is, seconds, share of the longest."""
        import pandas as pd

        longest = max(seconds for _, seconds in self.times)
        rows = [(what, s, s / longest if longest else 0.0) for what, s in self.times]
        return pd.DataFrame(rows, columns=["what", "seconds", "share"])

    def __str__(self) -> str:
        chip = self.chip
        peaks = f"{chip.device_flops / 1e12:.4g} Tflop/s, {chip.device_bandwidth / 1e9:.4g} GB/s"
        words = f"{self.intensity:.3g} operations per byte, the ridge point is {chip.ridge:.3g}"
        lines = [f"roofline of one device of {chip.name}: {peaks}", f"  intensity {words}: bound by {self.bound}"]
        lines += [f"  {seconds * 1e6:9.3f} us  {what}" for what, seconds in self.times]
        return "\n".join([*lines, f"  {self.headline}"])

    def __repr__(self) -> str:
        return f"<Roofline {self.chip.name}: bound by {self.bound}>"


def roofline_of(
    chip: TpuChip,
    bundles: float,
    mxu_share: float,
    flops: float,
    hbm_bytes: float,
    cost_analysis: Mapping[str, float],
) -> Roofline:
    """Return the roofline of a program with this many bundles.

    Flops and seconds come from XLA's `cost_analysis` if it has them; its bytes are not used,
    because they include VMEM.
    """
    optimal = cost_analysis.get("optimal_seconds")
    return Roofline(
        chip,
        float(cost_analysis.get("flops", flops)),
        float(hbm_bytes),
        chip.seconds(bundles),
        mxu_share,
        float(optimal) if optimal is not None else None,
    )
