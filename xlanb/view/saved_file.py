"""A text that a reader can save as a file: a link that holds it, and the text below."""

from __future__ import annotations

import base64
from html import escape
from typing import Final

from xlanb.errors import ArgumentError
from xlanb.explorer.reproducer import Reproducer
from xlanb.reducer import ReducedModule
from xlanb.view.page import pre_html

_MOST_BYTES = 200_000
_STYLE: Final = (
    "display:inline-block;padding:.15em .6em;border:1px solid currentColor;border-radius:4px;color:inherit;"
    "text-decoration:none;font:13px system-ui,sans-serif"
)


def reproducer_html(made: Reproducer) -> str:
    """Show a reproducer: its title, a link that saves it, its text."""
    title = f"<p><b>{escape(made.title)}</b> (needs {escape(', '.join(made.needs))})</p>"
    return f"{title}{_link(made)}{pre_html(made.text)}"


def reduction_html(found: ReducedModule) -> str:
    """Show a reduction: a link that saves its reproducer, if any, and the module."""
    try:
        link = _link(found.reproducer())
    except ArgumentError as error:  # the test's source is not known, say
        link = f"<p>{escape(str(error))}</p>"
    return f"{link}{pre_html(str(found))}"


def _link(made: Reproducer) -> str:
    """A link to a file within the page; for a long one the call that writes it."""
    data = made.text.encode()
    if len(data) > _MOST_BYTES:
        return "<p>The file is too long to show: <code>.write(&quot;fault.py&quot;)</code> saves it.</p>"
    encoded = base64.b64encode(data).decode()
    return f'<a style="{_STYLE}" download="fault.py" href="data:text/x-python;base64,{encoded}">Save reproducer</a>'
