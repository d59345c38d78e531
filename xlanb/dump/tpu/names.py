"""Decode LLO dump names: TIMESTAMP-PROGRAM-NN-LABEL.EXT, and TIMESTAMP-PROGRAM-hlo.txt.

A compilation has several programs. TLP is the top level program, which calls the others. Each HLO
instruction that needs its own code (a fusion, a copy, a collective) has one under its name.
<late-initialization> and <late-finalization> surround all of them. NN counts the dumps of one
program.
Source: the dumps that libtpu 0.0.52 wrote for v4, v5e, v5p, v6e and tpu7x.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

TOP_LEVEL: Final = "TLP"
"""The program that calls all others."""

FINAL_BUNDLES: Final = "final_bundles"
UTILIZATION: Final = "final_hlo-static-per-bundle-utilization"
SCHEDULE_ANALYSIS: Final = "schedule-analysis_final_bundles"
FINGERPRINTS: Final = "fingerprints"
DEDUPLICATION: Final = "deduplication-map"
HLO: Final = "hlo"
BUFFER_INFO: Final = "memory-space-assignment-bufferinfo"
ALLOC_INFO: Final = "memory-space-assignment-allocinfo"
VMEM_REPORT: Final = "vmem_report"
SCHEDULE_INFO: Final = "memory-space-assignment-scheduleinfo"

_NAME = re.compile(
    r"(?P<time>\d{16,20})-(?P<program>[^/]+)-(?P<n>\d{2,4})-(?P<label>[A-Za-z][\w.+-]*)\.(?P<ext>txt|html)"
)
_HLO = re.compile(r"(?P<time>\d{16,20})-(?P<program>[^/]+)-hlo\.txt")

LABEL_WORDS: Final = (
    (FINAL_BUNDLES, "the final VLIW bundles"),
    (UTILIZATION, "units used by each final bundle"),
    (SCHEDULE_ANALYSIS, "final bundles by HLO instruction"),
    ("schedule-analysis_", "bundles by HLO instruction"),
    ("hlo-static-bundle-profile", "use of each unit by HLO instruction"),
    ("pre-delay_hlo-static-per-bundle-utilization", "units used by each bundle before delays were converted"),
    (FINGERPRINTS, "number of instructions and checksum after each LLO stage"),
    ("all-fingerprints", "instructions and checksum of each program"),
    (DEDUPLICATION, "HLO instructions that share one program"),
    (BUFFER_INFO, "memory space assignment: the buffers"),
    (ALLOC_INFO, "memory space assignment: what lives in fast memory, and when"),
    (SCHEDULE_INFO, "memory space assignment: the schedule"),
    ("critical-path", "the critical path of each basic block"),
    ("register-pressure", "values alive where vector registers run short"),
    ("region-expansion", "growth of a region by spills and register dependences"),
    ("heap_sizes", "memory of the compiler itself"),
    ("hlo-details", "bundle range of each HLO instruction"),
    ("trace-markers", "numbers of trace points"),
    ("overlay-graph", "overlays of the program"),
    (VMEM_REPORT, "scoped VMEM of each HLO instruction"),
    ("assembly", "assembly"),
    ("packed-bundles", "VLIW bundles"),
    ("bundles-pre-codegen", "VLIW bundles before code generation"),
    ("DGO-vliw-packed-bundles", "VLIW bundles of the dependency graph optimizer"),
    (HLO, "the scheduled HLO that LLO was made from"),
)
"""The meaning of a label by its prefix; the first match counts."""


class LloName(NamedTuple):
    """A decoded LLO dump name; `number` is None for the HLO module."""

    timestamp: int
    program: str
    number: int | None
    label: str
    extension: str


def decode_llo_name(name: str) -> LloName | None:
    """Decode a name; return None if it is not an LLO dump's."""
    found = _NAME.fullmatch(name)
    if found is not None:
        return LloName(int(found["time"]), found["program"], int(found["n"]), found["label"], found["ext"])
    found = _HLO.fullmatch(name)
    return LloName(int(found["time"]), found["program"], None, HLO, "txt") if found is not None else None


def encode_llo_name(name: LloName) -> str:
    """Return the file's name."""
    number = "" if name.number is None else f"{name.number:02d}-"
    return f"{name.timestamp}-{name.program}-{number}{name.label}.{name.extension}"


def label_words(label: str) -> str:
    """Describe what an LLO dump holds."""
    words = next((w for start, w in LABEL_WORDS if label.startswith(start)), "")
    return words or f"LLO {label.removeprefix('DGO-').replace('-', ' ')}"


def is_llo_stage(label: str) -> bool:
    """Whether a file holds the program itself (LLO or bundles), not a report about it."""
    if "bundles" in label:
        return not label.startswith("schedule-analysis")
    return label == "original" or (label.startswith(("post-", "pre-", "DGO-")) and "utilization" not in label)
