"""Session: runs parts of a graph, with persistent variables (TensorFlow 1's tf.Session)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeGuard, runtime_checkable

import numpy as np

from xlanb.boundary import array_of, boundary
from xlanb.debug_options import current
from xlanb.display import Displayable
from xlanb.dump.writer import dumping
from xlanb.errors import FeedError, GraphError, nearest
from xlanb.frames import framed
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.default_session import pop_session, push_session, session_scope
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.lazy_dataclass import dataclass
from xlanb.memory import out_of_memory
from xlanb.runtime.claims import Claims, watched
from xlanb.runtime.compilation_cache import CompilationCache
from xlanb.runtime.config import ConfigProto, RunMetadata, RunOptions
from xlanb.runtime.cost_graph import cost_graph
from xlanb.runtime.executor import Executor
from xlanb.runtime.host.ops import HostState
from xlanb.runtime.prepare import prepare
from xlanb.runtime.resources import Resources
from xlanb.runtime.step_stats import StepStatsCollector, collect
from xlanb.runtime.variables import VariableHandle, VariableStore
from xlanb.stage import Stages, exhaust
from xlanb.tracing import observing

if TYPE_CHECKING:
    from xlanb.frames.frame import Frame


@runtime_checkable
class Composite(Protocol):
    """Several tensors that are fed and fetched as one, such as a sparse tensor."""

    def fetched(self) -> tuple[Sequence[Any], Callable[..., Any]]:
        """The tensors, and a function of their values."""

    def fed(self, value: Any) -> list[tuple[Tensor, Any]]:
        """The tensors with the parts of a value."""


def _is_composite(item: Any) -> TypeGuard[Composite]:
    """Whether an item is a Composite; the slow protocol check is skipped for tensors and names."""
    return not isinstance(item, Tensor | Operation | str) and isinstance(item, Composite)


class Session(Displayable):
    """Runs a graph; clusters are compiled if global_jit_level or tf_xla_auto_jit says so.

    The first is an option of the config, the second a flag. `cache` is the compilation cache of its
    runs,
    `resources` its queues, iterators and tables.

    Threads may share a session, and run it while one of them extends the graph:

    - An op that updates a variable (assign, assign_add, scatter_add, a training op such as
      ApplyGradientDescent) is atomic, whatever its use_locking says, and so is a compiled cluster
      with all its effects on variables, as with XlaLaunch: no update is lost. Reading in one op and
      writing in another, as in
      `assign(v, v + 1)`, is atomic only within one cluster.
    - Other runs see an update as soon as its op or cluster has run. A failed run restores the
      variables that it updated, except those that another run has updated since.
    - `load_variables` sets all of its variables at once; it waits for updates of them that are in
      progress.
    - An element of a queue or of an iterator goes to one run. Operations of a table are atomic. A
      stateful random op draws each number once; which run gets it is arbitrary.
    - A graph is prepared once and a cluster compiled once for each signature, whatever the number
      of threads.
    - `close` may be called at any time: runs that are in progress or wait for a queue end with a
      CancelledError and restore their updates, later ones raise a GraphError.

    Nodes of one graph must be created by one thread at a time, as in TensorFlow.
    """

    def __init__(self, graph: Graph | str | None = None, config: ConfigProto | None = None, target: str = "") -> None:
        where = graph if isinstance(graph, str) else target  # TensorFlow 1 has the target first
        if where:
            raise GraphError(f"a session runs in this process, not at {where!r}")
        self.graph: Graph = graph if isinstance(graph, Graph) else get_default_graph()
        self.config = config or ConfigProto()
        self.cache = CompilationCache()
        self.variables = VariableStore()
        self._executors: dict[tuple[Any, ...], Executor] = {}
        self._claims: Claims[tuple[Any, ...]] = Claims(threading.Lock())
        self._generators: dict[str, np.random.Generator] = {}
        self.resources = Resources()
        self._scopes: list[Any] = []
        self._closed = False
        self._numbers = count()
        self.load_variables(self.graph.initial_values)

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        operations, variables = len(self.graph.get_operations()), len(self.variables.names())
        known = f"{operations} operation{'s' * (operations != 1)}, {variables} variable{'s' * (variables != 1)}"
        return f"<Session of graph {self.graph.name!r}: {known}, {len(self.cache)} compiled{state}>"

    def variables_table(self) -> Frame:
        """One row per variable with a value: name, dtype, shape, bytes, and small values."""
        names = self.variables.names()
        held = {name: np.asarray(value) for name, value in self.variables.get(names).items() if value is not None}
        rows = [
            (n.removeprefix("/"), str(v.dtype), str(list(v.shape)), v.nbytes, _value_text(v)) for n, v in held.items()
        ]
        return framed(rows, ["variable", "dtype", "shape", "bytes", "value"])

    # -- running -----------------------------------------------------------------------------------

    @boundary("run a graph")
    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """The values of `fetches`: tensors, operations (None), names, or nested lists and dicts.

        Tuples are allowed too. Only tensors that are fetched or needed are computed. A failed run
        restores variables (see the class for what other threads see), but not elements taken from
        queues and iterators, as in TensorFlow. With trace_level FULL_TRACE in `options`,
        `run_metadata.step_stats` is filled; with
        `output_partition_graphs`, its `partition_graphs`: the one graph that ran, as a GraphDef.
        The config's
        `graph_options.build_cost_model` fills `cost_graph`, with times if the run is traced.

        Raises:
            FeedError: A feed or fetch is missing, unknown or does not fit.
            UninitializedError: A variable without a value is read.
            XlanbError: A node fails; the message names it.
        """
        asked = options or RunOptions()
        ran: list[Graph] = []
        if run_metadata is None or asked.trace_level == RunOptions.NO_TRACE:
            with dumping(current()):
                results = exhaust(self._run_stages(fetches, feed_dict, ran))
        else:
            collector = StepStatsCollector()
            with dumping(current()), observing(collector), collect(collector):
                results = exhaust(self._run_stages(fetches, feed_dict, ran))
            run_metadata.step_stats = collector.finish()
        if run_metadata is not None:
            if asked.output_partition_graphs:
                run_metadata.partition_graphs = [g.as_graph_def(add_shapes=True) for g in ran]
            if self.config.graph_options.build_cost_model > 0:
                run_metadata.cost_graph = cost_graph(ran[0], run_metadata.step_stats)
        return results

    def run_stages(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> Stages[Any]:
        """`run`, one stage of its compilations at a time; the generator returns run's result."""
        return self._run_stages(fetches, feed_dict, [])

    def _run_stages(self, fetches: Any, feed_dict: Mapping[Any, Any] | None, ran: list[Graph]) -> Stages[Any]:
        """`run_stages`; appends the graph that runs to `ran`."""
        if self._closed:
            raise GraphError("Attempted to use a closed Session.")
        wanted = _Fetches(self.graph, fetches)
        values = {t: _fit(t, v) for t, v in self._fed(feed_dict or {})}
        tensors = sorted(values, key=lambda t: t.name)
        key = (
            self.graph.version,
            tuple(tensors),
            tuple(wanted.tensors),
            tuple(wanted.operations),
            self.is_jit,
            current(),
            *(f.version for f in tuple(self.graph.functions.values())),
        )
        executor = self._executors.get(key)
        if executor is None:
            with self._claims.claim(key, lambda: self._executors.get(key)) as claim:
                if isinstance(claim, Executor):
                    executor = claim
                else:
                    executor = yield from watched(claim, self._prepared(tensors, wanted))
                    self._executors[key] = executor
        ran.append(executor.prepared.graph)
        used = executor.prepared.feeds
        by_index = [values[tensors[t.op.attrs["index"]]] for t in used]
        transaction = self.variables.begin()
        try:
            results = yield from executor.run(by_index, HostState(transaction, self._generators, self.resources))
        except BaseException:  # an interrupt or an abandoned stepper fails the run too
            transaction.roll_back()
            raise
        transaction.commit()
        return wanted.assemble(results)

    def _prepared(self, feeds: Sequence[Tensor], wanted: _Fetches) -> Stages[Executor]:
        name = _several([*(t.name for t in wanted.tensors), *(o.name for o in wanted.operations)]) or "nothing"
        prepared = yield from prepare(
            self.graph, feeds, wanted.tensors, wanted.operations, jit=self.is_jit, name=name, numbers=self._numbers
        )
        return Executor(prepared, self.cache)

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, **_ignored: Any
    ) -> Callable[..., Any]:
        """A function from values for `feed_list` to the values of `fetches`.

        Raises:
            FeedError: A feed is not in the graph; or, when called, the number of values is wrong.
        """
        feeds = [self.fed_tensor(f) for f in feed_list or ()]

        def run(*values: Any, **named: Any) -> Any:
            if len(values) != len(feeds):
                raise FeedError(
                    f"the callable takes {len(feeds)} values ({', '.join(t.name for t in feeds)}), got {len(values)}"
                )
            return self.run(fetches, dict(zip(feeds, values, strict=True)), **named)

        return run

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        """Unsupported: raise GraphError."""
        raise GraphError(
            "partial runs are not supported: fetch the first values with one run, and feed them to another"
        )

    partial_run = partial_run_setup

    def list_devices(self) -> list[str]:
        """Names of the devices: the CPU, and XLA on it."""
        return [f"/job:localhost/replica:0/task:0/device:{d}:0" for d in ("CPU", "XLA_CPU")]

    @property
    def graph_def(self) -> Any:
        """The graph as a GraphDef message."""
        return self.graph.as_graph_def()

    def _fed(self, feed_dict: Mapping[Any, Any]) -> Iterator[tuple[Tensor, Any]]:
        """Tensors and their values; a composite (a sparse tensor, a tuple of tensors) is split."""
        for key, value in feed_dict.items():
            if _is_composite(key):
                yield from ((self.fed_tensor(k), v) for k, v in key.fed(value))
            elif isinstance(key, tuple):
                if not isinstance(value, list | tuple) or len(value) != len(key):
                    raise FeedError(f"cannot feed {value!r} for {key!r}: expected one value for each tensor")
                yield from self._fed(dict(zip(key, value, strict=True)))
            else:
                yield self.fed_tensor(key), value

    @property
    def is_jit(self) -> bool:
        """Whether runs are clustered and compiled.

        The flag tf_xla_auto_jit decides if it is not 0, otherwise the config.
        """
        level = current().tf_xla_auto_jit or self.config.graph_options.optimizer_options.global_jit_level
        return level > 0

    def fed_tensor(self, key: Any) -> Tensor:
        """The tensor of a feed dictionary's key: itself, an operation with one output, or a name.

        Raises:
            FeedError: There is none.
        """
        try:
            found = self.graph.as_graph_element(key)
        except GraphError as error:
            raise FeedError(f"cannot feed {key!r}: {error}") from None
        if isinstance(found, Operation):
            if len(found.outputs) != 1:
                raise FeedError(
                    f"cannot feed {key!r}: it is an operation with {len(found.outputs)} outputs; feed one of its "
                    "tensors"
                )
            found = found.outputs[0]
        return found

    # -- variables ---------------------------------------------------------------------------------

    def load_variables(self, values: Mapping[str, Any]) -> None:
        """Set variables by the name of their node; if one does not fit, set none.

        Raises:
            FeedError: There is no variable of that name, or an array's dtype or shape does not fit.
        """
        loaded: dict[str, np.ndarray[Any, Any]] = {}
        for name, value in values.items():
            op = self._variable(name)
            dtype = (op.outputs[0].dtype.base_dtype if op.type != "VarHandleOp" else op.attrs["dtype"]).numpy_dtype
            array = _copied(name, value)
            shape = op.attrs.get("shape")
            if array.dtype != dtype or (shape is not None and not shape.is_compatible_with(array.shape)):
                raise FeedError(f"variable {name!r} holds {dtype}{shape}, not {array.dtype}{list(array.shape)}")
            loaded[self._store_name(op)] = array
        self.variables.load(loaded)

    def read_variable(self, name: str) -> np.ndarray[Any, Any]:
        """The value of a variable by the name of its node.

        Raises:
            FeedError: There is no variable of that name.
            UninitializedError: It has no value yet.
        """
        op = self._variable(name)
        return self.variables.read(VariableHandle(self._store_name(op), op.name)).copy()

    def _variable(self, name: str) -> Operation:
        name = name.removesuffix(":0")
        if name not in self.graph or self.graph.get_operation_by_name(name).type not in (
            "VariableV2",
            "Variable",
            "VarHandleOp",
        ):
            known = [op.name for op in self.graph if op.type in ("VariableV2", "Variable", "VarHandleOp")]
            raise FeedError(f"the graph has no variable {name!r}{nearest(name, known)}")
        return self.graph.get_operation_by_name(name)

    @staticmethod
    def _store_name(op: Operation) -> str:
        return f"{op.attrs.get('container') or ''}/{op.attrs.get('shared_name') or op.name}"

    # -- context manager ---------------------------------------------------------------------------

    def as_default(self) -> Any:
        """A context in which this is the default session."""
        return session_scope(self)

    def __enter__(self) -> Self:
        scope = self.graph.as_default()
        scope.__enter__()
        self._scopes.append(scope)
        push_session(self)
        return self

    def __exit__(self, *error: object) -> None:
        pop_session(self)
        self._scopes.pop().__exit__(*error)
        self.close()

    def close(self) -> None:
        """Close the session: drop variables and code; other threads' runs raise CancelledError."""
        self._closed = True
        self.resources.close()
        self.cache.cancel()
        self._executors.clear()
        self.cache.clear()


