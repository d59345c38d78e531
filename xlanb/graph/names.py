"""Names of nodes: scopes and uniqueness, as in TensorFlow's python/framework/ops.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from xlanb.errors import GraphValueError

_OP_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_MOST_DIGITS = 9
_SCOPE_NAME = re.compile(r"[A-Za-z0-9_.\\/>-]*")


class NameSpace:
    """The names in use in one graph, and the current scope.

    Attributes:
        stack: the current scope, "a/b", "" at the root.
        in_use: lower-case name -> number of requests for it.
    """

    def __init__(self) -> None:
        self.stack = ""
        self.in_use: dict[str, int] = {}

    def mark(self, name: str) -> None:
        """Note that a node has exactly this name; its scopes count as used too."""
        self.in_use.setdefault(name.lower(), 1)

    def mark_scopes(self, name: str) -> None:
        """Reserve the scopes in a read node's name, so that a new scope gets another name."""
        while (cut := name.rfind("/")) > 0:
            name = name[:cut]
            if name.lower() in self.in_use:
                return
            self.in_use[name.lower()] = 1

    def unique(self, name: str, *, mark_as_used: bool = True) -> str:
        """`name` in the current scope, numbered where taken."""
        if self.stack:
            name = f"{self.stack}/{name}"
        key = base = name.lower()
        count = self.in_use.get(key, 0)
        if mark_as_used:
            self.in_use[key] = count + 1
        if count == 0:
            return name
        while key in self.in_use:
            key = f"{base}_{count}"
            count += 1
        if mark_as_used:
            self.in_use[key] = 1
        return f"{name}_{count - 1}"

    @contextmanager
    def scope(self, name: str | None) -> Iterator[str]:
        """Enter a new scope, an existing one given with its "/", or the root for None or ""."""
        old = self.stack
        if not name:
            self.stack = ""
        elif name.endswith("/"):
            self.stack = name[:-1]
        else:
            if not (_SCOPE_NAME if old else _OP_NAME).fullmatch(name):
                raise GraphValueError(f"{name!r} is not a valid scope or node name")
            self.stack = self.unique(name)
        try:
            yield f"{self.stack}/" if self.stack else ""
        finally:
            self.stack = old


def is_output_number(text: str) -> bool:
    """Whether the text after the colon of a tensor's name can be an output's number."""
    return text.isdecimal() and len(text) <= _MOST_DIGITS
