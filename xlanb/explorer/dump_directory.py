"""DumpDirectory: a directory dumped by XLA or TensorFlow as one object.

It shows which file is the main program and how it was compiled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import cached_property
from typing import TYPE_CHECKING

from xlanb.boundary import boundary
from xlanb.clustering.dataflow import Dataflow
from xlanb.display import Displayable, Plottable
from xlanb.dump.dot import DotGraph, parse_dot
from xlanb.dump.graph_names import graph_order
from xlanb.dump.graphs import read_graph
from xlanb.dump.names import printable
from xlanb.dump.reader import DumpFile, DumpListing, list_dump
from xlanb.errors import DumpError, XlanbError, did_you_mean
from xlanb.explorer.dump_dataflow import graph_dataflow, possible_dataflow
from xlanb.explorer.dump_ranking import DumpedModule, rank_modules
from xlanb.explorer.dump_trace import dump_trace
from xlanb.explorer.lazy_trace import lazy_trace
from xlanb.explorer.stage import Artifact, Deferred, Stage, TextRecord
from xlanb.explorer.trace import Trace
from xlanb.frames import framed
from xlanb.hlo.records import ModuleRecord
from xlanb.wording import counted

if TYPE_CHECKING:
    import pandas as pd


_RULELESS = "does not match a known dump file name"
_UNKNOWN = {"dot": "a Graphviz graph: .dot_graph(name) draws it", "gv": "a Graphviz graph: .dot_graph(name) draws it"}


class DumpDirectory(Displayable, Plottable):
    """The contents of a dump directory.

    `dump["jit_step"]` is a module's Trace, `dump[0]` that of the main program; `dump.modules` is
    the table. Only names and sizes are read at first. `graphs` is a Trace of TensorFlow's graphs
    (None if there are none);
    `others` are files with unknown names, and files that could not be listed, with the reason.
    """

    def __init__(self, listing: DumpListing) -> None:
        self.directory = listing.directory
        self.listing = listing
        self._traces: dict[int, Trace] = {}

    @cached_property
    @boundary("rank the modules of a dump")
    def ranked(self) -> list[DumpedModule]:
        """The modules, the main program first, helper programs last."""
        return [replace(m, open=self.trace) for m in rank_modules(self.listing.modules)]

    @property
    def main(self) -> DumpedModule | None:
        """The module that is most likely the program; its `why` says why."""
        return self.ranked[0] if self.ranked else None

    @property
    @boundary("list the modules of a dump")
    def modules(self) -> pd.DataFrame:
        """One row per module; unknown values are missing.

        Columns: name, number, what it is, flops and bytes of a run, instructions before and after,
        passes dumped, kernels, bytes on disk, when written, folder.
        """
        rows = [
            {
                "module": m.name,
                "number": m.files.number,
                "what": m.why,
                "flops": m.work.flops + m.work.transcendentals if m.work else None,
                "bytes_accessed": m.work.bytes_accessed if m.work else None,
                "instructions_before": m.before or None,
                "instructions_after": m.after or None,
                "dumps": len(m.files.steps),
                "kernels": m.files.kernel_count,
                "bytes": m.files.size,
                "written": _written(m.files.modified),
                "folder": printable(m.files.folder.relative_to(self.directory)),
            }
            for m in self.ranked
        ]
        return framed(rows).convert_dtypes()

    def to_dataframe(self) -> pd.DataFrame:
        """Return `modules`: a row for each module."""
        return self.modules

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for notebooks, above the main program."""
        return (
            (
                (
                    f"{printable(self.directory)}: {counted(self.listing.file_count, 'file')}, "
                    f"{counted(len(self), 'module')}"
                ),
                self.modules,
            ),
        )

    @property
    @boundary("list the files of a dump")
    def files(self) -> pd.DataFrame:
        """One row per file.

        Columns: name, its meaning in words, its kind ("pass", "llvm_ir", "graph"...), module,
        bytes.
        """
        listed = [(f, m.name) for m in self.listing.modules for f in m.files]
        listed += [(f, "") for f in (*self.listing.graphs, *self.listing.lazy, *self.listing.others)]
        rows = [
            {
                "file": printable(f.path.relative_to(self.directory)),
                "what": f.name.describe(),
                "kind": f.name.kind,
                "module": name,
                "bytes": f.size,
            }
            for f, name in listed
        ]
        return framed(rows, columns=["file", "what", "kind", "module", "bytes"])

    @property
    def others(self) -> list[tuple[str, str]]:
        """Files that belong to no module or graph: (path, what is known about it)."""
        known = [(self._place(f), _UNKNOWN.get(f.name.extension, _RULELESS)) for f in self.listing.others]
        return known + [(printable(path), reason) for path, reason in self.listing.unreadable]

    def _place(self, f: DumpFile) -> str:
        return printable(f.path.relative_to(self.directory))

    @boundary("read a Graphviz graph of a dump")
    def dot_graph(self, name: str) -> DotGraph:
        """Return a `.dot` file of the directory, drawn with its clusters and colors.

        `name` is the file's path within the directory, or its last part.

        Raises:
            DumpError: there is no such file, or it is not DOT; the message shows where.
        """
        listing = self.listing
        files = [f for m in listing.modules for f in m.files] + listing.others
        dots = {self._place(f): f for f in files if f.name.extension in ("dot", "gv")}
        found = dots.get(name) or next((f for place, f in dots.items() if place.endswith(f"/{name}")), None)
        if found is None:
            hint = did_you_mean(name, list(dots)) if dots else "; it holds no .dot file"
            raise DumpError(f"no file {name!r} in {printable(self.directory)}{hint}")
        return parse_dot(found.read_text(), self._place(found))

    def __len__(self) -> int:
        return len(self.listing.modules)

    def __iter__(self) -> Iterator[Trace]:
        return (self.trace(m) for m in self.ranked)

    def __getitem__(self, key: int | str) -> Trace:
        """Return a module's Trace.

        `key` is a rank (0 is the main program), a name, the beginning of one, "module_0004", or a
        glob, "*While*", case-insensitive.

        Raises:
            DumpError: no module matches, or several do; the message lists them.
        """
        if isinstance(key, int):
            if not -len(self) <= key < len(self):
                held = f"{len(self)} modules" if len(self) else "no modules: no file is named like an XLA dump"
                raise DumpError(f"no module {key}: {printable(self.directory)} holds {held}")
            return self.trace(self.ranked[key])
        return self.trace(self._find(key))

    def trace(self, module: DumpedModule) -> Trace:
        """Return the Trace of a row of `ranked`."""
        key = id(module.files)
        if key not in self._traces:
            self._traces[key] = dump_trace(module.files)
        return self._traces[key]

    def _find(self, key: str) -> DumpedModule:
        number = re.fullmatch(r"(?:module_)?(\d{4,})(?:\..*)?", key)
        found = [m for m in self.ranked if m.name == key or (number is not None and m.files.number == int(number[1]))]
        found = found or [m for m in self.ranked if m.name.startswith(key)]
        if not found and set(key) & set("*?"):
            found = [m for m in self.ranked if fnmatch(m.name.lower(), key.lower())]
        if len(found) == 1:
            return found[0]
        names = ", ".join(f"{m.name} (module_{m.files.number:04d})" for m in (found or self.ranked)[:20])
        if found:
            raise DumpError(f"{len(found)} modules are called {key!r}: {names}")
        hint = did_you_mean(key, [m.name for m in self.ranked])
        raise DumpError(f"no module {key!r}{hint}; there are: {names}")

    @cached_property
    @boundary("list the graphs of a dump")
    def graphs(self) -> Trace | None:
        """TensorFlow's graphs, in the order of its passes, each read on first use."""
        files = sorted(self.listing.graphs, key=_graph_key)
        if not files:
            return None
        stages: list[Stage] = []
        before: Deferred | None = None
        around: tuple[str, ...] = ()
        for f in files:
            after = Deferred(lambda f=f: _graph(f))  # type: ignore[misc]
            place = printable(f.path.parent.relative_to(self.directory))
            path = (place, *_group(f)) if place != "." else _group(f)
            before = before if path == around else None  # each run begins with its own graph
            words = f.name.describe()
            stages.append(Stage("tf_graph", f.name.label, before, after, path, summary=words, index=len(stages)))
            before, around = after, path
        return Trace(f"{printable(self.directory.name)}: graphs", stages)

    @cached_property
    @boundary("find the data flow between the modules of a dump")
    def dataflow(self) -> Dataflow:
        """The data flow between the modules, one row per tensor.

        It is exact if TensorFlow dumped a graph whose clusters are calls. Otherwise flows have kind
        "possible": a module's result has the type and shape of a later module's parameter.
        """
        stages = self.graphs.stages if self.graphs is not None else ()
        shown: dict[str, str] = {}
        for m in self.ranked:
            cluster = m.name.partition("__XlaCompiledKernel")[0]
            shown.setdefault(cluster, f"{cluster} (module_{m.files.number:04d})" if m.files.number >= 0 else cluster)
        exact = graph_dataflow(stages, shown)
        return exact if exact is not None else possible_dataflow(self.ranked, self._first)

    def _first(self, m: DumpedModule) -> ModuleRecord | None:
        """Return the first readable HLO of a module."""
        found = (s.after for s in self.trace(m) if s.kind in ("hlo", "hlo_pass"))
        return next((a for a in found if isinstance(a, ModuleRecord)), None)

    @cached_property
    @boundary("read the lazy graphs of a dump")
    def lazy_graphs(self) -> Trace | None:
        """The graphs that PyTorch/XLA saved (XLA_SAVE_TENSORS_FILE), in order, or None.

        A stage shows the Python line that cut the graph and, if there is a PT_XLA_DEBUG_FILE, why
        it was compiled or run.
        """
        return lazy_trace(printable(self.directory.name), self.listing.lazy)

    @property
    def traces(self) -> list[Trace]:
        """The traces to show first: the main program's, then the graphs."""
        main = [self.trace(self.ranked[0])] if self.ranked else []
        return main + [t for t in (self.graphs, self.lazy_graphs) if t is not None]

    def __str__(self) -> str:
        listing = self.listing
        counts = (
            counted(listing.file_count, "file"),
            counted(len(self), "module"),
            counted(len(listing.graphs), "graph"),
            *([counted(len(self.lazy_graphs.stages), "lazy graph")] if self.lazy_graphs is not None else []),
        )
        lines = [f"{printable(self.directory)}: {', '.join(counts)}"]
        for m in self.ranked[:30]:
            sizes = f"{m.before or '?'} -> {m.after or '?'} instructions"
            if m.work is not None and m is not self.main:  # `why` has the main program's
                sizes = f"{m.work_text()}, {sizes}"
            made = f"{counted(len(m.files.steps), 'dump')}, {counted(m.files.kernel_count, 'kernel')}"
            lines.append(f"  module_{m.files.number:04d} {m.name}: {sizes}, {made}; {m.why}")
        if len(self) > 30:
            lines.append(f"  ... {counted(len(self) - 30, 'more module')}")
        if self.others:
            lines.append(f"  {counted(len(self.others), 'other file')}, see .others")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<DumpDirectory {printable(self.directory)}: {len(self)} modules>"


