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
from xlanb.errors import CompilationError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op


@dataclass(eq=False)
class Kernel:
    """What an emitter of kernels works with: `root` is the instruction, or a fusion's root; `outputs` its results by leaf, without unused ones."""

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
            raise AssertionError("the kernel has no scratch memory")
        at = self.f.add(self.shared_scratch, self.f.mul(self.f.slot, self.own_scratch_bytes))
        return Pointer(self.scratch, I8).address(at)

    def memory(self, operand: HloInstruction) -> IrArray:
        """The array in memory of an operand of the root."""
        source = self.e.constants(operand) if operand.opcode is Op.CONSTANT else self.e.bindings[operand][()]
        if not isinstance(source, IrArray):
            raise CompilationError(f"operand {operand.name} is not in memory:\n  {self.root}")
        return source

    @property
    def output(self) -> IrArray:
        """The only result."""
        return self.outputs[()]


Emitter = Callable[[Kernel], bool]
EMITTERS: dict[Op, Emitter] = {}
"""Emitters by the opcode of the root; False, and nothing is written: the loop kernel does it."""


MEMORY_ONLY: set[Op] = set()
"""Opcodes whose emitter needs operands in memory: they make no part of a fusion's kernel."""
SCRATCH: dict[Op, Callable[[HloInstruction], int]] = {}
"""Bytes of scratch that the emitter of an opcode needs, once."""
SCRATCH_EACH: dict[Op, Callable[[HloInstruction], int]] = {}
"""Bytes of scratch that each thread needs besides (`Kernel.own_scratch`)."""
ROUNDS: dict[Op, Callable[[HloInstruction], tuple[int, float]]] = {}
"""Rounds and nanoseconds of each of the loop that `own_scratch` is asked for in: where one thread does it, one has scratch."""
IN_PLACE: dict[Op, Callable[[HloInstruction, int], bool]] = {}
"""Whether the emitter of an opcode may write a result over an operand of the same number: it reads all that is there before it writes."""
OPTIONAL: set[Op] = set()
"""Opcodes whose emitter leaves out the results that have no place (nothing reads them)."""


@dataclass(frozen=True)
class CustomFusion:
    """A kernel for fusions of one kind: it takes the whole fused computation, whatever its root is, and keeps numbers alone in its scratch."""

    is_kernel: Callable[[HloInstruction], bool]
    emit: Emitter
    scratch_each: Callable[[HloInstruction], int]
    """Bytes of scratch that each thread needs."""
    rounds: Callable[[HloInstruction], tuple[int, float]]
    """Rounds and nanoseconds of each of the loop that threads share."""


CUSTOM_FUSIONS: dict[str, CustomFusion] = {}
"""Kernels of fusions by the kind in their backend config; of other kinds the root decides."""


def custom_fusion(i: HloInstruction) -> CustomFusion | None:
    """The kernel for a fusion's kind; None where its root decides, and for what is not a fusion."""
    if i.opcode is not Op.FUSION or i.get("kind") != "kCustom":
        return None
    return next((made for kind, made in CUSTOM_FUSIONS.items() if f'"{kind}"' in i.backend_config), None)


def emitter(*opcodes: Op) -> Callable[[Emitter], Emitter]:
    """Register the emitter of opcodes."""

    def add(made: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(opcodes, made))
        return made

    return add
