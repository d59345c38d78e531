"""tf.contrib.learn: its data sets, as the tutorials of 2017 and 2018 load them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from xlanb.errors import ArgumentError, nearest
from xlanb.tf.examples.tutorials.mnist import input_data
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest


def load_dataset(name: str, size: str = "small", test_with_fake_data: bool = False) -> Any:
    """Load the data set "mnist": train, validation and test, float images in [0, 1], integer
    labels.

    Raises:
        ArgumentError: another name.
    """
    del size
    if name != "mnist":
        raise ArgumentError(f"no data set {name!r} in xlanb{nearest(name, ['mnist'])}")
    return input_data.read_data_sets("MNIST-data", fake_data=test_with_fake_data)


datasets = SimpleNamespace(load_dataset=load_dataset, mnist=input_data)
__getattr__ = _naming_the_nearest(__name__)