class InteractiveSession(Session):
    """A session that becomes the default one when it is created."""

    def __init__(self, graph: Graph | str | None = None, config: ConfigProto | None = None, target: str = "") -> None:
        super().__init__(graph, config, target)
        push_session(self)

    def close(self) -> None:
        """Close the session; it is no longer the default one."""
        pop_session(self)
        super().close()


def _own(tensor: Tensor, value: np.ndarray[Any, Any]) -> Any:
    """The result of a run for a tensor: a scalar, or a writable array."""
    if value.ndim == 0:
        return value[()]
    if value.flags.writeable:
        return value
    try:
        return value.copy()
    except MemoryError as error:
        raise out_of_memory(
            f"the value of {tensor.name}, {tensor.dtype.name}{list(value.shape)}", value.nbytes
        ) from error


_FEW_VALUES = 8
_FEW_NAMES = 4


def _several(names: Sequence[str]) -> str:
    """The names of fetched and run nodes; only the first ones if there are many."""
    more = len(names) - _FEW_NAMES
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_FEW_NAMES])} and {more} more"


def _value_text(value: Any) -> str:
    """A small value in full; otherwise its range."""
    if value.size <= _FEW_VALUES:
        return " ".join(str(value.tolist()).split())
    if value.dtype.kind not in "iuf":
        return ""
    return f"{value.min():.4g} to {value.max():.4g}"


