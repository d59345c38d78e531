"""tf.layers: layers as functions, with variables in their own scopes, as in TensorFlow 1.15.

Source: python/layers.
"""

from __future__ import annotations

from xlanb.tf.layers.base import Layer
from xlanb.tf.layers.convolutional import (
    Conv,
    Conv1D,
    Conv2D,
    Conv2DTranspose,
    SeparableConv2D,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    separable_conv2d,
)
from xlanb.tf.layers.core import Dense, Dropout, Flatten, dense, dropout, flatten
from xlanb.tf.layers.normalization import BatchNormalization, batch_normalization
from xlanb.tf.layers.pooling import (
    AveragePooling2D,
    MaxPooling2D,
    average_pooling1d,
    average_pooling2d,
    average_pooling3d,
    max_pooling1d,
    max_pooling2d,
    max_pooling3d,
)
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest

__all__ = [
    "AveragePooling2D",
    "BatchNormalization",
    "Conv",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Dense",
    "Dropout",
    "Flatten",
    "Layer",
    "MaxPooling2D",
    "SeparableConv2D",
    "average_pooling1d",
    "average_pooling2d",
    "average_pooling3d",
    "batch_normalization",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "dense",
    "dropout",
    "flatten",
    "max_pooling1d",
    "max_pooling2d",
    "max_pooling3d",
    "separable_conv2d",
]

__getattr__ = _naming_the_nearest(__name__)
