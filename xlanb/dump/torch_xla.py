"""Read PyTorch/XLA's dumps of lazy graphs, from XLA_SAVE_TENSORS_FILE and PT_XLA_DEBUG_FILE.

    [ScheduleSyncTensorsGraph]                      one graph: its cause, by Python frames
    TensorsGraphInfo:
      mark_step (/torch_xla/core/xla_model.py:955)
      train (train.py:31)

    Root Hashes: (93624e0734594a74907abf208373774b)

    ## BEGIN_GRAPH
    IR {                                            or HLO, StableHLO, DOT: XLA_SAVE_TENSORS_FMT
      %0 = f32[10,5]{1,0} xla::device_data(), location=train@train.py:29, device=CPU:0
      %1 = f32[] aten::mean(%0), dimensions=(0, 1), ROOT=0
    }
    Graph Hash: b5cb91c3ef0f6e2f7d4e6c8a9b0d1e2f
    ## END_GRAPH

Source of the forms: torch_xla/csrc/debug_util.cpp and ir_dump_util.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from xlanb.dump.dot import parse_dot
from xlanb.dump.lazy_heads import ANALYSIS, BEGIN
from xlanb.errors import DumpError
from xlanb.graph.records import GraphRecord, NodeRecord

_MOST_GRAPHS: Final = 10_000
_OWN_FILES = ("torch_xla/", "torch_xla.py", "xla_model.py", "parallel_loader.py", "dynamo_bridge.py", "profiler.py")

_FRAME = re.compile(r"^  (?P<function>[^\n]{1,400}?) \((?P<file>[^\n()]{0,1000}):(?P<line>\d{1,9})\)$", re.MULTILINE)
_HASHES = re.compile(r"^(?:Root )?Hashes: \((?P<hashes>[^\n)]*)\)$", re.MULTILINE)
_HASH = re.compile(r"^Graph Hash: (?P<hash>[0-9a-f]{1,64})$", re.MULTILINE)
_NODE = re.compile(
    r"^\s*%(?P<id>\d{1,9}) = (?P<shape>\([^\n]*?\)|\S+) "
    r"(?P<op>[\w.]+(?:::[\w.]+)*)\((?P<operands>[%\d., ]*)\)(?P<rest>.*)$"
)
_OPERAND = re.compile(r"%(?P<id>\d{1,9})(?:\.(?P<index>\d{1,6}))?")
_TAG = re.compile(r"(?P<name>[A-Za-z0-9_]+)=")
_LOCATION = re.compile(r"[^@]*@(?P<file>.+):(?P<line>\d{1,9})")
_SHAPE = re.compile(r"[a-z]\w*\[[^\]]*\]")


@dataclass(frozen=True)
class LazyGraph:
    """One graph that PyTorch/XLA cut.

    Attributes:
        kind: what requested it.
        name: its name.
        frames: the Python frames (function, file, line), innermost first.
        root_hashes: hashes of its roots.
        hash: its hash.
        format: "text", "hlo", "stablehlo" or "dot".
        text: the graph in that format.
    """

    kind: str
    name: str
    frames: tuple[tuple[str, str, int], ...]
    root_hashes: tuple[str, ...]
    hash: str
    format: str
    text: str

    @property
    def cause(self) -> str:
        """The innermost user frame: "train (train.py:31)"."""
        own = [f for f in self.frames if not any(part in f[1] for part in _OWN_FILES)]
        function, file, line = (own or list(self.frames) or [("", "", 0)])[0]
        return f"{function} ({file}:{line})" if function else ""

    def record(self) -> GraphRecord:
        """Return the graph as a snapshot.

        Raises:
            DumpError: it is neither IR nor DOT, or malformed.
        """
        if self.format == "dot":
            return parse_dot(self.text, self.name or self.kind).record()
        if self.format != "text":
            raise DumpError(f"graph {self.name or self.kind!r} is {self.format}, not PyTorch/XLA IR")
        return GraphRecord(re.sub(r"\W+", "_", self.name or self.kind), tuple(_nodes(self.text)))


@dataclass(frozen=True)
class LazyEvent:
    """A compilation or execution that PT_XLA_DEBUG reported, with its cause and graph hash."""

    kind: str
    cause: str
    hash: str
    facts: Mapping[str, str] = field(default_factory=dict)


def read_lazy_graphs(text: str) -> list[LazyGraph]:
    """Read the graphs of an XLA_SAVE_TENSORS_FILE, in order.

    A truncated one ends where the next begins.
    """
    text = text.replace("\r\n", "\n")
    begins = list(BEGIN.finditer(text))[:_MOST_GRAPHS]
    ends = [b.start() for b in begins[1:]] + [len(text)]
    return [_graph(b["kind"], b["name"] or "", text[b.end() : end]) for b, end in zip(begins, ends, strict=True)]


def _graph(kind: str, name: str, text: str) -> LazyGraph:
    head, _, rest = text.partition("## BEGIN_GRAPH\n")
    body, _, _ = rest.partition("## END_GRAPH")
    hashes = _HASHES.search(head)
    found = _HASH.search(body)
    body = (body[: found.start()] if found else body).strip("\n") + "\n"
    frames = tuple((m["function"], m["file"], int(m["line"])) for m in _FRAME.finditer(head))
    roots = tuple(h.strip() for h in hashes["hashes"].split(",") if h.strip()) if hashes else ()
    return LazyGraph(kind, name, frames, roots, found["hash"] if found else "", _format(body), body)


def _format(text: str) -> str:
    start = text.lstrip()
    for word, form in (("IR {", "text"), ("digraph", "dot"), ("HloModule", "hlo"), ("module", "stablehlo")):
        if start.startswith(word):
            return form
    return "unknown"


def _nodes(text: str) -> Iterator[NodeRecord]:
    names: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith("%"):
            continue
        found = _NODE.match(line)
        if found is None:
            raise DumpError(f"line {number} is not a node of PyTorch/XLA IR: {line.strip()[:120]}")
        name = f"{found['op'].rpartition('::')[2]}.{found['id']}"
        names[found["id"]] = name
        inputs = tuple(
            names[m["id"]] + (f":{m['index']}" if m["index"] else "")
            for m in _OPERAND.finditer(found["operands"])
            if m["id"] in names
        )
        tags = dict(_tags(found["rest"]))
        place = _LOCATION.fullmatch(tags.get("location", ""))
        yield NodeRecord(
            name,
            found["op"],
            inputs,
            tags,
            tuple(_SHAPE.findall(found["shape"])),
            tags.get("device", ""),
            source_file=place["file"] if place else "",
            source_line=int(place["line"]) if place else 0,
        )


def _tags(text: str) -> Iterator[tuple[str, str]]:
    """Parse `, location=f@a.py:3, dimensions=(0, 1)`: values end at commas outside brackets."""
    at = 0
    while (found := _TAG.search(text, at)) is not None:
        depth, end = 0, found.end()
        while end < len(text) and (depth or text[end] != ","):
            depth += (text[end] in "([{") - (text[end] in ")]}")
            end += 1
        yield found["name"], text[found.end() : end].strip()
        at = end + 1


def read_analysis(text: str) -> list[LazyEvent]:
    """Read the compilations and executions of a PT_XLA_DEBUG_FILE, in order."""
    events: list[LazyEvent] = []
    kind = ""
    lines: list[str] = []
    for m in ANALYSIS.finditer(text):
        if m["text"].startswith("==="):
            if lines:
                events.append(_event(kind, lines))
            kind, lines = m["kind"], []
        else:
            lines.append(m["text"])
    return events + ([_event(kind, lines)] if lines else [])


def _event(kind: str, lines: list[str]) -> LazyEvent:
    facts = dict(_fact(line) for line in lines if ": " in line and "(" not in line)
    cause = next((after for line, after in pairwise(lines) if line.endswith("Cause")), "")
    return LazyEvent(kind.lower(), cause.strip(), facts.get("Graph Hash", ""), facts)


def _fact(line: str) -> tuple[str, str]:
    name, _, value = line.strip().partition(": ")
    return name, value.strip()