class _Fetches:
    """A structure of fetches, its tensors and operations, and how to rebuild it with values."""

    def __init__(self, graph: Graph, structure: Any) -> None:
        self.graph = graph
        self.tensors: list[Tensor] = []
        self.operations: list[Operation] = []
        self._structure = self._resolve(structure)

    def _resolve(self, item: Any) -> Any:
        if isinstance(item, Mapping):
            return {k: self._resolve(v) for k, v in item.items()}
        if isinstance(item, list | tuple):
            parts = [self._resolve(v) for v in item]
            if hasattr(item, "_fields"):
                return type(item)(*parts)
            return tuple(parts) if isinstance(item, tuple) else parts
        if _is_composite(item):
            tensors, make = item.fetched()
            return _ComposedFetch(make, [self._resolve(t) for t in tensors])
        try:
            found = self.graph.as_graph_element(item)
        except GraphError as error:
            raise FeedError(f"cannot fetch {item!r}: {error}") from None
        if isinstance(found, Operation):
            if found not in self.operations:
                self.operations.append(found)
            return None
        if found not in self.tensors:
            self.tensors.append(found)
        return _Slot(self.tensors.index(found))

    def assemble(self, values: Sequence[Any]) -> Any:
        """The structure with each tensor replaced by its value, None for operations."""

        def fill(item: Any) -> Any:
            if isinstance(item, _Slot):
                return _own(self.tensors[item.index], np.asarray(values[item.index]))
            if isinstance(item, _ComposedFetch):
                return item.make(*(fill(v) for v in item.parts))
            if isinstance(item, dict):
                return {k: fill(v) for k, v in item.items()}
            if isinstance(item, tuple):
                parts = [fill(v) for v in item]
                return type(item)(*parts) if hasattr(item, "_fields") else tuple(parts)
            return [fill(v) for v in item] if isinstance(item, list) else None

        return fill(self._structure)


