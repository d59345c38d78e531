"""The error for programs that cannot be merged; importing it does not import the merger."""

from __future__ import annotations

from xlanb.errors import XlanbError


class NotMergedError(XlanbError):
    """The programs of several devices cannot be merged into one."""
