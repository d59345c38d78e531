"""The meshes in a module's header."""

from __future__ import annotations

from xlanb.hlo.module import HloModule
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_metadata import parse_frontend_attributes
from xlanb.spmd.mesh import Mesh, parse_meshes
from xlanb.spmd.sdy import MESHES


def meshes_of(module: HloModule) -> dict[str, Mesh]:
    """Return the meshes that a module names.

    Raises:
        XlanbError: they are not in Shardy's form.
    """
    attributes = dict(module_frontend_attributes(module))
    return parse_meshes(attributes[MESHES]) if MESHES in attributes else {}


def module_frontend_attributes(module: HloModule) -> tuple[tuple[str, str], ...]:
    """Return the module's own frontend attributes."""
    text = module.header.get("frontend_attributes", "")
    return parse_frontend_attributes(Cursor(text)) if text else ()
