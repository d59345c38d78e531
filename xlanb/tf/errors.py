"""tf.errors: TensorFlow's names for what goes wrong in a run, as the kinds of XlanbError that are raised here."""

from __future__ import annotations

from xlanb.errors import FeedError, GraphError, UninitializedError, UnknownOpError, XlanbError
from xlanb.tf.gfile import NotFoundError

OpError = XlanbError
InvalidArgumentError = (FeedError, GraphError)
FailedPreconditionError = UninitializedError
UnimplementedError = UnknownOpError


class OutOfRangeError(XlanbError):
    """There is nothing more to take: the end of an input, or of a closed queue."""


class AbortedError(XlanbError):
    """A run was given up."""


class CancelledError(XlanbError):
    """A run was called off."""


class DeadlineExceededError(XlanbError):
    """A run took too long."""


class UnavailableError(XlanbError):
    """Something a run needs is not there now."""


__all__ = [
    "AbortedError",
    "CancelledError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "UnavailableError",
    "UnimplementedError",
]
