"""`extract`: the whole program as one HloModule, from a graph or from a trained session; and its parameters and results by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
from xlanb.runtime.graph_program import VARIABLES, extract_result, inputs_of
from xlanb.runtime.session import Session
from xlanb.shape.shape import ArrayShape

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Extraction(Displayable):
    """A program as a module, with names.

    Attributes:
        module: the program; its root is a tuple.
        parameters: the placeholder or variable that each parameter stands for.
        results: what each element of the root is: the name of a fetched tensor ("loss:0"), or of the variable whose new value it is.
        weights: the variables' values, by name, where the program was extracted from a session.
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
        """The module's arguments in order, from arrays by name (a loaded .npz will do); weights stand in where none are given.

        Raises:
            ArgumentError: one is missing, or does not fit.
        """
        given = {**self.weights, **(values or {}), **named}
        missing = [n for n in self.parameters if n not in given]
        if missing:
            raise ArgumentError(
                f"no value for {', '.join(map(repr, missing))}; the parameters of the program are {', '.join(self.parameters)}"
            )
        taken = self.module.entry_computation.parameters
        return [_fit(n, p.array_shape, given[n]) for n, p in zip(self.parameters, taken, strict=True)]

    def named(self, results: Sequence[Any]) -> dict[str, Any]:
        """Results of a run by name: fetched tensors as "loss:0", new values of variables by their node."""
        return dict(zip(self.results, results, strict=True))

    def save_weights(self, path: str | PathLike[str]) -> None:
        """Write the weights as .npz, by name; `arguments(np.load(path))` accepts them.

        Raises:
            ArgumentError: no file can have this name.
            OSError: the file cannot be written.
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
    """The program that computes `fetches` as one module: placeholders and variables are its parameters, in the order of the graph; its root is a tuple of what is fetched and of the new
    values of variables that the program writes. Every instruction names its TensorFlow node in its metadata.

    Args:
        program: a graph; or a session, whose variables then have the shapes, and with `literals` the values, that they have there.
        fetches: tensors, operations or names.
        literals: variables are no parameters: their values stand in the module.
        npz: a file to write the variables' values to, by name.
        values: arrays by the name of a placeholder or variable whose shape the graph leaves open.

    Raises:
        FeedError: a fetch is not in the graph.
        GraphError: a node cannot be lowered.
        ArgumentError: a value for what the program does not read; or literals, or an .npz, of a graph alone, which has no values.
        OSError: the file cannot be written.
    """
    found = extraction(program, fetches, literals=literals, **values)
    if npz is not None:
        if not isinstance(program, Session):
            raise ArgumentError("a graph has no weights to write: use a session")
        found.save_weights(npz)
    return found.module


def extraction(program: Graph | Session, fetches: Any, *, literals: bool = False, **values: Any) -> Extraction:
    """As `extract`, with the names of parameters and results, and the weights."""
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
    """What variables hold; those that hold nothing yet are left out."""
    found: dict[str, Array] = {}
    for name in names:
        with suppress(UninitializedError):
            found[name] = session.read_variable(name)
    return found


def _complete_metadata(module: HloModule, wanted: Sequence[Tensor | Operation]) -> None:
    """What an instruction calls belongs to its TensorFlow node; the root to the nodes that are fetched."""
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
        array = array.view(dtype)  # .npz keeps the bits of types that NumPy does not know, not the type
    array = np.asarray(array, dtype)
    if array.shape != tuple(shape.dimensions):
        raise ArgumentError(f"{name} has shape {list(shape.dimensions)}, not {list(array.shape)}")
    return array
