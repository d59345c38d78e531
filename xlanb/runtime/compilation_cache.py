"""The cache of compiled clusters (TensorFlow's XlaCompilationCache).

It keeps an executable per function and signature, and decides when to compile a cluster at all.

XlaLaunch, which is used here, compiles every new signature ("strict"). Behind _XlaCompile, where a
cluster can also run node by node, compilation is "lazy": at once for a cluster's first signature,
for others on the second request, and no longer once the cluster is megamorphic, that is, was
compiled more than ten times and ran less than fifty times for each. "async" compiles in a
background thread and runs node by node in the meantime.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xlanb.cpu.executable import Executable
from xlanb.debug_options import current
from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.graph.limits import stored
from xlanb.lazy_dataclass import dataclass
from xlanb.logs import VLog
from xlanb.runtime.claims import Claims, Pending
from xlanb.tf2xla.compiler import Argument, CompilationResult
from xlanb.threads import SIGNALS_S, Helper

if TYPE_CHECKING:
    import pandas as pd

Signature = tuple[Any, ...]
_Row = tuple[Any, ...]
STRICT, LAZY, ASYNC = "strict", "lazy", "async"
COMPILE_THRESHOLD: Final = 2  # requests for a signature before it is compiled lazily
MEGAMORPHIC_COMPILATIONS: Final = 10
EXECUTIONS_PER_COMPILATION: Final = 50
MOST_ONGOING: Final = 10  # background compilations at a time
_LOG = VLog("runtime", "xla_compilation_cache")


@dataclass(slots=True)
class CompilationEntry:
    """One compiled function and its statistics.

    The result of tf2xla, the executable, the compilation's key, seconds it took, and cache hits.
    `name` and
    `arguments` are for display; `is_cluster` distinguishes a cluster from a single op.
    `run_seconds` is the total time of its runs.
    """

    result: CompilationResult
    executable: Executable
    compilation: int
    seconds: float
    hits: int = 0
    name: str = ""
    arguments: str = ""
    is_cluster: bool = True
    runs: int = 0
    run_seconds: float = 0.0
    is_cancelled: bool = False


@dataclass(slots=True)
class ClusterStats:
    """How often a cluster was requested and compiled, for any signature."""

    name: str
    executions: int = 0
    compilations: int = 0
    seconds: float = 0.0
    is_megamorphic: bool = False


def signature_of(function: str, arguments: Sequence[Argument]) -> Signature:
    """The key of a compiled function.

    It consists of the function's content, each argument's kind, shape and dtype, and constants by
    value.
    """
    return (function, *((a.kind, a.shape, None if a.value is None else _bits(a.value)) for a in arguments))


def describe(name: str, arguments: Sequence[Argument]) -> str:
    """A signature for display: "cluster_0(f32[], f32[100], const s32[2])"."""
    parts = [f"const {a.shape}" if a.kind == "constant" else str(a.shape) for a in arguments]
    return f"{name}({', '.join(parts)})"


def _bits(value: Any) -> bytes:
    """The bytes that identify a constant of a given shape and type; one element of a splat."""
    return stored(np.asarray(value)).tobytes()


def mode_in_force() -> str:
    """The mode that the current flags select: STRICT, LAZY or ASYNC."""
    options = current()
    if options.tf_xla_async_compilation:
        return ASYNC
    return LAZY if options.xlanb_lazy_compilation and options.tf_xla_enable_lazy_compilation else STRICT


class CompilationCache(Displayable):
    """Entries by signature; the least recently used are dropped beyond `capacity`. Thread-safe.

    Attributes:
        hits, misses: Counts of requests for a signature.
        table: A DataFrame with a row for each signature; `clusters` has one for each cluster.
    """

    def __init__(self, capacity: int = 256) -> None:
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[Signature, CompilationEntry] = OrderedDict()
        self._waiting: OrderedDict[Signature, tuple[str, int]] = OrderedDict()
        self._failed: OrderedDict[Signature, XlanbError] = OrderedDict()
        self._stats: OrderedDict[str, ClusterStats] = OrderedDict()
        self._dropped: deque[_Row] = deque(maxlen=capacity)
        self._is_cancelled = False
        self._lock = threading.RLock()
        self._claims: Claims[Signature] = Claims(self._lock)

    def __len__(self) -> int:
        return len(self._entries)

    # -- requests ----------------------------------------------------------------------------------

    def find(self, signature: Signature) -> CompilationEntry | None:
        """The entry of a signature, or None; counts a hit or a miss."""
        with self._lock:
            entry = self._entries.get(signature)
            if entry is None:
                self.misses += 1
                return None
            self._hit(signature, entry)
            return entry

    def _hit(self, signature: Signature, entry: CompilationEntry) -> None:
        self.hits += 1
        entry.hits += 1
        self._entries.move_to_end(signature)

    def store(self, signature: Signature, entry: CompilationEntry) -> None:
        """Store an entry."""
        with self._lock:
            entry.is_cancelled = self._is_cancelled
            self._entries[signature] = entry
            self._waiting.pop(signature, None)
            while len(self._entries) > self.capacity:
                self._dropped.append(_row(self._entries.popitem(last=False)[1], "dropped"))
            stats = self._stats.get(signature[0])
            if stats is not None:
                stats.compilations += 1
                stats.seconds += entry.seconds
                few = stats.executions < EXECUTIONS_PER_COMPILATION * stats.compilations
                stats.is_megamorphic |= stats.compilations > MEGAMORPHIC_COMPILATIONS and few

    def count_run(self, entry: CompilationEntry, seconds: float = 0.0) -> None:
        """Count one run of an entry, and its time."""
        with self._lock:
            entry.runs += 1
            entry.run_seconds += seconds

    def register_execution(self, function: str, name: str) -> bool:
        """Count an execution of a cluster, given by its content; return whether it is the first."""
        with self._lock:
            stats = self._stats.setdefault(function, ClusterStats(name))
            self._stats.move_to_end(function)
            _shorten(self._stats, self.capacity)
            stats.executions += 1
            return stats.executions == 1

    def was_compiled(self, function: str) -> bool:
        """Whether a cluster was compiled before, for any signature."""
        stats = self._stats.get(function)
        return stats is not None and stats.compilations > 0

    def wants(self, signature: Signature, text: str, *, is_first: bool, mode: str) -> bool:
        """Whether to compile a missing signature now (TensorFlow's ShouldCompileCluster).

        Counts the request.

        Raises:
            XlanbError: Its compilation in the background failed.
        """
        with self._lock:
            if signature in self._failed:
                raise self._failed[signature]
            count = self._waiting.get(signature, ("", 0))[1] + 1
            self._waiting[signature] = (text, count)
            self._waiting.move_to_end(signature)
            _shorten(self._waiting, self.capacity)
            stats = self._stats.get(signature[0])
            if mode == STRICT:
                return True
            if stats is not None and stats.is_megamorphic:
                _LOG.vlog(2, "Not compiling cluster %s because it is megamorphic.", stats.name)
                return False
            if is_first:
                return True
            if mode == ASYNC:
                return sum(p.thread == 0 for p in self._claims.pending.values()) < MOST_ONGOING
            reached = count >= COMPILE_THRESHOLD
            if not reached:
                _LOG.vlog(
                    2, "Not compiling %s because it has not reached compile threshold; requested %d times", text, count
                )
            return reached

    # -- compiling once ----------------------------------------------------------------------------

    def claim(self, signature: Signature) -> AbstractContextManager[CompilationEntry | Pending]:
        """Enter a block in which only this thread compiles a signature (see claims).

        Yields the entry if another thread has made it in the meantime.
        """

        def find() -> CompilationEntry | None:
            entry = self._entries.get(signature)
            if entry is not None:
                self.misses -= 1
                self._hit(signature, entry)
            return entry

        return self._claims.claim(signature, find)

    def compile_later(self, signature: Signature, work: Callable[[], CompilationEntry]) -> None:
        """Compile in a background thread, unless that is in progress.

        An error is raised by the next `wants`.
        """
        with self._lock:
            if signature in self._claims.pending or signature in self._entries:
                return
            claim = self._claims.pending[signature] = Pending(0)
        context = copy_context()

        def run() -> None:
            try:
                entry = context.run(work)
                self.store(signature, entry)
            except XlanbError as error:
                with self._lock:
                    self._failed[signature] = error
                    _shorten(self._failed, self.capacity)
            finally:
                with self._lock:
                    self._claims.pending.pop(signature, None)
                claim.done.set()

        Helper(run, daemon=True).start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until background compilations have finished, at most `timeout` seconds.

        Returns whether they have.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                pending = next((p for p in self._claims.pending.values() if p.thread == 0), None)
            if pending is None:
                return True
            left = SIGNALS_S if end is None else end - time.monotonic()
            if not pending.done.wait(min(SIGNALS_S, max(0.0, left))) and left <= 0:
                return False

    def cancel(self) -> None:
        """Stop current and future calls of compiled functions; each raises CancelledError."""
        with self._lock:
            self._is_cancelled = True
            entries = list(self._entries.values())
            for e in entries:
                e.is_cancelled = True
        for e in entries:
            e.executable.cancel()

    def clear(self) -> None:
        """Remove every entry; the counts, and the rows of the table, remain."""
        with self._lock:
            self._dropped.extend(_row(e, "dropped") for e in self._entries.values())
            self._entries.clear()
            self._waiting.clear()
            self._failed.clear()

    # -- display -----------------------------------------------------------------------------------

    @property
    def table(self) -> pd.DataFrame:
        """A row for each signature, the most recently used last.

        Columns: name, kind ("cluster" or "op"), signature, state ("compiled", "dropped",
        "compiling", "asked for N times", "failed: ..."), compilation (its key in traces),
        compile_ms, hits, runs, run_ms (of all runs).
        """
        import pandas as pd

        columns = ["name", "kind", "signature", "state", "compilation", "compile_ms", "hits", "runs", "run_ms"]
        with self._lock:
            rows = [*self._dropped, *(_row(e, "compiled") for e in self._entries.values())]
            for signature, (text, count) in self._waiting.items():
                if signature not in self._entries:
                    name = text.partition("(")[0]
                    rows.append((name, "cluster", text, self._state(signature, count), None, 0.0, 0, 0, 0.0))
        return pd.DataFrame(rows, columns=columns).astype({"compilation": "Int64"})

    def _state(self, signature: Signature, count: int) -> str:
        if signature in self._claims.pending:
            return "compiling"
        if signature in self._failed:
            return f"failed: {str(self._failed[signature]).splitlines()[0]}"
        stats = self._stats.get(signature[0])
        words = f"requested {count} time{'s' * (count != 1)}"
        return f"megamorphic, {words}" if stats is not None and stats.is_megamorphic else words

    @property
    def clusters(self) -> pd.DataFrame:
        """A row for each cluster: name, executions, compilations, compile_ms (all), megamorphic."""
        import pandas as pd

        with self._lock:
            rows = [
                (s.name, s.executions, s.compilations, s.seconds * 1e3, s.is_megamorphic) for s in self._stats.values()
            ]
        return pd.DataFrame(rows, columns=["name", "executions", "compilations", "compile_ms", "megamorphic"])

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """The tables that a notebook shows."""
        return (("Compilations", self.table), ("Clusters", self.clusters))

    def __str__(self) -> str:
        lines = [repr(self)]
        with self._lock:
            lines += [
                f"  {e.arguments}: compiled in {e.seconds * 1e3:.0f} ms, {e.hits} hits, {e.runs} runs"
                for e in self._entries.values()
            ]
            for signature, (text, count) in self._waiting.items():
                lines.append(f"  {text}: {self._state(signature, count)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"<CompilationCache: {len(self)} of {self.capacity} entries, {self.hits} hits, {self.misses} misses, "
            f"{sum(e.seconds for e in list(self._entries.values())):.2f} s of compilation>"
        )


def _row(e: CompilationEntry, state: str) -> _Row:
    kind = "cluster" if e.is_cluster else "op"
    return (e.name, kind, e.arguments, state, e.compilation, e.seconds * 1e3, e.hits, e.runs, e.run_seconds * 1e3)


def _shorten(items: OrderedDict[Any, Any], capacity: int) -> None:
    while len(items) > capacity:
        items.popitem(last=False)
