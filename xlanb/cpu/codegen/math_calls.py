"""Functions that a kernel has many times: written once beside it and called, where each would be thirty lines in its place.

    %v7 = call <32 x float> @xlanb.sine.float.32(<32 x float> %v6)

A kernel with two hundred sines is compiled in a quarter of the time, and runs as fast but for a few nanoseconds a vector. Kernels with few are written in place, and so is
what people read (with debug locations), where each line is to belong to its HLO instruction. Functions of single elements are called only in much larger kernels: the call
costs them more, and only long blocks of them are slow to compile.
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
_MANY_SCALARS = 64
"""The same where elements are computed one by one."""
_ATTRIBUTES = 'noinline nounwind "prefer-vector-width"="512"'
_COUNTS: WeakKeyDictionary[Function, Counter[Op]] = WeakKeyDictionary()
"""How often a kernel has each opcode; of kernels that are to call functions."""


def choose(f: Function, fused: HloComputation) -> None:
    """Before a kernel is written: see which functions it has often enough."""
    if len(fused) < _MANY or f.module.debug:
        return
    _COUNTS[f] = Counter(i.opcode for i in fused)


def is_called(f: Function, op: Op, values: Sequence[str]) -> bool:
    """Whether a kernel calls a function for these vectors, or for these single elements."""
    counts = _COUNTS.get(f)
    if counts is None:
        return False
    of_vectors = f.width > 0 and any(vectors.varies(f, v) for v in values)
    return counts[op] >= (_MANY if of_vectors else _MANY_SCALARS)


def call(f: Function, op: Op, kind: str, values: Sequence[str], write: Callable[[Function, Sequence[str]], str]) -> str:
    """The function of vectors of the region's width, or of single elements; `write(g, values)` writes its body when it is first called."""
    width = f.width if any(vectors.varies(f, v) for v in values) else 0
    name = f"xlanb.{op.text.replace('-', '_')}.{kind}.{width or 1}"
    result = vectors.kind(kind, width) if width else kind
    if name not in f.module.declarations:
        f.module.declarations[name] = _Routine(f, name, width, len(values)).text_of(result, write)
    if not width:
        return f.plain(f"call {result} @{name}({', '.join(f'{kind} {v}' for v in values)})")
    given = ", ".join(f"{result} {vectors.operand(f, kind, v, width)}" for v in values)
    return vectors.known(f, width, f"call {result} @{name}({given})")


class _Routine(Function):
    """A function that gives a vector or a number; no part of the module's list, as each unit of it has one of its own."""

    def __init__(self, kernel: Function, name: str, width: int, arguments: int) -> None:
        self.argument_names = [f"%a{k}" for k in range(arguments)]
        super().__init__(kernel.module, name, [], _ATTRIBUTES, None, "internal")
        self.depths.update(dict.fromkeys(self.argument_names, 0))
        if width:
            self.lanes.update(dict.fromkeys(self.argument_names, width))
        self.vector_width = width

    def text_of(self, result: str, write: Callable[[Function, Sequence[str]], str]) -> str:
        """The whole definition; `result` is the type of its arguments too."""
        with self.vectorized(self.vector_width):
            made = write(self, self.argument_names)
        parameters = ", ".join(f"{result} {a}" for a in self.argument_names)
        head = f"define internal {result} @{self.name}({parameters}) {self.attributes} {{"
        return "\n".join([head, "entry:", *self._allocas, *self._lines, f"  ret {result} {made}", "}"])
