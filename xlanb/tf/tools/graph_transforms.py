"""`tensorflow.tools.graph_transforms` of TensorFlow 1: TransformGraph on frozen graphs."""

from xlanb.runtime.graph_transforms import TransformGraph

__all__ = ["TransformGraph"]
