"""The versions that tf.VERSION and its siblings tell."""

VERSION = "1.15.0"
"""The TensorFlow version whose names these are."""
GIT_VERSION, COMPILER_VERSION, GRAPH_DEF_VERSION = "xlanb", "llvmlite", 134
