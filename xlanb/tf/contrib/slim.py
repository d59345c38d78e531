"""tf.contrib.slim: contrib's layers, argument scopes and losses, and a training loop."""

# ruff: noqa: F401 - names for programs to use

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from xlanb.graph.builders.array_ops import identity
from xlanb.graph.builders.clip_ops import clip_by_norm
from xlanb.graph.builders.variables import GraphKeys, global_variables_initializer, local_variables_initializer
from xlanb.graph.default_graph import get_default_graph
from xlanb.runtime.session import Session
from xlanb.tf import logging, losses
from xlanb.tf.contrib.arg_scope import add_arg_scope, arg_scope, current_arg_scope, has_arg_scope
from xlanb.tf.contrib.framework import (
    create_global_step,
    get_global_step,
    get_model_variables,
    get_or_create_global_step,
    get_trainable_variables,
    get_variables,
    get_variables_to_restore,
)
from xlanb.tf.contrib.layers import (
    avg_pool2d,
    batch_norm,
    conv2d,
    conv2d_transpose,
    convolution2d,
    dropout,
    flatten,
    fully_connected,
    l1_l2_regularizer,
    l1_regularizer,
    l2_regularizer,
    layer_norm,
    linear,
    max_pool2d,
    one_hot_encoding,
    repeat,
    separable_conv2d,
    softmax,
    stack,
    variance_scaling_initializer,
    xavier_initializer,
)


def create_train_op(
    total_loss: Any, optimizer: Any, global_step: Any = None, update_ops: Any = None, variables_to_train: Any = None,
    clip_gradient_norm: float = 0, **_ignored: Any,
) -> Any:  # fmt: skip
    """The loss, after a step of the optimizer and after the moving averages' updates."""
    graph = get_default_graph()
    step = get_or_create_global_step() if global_step is None else global_step
    updates = graph.get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else list(update_ops)
    with graph.control_dependencies(updates):
        total_loss = identity(total_loss)
    pairs = optimizer.compute_gradients(total_loss, variables_to_train)
    if clip_gradient_norm:
        pairs = [(clip_by_norm(g, clip_gradient_norm), v) for g, v in pairs if g is not None]
    done = optimizer.apply_gradients(pairs, global_step=step)
    with graph.control_dependencies([done]):
        train_op = identity(total_loss, name="train_op")
    graph.add_to_collection(GraphKeys.TRAIN_OP, train_op)
    return train_op


def train(
    train_op: Any, logdir: str | None = None, number_of_steps: int | None = None, log_every_n_steps: int = 1,
    init_op: Any = None,
    init_feed_dict: Any = None, init_fn: Any = None, session_config: Any = None, **_ignored: Any,
) -> float:  # fmt: skip
    """Run the training step `number_of_steps` times; return the last loss. `logdir` is not used."""
    with Session(config=session_config) as session:
        session.run(init_op or global_variables_initializer(), init_feed_dict)
        session.run(local_variables_initializer())
        if init_fn is not None:
            init_fn(session)
        loss = float("nan")
        for step in range(1, (number_of_steps or 1) + 1):
            loss = float(np.asarray(session.run(train_op)))
            if step % log_every_n_steps == 0:
                logging.info("global step %d: loss = %.4f", step, loss)
        return loss


learning = SimpleNamespace(create_train_op=create_train_op, train=train)
