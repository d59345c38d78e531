"""`extract`: a whole program as one HloModule, from a graph or from a trained session.

Its parameters and results have names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from os import PathLike
from typing import Any

import numpy as np

from xlanb.display import Displayable
from xlanb.errors import ArgumentError, FeedError, GraphError, UninitializedError
from xlanb.files import path_to_write
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.hlo import HloModule
from xlanb.hlo.attributes import OpMetadata
from xlanb.hlo.proto import HloSnapshot
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.graph_program import VARIABLES, extract_result, inputs_of
from xlanb.runtime.session import Session
from xlanb.shape.shape import ArrayShape

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Extraction(Displayable):
    """A program as a module, with names.

    Attributes:
        module: The program; its root is a tuple.
        parameters: The placeholder or variable of each parameter.
        results: The name of each element of the root: a fetched tensor ("loss:0"), or a variable
            for its new value.
        weights: The variables' values, by name, if the program was extracted from a session.
    """

    module: HloModule
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    weights: Mapping[str, Array] = field(default_factory=dict)

    @property
    def hlo_module(self) -> HloModule:
        """The module, for views."""
        return self.module

    def arguments(self, values: Mapping[str, Any] | None = None, **named: Any) -> list[Array]:
        """The module's arguments in order, from arrays by name (such as a loaded .npz).

        Weights are used for missing values.

        Raises:
            ArgumentError: A value is missing or does not fit.
        """
        given = {**self.weights, **(values or {}), **named}
        missing = [n for n in self.parameters if n not in given]
        if missing:
            raise ArgumentError(
                f"no value for {', '.join(map(repr, missing))}; the parameters of the program are "
                f"{', '.join(self.parameters)}"
            )
        taken = self.module.entry_computation.parameters
        return [_fit(n, p.array_shape, given[n]) for n, p in zip(self.parameters, taken, strict=True)]

    def snapshot(self, values: Mapping[str, Any] | None = None, **named: Any) -> HloSnapshot:
        """The program with its arguments, as XLA dumps an execution; `.to_proto()` are its bytes.

        Raises:
            ArgumentError: A value is missing or does not fit.
        """
        return HloSnapshot(self.module, tuple(self.arguments(values, **named)))

    def named(self, results: Sequence[Any]) -> dict[str, Any]:
        """Results of a run by name: fetched tensors as "loss:0", new variable values by node."""
        return dict(zip(self.results, results, strict=True))

    def save_weights(self, path: str | PathLike[str]) -> None:
        """Write the weights as .npz, by name; `arguments(np.load(path))` accepts them.

        Raises:
            ArgumentError: The name is not valid for a file.
            OSError: The file cannot be written.
        """
        with path_to_write(path).open("wb") as file:
            np.savez(file, allow_pickle=False, **self.weights)

    def __str__(self) -> str:
        return f"{self!r}\n{self.module}"

    def __repr__(self) -> str:
        takes, gives = ", ".join(self.parameters), ", ".join(self.results)
        return f"<Extraction {self.module.name}: ({takes}) -> ({gives})>"


def extract(
    program: Graph | Session,
    fetches: Any,
    *,
    literals: bool = False,
    npz: str | PathLike[str] | None = None,
    **values: Any,
) -> HloModule:
    """The program that computes `fetches`, as one module.

    Placeholders and variables are its parameters, in the order of the graph. Its root is a tuple of
    the fetches and of the new values of variables that the program writes. The metadata of every
    instruction names its TensorFlow node.

    Args:
        program: A graph; or a session, which then provides the shapes of variables and, with
            `literals`, their values.
        fetches: Tensors, operations or names.
        literals: Whether variables are constants of the module instead of parameters.
        npz: A file to write the variables' values to, by name.
        values: Arrays by the name of a placeholder or variable whose shape is unknown in the graph.

    Raises:
        FeedError: A fetch is not in the graph.
        GraphError: A node cannot be lowered.
        ArgumentError: A value is given that the program does not read; or literals or an .npz of a
            graph, which has no values.
        OSError: The file cannot be written.
    """
    found = extraction(program, fetches, literals=literals, **values)
    if npz is not None:
        if not isinstance(program, Session):
            raise ArgumentError("a graph has no weights to write: use a session")
        found.save_weights(npz)
    return found.module


def extraction(program: Graph | Session, fetches: Any, *, literals: bool = False, **values: Any) -> Extraction:
    """Like `extract`, with the names of parameters and results, and the weights."""
    graph = program.graph if isinstance(program, Session) else program
    items: Sequence[Any] = fetches if isinstance(fetches, list | tuple) else [fetches]
    try:
        wanted = [graph.as_graph_element(item) for item in items]
    except GraphError as error:
        raise FeedError(f"cannot fetch: {error}") from None
    weights: dict[str, Array] = {}
    if isinstance(program, Session):
        weights = _weights(program, [t.op.name for t in inputs_of(wanted) if t.op.type in VARIABLES])
    elif literals:
        raise ArgumentError("a graph has no values to turn into literals: use a session")
    names = {*weights} - {*values} if literals else set()
    feeds, result = extract_result(wanted, {**weights, **values}, literals=names)
    _complete_metadata(result.module, wanted)
    parameters = tuple(feeds[p].op.name for p in result.parameters)
    results = [w.name for w in wanted if isinstance(w, Tensor)] + [feeds[u].op.name for u in result.updates]
    return Extraction(result.module, parameters, tuple(results), weights)


def _weights(session: Session, names: Sequence[str]) -> dict[str, Array]:
    """The values of variables; those without a value are left out."""
    found: dict[str, Array] = {}
    for name in names:
        with suppress(UninitializedError):
            found[name] = session.read_variable(name)
    return found


def _complete_metadata(module: HloModule, wanted: Sequence[Tensor | Operation]) -> None:
    """Set the metadata of called computations to their caller's, of the root to the fetches."""
    root = module.entry_computation.root
    names = dict.fromkeys(w.op.name if isinstance(w, Tensor) else w.name for w in wanted)
    module.entry_computation.update(root, metadata=OpMetadata(op_type="_Retval", op_name=", ".join(names)))
    pending, seen = [module.entry_computation], {module.entry_computation}
    while pending:
        for i in pending.pop():
            for called in i.called_computations:
                for j in [j for j in called if i.metadata.op_name and not j.metadata.op_name]:
                    called.update(j, metadata=i.metadata)
                if called not in seen:
                    seen.add(called)
                    pending.append(called)


def _fit(name: str, shape: ArrayShape, value: Any) -> Array:
    dtype = shape.dtype
    array = np.asarray(value)
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        array = array.view(dtype)  # for types that NumPy lacks, .npz keeps only the bits
    array = np.asarray(array, dtype)
    if array.shape != tuple(shape.dimensions):
        raise ArgumentError(f"{name} has shape {list(shape.dimensions)}, not {list(array.shape)}")
    return array
