"""Small graphs for clustering tests: nodes by name, with Switch and Merge, loops, variables,
calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb import tf
from xlanb.graph.operation import Operation, Tensor


class Build:
    """Adds nodes of exactly the names that are given."""

    def __init__(self) -> None:
        self.graph = tf.Graph()

    def __getitem__(self, name: str) -> Tensor:
        return self.graph.get_tensor_by_name(name if ":" in name else f"{name}:0")

    def op(self, name: str) -> Operation:
        return self.graph.get_operation_by_name(name)

    def node(
        self,
        op_type: str,
        name: str,
        inputs: Sequence[str] = (),
        types: Sequence[Any] | None = None,
        waits: Sequence[str] = (),
        device: str = "",
        **attrs: Any,
    ) -> Tensor:
        tensors = [self[i] for i in inputs]
        made = self.graph.add_op(op_type, name, tensors, types, attrs, [self.op(w) for w in waits], device)
        return made.outputs[0] if made.outputs else tf.constant(0)

    def arg(self, name: str, dtype: Any = tf.float32) -> None:
        index = sum(op.type == "_Arg" for op in self.graph)
        self.node("_Arg", name, (), [dtype], T=dtype, index=index)

    def result(self, name: str, source: str) -> None:
        tensor = self[source]
        index = sum(op.type == "_Retval" for op in self.graph)
        self.graph.add_op("_Retval", name, [tensor], [], {"T": tensor.dtype, "index": index})

    def chain(self, name: str, source: str, length: int, op_type: str = "Tanh", **more: Any) -> str:
        """`length` unary nodes name0, name1, ...; the name of the last."""
        for i in range(length):
            self.node(op_type, f"{name}{i}", [source], [tf.float32], T=tf.float32, **more)
            source = f"{name}{i}"
        return source

    def binary(self, name: str, a: str, b: str, op_type: str = "AddV2", **more: Any) -> None:
        self.node(op_type, name, [a, b], [tf.float32], T=tf.float32, **more)

    def constant(self, name: str, value: Any, dtype: Any = tf.float32, waits: Sequence[str] = ()) -> None:
        import numpy as np

        self.node("Const", name, (), [dtype], waits, dtype=dtype, value=np.array(value, dtype.as_numpy_dtype))

    def host(self, name: str, source: str) -> None:
        """Add a node that cannot be compiled."""
        self.node("PyFunc", name, [source], [tf.float32], token=name, Tin=(tf.float32,), Tout=(tf.float32,))

    def switch(self, name: str, source: str, condition: str) -> None:
        self.node("Switch", name, [source, condition], [tf.float32] * 2, T=tf.float32)

    def variable(self, name: str) -> None:
        self.node("VarHandleOp", name, (), [tf.resource], dtype=tf.float32, shape=tf.TensorShape([4]), shared_name=name)

    def read(self, name: str, variable: str, waits: Sequence[str] = ()) -> None:
        self.node("ReadVariableOp", name, [variable], [tf.float32], waits, dtype=tf.float32)

    def assign(self, name: str, variable: str, value: str, op_type: str = "AssignVariableOp") -> None:
        self.graph.add_op(op_type, name, [self[variable], self[value]], [], {"dtype": tf.float32})


def loop(build: Build, name: str, source: str, condition: str = "") -> str:
    """Add a while loop of one variable, as TensorFlow 1 builds it; return the name of its Exit.

    `condition` is a tensor of the loop, by default less than a constant.
    """
    frame = f"{name}_context"
    build.node("Enter", f"{name}/Enter", [source], [tf.float32], T=tf.float32, frame_name=frame, is_constant=False)
    # The back edge comes last: NextIteration does not exist yet.
    build.node("Merge", f"{name}/Merge", [f"{name}/Enter"], [tf.float32, tf.int32], T=tf.float32, N=2)
    if not condition:
        build.constant(f"{name}/limit", 9.0, waits=[f"{name}/Merge"])
        build.node("Less", f"{name}/Less", [f"{name}/Merge", f"{name}/limit"], [tf.bool], T=tf.float32)
        condition = f"{name}/Less"
    build.node("LoopCond", f"{name}/LoopCond", [condition], [tf.bool])
    build.switch(f"{name}/Switch", f"{name}/Merge", f"{name}/LoopCond")
    build.node("Identity", f"{name}/Identity", [f"{name}/Switch:1"], [tf.float32], T=tf.float32)
    last = build.chain(f"{name}/body", f"{name}/Identity", 4)
    build.node("NextIteration", f"{name}/NextIteration", [last], [tf.float32], T=tf.float32)
    build.op(f"{name}/Merge").add_input(build[f"{name}/NextIteration"])
    build.node("Exit", f"{name}/Exit", [f"{name}/Switch"], [tf.float32], T=tf.float32)
    return f"{name}/Exit"
