"""Functions of vectors that a kernel has many times: written once beside it and called, where each would be thirty lines in its place.

    %v7 = call <32 x float> @xlanb.sine.float.32(<32 x float> %v6)

A kernel with two hundred sines is compiled in a quarter of the time, and runs as fast but for a few nanoseconds a vector. Kernels with few are written in place, and so is
what people read (with debug locations), where each line is to belong to its HLO instruction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

from xlanb.cpu.codegen import vectors
from xlanb.cpu.codegen.ir import Function
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.opcode import HloOpcode as Op

_MANY = 6
"""Uses of one opcode in a fusion from which on it is called."""
_ATTRIBUTES = 'noinline nounwind "prefer-vector-width"="512"'
_CALLED: WeakKeyDictionary[Function, frozenset[Op]] = WeakKeyDictionary()


def choose(f: Function, fused: HloComputation) -> None:
    """Before a kernel is written: see which functions it has often enough."""
    if len(fused) < _MANY or f.module.debug:
        return
    count = Counter(i.opcode for i in fused)
    _CALLED[f] = frozenset(op for op, n in count.items() if n >= _MANY)


def is_called(f: Function, op: Op, values: Sequence[str]) -> bool:
    """Whether a kernel calls a function for vectors."""
    return f.width > 0 and op in _CALLED.get(f, ()) and any(vectors.varies(f, v) for v in values)


def call(f: Function, op: Op, kind: str, values: Sequence[str], write: Callable[[Function, Sequence[str]], str]) -> str:
    """The function of vectors of the region's width; `write(g, values)` writes its body when it is first called."""
    width = f.width
    name = f"xlanb.{op.text.replace('-', '_')}.{kind}.{width}"
    vector = vectors.kind(kind, width)
    if name not in f.module.declarations:
        f.module.declarations[name] = _Routine(f, name, width, len(values)).text_of(vector, write)
    given = ", ".join(f"{vector} {vectors.operand(f, kind, v, width)}" for v in values)
    return vectors.known(f, width, f"call {vector} @{name}({given})")


class _Routine(Function):
    """A function of vectors that gives a vector; no part of the module's list, as each unit of it has one of its own."""

    def __init__(self, kernel: Function, name: str, width: int, arguments: int) -> None:
        self.vector_arguments = [f"%a{k}" for k in range(arguments)]
        super().__init__(kernel.module, name, [], _ATTRIBUTES, None, "internal")
        self.lanes.update(dict.fromkeys(self.vector_arguments, width))
        self.depths.update(dict.fromkeys(self.vector_arguments, 0))
        self.vector_width = width

    def text_of(self, vector: str, write: Callable[[Function, Sequence[str]], str]) -> str:
        """The whole definition."""
        with self.vectorized(self.vector_width):
            made = write(self, self.vector_arguments)
        parameters = ", ".join(f"{vector} {a}" for a in self.vector_arguments)
        head = f"define internal {vector} @{self.name}({parameters}) {self.attributes} {{"
        return "\n".join([head, "entry:", *self._allocas, *self._lines, f"  ret {vector} {made}", "}"])
