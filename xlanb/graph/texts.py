"""Strings of tensors and attributes: bytes, or str for UTF-8."""

from __future__ import annotations

from xlanb.errors import GraphValueError


def encoded(text: str) -> bytes:
    """Encode a text.

    Raises GraphValueError for half of a surrogate pair, which UTF-8 cannot encode.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise GraphValueError(
            f"{text[:80]!r} cannot be encoded as UTF-8: character {error.start} is half of a surrogate pair; "
            "give bytes instead"
        ) from error
