"""A kernel that is being written: the LLVM function of one instruction or fusion, with its operands and results as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xlanb.codegen.elemental import Elemental, Leaf
from xlanb.codegen.function import Function
from xlanb.codegen.indexing import IrArray
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I8
from xlanb.codegen.values import Value
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op


@dataclass(eq=False)
class Kernel:
    """What an emitter of kernels works with: `root` is the instruction, or a fusion's root; `outputs` its results by leaf, without those that nothing reads."""

    f: Function
    e: Elemental
    instruction: HloInstruction
    root: HloInstruction
    outputs: dict[Leaf, IrArray]
    scratch: Value | None = None
    shared_scratch: int = 0
    own_scratch_bytes: int = 0

    def own_scratch(self) -> Value:
        """The scratch of the thread that asks, aligned to a cache line; asked for inside of `parallel`, where threads differ."""
        if self.scratch is None:
            raise AssertionError("a kernel without scratch memory")
        at = self.f.add(self.shared_scratch, self.f.mul(self.f.slot, self.own_scratch_bytes))
        return Pointer(self.scratch, I8).address(at)

    @property
    def output(self) -> IrArray:
        """The only result."""
        return self.outputs[()]


Emitter = Callable[[Kernel], bool]
EMITTERS: dict[Op, Emitter] = {}
"""Emitters by the opcode of the root; False, and nothing is written: the loop kernel does it."""


def emitter(*opcodes: Op) -> Callable[[Emitter], Emitter]:
    """Register the emitter of opcodes."""

    def add(made: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(opcodes, made))
        return made

    return add
