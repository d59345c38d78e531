"""tf.profiler: parameters, float operations, times and bytes of graphs and runs.

Source: tensorflow/python/profiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.runtime.config import RunMetadata
from xlanb.runtime.step_stats import CPU, op_of
from xlanb.tf.float_operations import float_operations
from xlanb.tf.profile_views import (
    COLUMNS,
    Figure,
    ProfileNode,
    by_code,
    by_graph,
    by_scope,
    by_type,
    matches,
    table_lines,
    tree_lines,
)

_TRAINABLE = "_trainable_variables"
_LEAST = (
    "min_bytes min_peak_bytes min_residual_bytes min_output_bytes min_micros min_accelerator_micros "
    "min_cpu_micros min_params min_float_ops min_occurrence"
)
_DEFAULTS: dict[str, Any] = {
    "max_depth": 100,
    **dict.fromkeys(_LEAST.split(), 0),
    "order_by": "name",
    "account_type_regexes": [".*"],
    "start_name_regexes": [".*"],
    "trim_name_regexes": [],
    "show_name_regexes": [".*"],
    "hide_name_regexes": [],
    "account_displayed_op_only": False,
    "select": ["micros"],
    "step": -1,
    "output": "stdout",
}


_VIEWS: dict[str, Callable[[Graph, Sequence[Figure], Mapping[str, Any]], ProfileNode]] = {
    "scope": lambda _, figures, options: by_scope(figures, options),
    "op": lambda _, figures, options: by_type(figures, options),
    "graph": by_graph,
    "code": by_code,
}


class ProfileOptionBuilder:
    """Build the options of `profile`: a dictionary.

    builder = tf.profiler.ProfileOptionBuilder
    options = builder(builder.time_and_memory()).with_max_depth(4).order_by("micros").build()
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = dict(_DEFAULTS if options is None else options)

    @staticmethod
    def trainable_variables_parameter() -> dict[str, Any]:
        """Options that count the parameters of trainable variables."""
        return {
            **_DEFAULTS, "max_depth": 10000, "account_type_regexes": [_TRAINABLE], "account_displayed_op_only": True,
            "select": ["params"],
        }  # fmt: skip

    @staticmethod
    def float_operation() -> dict[str, Any]:
        """Options that count float operations."""
        return {
            **_DEFAULTS, "max_depth": 10000, "min_float_ops": 1, "account_displayed_op_only": True,
            "order_by": "float_ops", "select": ["float_ops"],
        }  # fmt: skip

    @staticmethod
    def time_and_memory(min_micros: int = 1, min_bytes: int = 1, **others: int) -> dict[str, Any]:
        """Options that show times and bytes of a traced run."""
        return {
            **_DEFAULTS, "max_depth": 10000, "min_micros": min_micros, "min_bytes": min_bytes, **others,
            "account_displayed_op_only": True, "order_by": "micros", "select": ["micros", "bytes"],
        }  # fmt: skip

    def build(self) -> dict[str, Any]:
        """The options."""
        return dict(self._options)

    def _with(self, **options: Any) -> ProfileOptionBuilder:
        self._options.update(options)
        return self

    def with_max_depth(self, max_depth: int) -> ProfileOptionBuilder:
        """Show levels up to this depth."""
        return self._with(max_depth=max_depth)

    def with_min_memory(self, min_bytes: int = 0, **others: int) -> ProfileOptionBuilder:
        """Show what requested at least `min_bytes`."""
        return self._with(min_bytes=min_bytes, **others)

    def with_min_execution_time(self, min_micros: int = 0, **others: int) -> ProfileOptionBuilder:
        """Show what took at least `min_micros`."""
        return self._with(min_micros=min_micros, **others)

    def with_min_parameters(self, min_params: int) -> ProfileOptionBuilder:
        """Show what has at least `min_params` parameters."""
        return self._with(min_params=min_params)

    def with_min_float_operations(self, min_float_ops: int) -> ProfileOptionBuilder:
        """Show what takes at least `min_float_ops` float operations."""
        return self._with(min_float_ops=min_float_ops)

    def with_min_occurrence(self, min_occurrence: int) -> ProfileOptionBuilder:
        """Show op types that occur at least `min_occurrence` times."""
        return self._with(min_occurrence=min_occurrence)

    def with_accounted_types(self, account_type_regexes: Sequence[str]) -> ProfileOptionBuilder:
        """Count nodes whose op type or device matches; "_trainable_variables" are variables."""
        return self._with(account_type_regexes=list(account_type_regexes))

    def with_node_names(
        self, start_name_regexes: Sequence[str] | None = None, show_name_regexes: Sequence[str] | None = None,
        hide_name_regexes: Sequence[str] | None = None, trim_name_regexes: Sequence[str] | None = None,
    ) -> ProfileOptionBuilder:  # fmt: skip
        """Show nodes by their names."""
        given = {
            "start_name_regexes": start_name_regexes, "show_name_regexes": show_name_regexes,
            "hide_name_regexes": hide_name_regexes, "trim_name_regexes": trim_name_regexes,
        }  # fmt: skip
        return self._with(**{k: list(v) for k, v in given.items() if v is not None})

    def account_displayed_op_only(self, is_true: bool) -> ProfileOptionBuilder:
        """Sum only what is shown."""
        return self._with(account_displayed_op_only=is_true)

    def with_step(self, step: int) -> ProfileOptionBuilder:
        """Keep the step's number; only one run is profiled here."""
        return self._with(step=step)

    def with_empty_output(self) -> ProfileOptionBuilder:
        """Print nothing."""
        return self._with(output="none")

    def with_stdout_output(self) -> ProfileOptionBuilder:
        """Print to the standard output."""
        return self._with(output="stdout")

    def with_file_output(self, outfile: str) -> ProfileOptionBuilder:
        """Write to a file."""
        return self._with(output=f"file:outfile={outfile}")

    def order_by(self, attribute: str) -> ProfileOptionBuilder:
        """Order by "name", "params", "float_ops", "bytes", "micros" or "occurrence"."""
        return self._with(order_by=attribute)

    def select(self, attributes: Sequence[str]) -> ProfileOptionBuilder:
        """Show these columns."""
        return self._with(select=list(attributes))


