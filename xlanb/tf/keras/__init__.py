"""tf.keras in graphs: layers, activations and models that are called with tensors.

There is no fit: train with tf.train's optimizers.
"""

# ruff: noqa: F401 - names for programs to use

from __future__ import annotations

from types import SimpleNamespace

from xlanb.tf import losses as _losses
from xlanb.tf.contrib.layers import l1_l2_regularizer, l1_regularizer, l2_regularizer
from xlanb.tf.keras import activations, layers
from xlanb.tf.keras.layers import INITIALIZERS, Input
from xlanb.tf.keras.models import Model, Sequential

initializers = SimpleNamespace(**INITIALIZERS)
regularizers = SimpleNamespace(l1=l1_regularizer, l2=l2_regularizer, l1_l2=l1_l2_regularizer)
models = SimpleNamespace(Model=Model, Sequential=Sequential)
