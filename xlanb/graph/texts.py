"""Strings of tensors and attributes: bytes, and UTF-8 where they are given as str."""

from __future__ import annotations

from xlanb.errors import GraphValueError


def encoded(text: str) -> bytes:
    """The bytes of a text. Raises GraphValueError for half of a surrogate pair, which has none in UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise GraphValueError(
            f"{text[:80]!r} cannot be encoded as UTF-8: character {error.start} is half of a surrogate pair; give bytes instead"
        ) from error
