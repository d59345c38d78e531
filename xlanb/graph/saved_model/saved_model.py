"""SavedModels: a folder with saved_model.pb and the variables' checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.boundary import boundary
from xlanb.errors import GraphError
from xlanb.files import is_file
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef import graph_of_proto, parse_meta_graphs
from xlanb.graph.operation import Tensor, handed_on_from
from xlanb.graph.saved_model.tensor_bundle import read_bundle


@dataclass(frozen=True)
class SignatureDef:
    """A way to call a model: names of tensors to feed and to fetch, by the signature's own
    names.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True)
class SavedModel:
    """A graph, its signatures, and values of variables by name (see tensor_bundle)."""

    graph: Graph
    tags: tuple[str, ...]
    signatures: Mapping[str, SignatureDef]
    variables: Mapping[str, np.ndarray[Any, Any]]

    def variables_of_graph(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return values by the graph's variable names, for `Session.load_variables`.

        Values are matched by the graph's restore nodes, else by name.
        """
        found = {}
        for handle, key in _restores(self.graph):
            if key in self.variables:
                found[handle.op.name] = self.variables[key]
        for op in self.graph:
            if op.type in {"VarHandleOp", "VariableV2", "Variable"}:
                for name in (op.name, str(op.attrs.get("shared_name") or op.name)):
                    if name in self.variables and op.name not in found:
                        found[op.name] = self.variables[name]
        return found

    def __repr__(self) -> str:
        return (
            f"<SavedModel {', '.join(self.tags)}: {self.graph!r}, signatures "
            f"{', '.join(self.signatures) or 'none'}, {len(self.variables)} tensors>"
        )


def _restores(graph: Graph) -> Iterator[tuple[Tensor, str]]:
    """Yield the handles that the graph and its functions restore from a checkpoint, with their
    keys.
    """
    for op in graph:
        if op.type in {"AssignVariableOp", "Assign"} and (key := _restored(op.inputs[1])) is not None:
            yield op.inputs[0], key
        elif op.type in {"PartitionedCall", "StatefulPartitionedCall"} and op.attrs["f"].name in graph.functions:
            function = graph.functions[op.attrs["f"].name]
            if any(a.dtype.name == "resource" for a in function.inputs):
                for handle, key in _restores(function.body):
                    if handle.op.type == "_Arg":
                        yield op.inputs[int(handle.op.attrs["index"])], key


def _restored(tensor: Tensor) -> str | None:
    """The key in the checkpoint that a RestoreV2 node reads a tensor from."""
    tensor = handed_on_from(tensor, lambda op: op.type == "Identity")
    if tensor.op.type != "RestoreV2":
        return None
    keys: Any = tensor.op.inputs[1].op.attrs.get("value")
    key = keys[tensor.value_index] if np.ndim(keys) == 1 and tensor.value_index < len(keys) else None
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else None


@boundary("read a SavedModel")
def read_saved_model(folder: str | Path, tags: tuple[str, ...] | None = None) -> SavedModel:
    """The model in a folder; of several graphs the one with these tags, by default the first.

    Raises:
        GraphError: no such file, it cannot be read, or no graph has the tags.
    """
    folder = Path(folder)
    path = next((p for p in (folder / "saved_model.pb", folder / "saved_model.pbtxt") if is_file(p)), None)
    if path is None:
        raise GraphError(f"no saved_model.pb in {str(folder)!r}")
    metas = parse_meta_graphs(path)
    meta = next((m for m in metas if tags is None or set(tags) == set(m.meta_info_def.tags)), None)
    if meta is None:
        there = "; ".join(", ".join(m.meta_info_def.tags) for m in metas) or "none"
        raise GraphError(f"{str(path)!r} has no graph with the tags {', '.join(tags or ())}; its tags are: {there}")
    signatures = {
        name: SignatureDef(
            {k: v.name for k, v in s.inputs.items()},
            {k: v.name for k, v in s.outputs.items()},
        )
        for name, s in meta.signature_def.items()
    }
    prefix = folder / "variables" / "variables"
    variables = read_bundle(prefix) if is_file(Path(f"{prefix}.index")) else {}
    graph = graph_of_proto(meta.graph_def, folder.name or "graph")
    return SavedModel(graph, tuple(meta.meta_info_def.tags), signatures, variables)
