"""Compare one program compiled for several targets: kernels, time, memory, and fusion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from xlanb.display import Displayable
from xlanb.dump.tpu.schedule import TpuScheduleRecord
from xlanb.errors import ArgumentError, DumpError
from xlanb.explorer.diff import TraceDiff, diff_modules, diff_traces, last_module
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.peers.targets.own import OWN, OwnTrace, trace_for
from xlanb.peers.targets.trace import TargetTrace
from xlanb.runtime.gpu_program import GpuProgram

if TYPE_CHECKING:
    import pandas as pd

_RUNS_OTHERS = frozenset({HloOpcode.WHILE, HloOpcode.CONDITIONAL, HloOpcode.CALL, HloOpcode.ASYNC_START})
_NO_KERNEL = _RUNS_OTHERS | {
    HloOpcode.PARAMETER, HloOpcode.CONSTANT, HloOpcode.TUPLE, HloOpcode.GET_TUPLE_ELEMENT, HloOpcode.BITCAST,
}  # fmt: skip
"""Opcodes that do no work of their own."""
_PLAIN = frozenset({HloOpcode.PARAMETER, HloOpcode.CONSTANT, HloOpcode.BROADCAST, HloOpcode.IOTA})


AnyTrace = TargetTrace | OwnTrace
"""A compilation by the real XLA, or by xlanb."""


@dataclass(frozen=True)
class TargetComparison(Displayable):
    """One program compiled for several targets, by several versions of XLA or by xlanb.

    `traces` are in the requested order.
    """

    traces: tuple[AnyTrace, ...]
    names: tuple[str, ...]

    @cached_property
    def facts(self) -> pd.DataFrame:
        """One row per fact, one column per target.

        Times are roofline estimates, not measured: of each kernel and its launch for a GPU, of the
        whole program for a TPU.
        """
        import pandas as pd

        columns = {name: _facts(trace) for name, trace in zip(self.names, self.traces, strict=True)}
        rows = list(dict.fromkeys(row for found in columns.values() for row in found))
        return pd.DataFrame({name: [found.get(row, "") for row in rows] for name, found in columns.items()}, index=rows)

    @cached_property
    def placement(self) -> pd.DataFrame:
        """The kernels of each operation of the program.

        One row per operation, by JAX's name; a column of kernels for each target.
        """
        import pandas as pd

        held = [self._held(t) for t in self.traces]
        rows = [name for name in _op_names(_first_module(self.traces[0])) if any(name in h for h in held)]
        data = {n: [", ".join(h.get(row, ())) for row in rows] for n, h in zip(self.names, held, strict=True)}
        return pd.DataFrame(data, index=pd.Index(rows, name="operation"))

    @cached_property
    def fused_differently(self) -> pd.DataFrame:
        """Producer-consumer pairs that share a kernel for some targets only."""
        import pandas as pd

        held = [self._held(t) for t in self.traces]
        rows: list[dict[str, str]] = []
        for producer, consumer in edges(_first_module(self.traces[0])):
            said = [together(h, producer, consumer) for h in held]
            if len({s for s in said if s}) > 1:
                rows.append({"producer": producer, "consumer": consumer} | dict(zip(self.names, said, strict=True)))
        return pd.DataFrame(rows, columns=["producer", "consumer", *self.names])

    @cached_property
    def first_differences(self) -> tuple[str, ...]:
        """For each two neighbours the first pass after which their modules differ, in words."""
        return tuple(
            _first_difference(f"{one} and {other}", diff_traces(a, b))
            for (one, a), (other, b) in pairwise(zip(self.names, self.traces, strict=True))
        )

    def diff(self, a: int | str = 0, b: int | str = 1) -> TraceDiff:
        """Two of the compilations compared, pass by pass; by name or position."""
        return diff_traces(self[a], self[b])

    def __getitem__(self, key: int | str) -> AnyTrace:
        """Return the trace of a target.

        Raises:
            ArgumentError: there is none of that name.
        """
        if isinstance(key, int):
            return self.traces[key]
        if key not in self.names:
            raise ArgumentError(f"{key!r} is not one of the targets: {', '.join(self.names)}")
        return self.traces[self.names.index(key)]

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """The tables for a notebook."""
        found = [("side by side", self.facts)]
        if len(self.traces) > 1:
            found += [("in one kernel in one of them only", self.fused_differently), ("kernels", self.placement)]
        return tuple((title, frame) for title, frame in found if len(frame))

    def _held(self, trace: AnyTrace) -> Mapping[str, tuple[str, ...]]:
        return holders(last_module(trace))

    def __str__(self) -> str:
        parts = [self.facts.to_string()]
        different = self.fused_differently
        if len(different):
            parts.append(f"in one kernel in one of them only:\n{different.to_string(index=False)}")
        return "\n\n".join([*parts, *self.first_differences])

    def __repr__(self) -> str:
        return f"<TargetComparison {', '.join(self.names)}>"


def side_by_side(
    x: Any,
    *arrays: Any,
    targets: Sequence[str],
    pythons: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> TargetComparison:
    """Compile one program for several targets with the real XLA; options as in
    `xlanb.peers.xla.trace`.

    A target such as "xlanb a100" is compiled by xlanb itself, for comparison. With `pythons`,
    interpreters of other environments ("" is this one), each target is compiled by the XLA of each,
    to compare versions.

    Raises:
        MissingPeerError: a target's compiler is not installed.
        ArgumentError: a target's name is unknown, or there is no target.
        XlanbError: the real XLA rejects the program.
    """
    if not targets:
        raise ArgumentError("targets is empty: give at least one target")
    if pythons and "python" in options:
        raise ArgumentError("give python= or pythons=, not both")
    own = options.pop("python", "")
    traces = []
    for target in targets:
        for python in pythons or (own,):
            progress_of = progress if progress is None else partial(_prefixed, progress, target)
            traces.append(trace_for(x, arrays, target, python=python, progress=progress_of, **options))
    return TargetComparison(tuple(traces), tuple(names_of(traces)))


def _prefixed(progress: Callable[[str], None], target: str, text: str) -> None:
    progress(f"{target}: {text}")


def names_of(traces: Sequence[AnyTrace]) -> Iterator[str]:
    """Name each trace by its target, with the version of XLA if there are several."""
    releases = {t.release for t in traces if t.release != OWN}
    for t in traces:
        name = f"{OWN} {t.target}" if t.release == OWN else str(t.target)
        yield f"{name} (jax {t.release})" if len(releases) > 1 and t.release != OWN else name


def _facts(trace: AnyTrace) -> dict[str, object]:
    last = last_module(trace)
    kinds = [i.opcode for c in _run_apart(last) for i in c.instructions]
    facts: dict[str, object] = {
        "device": trace.target.device.name if trace.target.device is not None else trace.device_kind,
        "XLA of jax": trace.release if trace.release != OWN else "",
        "stages that changed something": len(trace.changed),
        "instructions": last.instruction_count,
        "fusions": kinds.count(HloOpcode.FUSION),
        "collectives": sum(str(k).startswith(_COLLECTIVES) and not str(k).endswith("-done") for k in kinds),
        "compile seconds": round(trace.compile_seconds, 2),
    }
    for stage in trace:
        if isinstance(stage.after, GpuProgram):
            facts |= _gpu_facts(stage.after)
        elif isinstance(stage.after, TpuScheduleRecord):
            facts |= _tpu_facts(stage.after, trace.cost)
    names = {
        "argument_size_in_bytes": "arguments",
        "output_size_in_bytes": "results",
        "temp_size_in_bytes": "temporaries",
    }
    return facts | {f"bytes of {word}": int(trace.memory[key]) for key, word in names.items() if key in trace.memory}


_COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-", "ragged-all-to-all")


def _gpu_facts(program: GpuProgram) -> dict[str, object]:
    kernels = program.kernels
    costs = [(k.cost, max(k.launches, 1)) for k in kernels if k.cost is not None]
    facts: dict[str, object] = {
        "kernels": len(kernels),
        "launches": sum(bool(x.row) for x in program.launches),
        "estimated us": round(program.seconds * 1e6, 2),
        "flops": int(sum(c.flops * n for c, n in costs)),
        "bytes moved": int(sum(c.bytes * n for c, n in costs)),
        "kernels that spill": sum(k.resources is not None and k.resources.spills for k in kernels),
    }
    return facts | _loop_caveats(program.unknown_loops)


def _loop_caveats(loops: int) -> dict[str, object]:
    """Caveats of the estimates of a program with loops."""
    return {"loops counted once": loops} if loops else {}


def _tpu_facts(schedule: TpuScheduleRecord, cost: Mapping[str, float]) -> dict[str, object]:
    facts: dict[str, object] = {
        "kernels": len({i.program for i in schedule.instructions if i.program}),
        "bundles": schedule.bundles,
        "matrix units used": f"{schedule.mxu_share:.0%}",
        "flops": int(cost.get("flops", 0)),
        "bytes moved": int(cost.get("bytes accessed", 0)),
    }
    facts |= _loop_caveats(sum(i.opcode == HloOpcode.WHILE.text for i in schedule.instructions))
    try:
        roofline = schedule.roofline()
    except DumpError:  # the dump names no chip that is known
        return facts
    longest = max(roofline.static_seconds, roofline.compute_seconds, roofline.memory_seconds)
    return facts | {"estimated us": round(longest * 1e6, 2), "bound": roofline.bound}


def _first_module(trace: AnyTrace) -> ModuleRecord:
    return next(s.after for s in trace if isinstance(s.after, ModuleRecord))


def _run_apart(module: ModuleRecord) -> list[ComputationRecord]:
    """Return the computations whose instructions are kernels of their own.

    These are the entry, and the computations of loops, branches and calls.
    """
    found, left = [], [module.entry]
    while left:
        computation = module.by_name[left.pop()]
        found.append(computation)
        for i in computation.instructions:
            if i.opcode in _RUNS_OTHERS:
                left += [c for c in i.called_computations if all(c != f.name for f in found)]
    return found


def holders(module: ModuleRecord) -> dict[str, tuple[str, ...]]:
    """The kernels that hold each operation, by JAX's name of it."""
    held: dict[str, dict[str, None]] = {}
    for computation in _run_apart(module):
        for kernel in computation.instructions:
            if kernel.opcode in _NO_KERNEL:
                continue
            for i in (kernel, *_inside(module, kernel)):
                if i.metadata.op_name and i.opcode not in _PLAIN:
                    held.setdefault(i.metadata.op_name, {})[kernel.name] = None
    return {name: tuple(kernels) for name, kernels in held.items()}


