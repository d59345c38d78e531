"""Read Graphviz' DOT language, as XLA and its back ends dump graphs: nodes, edges and clusters.

    digraph G { a [label=<<b>dot</b><br/>f32[4]>, fillcolor="#1565c0"]; subgraph cluster_1 { b } a
    -> b }

The text is untrusted: nothing in it is run or fetched, and label markup becomes plain text. Source
of the
grammar: https://graphviz.org/doc/info/lang.html; XLA's output: xla/service/hlo_graph_dumper.cc.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from xlanb.display import Displayable
from xlanb.dump.names import decode_name, printable
from xlanb.dump.reader import DumpFile
from xlanb.errors import DumpError
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.wording import counted

MAX_ITEMS: Final = 400_000
"""The most nodes and edges of a graph; larger graphs are rejected."""
_MAX_DEPTH: Final = 200

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/|(?:(?<=\n)|\A)\#[^\n]*)
    |(?P<edge>->|--)
    |(?P<mark>[{}\[\];,:=+])
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<id>-?(?:\.\d+|\d+(?:\.\d*)?)|[^\W\d]\w*)
    |(?P<html><)""",
    re.VERBOSE | re.DOTALL,
)
_BREAK = re.compile(r"<\s*(?:br|hr|/tr|/table)\b[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


@dataclass(frozen=True)
class DotNode:
    """A node of the graph.

    Attributes:
        id: its id in the file.
        lines: the lines of its label as plain text.
        attributes: its attributes.
        cluster: its cluster's id, "" if none.
    """

    id: str
    lines: tuple[str, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""


@dataclass(frozen=True)
class DotEdge:
    """An edge between two nodes."""

    source: str
    target: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DotCluster:
    """A box around nodes; `parent` is the enclosing cluster, "" if none."""

    id: str
    lines: tuple[str, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)
    parent: str = ""


@dataclass(frozen=True, repr=False)
class DotGraph(Displayable):
    """The graph of a `.dot` file. A notebook draws it, with its clusters and colors."""

    name: str
    nodes: tuple[DotNode, ...]
    edges: tuple[DotEdge, ...]
    clusters: tuple[DotCluster, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    is_directed: bool = True

    @property
    def title(self) -> str:
        """The graph's label in one line, or its name without one."""
        return " ".join(label_lines(self.attributes.get("label", ""))) or self.name

    def record(self) -> GraphRecord:
        """Return the graph as a snapshot that can be stepped through, compared and queried.

        Nodes are named by their labels' first line, within the names of their clusters, because ids
        in XLA's dumps are addresses that differ in each file. The other lines are attributes.
        """
        names = self._names
        inputs: dict[str, list[str]] = {n.id: [] for n in self.nodes}
        for e in self.edges:
            if e.source in names and e.target in inputs:
                inputs[e.target].append(names[e.source])
        first, *_ = (*label_lines(self.attributes.get("label", "")), self.name)
        return GraphRecord(
            re.sub(r"[^\w.-]+", "_", first),
            tuple(
                NodeRecord(
                    names[n.id],
                    _kind(n),
                    tuple(dict.fromkeys(inputs[n.id])),
                    {f"line {k}": line for k, line in enumerate(n.lines[1:], 1)},
                    tuple(line for line in n.lines[1:] if _SHAPE.fullmatch(line)),
                )
                for n in self.nodes
            ),
        )

    @cached_property
    def _names(self) -> dict[str, str]:
        scopes: dict[str, str] = {"": ""}
        taken: set[str] = set()
        for c in self.clusters:  # outer ones come first
            scopes[c.id] = _unique(scopes.get(c.parent, "") + _part(c.lines, c.id), taken) + "/"
        return {n.id: _unique(scopes.get(n.cluster, "") + _part(n.lines, n.id), taken) for n in self.nodes}

    def __repr__(self) -> str:
        return f"<DotGraph {self.title}: {counted(len(self.nodes), 'node')}>"

    def __str__(self) -> str:
        size = f"{counted(len(self.nodes), 'node')}, {counted(len(self.edges), 'edge')}"
        inside = f", {counted(len(self.clusters), 'cluster')}" if self.clusters else ""
        head = f"{self.title}: {size}{inside}"
        shown = [f"  {name}" for name in list(self._names.values())[:20]]
        more = [f"  ... {counted(len(self.nodes) - 20, 'more node')}"] if len(self.nodes) > 20 else []
        return "\n".join([head, *shown, *more])


_SHAPE = re.compile(r"\(?[a-z]\w*\[[\d,<=?]*\].*")
_WORD = re.compile(r"[a-z][a-z0-9-]*(?:\(.*\))?")


def _kind(n: DotNode) -> str:
    """Return the opcode that XLA writes below a node's name, else the name without its number."""
    for line in n.lines[1:2]:
        if _WORD.fullmatch(line):
            return line.partition("(")[0]
    return re.sub(r"[.\d\s]+$", "", n.lines[0]) if n.lines else "node"


def _part(lines: tuple[str, ...], otherwise: str) -> str:
    text = lines[0] if lines else otherwise
    text = text.removeprefix("Fused expression for ").strip()
    return re.sub(r"[\s/]+", "_", text) or otherwise


def _unique(name: str, taken: set[str]) -> str:
    found, k = name, 1
    while found in taken:
        found, k = f"{name}_{k}", k + 1
    taken.add(found)
    return found


def label_lines(text: str) -> tuple[str, ...]:
    r"""Return a label as plain text: `<b>dot</b><br/>f32[4]` (markup), `dot\nf32[4]` (escapes)."""
    if text.startswith("<") and text.endswith(">"):
        plain = html.unescape(_TAG.sub("", _BREAK.sub("\n", text[1:-1])))
    else:
        plain = re.sub(r"\\([nlr])", "\n", text)
        plain = re.sub(r"\\(.)", r"\1", plain)
        if plain.startswith("{") and plain.endswith("}"):  # a record
            plain = re.sub(r"<[^<>]*>", "", plain[1:-1]).replace("|", "\n")
    lines = ("".join(c if c.isprintable() else " " for c in line).strip() for line in plain.split("\n"))
    return tuple(line for line in lines if line)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def read_dot(path: str | os.PathLike[str]) -> DotGraph:
    """Read the graph of a `.dot` file, from XLA or any other tool, gzipped or not.

    Raises:
        DumpError: the file cannot be read, or is not DOT, or too large; the message shows where.
    """
    file = Path(path)
    try:
        stat = file.stat()
    except (OSError, ValueError) as error:
        raise DumpError(f"{printable(file)}: {getattr(error, 'strerror', None) or error}") from error
    name = decode_name(printable(file.name))
    return parse_dot(DumpFile(file, stat.st_size, stat.st_mtime, name).read_text(), printable(file.name))


def parse_dot(text: str, name: str = "graph") -> DotGraph:
    """Parse a graph; `name` is that of an anonymous graph and a prefix of messages.

    Raises:
        DumpError: the text is not DOT, or too large; the message shows where.
    """
    return _DotParser(text, name).graph()


@dataclass
class _DotScope:
    """A graph or subgraph being read: its attributes, defaults and nodes."""

    id: str
    cluster: str
    node: dict[str, str] = field(default_factory=dict)
    edge: dict[str, str] = field(default_factory=dict)
    graph: dict[str, str] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)


class _DotParser:
    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.tokens = self._lex()
        self.token = next(self.tokens)
        self.nodes: dict[str, dict[str, str]] = {}
        self.homes: dict[str, str] = {}
        self.edges: list[DotEdge] = []
        self.clusters: dict[str, tuple[str, dict[str, str]]] = {}
        self.depth = 0

    # -- text --------------------------------------------------------------------------------------

    def _lex(self) -> Iterator[_Token]:
        at, text = 0, self.text
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                self._fail(f"unexpected character {text[at]!r} in DOT", at)
            kind = str(found.lastgroup)
            if kind == "html":
                end = self._markup_end(at)
                yield _Token("html", text[at:end], at)
                at = end
                continue
            if kind == "string":
                held = text[at + 1 : found.end() - 1].replace("\\\n", "").replace('\\"', '"')
                # a quoted < begins no markup: escape it to distinguish the two
                yield _Token("id", f"\\{held}" if held.startswith("<") else held, at)
            elif kind != "blank":
                yield _Token(kind, found.group(), at)
            at = found.end()
        yield _Token("end", "the end", len(text))

    def _markup_end(self, at: int) -> int:
        depth = 0
        for found in re.compile("[<>]").finditer(self.text, at):
            depth += 1 if found.group() == "<" else -1
            if not depth:
                return found.end()
        return self._fail("unterminated label in < >", at)

    def _fail(self, why: str, at: int) -> NoReturn:
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        shown = self.text[at - column + 1 :].partition("\n")[0][:120]
        raise DumpError(f"{self.name}:{line}:{column}: {why}\n    {shown}")

    def _next(self) -> _Token:
        token, self.token = self.token, next(self.tokens, self.token)
        return token

    def _take(self, text: str) -> bool:
        if self.token.kind in ("mark", "edge") and self.token.text == text:
            self._next()
            return True
        return False

    def _want(self, text: str) -> None:
        if not self._take(text):
            self._fail(f"expected {text!r}, got {self.token.text[:40]!r}", self.token.at)

    def _id(self) -> str:
        token = self._next()
        if token.kind not in ("id", "html"):
            self._fail(f"expected a name, got {token.text[:40]!r}", token.at)
        text = token.text
        while self._take("+"):
            text += self._id()
        return text

    # -- grammar -----------------------------------------------------------------------------------

    def graph(self) -> DotGraph:
        if self._word("strict"):
            self._next()
        is_directed = self._word("digraph")
        if not is_directed and not self._word("graph"):
            self._fail("expected digraph or graph: this is not DOT", self.token.at)
        self._next()
        name = self._id() if self.token.kind == "id" else self.name
        top = _DotScope(name, "")
        self._want("{")
        self._statements(top)
        self._want("}")
        nodes = tuple(
            DotNode(k, label_lines(attrs.get("label", "\\N").replace("\\N", k)), attrs, self.homes[k])
            for k, attrs in self.nodes.items()
            if k not in self.clusters
        )
        clusters = tuple(
            DotCluster(k, label_lines(attrs.get("label", "")), attrs, parent)
            for k, (parent, attrs) in self.clusters.items()
        )
        return DotGraph(name, nodes, self._between_nodes(nodes), clusters, top.graph, is_directed)

    def _word(self, word: str) -> bool:
        return self.token.kind == "id" and self.token.text.lower() == word and self._is_bare()

    def _is_bare(self) -> bool:
        return self.text[self.token.at] != '"'

    def _statements(self, scope: _DotScope) -> None:
        while not (self.token.kind == "end" or (self.token.kind == "mark" and self.token.text == "}")):
            if self._take(";"):
                continue
            self._statement(scope)

    def _statement(self, scope: _DotScope) -> None:
        for word, defaults in (("graph", scope.graph), ("node", scope.node), ("edge", scope.edge)):
            if self._word(word):
                self._next()
                defaults.update(self._attributes())
                return
        name, members = self._end(scope)
        if name and self._take("="):
            scope.graph[name] = self._id()
            return
        chain = [members]
        while self.token.kind == "edge":
            self._next()
            chain.append(self._end(scope)[1])
        attrs = self._attributes()
        if len(chain) == 1:
            if name:
                self.nodes[name].update(attrs)
            return
        for sources, targets in pairwise(chain):
            for a in sources:
                for b in targets:
                    self._add_edge(a, b, {**scope.edge, **attrs})

    def _end(self, scope: _DotScope) -> tuple[str, list[str]]:
        """Parse a node's name, or a subgraph ("", its nodes). A name before = is not a node."""
        if self._word("subgraph") or (self.token.kind == "mark" and self.token.text == "{"):
            return "", self._subgraph(scope)
        name = self._id()
        if self._take(":"):  # a port, and a compass point
            self._id()
            if self._take(":"):
                self._id()
        if not (self.token.kind == "mark" and self.token.text == "="):
            self._node(name, scope)
        return name, [name]

    def _subgraph(self, around: _DotScope) -> list[str]:
        name = ""
        if self._word("subgraph"):
            self._next()
            name = self._id() if self.token.kind in ("id", "html") else ""
        is_cluster = name.startswith("cluster")
        scope = _DotScope(name, name if is_cluster else around.cluster, dict(around.node), dict(around.edge))
        if is_cluster:
            self.clusters.setdefault(name, (around.cluster, scope.graph))
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self._fail(f"subgraphs are nested more than {_MAX_DEPTH} deep", self.token.at)
        self._want("{")
        self._statements(scope)
        self._want("}")
        self.depth -= 1
        around.members += scope.members
        return scope.members

    def _attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self._take("["):
            while not self._take("]"):
                name = self._id()
                found[name] = self._id() if self._take("=") else "true"
                if not self._take(","):
                    self._take(";")
        return found

    def _node(self, name: str, scope: _DotScope) -> None:
        if name not in self.nodes:
            self._count()
            self.nodes[name] = dict(scope.node)
            self.homes[name] = scope.cluster
        scope.members.append(name)

    def _add_edge(self, a: str, b: str, attrs: dict[str, str]) -> None:
        self._count()
        self.edges.append(DotEdge(a, b, attrs))

    def _count(self) -> None:
        if len(self.nodes) + len(self.edges) >= MAX_ITEMS:
            self._fail(f"more than {MAX_ITEMS:,} nodes and edges", self.token.at)

    def _between_nodes(self, nodes: tuple[DotNode, ...]) -> tuple[DotEdge, ...]:
        """Return the edges; an edge to a cluster, as in XLA's dumps, goes to a node inside it."""
        inside: dict[str, list[str]] = {}
        for n in nodes:
            inside.setdefault(n.cluster, []).append(n.id)
        home = {n.id: n.cluster for n in nodes}
        edges = []
        for e in self.edges:
            a, b = e.source, e.target
            if a in self.clusters and inside.get(a):
                a = inside[a][0]
            if b in self.clusters and inside.get(b):
                b = inside[b][-1]
            if a in home and b in home:
                edges.append(e if (a, b) == (e.source, e.target) else DotEdge(a, b, e.attributes))
        return tuple(edges)
