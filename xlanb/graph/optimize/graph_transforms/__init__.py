"""The transforms of TensorFlow's Graph Transform Tool, by name, on GraphDefs.

    transforms = parse_transforms(["strip_unused_nodes", "remove_nodes(op=Identity, op=Snapshot)"])

Each takes a GraphDef message and returns a new one. Source of the semantics: the README and the
sources of tensorflow/tools/graph_transforms, which was in TensorFlow 1.0 to 2.3.
"""