def profile(
    graph: Graph | None = None,
    run_meta: RunMetadata | None = None,
    op_log: Any = None,
    cmd: str = "scope",
    options: Mapping[str, Any] | None = None,
) -> ProfileNode:
    """Profile a graph, and print the report that the options ask for.

    Args:
        graph: by default the default graph.
        run_meta: of a traced run: `session.run(..., options=tf.RunOptions(trace_level=
            tf.RunOptions.FULL_TRACE), run_metadata=run_meta)`. Without it there are no times and
            bytes.
        op_log: not supported.
        cmd: "scope": by the hierarchy of names; "op": by op type; "graph": each op with the ops
            that it reads below it; "code": by the Python lines that made the ops.
        options: from `ProfileOptionBuilder`.

    Returns:
        The root, with its children and the totals.

    Raises:
        GraphValueError: `cmd` or an option has an unknown value.
        GraphTypeError: `op_log` is given.
    """
    if op_log is not None:
        raise GraphTypeError("tf.profiler.profile does not support op_log: leave it out")
    chosen = {**_DEFAULTS, **(options or {})}
    unknown = [s for s in chosen["select"] if s not in COLUMNS]
    if unknown or chosen["order_by"] not in {*COLUMNS, "name"}:
        raise GraphValueError(
            f"unknown attribute {(unknown or [chosen['order_by']])[0]!r}: expected one of {', '.join(COLUMNS)}"
        )
    if cmd not in _VIEWS:
        raise GraphValueError(f"cmd {cmd!r} is unknown: expected one of {', '.join(_VIEWS)}")
    profiled = graph or get_default_graph()
    root = _VIEWS[cmd](profiled, _figures(profiled, run_meta, chosen), chosen)
    body = (table_lines if cmd == "op" else tree_lines)(root, chosen)
    _write(chosen, body)
    return root


def _figures(graph: Graph, run_meta: RunMetadata | None, options: Mapping[str, Any]) -> list[Figure]:
    trainable = {v.op: v for v in graph.get_collection("trainable_variables")}
    measured = _measured(run_meta)
    found = []
    for op in graph:
        if not _is_accounted(op, op in trainable, options):
            continue
        node = ProfileNode(op.name, float_ops=float_operations(op))
        if op in trainable:
            dims = trainable[op].shape.as_tuple() or ()
            node.parameters = 0 if None in dims else _product(dims)
            node.shape = "x".join(map(str, dims)) or "1"
        node.exec_micros, node.requested_bytes, node.run_count = measured.pop(op.name, (0, 0, 0, ""))[:3]
        found.append(Figure(node, op.type))
    if options["account_type_regexes"] == [".*"]:  # what a compiled cluster ran, by the name of its kernel
        for name, (micros, size, count, kind) in measured.items():
            node = ProfileNode(name, exec_micros=micros, requested_bytes=size, run_count=count)
            found.append(Figure(node, kind))
    return found


def _product(dims: Sequence[Any]) -> int:
    total = 1
    for d in dims:
        total *= int(d)
    return total


def _measured(run_meta: RunMetadata | None) -> dict[str, tuple[int, int, int, str]]:
    """Time, bytes, number of runs and op type of what ran, by name."""
    found: dict[str, tuple[int, int, int, str]] = {}
    for device in run_meta.step_stats.dev_stats if run_meta is not None else ():
        if device.device != CPU:  # the others show what a cluster did inside, in another way
            continue
        for n in device.node_stats:
            size = sum(o.tensor_description.allocation_description.requested_bytes for o in n.output)
            micros, before, count, _ = found.get(n.node_name, (0, 0, 0, ""))
            took = n.op_end_rel_micros - n.op_start_rel_micros
            found[n.node_name] = (micros + took, before + size, count + 1, op_of(n))
    return found


def _is_accounted(op: Operation, is_trainable: bool, options: Mapping[str, Any]) -> bool:
    kinds = [op.type, op.device or "", *([_TRAINABLE] if is_trainable else [])]
    return matches(kinds, options["account_type_regexes"]) and not matches([op.name], options["trim_name_regexes"])


def _write(options: Mapping[str, Any], lines: Sequence[str]) -> None:
    kind, _, rest = str(options["output"]).partition(":")
    text = "\n".join(["Profile:", *lines]) + "\n"
    if kind == "stdout":
        sys.stdout.write(text)
    elif kind == "file":
        Path(rest.removeprefix("outfile=")).write_text(text)
    elif kind != "none":
        raise GraphValueError(f"output {options['output']!r} is unknown: expected stdout, none or file:outfile=PATH")


__all__ = ["ProfileNode", "ProfileOptionBuilder", "profile"]