def _inside(module: ModuleRecord, kernel: InstructionRecord) -> Iterator[InstructionRecord]:
    """The instructions of the computations that a kernel calls."""
    left, seen = list(kernel.called_computations), set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        for i in module.by_name[name].instructions:
            yield i
            left += i.called_computations


def _op_names(module: ModuleRecord) -> list[str]:
    """JAX's names of the operations, in the order of the program."""
    every = (i for c in reversed(module.computations) for i in c.instructions if i.opcode not in _PLAIN)
    return list(dict.fromkeys(i.metadata.op_name for i in every if i.metadata.op_name))


def edges(module: ModuleRecord) -> list[tuple[str, str]]:
    """Return pairs of JAX's operation names, producer and consumer."""
    found: dict[tuple[str, str], None] = {}
    for computation in module.computations:
        for i in computation.instructions:
            for operand in i.operands:
                producer = computation.by_name[operand]
                names = producer.metadata.op_name, i.metadata.op_name
                if all(names) and names[0] != names[1] and not {producer.opcode, i.opcode} & _PLAIN:
                    found[names] = None
    return list(found)


def together(held: Mapping[str, tuple[str, ...]], producer: str, consumer: str) -> str:
    """Whether two operations share a kernel: "fused", "apart", or "" if one is gone."""
    if producer not in held or consumer not in held:
        return ""
    return "fused" if set(held[producer]) & set(held[consumer]) else "apart"


def _first_difference(names: str, diff: TraceDiff) -> str:
    for a, b in diff.pairs:
        if a is None or b is None or not (a.changed or b.changed):
            continue
        if (
            isinstance(a.after, ModuleRecord)
            and isinstance(b.after, ModuleRecord)
            and not diff_modules(a.after, b.after).is_equal
        ):
            where = "/".join(a.pipeline)
            return f"{names} first differ after {a.name}{f' ({where})' if where else ''}"
    return f"{names}: the modules are equal after all common passes"
