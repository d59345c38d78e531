"""Recognize PyTorch/XLA's files about lazy graphs by their heads.

xlanb.dump.torch_xla reads them.
"""

from __future__ import annotations

import re

BEGIN = re.compile(
    r"^\[(?P<kind>[\w ]{1,80})\]\n(?:Graph Name: (?P<name>[^\n]{0,400})\n)?TensorsGraphInfo:\n", re.MULTILINE
)
"""The header lines of a graph in a file written by XLA_SAVE_TENSORS_FILE."""

ANALYSIS = re.compile(r"^(?:Unexpected )?(?P<kind>Compilation|Execution) Analysis: (?P<text>.*)$", re.MULTILINE)
"""A line of PT_XLA_DEBUG."""


def is_lazy_text(head: str) -> bool:
    """Whether a file with this head is from XLA_SAVE_TENSORS_FILE."""
    return BEGIN.search(head) is not None


def is_analysis(head: str) -> bool:
    """Whether a file with this head is from PT_XLA_DEBUG_FILE."""
    return ANALYSIS.search(head) is not None
