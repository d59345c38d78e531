"""`from xlanb.tf.python.client import timeline`: a run's step statistics as a Chrome trace."""

from xlanb.runtime.timeline import Timeline

__all__ = ["Timeline"]