@dataclass(frozen=True)
class _ComposedFetch:
    """An object created from the values of several fetches."""

    make: Callable[..., Any]
    parts: list[Any]


class _Slot:
    def __init__(self, index: int) -> None:
        self.index = index


def _copied(name: str, value: Any) -> np.ndarray[Any, Any]:
    """A copy of the array to store in a variable."""
    return array_of(
        value, lambda error: FeedError(f"variable {name!r} cannot hold {type(value).__name__}: {error}"), copy=True
    )


def _fit(tensor: Tensor, value: Any) -> np.ndarray[Any, Any]:
    """A fed value as an array of the tensor's dtype and shape.

    Raises:
        FeedError: It does not fit; names the tensor.
    """
    if isinstance(value, Tensor):
        raise FeedError(f"The value of a feed cannot be a tensor (feeding {tensor.name!r}): run it first")
    dtype = tensor.dtype.base_dtype.numpy_dtype

    def refused(error: Exception) -> FeedError:
        return FeedError(f"Cannot feed {type(value).__name__} for tensor {tensor.name!r} of dtype {dtype}: {error}")

    array = array_of(value, refused)
    if not _converts(array, dtype):
        raise FeedError(f"Cannot feed value of dtype {array.dtype} for tensor {tensor.name!r}, which has dtype {dtype}")
    array = np.asarray(array_of(array, refused, dtype), order="C")
    if not tensor.shape.is_compatible_with(array.shape):
        raise FeedError(
            f"Cannot feed value of shape {array.shape} for tensor {tensor.name!r}, which has shape {tensor.shape}"
        )
    return array


def _converts(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> bool:
    """Whether values may be cast: always within a kind, otherwise only if all are unchanged."""
    if np.can_cast(array.dtype, dtype, "same_kind"):
        return True
    if array.dtype.kind not in "biuf" or dtype.kind not in "biufcV":
        return False
    with np.errstate(invalid="ignore"):
        return bool(np.array_equal(array.astype(dtype).astype(array.dtype), array))