@boundary("read a dump")
def read_dump(directory: str | os.PathLike[str]) -> DumpDirectory:
    """Open a directory written by --xla_dump_to or TF_DUMP_GRAPH_PREFIX.

    It may be from JAX, TensorFlow or another front end, with names of today or of 2018.

    Raises:
        DumpError: there is no such directory.
    """
    return DumpDirectory(list_dump(directory))


def _written(seconds: float) -> datetime | None:
    """Return a file's time in UTC, or None if it is out of a calendar's range."""
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0, tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None


_GROUPS = ("partitions", "functions", "Grappler", "MLIR bridge", "clusters")


def _group(f: DumpFile) -> tuple[str, ...]:
    """Return the group of a graph.

    It is a run of the session (repeated names are numbered from 1), a cluster, a function, or an
    input graph of Grappler.
    """
    name = f.name
    if name.pipeline == "grappler":
        again = f", again ({name.sequence})" if name.sequence else ""
        return "Grappler", (f"graph at {name.module}" if name.module.isdigit() else name.module) + again
    if name.pipeline in ("MLIR bridge", "partition"):
        return ("MLIR bridge",) if name.pipeline == "MLIR bridge" else ("partitions",)
    if name.pipeline:
        return "functions", name.module
    return ("clusters",) if "cluster_" in name.label else (f"run {name.sequence or 0}",)


def _graph_key(f: DumpFile) -> tuple[str, int, str, int, tuple[int, int], int, str]:
    name = f.name
    owner, *_ = group = _group(f)
    kind = _GROUPS.index(owner) + 1 if owner in _GROUPS else 0
    by_number = name.pipeline not in ("", "grappler", "placer")  # numbered consecutively
    run = (name.sequence or 0) if not kind or by_number else 0
    return (
        str(f.path.parent),
        kind,
        "/".join(group) if kind else "",
        run,
        graph_order(name.label),
        name.sequence or 0,
        f.path.name,
    )


@boundary("read a dumped graph")
def _graph(f: DumpFile) -> Artifact:
    if f.name.extension in ("mlir", "txt"):
        return TextRecord(printable(f.path.name), f.read_text(), "mlir" if f.name.extension == "mlir" else "text")
    try:
        return read_graph(f.read_bytes()).record()
    except XlanbError as error:
        try:
            text = f.read_text()
        except XlanbError as unreadable:
            text = str(unreadable)
        return TextRecord(printable(f.path.name), text, "text", str(error))
