"""The graph's step counter (python/training/training_util.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.errors import GraphValueError
from xlanb.graph.builders.variables import GraphKeys
from xlanb.graph.default_graph import get_default_graph
from xlanb.tf.optimizers import get_or_create_global_step


def get_global_step(graph: Any = None) -> Any:
    """Return the graph's step counter: from its collection, or the variable "global_step", or
    None.
    """
    found = (graph or get_default_graph()).get_collection(GraphKeys.GLOBAL_STEP)
    if found:
        return found[0]
    named = (graph or get_default_graph()).get_collection(GraphKeys.GLOBAL_VARIABLES, "global_step$|global_step:0$")
    return named[0] if named else None


def create_global_step(graph: Any = None) -> Any:
    """Make a step counter. Raises GraphValueError if there is one."""
    if get_global_step(graph) is not None:
        raise GraphValueError('"global_step" already exists.')
    with (graph or get_default_graph()).as_default():
        return get_or_create_global_step()


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The counter's value in a session."""
    return int(np.asarray(sess.run(global_step_tensor)))
