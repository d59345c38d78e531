"""Outlines of programs, kept while a page is made."""

from __future__ import annotations

from typing import Any

from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.view.outline.graph import GraphOutlines
from xlanb.view.outline.module import ModuleOutlines
from xlanb.view.outline.program import ProgramOutline
from xlanb.view.parts.graph import function_of


class Outlines:
    """Groups and items of programs; shared ones are made once."""

    def __init__(self) -> None:
        self.modules = ModuleOutlines()
        self.graphs = GraphOutlines(function_of)
        self.items: dict[int, tuple[InstructionRecord, dict[str, Any]]] = {}

    def program(self, record: ModuleRecord | GraphRecord) -> ProgramOutline:
        """A program as a tree of groups."""
        return self.modules.program(record) if isinstance(record, ModuleRecord) else self.graphs.program(record)
