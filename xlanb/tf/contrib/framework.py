"""tf.contrib.framework: argument scopes, the step counter, lists of variables.

Source: contrib/framework/python/ops.
"""

from __future__ import annotations

from typing import Any

from xlanb.graph.builders.nest import flatten, map_structure
from xlanb.graph.builders.variables import GraphKeys
from xlanb.graph.default_graph import get_default_graph
from xlanb.tf.contrib.arg_scope import add_arg_scope, arg_scope, current_arg_scope, has_arg_scope
from xlanb.tf.optimizers import get_or_create_global_step
from xlanb.tf.saver import list_variables, load_variable
from xlanb.tf.steps import create_global_step, get_global_step

__all__ = [
    "add_arg_scope",
    "arg_scope",
    "create_global_step",
    "current_arg_scope",
    "flatten",
    "get_global_step",
    "get_model_variables",
    "get_or_create_global_step",
    "get_trainable_variables",
    "get_variables",
    "get_variables_to_restore",
    "has_arg_scope",
    "list_variables",
    "load_variable",
    "map_structure",
]


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = GraphKeys.GLOBAL_VARIABLES
) -> list[Any]:
    """Return variables whose names begin with a scope and end with a suffix."""
    name = getattr(scope, "name", scope)
    found = get_default_graph().get_collection(collection, name)
    return [v for v in found if suffix is None or v.op.name.endswith(suffix)]


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """Return the variables that optimizers update."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """All variables: no list of a model's own is kept."""
    return get_variables(scope, suffix)


def get_variables_to_restore(include: Any = None, exclude: Any = None) -> list[Any]:
    """Variables of the scopes `include`, but for those of the scopes `exclude`."""
    found = get_variables() if include is None else [v for s in include for v in get_variables(s)]
    return [v for v in found if not any(v.op.name.startswith(s) for s in exclude or ())]
