"""The error of programs that cannot be merged, apart from what merges them, which one device never
loads.
"""

from __future__ import annotations

from xlanb.errors import XlanbError


class NotMergedError(XlanbError):
    """Why the programs of the devices cannot be merged into one."""
