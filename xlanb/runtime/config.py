"""Plain values that configure a session: the messages of config.proto that programs set."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from xlanb.display import Displayable
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.step_stats import StepStats, timeline_figure

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class OptimizerOptions:
    """`global_jit_level` ON_1 or ON_2 makes every session run cluster and compile.

    OFF and DEFAULT do not.
    """

    DEFAULT = 0
    OFF = -1
    ON_1 = 1
    ON_2 = 2
    L0 = -1
    L1 = 0

    do_common_subexpression_elimination: bool = False
    do_constant_folding: bool = False
    do_function_inlining: bool = False
    max_folded_constant_in_bytes: int = 0
    opt_level: int = 0
    global_jit_level: int = 0
    cpu_global_jit: bool = False


@dataclass
class RewriterConfig:
    """Which of TensorFlow's graph rewriters run; accepted for compatibility."""

    DEFAULT = 0
    ON = 1
    OFF = 2
    AGGRESSIVE = 3

    disable_meta_optimizer: bool = False
    constant_folding: int = 0
    arithmetic_optimization: int = 0
    remapping: int = 0
    layout_optimizer: int = 0


@dataclass
class GraphOptions:
    """Options for preparing a graph."""

    optimizer_options: OptimizerOptions = field(default_factory=OptimizerOptions)
    rewrite_options: RewriterConfig = field(default_factory=RewriterConfig)
    enable_bfloat16_sendrecv: bool = False
    infer_shapes: bool = False
    place_pruned_graph: bool = False
    build_cost_model: int = 0


@dataclass
class GPUOptions:
    """GPU options, accepted for compatibility and ignored: there are no GPUs here."""

    allow_growth: bool = False
    per_process_gpu_memory_fraction: float = 0.0
    visible_device_list: str = ""


@dataclass
class ConfigProto:
    """The argument of `tf.Session(config=...)`."""

    device_count: dict[str, int] = field(default_factory=dict)
    intra_op_parallelism_threads: int = 0
    inter_op_parallelism_threads: int = 0
    allow_soft_placement: bool = False
    log_device_placement: bool = False
    gpu_options: GPUOptions = field(default_factory=GPUOptions)
    graph_options: GraphOptions = field(default_factory=GraphOptions)


@dataclass
class RunOptions:
    """Options of one `Session.run`."""

    NO_TRACE = 0
    SOFTWARE_TRACE = 1
    HARDWARE_TRACE = 2
    FULL_TRACE = 3

    trace_level: int = 0
    timeout_in_ms: int = 0
    output_partition_graphs: bool = False


@dataclass
class RunMetadata(Displayable):
    """Metadata of one `Session.run`.

    A traced run (RunOptions.FULL_TRACE) fills `step_stats`.
    """

    step_stats: StepStats = field(default_factory=StepStats)
    cost_graph: Any = None
    partition_graphs: list[Any] = field(default_factory=list)

    def __repr__(self) -> str:
        return repr(self.step_stats).replace("StepStats", "RunMetadata", 1)

    def __str__(self) -> str:
        return str(self.step_stats).replace("StepStats", "RunMetadata", 1)

    @property
    def headline(self) -> str:
        """The line above the tables."""
        return repr(self)

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """The tables that a notebook shows."""
        return self.step_stats.tables

    def figure(self, other: RunMetadata | None = None) -> Any:
        """The run as a plotly Figure.

        With another run of the same program above it, ops are linked to the fusions that contain
        them.

        Raises:
            XlanbError: The run was not traced.
        """
        return timeline_figure(self.step_stats, None if other is None else other.step_stats)
