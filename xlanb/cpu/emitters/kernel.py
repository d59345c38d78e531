"""The kernel being emitted: an instruction's or fusion's LLVM function, operands and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from xlanb.codegen.elemental import Elemental, Leaf
from xlanb.codegen.function import Function
from xlanb.codegen.indexing import IrArray
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I8
from xlanb.codegen.values import Value
from xlanb.errors import CompilationError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.late_registry import LateRegistry
from xlanb.lazy_dataclass import dataclass


@dataclass(eq=False)
class Kernel:
    """The state of an emitter: `root` is the instruction, or the fusion's root.

    `outputs` maps a leaf to its result array; unused results are missing.
    """

    f: Function
    e: Elemental
    instruction: HloInstruction
    root: HloInstruction
    outputs: dict[Leaf, IrArray]
    scratch: Value | None = None
    shared_scratch: int = 0
    own_scratch_bytes: int = 0

    def own_scratch(self) -> Value:
        """Per-thread scratch memory, aligned to a cache line. Call it inside `parallel`."""
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


# -- registries ------------------------------------------------------------------------------------

_FILES: Mapping[Op, str] = {
    Op.CHOLESKY: "linalg",
    Op.CONCATENATE: "concatenations",
    Op.CONVOLUTION: "convolutions",
    Op.CUSTOM_CALL: "linalg",
    Op.DOT: "dots",
    Op.DYNAMIC_UPDATE_SLICE: "updates",
    Op.FFT: "fft.kernel",
    Op.PAD: "updates",
    Op.REDUCE: "shared_reductions",
    Op.REDUCE_WINDOW: "windows",
    Op.SCAN: "updates",
    Op.SCATTER: "updates",
    Op.SELECT_AND_SCATTER: "select_and_scatter",
    Op.SORT: "sorting.sort",
    Op.TOPK: "sorting.topk",
    Op.TRIANGULAR_SOLVE: "linalg",
}
"""The modules of emitters by opcode; they register themselves."""
_CUSTOM_FUSIONS = "attention.emit"
"""The module of kernels of custom fusions."""


def _import_emitters(opcode: Op) -> None:
    if opcode in _FILES:
        import_module(f"{__package__}.{_FILES[opcode]}")


Emitter = Callable[[Kernel], bool]
EMITTERS: dict[Op, Emitter] = LateRegistry(_import_emitters)
"""Emitters by the root's opcode; if one returns False, it emitted nothing: use the loop kernel."""

SCRATCH: dict[Op, Callable[[HloInstruction], int]] = LateRegistry(_import_emitters)
"""Bytes of shared scratch memory that the emitter of an opcode needs."""
SCRATCH_EACH: dict[Op, Callable[[HloInstruction], int]] = LateRegistry(_import_emitters)
"""Bytes of scratch memory that each thread needs in addition (`Kernel.own_scratch`)."""
ROUNDS: dict[Op, Callable[[HloInstruction], tuple[int, float]]] = LateRegistry(_import_emitters)
"""Trip count and nanoseconds per iteration of the loop that calls `own_scratch`.

If one thread runs the loop, only one thread's scratch is allocated.
"""
IN_PLACE: dict[Op, Callable[[HloInstruction, int], bool]] = LateRegistry(_import_emitters)
"""Whether an emitter may write a result over the operand with the same number.

It may if it reads the whole operand before it writes.
"""
OPTIONAL: dict[Op, bool] = LateRegistry(_import_emitters)
"""Opcodes whose emitter skips unused results, which have no buffer."""
IS_CONTRACTION: dict[Op, Callable[[HloInstruction], bool]] = LateRegistry(_import_emitters)
"""Whether an instruction has so many products that it must not be part of a fusion's kernel."""
HAS_KERNEL: dict[Op, Callable[[HloInstruction], bool]] = LateRegistry(_import_emitters)
"""Whether an instruction of an opcode has a kernel; if not, the runtime computes it."""


@dataclass(frozen=True)
class CustomFusion:
    """A kernel for fusions of one kind. It handles the whole fused computation, whatever its root.

    Its scratch memory holds only numbers.
    """

    is_kernel: Callable[[HloInstruction], bool]
    emit: Emitter
    scratch_each: Callable[[HloInstruction], int]
    """Bytes of scratch memory per thread."""
    rounds: Callable[[HloInstruction], tuple[int, float]]
    """Trip count of the loop that threads share, and nanoseconds of one iteration."""


CUSTOM_FUSIONS: dict[str, CustomFusion] = {}
"""Kernels of fusions by the kind in their backend config; other fusions are chosen by the root."""


def custom_fusion(i: HloInstruction) -> CustomFusion | None:
    """The kernel for a fusion's kind; None if the root decides, or if it is not a fusion."""
    if i.opcode is not Op.FUSION or i.get("kind") != "kCustom":
        return None
    import_module(f"{__package__}.{_CUSTOM_FUSIONS}")
    return next((made for kind, made in CUSTOM_FUSIONS.items() if f'"{kind}"' in i.backend_config), None)


def emitter(*opcodes: Op) -> Callable[[Emitter], Emitter]:
    """Register the emitter of opcodes."""

    def add(made: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(opcodes, made))
        return made

    return add
