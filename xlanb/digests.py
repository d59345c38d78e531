"""BLAKE2b without OpenSSL, which `hashlib` loads and which takes longer than most passes."""

from __future__ import annotations

try:
    from _blake2 import blake2b  # what `hashlib.blake2b` is
except ImportError:  # another Python
    from hashlib import blake2b

__all__ = ["blake2b"]
