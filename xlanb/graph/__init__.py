"""TensorFlow graphs: operations, functions, gradients, GraphDef."""
