"""Functions of a graph's library: a name, a signature and a body graph with `_Arg` and `_Retval`
nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xlanb.errors import GraphValueError
from xlanb.graph.dtypes import DType
from xlanb.graph.recording import record_node
from xlanb.graph.records import GraphRecord

if TYPE_CHECKING:
    from xlanb.graph.graph import Graph
    from xlanb.graph.operation import Operation


@dataclass(frozen=True)
class FunctionRef:
    """The value of an attribute of type func: a function's name, and attributes for it."""

    name: str
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class FunctionArg:
    """One argument or result of a function."""

    name: str
    dtype: DType


class GraphFunction:
    """One function. Its body is made on first use, because many functions of a library are never
    called.

    Attributes:
        name: unique in the library.
        inputs, outputs: the signature.
        serialized: the FunctionDef it was read from, written back unchanged; b"" if it was made
            here.
        attrs: the function's own attributes, such as "_noinline".
    """

    def __init__(
        self,
        name: str,
        inputs: tuple[FunctionArg, ...],
        outputs: tuple[FunctionArg, ...],
        make_body: Callable[[], Graph],
        serialized: bytes = b"",
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.serialized = serialized
        self.attrs = dict(attrs or {})
        self._make_body = make_body
        self._body: Graph | None = None
        self._record: tuple[int, GraphRecord] | None = None

    @staticmethod
    def of_body(name: str, body: Graph) -> GraphFunction:
        """Make a function of a body; the "index" of its `_Arg` and `_Retval` nodes gives the
        signature.

        Raises:
            GraphValueError: an index is missing or duplicated.
        """
        args = [FunctionArg(op.name, op.attrs["T"]) for op in _indexed(name, body, "_Arg")]
        results = [FunctionArg(op.name, op.attrs["T"]) for op in _indexed(name, body, "_Retval")]
        return GraphFunction(name, tuple(args), tuple(results), lambda: body)

    @property
    def version(self) -> tuple[int, int]:
        """Another value once the body was changed, or the function is another one."""
        return id(self), -1 if self._body is None else self._body.version

    @property
    def body(self) -> Graph:
        """The body: `_Arg` nodes for arguments, `_Retval` nodes for results.

        Raises:
            GraphError: it is malformed.
        """
        if self._body is None:
            self._body = self._make_body()
        return self._body

    @property
    def output_dtypes(self) -> list[DType]:
        """Element types of the results."""
        return [o.dtype for o in self.outputs]

    def record(self) -> GraphRecord:
        """A frozen snapshot of the body alone, under the function's name."""
        if self._record is None or self._record[0] != self.body.version:
            nodes = tuple(record_node(op) for op in self.body)
            self._record = (self.body.version, GraphRecord(self.name, nodes))
        return self._record[1]

    def __repr__(self) -> str:
        inputs = ", ".join(f"{a.name}: {a.dtype.name}" for a in self.inputs)
        outputs = ", ".join(f"{a.name}: {a.dtype.name}" for a in self.outputs)
        return f"<function {self.name}({inputs}) -> ({outputs})>"


def _indexed(name: str, body: Graph, op_type: str) -> list[Operation]:
    found = sorted((op for op in body if op.type == op_type), key=lambda op: int(op.attrs["index"]))
    if [op.attrs["index"] for op in found] != list(range(len(found))):
        raise GraphValueError(
            f"function {name!r}: the indices of its {op_type} nodes are not 0, 1, ...: "
            f"{[op.attrs['index'] for op in found]}"
        )
    return found
