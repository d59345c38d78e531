"""One cluster: its nodes, its function, and its HLO for the graph's shapes or for given ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from xlanb.boundary import boundary
from xlanb.clustering.encapsulate_subgraphs import ClusterFunction
from xlanb.display import Displayable
from xlanb.errors import GraphError, GraphValueError
from xlanb.graph.dtypes import DType
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Tensor
from xlanb.graph.records import GraphRecord
from xlanb.graph.shapes import handle_shape
from xlanb.hlo import HloModule
from xlanb.shape.primitive_type import from_dtype
from xlanb.shape.shape import array
from xlanb.tf2xla.compiler import Argument, lower
from xlanb.tf2xla.shapes import constant_value
from xlanb.tf2xla.stand_in_shapes import Solution
from xlanb.tracing import unobserved


class Cluster(Displayable):
    """A cluster: its nodes, and its function by encapsulate_subgraphs."""

    def __init__(
        self, name: str, nodes: list[str], function: ClusterFunction, graph: Graph, solve: Callable[[], Solution]
    ) -> None:
        self.name = name
        self.nodes = nodes
        self.function = function
        self._origins = [graph.get_tensor_by_name(source) for source in function.sources]
        self._solve = solve

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def hlo_module(self) -> HloModule:
        """The cluster's HLO, for the graph's static shapes or, if there are none, for
        `assumed_shapes`.

        Raises:
            GraphError: a compile-time constant is unknown, or no shapes fit the nodes; names the
                node.
        """
        return self.lower()

    @property
    def states_shapes(self) -> bool:
        """Whether the graph states the shapes of all arguments."""
        return all(_stated(t) is not None for t in self._origins if t.dtype.name != "variant")

    @cached_property
    @boundary("infer shapes for a cluster")
    def assumed_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return shapes for arguments without static shapes, by the names of their tensors.

        They fit the surrounding nodes, and are a guess if several do.
        """
        unknown = [t for t in self._origins if _stated(t) is None and t.dtype.name != "variant"]
        if not unknown:
            return {}
        shapes = self._solve().shapes
        return {t.name: shapes[t] for t in unknown if t in shapes}

    @boundary("lower a cluster")
    def lower(self, shapes: Mapping[str, Sequence[int]] | None = None) -> HloModule:
        """Lower the cluster to HLO.

        `shapes` gives shapes of arguments by tensor name ("x:0"). By default they are
        `assumed_shapes` if the graph does not state them.

        Raises:
            GraphError: a required shape or value is unknown; names the node.
        """
        f = self.function
        given = shapes or {}
        unknown = sorted(set(given) - set(f.sources))
        if unknown:
            raise GraphValueError(
                f"{self.name} has no input {unknown[0]!r}; its inputs are {', '.join(f.sources) or 'nothing'}"
            )
        feeds = []
        for index, (t, origin) in enumerate(zip(f.arguments, self._origins, strict=True)):
            feeds.append((t, self._argument(t, origin, given.get(origin.name), index in f.constant_arguments)))
        return lower(self.name, feeds, f.results, f.targets).module

    def fits(self, solution: Solution) -> bool:
        """Whether the cluster can be lowered for these shapes."""
        f = self.function
        feeds = zip(f.arguments, self._origins, strict=True)
        try:
            arguments = [
                (t, self._argument(t, origin, solution.shapes.get(origin), i in f.constant_arguments, solution))
                for i, (t, origin) in enumerate(feeds)
            ]
            with unobserved():
                lower(self.name, arguments, f.results, f.targets)
        except GraphError:
            return False
        return True

    def _argument(
        self,
        tensor: Tensor,
        origin: Tensor,
        given: Sequence[int] | None,
        must_be_constant: bool,
        solution: Solution | None = None,
    ) -> Argument:
        if must_be_constant:
            value = constant_value(origin)
            value = (solution or self._solve()).values.get(origin) if value is None else value
            if value is not None:
                return Argument("constant", None, value, origin.name)
        is_handle = tensor.dtype.name == "resource"
        dtype = self._variable_dtype(tensor, origin) if is_handle else tensor.dtype.base_dtype
        dims = tuple(given) if given is not None else _stated(origin)
        if dims is None and solution is None and origin.name in self.assumed_shapes:
            dims = self.assumed_shapes[origin.name]
        if dtype is None or dims is None or not dtype.has_numpy_dtype:
            raise GraphError(
                f"{self.name}: the shape of input {origin.name!r} is only known at run time: pass it, as in "
                f".lower({{{origin.name!r}: [...]}}) or xlanb.cluster(graph, shapes=...)"
            )
        kind = "variable" if is_handle else "parameter"
        return Argument(kind, array(from_dtype(dtype.as_numpy_dtype), dims), None, origin.name)

    @staticmethod
    def _variable_dtype(tensor: Tensor, origin: Tensor) -> DType | None:
        """Return the element type of a handle's variable, from its own node or its users."""
        pending = [origin.op, *tensor.uses]
        for op in pending:
            if (dtype := op.attrs.get("dtype")) is not None:
                found: DType = dtype
                return found
            if op.type in {"Identity", "Enter", "Switch"}:  # these forward the handle
                pending += [t.op for t in op.inputs[:1] if t.op not in pending]
                pending += [user for t in op.outputs for user in t.uses if user not in pending]
        return None

    def record(self) -> GraphRecord:
        """The body as a graph."""
        return self.function.body.record()

    def __str__(self) -> str:
        return f"{self!r}\n{self.function}"

    def __repr__(self) -> str:
        return (
            f"<Cluster {self.name}: {len(self)} nodes, {len(self.function.arguments)} arguments, "
            f"{len(self.function.results)} results>"
        )


def _stated(tensor: Tensor) -> tuple[int, ...] | None:
    """Return a tensor's full static shape (for a handle, its variable's), or None."""
    dims = handle_shape(tensor.op) if tensor.dtype.name == "resource" else tensor.shape.as_tuple()
    return None if dims is None or None in dims else tuple(d for d in dims if d is not None)
