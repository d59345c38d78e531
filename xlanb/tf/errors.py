"""tf.errors: TensorFlow's names of run-time errors, for the XlanbErrors raised here."""

from __future__ import annotations

from xlanb.errors import (
    CancelledError,
    DataLossError,
    FeedError,
    GraphError,
    InternalError,
    UninitializedError,
    UnknownOpError,
    XlanbError,
)
from xlanb.runtime.resources import DeadlineExceededError, OutOfRangeError
from xlanb.tf.gfile import NotFoundError

OpError = XlanbError
InvalidArgumentError = (FeedError, GraphError)
FailedPreconditionError = UninitializedError
UnimplementedError = UnknownOpError


class AbortedError(XlanbError):
    """A run was given up."""


class AlreadyExistsError(XlanbError):
    """An object exists already."""


class ResourceExhaustedError(XlanbError):
    """Not enough memory."""


class UnavailableError(XlanbError):
    """A resource of a run is currently unavailable."""


__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "ResourceExhaustedError",
    "UnavailableError",
    "UnimplementedError",
]
