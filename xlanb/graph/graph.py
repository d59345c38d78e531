"""Graph: a TensorFlow graph, built or read, with TensorFlow 1's rules for names and scopes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xlanb.display import Displayable
from xlanb.errors import GraphError, GraphTypeError, GraphValueError, nearest
from xlanb.files import path_to_write
from xlanb.graph import default_graph, extensions, rewrite
from xlanb.graph.dtypes import DType
from xlanb.graph.names import NameSpace, is_output_number
from xlanb.graph.op_library import output_dtypes
from xlanb.graph.operation import Operation, Tensor, as_operation
from xlanb.graph.recording import graph_text, record_graph
from xlanb.graph.records import GraphRecord
from xlanb.graph.scopes import ControlDependencies, Scopes, python_stack, source_name

if TYPE_CHECKING:
    import numpy as np

    from xlanb.graph.binding import Binding
    from xlanb.graph.functions import GraphFunction


class Graph(Displayable):
    """Operations by unique name, in the order they were made, with a library of functions.

    Attributes:
        name: the name in views.
        functions: the library, by name.
        seed: the graph-level random seed, None if not set.
        collections: lists by key ("variables", "trainable_variables", ...).
        version: grows with every change, for caches.
        builds_function: whether branches and loops are made as functions (If, While), as in a
            function that is to be compiled.
        inputs, outputs: arguments and results of a function, model or signature, in order (see
        `from_tensorflow`).
        initial_values: initial values by variable name, for sessions of this graph.
        binding: the function or model behind the graph, if any: its variables, arguments and
            results (see `xlanb.graph.binding`).
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.functions: dict[str, GraphFunction] = {}
        self.seed: int | None = None
        self.collections: dict[str, list[Any]] = {}
        self.version = 0
        self.builds_function = False
        self.inputs: tuple[Tensor, ...] = ()
        self.outputs: tuple[Tensor, ...] = ()
        self.initial_values: dict[str, np.ndarray[Any, Any]] = {}
        self.binding: Binding | None = None
        self.names = NameSpace()
        self.scopes = Scopes()
        # The rest of a GraphDef: versions (producer, min_consumer, bad consumers), unknown fields.
        self.graphdef_rest: bytes = b""
        self._ops: dict[str, Operation] = {}
        self._record: tuple[int, GraphRecord] | None = None

    # -------------------------------------------------------------------------------------- look up

    def get_operations(self) -> list[Operation]:
        """All operations, in the order they were made."""
        return list(self._ops.values())

    def __iter__(self) -> Iterator[Operation]:
        return iter(tuple(self._ops.values()))

    def __len__(self) -> int:
        return len(self._ops)

    def __contains__(self, name: object) -> bool:
        return name in self._ops

    def get_operation_by_name(self, name: str) -> Operation:
        """Return the operation of a name.

        Raises:
            GraphValueError: there is none; the message gives similar names.
        """
        found = self._ops.get(name)
        if found is None:
            raise GraphValueError(f"the graph has no operation named {name!r}{nearest(name, self._ops)}")
        return found

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return the tensor of a name such as "x:0".

        Raises:
            GraphValueError: this is not a tensor's name, or there is no such tensor.
        """
        op_name, colon, index = name.rpartition(":")
        if not colon or not is_output_number(index):
            raise GraphValueError(f'tensor names have the form "<operation>:<output>", not {name!r}')
        op = self.get_operation_by_name(op_name)
        if int(index) >= len(op.outputs):
            raise GraphValueError(f"no tensor {name!r}: {op!r} has {len(op.outputs)} outputs")
        return op.outputs[int(index)]

    def as_graph_element(
        self, value: Any, *, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Operation | Tensor:
        """Return the operation or tensor for `value`: itself, a name, or an object such as a
        variable.

        Raises:
            GraphError: there is none, it belongs to another graph, or its kind is not allowed.
        """
        convert = getattr(value, "_as_graph_element", None)
        if convert is not None:
            value = convert()
        if isinstance(value, str):
            value = self._by_name(value, allow_operation=allow_operation)
        if (isinstance(value, Tensor) and allow_tensor) or (isinstance(value, Operation) and allow_operation):
            self.check_own(value)
            found: Operation | Tensor = value
            return found
        kinds = " or ".join(k for k, allowed in (("Tensor", allow_tensor), ("Operation", allow_operation)) if allowed)
        raise GraphTypeError(f"cannot convert {value!r} of type {type(value).__name__} into a {kinds}")

    def _by_name(self, name: str, *, allow_operation: bool) -> Operation | Tensor:
        head, _, tail = name.rpartition(":")
        if head and is_output_number(tail):
            return self.get_tensor_by_name(name)
        if not allow_operation:
            raise GraphValueError(f'tensor names have the form "<operation>:<output>", not {name!r}')
        return self.get_operation_by_name(name)

    def check_own(self, element: Operation | Tensor) -> None:
        """Raise GraphValueError unless `element` belongs to this graph."""
        if element.graph is not self:
            raise GraphValueError(f"{element!r} belongs to a different graph")
        op = element.op if isinstance(element, Tensor) else element
        if self._ops.get(op.name) is not op:
            raise GraphValueError(f"{element.name!r} has been removed from its graph")

    def node(self, name: str) -> Operation:
        """Return the operation of a name, of one of its tensors ("x:0"), or of a control edge
        ("^x").

        Raises:
            GraphValueError: there is none; the message gives similar names.
        """
        head, colon, index = name.removeprefix("^").rpartition(":")
        return self.get_operation_by_name(head if colon and is_output_number(index) else name.removeprefix("^"))

    def search(self, pattern: str) -> list[Operation]:
        """List operations whose name or op type contains a match of a regular expression, in graph
        order.

        Raises:
            GraphValueError: it is not a regular expression.
        """
        try:
            found = re.compile(pattern)
        except re.error as error:
            raise GraphValueError(f"{pattern!r} is not a regular expression: {error}") from None
        return [op for op in self if found.search(op.name) or found.search(op.type)]

    def subgraph(self, fetches: Any, feeds: Any = ()) -> Graph:
        """Copy the part of the graph that the fetches need; tensors in `feeds` become placeholders.

        `fetches`: tensors, operations, names, or lists of them. A name that ends in "/" is a scope:
        all of its nodes, and what they need.

        Raises:
            GraphValueError: a name is not in the graph.
        """
        wanted = [e for f in _listed(fetches) for e in self._elements(f)]
        fed = [self.as_graph_element(f, allow_operation=True) for f in _listed(feeds)]
        return rewrite.subgraph(self, wanted, [f.outputs[0] if isinstance(f, Operation) else f for f in fed])

    def _scopes(self) -> list[str]:
        """Every name scope that holds a node, as "a/b/"."""
        names = (op.name for op in self)
        return list(dict.fromkeys(n[: k + 1] for n in names for k, c in enumerate(n) if c == "/"))

    def _elements(self, what: Any) -> list[Operation | Tensor]:
        if isinstance(what, str) and what.endswith("/"):
            found: list[Operation | Tensor] = [op for op in self if op.name.startswith(what)]
            if not found:
                raise GraphValueError(f"the graph has no node in a scope {what!r}{nearest(what, self._scopes())}")
            return found
        return [self.as_graph_element(what)]

    # ------------------------------------------------------------------------------------ construct

    def create_op(
        self,
        op_type: str,
        inputs: Iterable[Tensor] = (),
        dtypes: Iterable[DType] | None = None,
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
        control_inputs: Iterable[Operation] | None = None,
        device: str | None = None,
    ) -> Operation:
        """Make a node; scopes give its name, device, control inputs and attributes.

        A name that ends in "/" is a scope of this graph, and the node takes its name unchanged.
        `dtypes` are those of the outputs, by default from the op table. `control_inputs` are added
        to those of the scopes.

        Raises:
            GraphError: an invalid name, input or attribute.
        """
        tensors = tuple(inputs)
        name = name or op_type
        unique = name[:-1] if name.endswith("/") else self.unique_name(name)
        waits = self.scopes.control_inputs_for({t.op for t in tensors})
        waits += [op for op in control_inputs or () if op not in waits]
        op = self.add_op(
            op_type, unique, tensors, dtypes, attrs, waits, device if device is not None else self.scopes.device()
        )
        op.stack = python_stack()
        if op.stack:
            op.source_file, op.source_line = source_name(op.stack[0][0]), op.stack[0][1]
        self.scopes.apply(op)
        return op

    def add_op(
        self,
        op_type: str,
        name: str,
        inputs: Iterable[Tensor] = (),
        dtypes: Iterable[DType] | None = None,
        attrs: Mapping[str, Any] | None = None,
        control_inputs: Iterable[Operation] = (),
        device: str = "",
    ) -> Operation:
        """Make a node of exactly this name, whatever the scopes say: for readers and rewriters.

        Raises:
            GraphValueError: the name is taken or malformed, or an input belongs to another graph.
        """
        if name in self._ops:
            raise GraphValueError(f"the graph already has a node {name!r}: {self._ops[name]!r}")
        if not _NODE_NAME.fullmatch(name):
            raise GraphValueError(f"{name!r} is not a valid node name")
        tensors, waits = tuple(inputs), tuple(control_inputs)
        elements: list[Operation | Tensor] = [*tensors, *waits]
        for element in elements:
            self.check_own(element)
        values = dict(attrs or {})
        if dtypes is None:
            dtypes = output_dtypes(op_type, values, tensors, name, self)
        op = Operation(self, op_type, name, dtypes, values, device)
        self._ops[name] = op
        self.names.mark(name)
        for tensor in tensors:
            op.add_input(tensor)
        for other in waits:
            op.add_control_input(other)
        self.touch()
        return op

    def touch(self) -> None:
        """Count one change."""
        self.version += 1

    def remove_ops(self, ops: Iterable[Operation]) -> None:
        """Remove operations and drop control edges to others.

        Raises:
            GraphValueError: a remaining operation reads a removed one; nothing is removed then.
        """
        going = dict.fromkeys(ops)
        for op in going:
            self.check_own(op)
            reader = next((r for t in op.outputs for r in t.uses if r not in going), None)
            if reader is not None:
                raise GraphValueError(f"cannot remove {op!r}: it is still used by {reader!r}")
        for op in going:
            for other in op.control_outputs:
                other.remove_control_input(op)
            op.disconnect()
        for op in going:
            del self._ops[op.name]
        self.touch()

    def rename(self, op: Operation, name: str) -> None:
        """Give an operation another name that is free. Raises GraphValueError if it is taken."""
        if name in self._ops:
            raise GraphValueError(f"the graph already has a node {name!r}: {self._ops[name]!r}")
        self.check_own(op)
        self._ops = {(name if o is op else n): o for n, o in self._ops.items()}
        op.name = name
        self.names.mark(name)
        self.touch()

    def copy(self, keep: Collection[Operation] | None = None, name: str | None = None) -> Graph:
        """Copy the graph, or only the nodes of `keep`; the function library is shared.

        Raises:
            GraphValueError: a kept node reads one that is not kept.
        """
        return rewrite.copy_graph(self, keep, name)

    def topological_order(self) -> list[Operation]:
        """Sort operations after their data and control inputs; edges from NextIteration to Merge
        don't count.

        Raises:
            GraphValueError: a cycle outside of loops; the message names its nodes.
        """
        return rewrite.topological_order(self)

    # -------------------------------------------------------------------------- scopes and defaults

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return `name` in the current scope, with "_1", "_2", ... if taken
        (case-insensitively).
        """
        return self.names.unique(name, mark_as_used=mark_as_used)

    def name_scope(self, name: str | None) -> AbstractContextManager[str]:
        """Prefix names made inside; yield "scope/".

        A name with "/" at its end re-enters it, None the root.
        """
        return self.names.scope(name)

    def get_name_scope(self) -> str:
        """The current name scope, "" at the root."""
        return self.names.stack

    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> AbstractContextManager[None]:
        """Let every node made inside wait for these; None lifts all such waits."""
        if control_inputs is None:
            return self.scopes.without_control_dependencies()
        ops = [as_operation(self.as_graph_element(c) if isinstance(c, str) else c) for c in control_inputs]
        for op in ops:
            self.check_own(op)
        for op in ops:  # TensorFlow marks them so
            op.attrs["_has_manual_control_dependencies"] = True
        return self.scopes.controlled(ControlDependencies(ops))

    def device(self, name_or_function: str | Callable[[Operation], str] | None) -> AbstractContextManager[None]:
        """Request a device for nodes made inside; inner scopes add parts, None drops the outer
        ones.
        """
        return self.scopes.on_device(name_or_function)

    def colocate_with(self, op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
        """Place nodes made inside with `op` (attribute `_class`); None lifts it."""
        return self.scopes.colocated(None if op is None else as_operation(op), ignore_existing)

    def attr_scope(self, attrs: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Set attributes that new nodes inside lack; a value may be a function of the node."""
        return self.scopes.with_attrs(attrs)

    def gradient_override_map(self, op_type_map: Mapping[str, str]) -> AbstractContextManager[None]:
        """Give new nodes of these types the gradients of other names (attribute
        `_gradient_op_type`).
        """
        names = dict(op_type_map)
        return self.attr_scope({"_gradient_op_type": lambda op: names.get(op.type)})

    def as_default(self) -> AbstractContextManager[Graph]:
        """Make this the graph that new nodes go to, in this thread and block."""
        return default_graph.entered(self)

    # ---------------------------------------------------------------------------------- collections

    def add_to_collection(self, name: str, value: Any) -> None:
        """Append to a collection."""
        self.collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Iterable[str] | str, value: Any) -> None:
        """Append to several collections, once to each."""
        for name in dict.fromkeys([names] if isinstance(names, str) else names):
            self.add_to_collection(name, value)

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """Copy a collection; with `scope`, only items whose name matches this regular expression.

        The match begins at the start of the name.
        """
        items = list(self.collections.get(name, ()))
        if scope is None:
            return items
        pattern = re.compile(scope)
        return [i for i in items if hasattr(i, "name") and pattern.match(i.name)]

    def get_collection_ref(self, name: str) -> list[Any]:
        """The collection itself."""
        return self.collections.setdefault(name, [])

    def clear_collection(self, name: str) -> None:
        """Empty a collection."""
        self.collections.pop(name, None)

    # -------------------------------------------------------------------------------- in, out, show

    @staticmethod
    def from_graphdef(source: Any, name: str = "graph") -> Graph:
        """The graph of a GraphDef: a path to a .pb or .pbtxt file, its bytes, or its text.

        Raises:
            GraphError: it cannot be read, or is not a well-formed graph.
        """
        return extensions.read_graphdef(source, name)

    @staticmethod
    def from_tensorflow(program: Any, *args: Any, signature: str | None = None) -> Graph:
        """Make a graph from a program of the real TensorFlow.

        `inputs` and `outputs` are its arguments and results; its sessions begin with the program's
        variable values.

        Args:
            program: a tf.Graph; a v1 Session; tensors of a tf.Graph; a tf.function; a
                ConcreteFunction; a Keras model (called with training=False) or its file; the folder
                of a SavedModel, which needs no TensorFlow.
            args: arguments of a tf.function or a model: arrays, TensorSpecs, structures of them. A
                model that was built knows its own.
            signature: of a SavedModel, by default "serving_default".

        Raises:
            MissingPeerError: TensorFlow is not installed.
            GraphError: it is no such program; the message lists the supported ones.
        """
        return extensions.graph_of_program(program, args, signature)

    def to_graphdef(self) -> bytes:
        """Write a binary GraphDef; unchanged parts that were read are written back verbatim."""
        return extensions.write_graphdef(self)

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """Return a GraphDef message; `add_shapes` adds the attribute `_output_shapes` to each
        node.
        """
        return extensions.graph_to_proto(self, add_shapes)

    def finalize(self) -> None:
        """Do nothing: graphs may always grow here."""

    @property
    def finalized(self) -> bool:
        """False: see `finalize`."""
        return False

    def is_feedable(self, tensor: Any) -> bool:
        """True: any tensor may be fed."""
        return True

    def prevent_feeding(self, tensor: Any) -> None:
        """Do nothing: see `is_feedable`."""

    def get_all_collection_keys(self) -> list[str]:
        """Names of the collections that hold something."""
        return [k for k, v in self.collections.items() if v]

    def save(self, path: str | Path, max_nodes: int | None = None) -> None:
        """Write the graph: as a GraphDef to .pb (binary) or .pbtxt, as a picture to .dot, .svg,
        .png or .pdf.

        A picture has at most `max_nodes` nodes (200 by default): name scopes are folded until it
        fits. All but .dot need Graphviz' `dot`.

        Raises:
            XlanbError: the extension is none of these, the file name is invalid, or `dot` is
                missing.
        """
        path = path_to_write(path)
        if path.suffix == ".pb":
            path.write_bytes(self.to_graphdef())
        elif path.suffix == ".pbtxt":
            path.write_text(extensions.write_graphdef_text(self), encoding="utf-8")
        else:
            extensions.write_picture(self.record(), path, max_nodes or _DRAWN)

    def record(self) -> GraphRecord:
        """A frozen snapshot; the same object as long as the graph does not change."""
        if self._record is None or self._record[0] != self.version:
            self._record = (self.version, record_graph(self))
        return self._record[1]

    def __str__(self) -> str:
        return graph_text(self)

    def __repr__(self) -> str:
        return f"<tf.Graph {self.name!r}: {len(self._ops)} operations, {len(self.functions)} functions>"

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Remove what the block added if it raises, so that a rejected node leaves the graph
        unchanged.
        """
        before, names = len(self._ops), dict(self.names.in_use)
        try:
            yield
        except GraphError:
            new: Sequence[Operation] = list(self._ops.values())[before:]
            self.remove_ops(new)
            self.names.in_use = names
            raise


default_graph.make_graph.implement(Graph)

_DRAWN = 200  # nodes of a picture that a person can still read


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | set) else [value]


# C's Node::IsValid accepts letters, digits and . _ \ - / >, not starting with a sign.
# "_" begins internal names.
_NODE_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9_.\\/>-]*")
