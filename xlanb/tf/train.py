"""tf.train: optimizers, learning rates, the step counter."""

from xlanb.tf.coordinator import (
    Coordinator,
    LooperThread,
    QueueRunner,
    add_queue_runner,
    start_queue_runners,
)
from xlanb.tf.graph_defs import write_graph
from xlanb.tf.learning_rates import (
    cosine_decay,
    exponential_decay,
    inverse_time_decay,
    linear_cosine_decay,
    natural_exp_decay,
    piecewise_constant,
    piecewise_constant_decay,
    polynomial_decay,
)
from xlanb.tf.more_optimizers import (
    AdadeltaOptimizer,
    ExponentialMovingAverage,
    FtrlOptimizer,
    assign_moving_average,
)
from xlanb.tf.optimizers import (
    AdagradOptimizer,
    AdamOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    Optimizer,
    RMSPropOptimizer,
    get_or_create_global_step,
)
from xlanb.tf.saver import (
    CheckpointState,
    Saver,
    checkpoint_exists,
    get_checkpoint_state,
    latest_checkpoint,
    list_variables,
    load_variable,
)
from xlanb.tf.steps import create_global_step, get_global_step, global_step

__all__ = [
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "CheckpointState",
    "Coordinator",
    "ExponentialMovingAverage",
    "FtrlOptimizer",
    "GradientDescentOptimizer",
    "LooperThread",
    "MomentumOptimizer",
    "Optimizer",
    "QueueRunner",
    "RMSPropOptimizer",
    "Saver",
    "add_queue_runner",
    "assign_moving_average",
    "checkpoint_exists",
    "cosine_decay",
    "create_global_step",
    "exponential_decay",
    "get_checkpoint_state",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "inverse_time_decay",
    "latest_checkpoint",
    "linear_cosine_decay",
    "list_variables",
    "load_variable",
    "natural_exp_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
    "start_queue_runners",
    "write_graph",
]
