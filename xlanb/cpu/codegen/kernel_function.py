"""The function of an instruction or fusion: arrays as parameters, a kernel or runtime call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xlanb.analysis.dynamic import involves_dynamic
from xlanb.buffers.buffer_assignment import BufferAssignment, Slice
from xlanb.codegen import polling
from xlanb.codegen.elemental import RULES, Elemental, Leaf, array_of
from xlanb.codegen.function import Parameter
from xlanb.codegen.host_opcodes import HOST_OPCODES, TRANSFERS, is_number_of_several, is_transfer_of_several
from xlanb.codegen.indexing import IrArray
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.types import PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.codegen import kernel as kernels
from xlanb.cpu.emitters.kernel import EMITTERS, HAS_KERNEL, Kernel
from xlanb.cpu.runtime.guard import HOST
from xlanb.errors import UnimplementedError
from xlanb.hlo.diagnostic import with_origin
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

ATTRIBUTES = 'nounwind "prefer-vector-width"="512"'
_INLINE_LINES = 120
_INLINE_WORK = 1 << 10
"""Work (see xlanb.codegen.polling) from which on a call costs nothing in comparison.

Code that is not inlined is compiled by several threads, and once for all its callers.
"""


def is_host_call(i: HloInstruction) -> bool:
    """Whether the runtime computes an instruction.

    That includes every instruction with arrays of dynamic size that the padder could not remove.
    """
    if involves_dynamic(i) or is_number_of_several(i) or is_transfer_of_several(i):
        return True
    if i.opcode is Op.SCAN:
        return not HAS_KERNEL[Op.SCAN](i)
    if i.opcode not in HOST_OPCODES:
        return False
    has_kernel = HAS_KERNEL.get(i.opcode)
    return has_kernel is None or not has_kernel(i)


class KernelFunction:
    """Builds the function of one instruction.

    `slices` are the arguments of a call, in order; `host` is the symbol of the runtime function, if
    it calls one. `constant` returns the global that holds a constant. With `inline`, a small
    function is inlined into its caller. `repeats` says that it is called in a loop of the program.
    """

    def __init__(
        self,
        module: ModuleBuilder,
        assignment: BufferAssignment,
        i: HloInstruction,
        constant: Callable[[HloInstruction], str],
        *,
        inline: bool,
        repeats: bool = False,
    ) -> None:
        self.module, self.assignment, self.instruction = module, assignment, i
        self.slices: dict[Slice, str] = {}
        self.host: str | None = None
        self.f = module.function(i.name, [], "", i.name)
        self.f.repeats = repeats
        self._written: set[Slice] = set()
        self._constant = constant
        self._inline = inline

    def emit(self) -> None:
        """Emit the function.

        Raises:
            UnimplementedError: The opcode has no kernel.
        """
        i = self.instruction
        if is_host_call(i):
            self._emit_host_call()
        else:
            self._emit_kernel()
        is_quick = self.f.size <= _INLINE_LINES and self.work <= _INLINE_WORK and not self.f.outlined
        inlining = "alwaysinline" if self._inline and is_quick else "noinline"
        parameters = [Parameter(PTR, name, self._promise(place)) for place, name in self.slices.items()]
        self.f.sign(parameters, f"{inlining} {ATTRIBUTES}")

    def _emit_kernel(self) -> None:
        i = self.instruction
        fused = i.opcode is Op.FUSION
        root = i.fused_computation.root if fused else i
        if not (fused or root.opcode in RULES or root.opcode in EMITTERS):
            raise UnimplementedError(f"{_no_kernel(root.opcode)}:\n  {with_origin(i)}")
        outputs = {}
        for leaf, shape in i.shape.leaves():
            if not shape.is_token and self.assignment.has_place(i, leaf):
                place = self.assignment.slice_of(i, leaf)
                self._written.add(place)
                outputs[leaf] = IrArray(self._argument(place), shape.as_array())
        bindings = self._bindings(i.fused_computation.parameters if fused else i.operands, is_fused=fused)
        scratch = self.assignment.scratch_of(i)
        memory = self._argument(scratch) if scratch is not None else None
        if scratch is not None:
            self._written.add(scratch)
        e = Elemental(self.f, bindings, self._memory)  # type: ignore[arg-type]
        k = Kernel(self.f, e, i, root, outputs, memory, *kernels.scratch_of(i))
        kernels.emit(k)

    def _bindings(
        self, targets: Sequence[HloInstruction], *, is_fused: bool
    ) -> dict[HloInstruction, Mapping[Leaf, object]]:
        """The operands' arrays, and the constants that a fusion takes."""
        outside = Elemental(self.f, {}, self._memory)
        bindings: dict[HloInstruction, Mapping[Leaf, object]] = {}
        for target, operand in zip(targets, self.instruction.operands, strict=True):
            if operand.opcode is not Op.CONSTANT:
                leaves = [leaf for leaf, s in operand.shape.leaves() if not s.is_token]
                bindings[target] = {leaf: self._operand(operand, leaf) for leaf in leaves}
            elif is_fused:
                bindings[target] = {(): lambda index, operand=operand: RULES[Op.CONSTANT](outside, operand, index)}
        return bindings

    @property
    def work(self) -> int:
        """The work of the finished function without a poll (see xlanb.codegen.polling).

        A host call must be followed by a poll.
        """
        if self.host is not None:
            return polling.BUDGET
        return polling.work_of(self.f.regions[-1])

    def _emit_host_call(self) -> None:
        """Emit a call of the runtime with the addresses of all operands and results."""
        i, f = self.instruction, self.f
        called = i.get("custom_call_target") or i.opcode
        self.host = self.module.unique(f"host.{called}.{i.name}")
        places = [self.assignment.slice_of(o, leaf) for o in i.operands for leaf, _ in o.shape.leaves()]
        own = [self.assignment.slice_of(i, leaf) for leaf, _ in i.shape.leaves()]
        self._written.update(own)
        table = Pointer(f.alloca(PTR, len(places) + len(own)), PTR)
        for k, place in enumerate((*places, *own)):
            table[k] = self._slice_address(place)
        self.module.declare("i32", self.host, "ptr")
        f.call(VOID, HOST, f.symbol(self.host), table.base)

    def _promise(self, place: Slice) -> str:
        """The attributes of the parameter for a slice."""
        access = "" if place in self._written else " readonly"
        size = f" dereferenceable({place.size})" if place.size else ""
        return f"noalias{access} noundef{size}"

    def _argument(self, place: Slice) -> Value:
        """The parameter for a slice; a result that aliases an operand shares its parameter."""
        return Value(self.f, PTR, f"%{self.slices.setdefault(place, f'p{len(self.slices)}')}")

    def _slice_address(self, place: Slice) -> Value:
        """The address of a slice: a parameter, or a constant."""
        constant = self.assignment.allocations[place.allocation].constant
        return self._memory(constant).pointer if constant is not None else self._argument(place)

    def _operand(self, operand: HloInstruction, leaf: Leaf) -> IrArray:
        return IrArray(self._slice_address(self.assignment.slice_of(operand, leaf)), array_of(operand, leaf))

    def _memory(self, i: HloInstruction) -> IrArray:
        """The array of a constant, in its global."""
        return IrArray(self.f.symbol(self._constant(i)), array_of(i))


def _no_kernel(opcode: Op) -> str:
    """Why an opcode has no kernel."""
    if opcode in TRANSFERS:
        return f"{opcode} needs another device to talk to, or a host program: XLA's CPU has neither"
    return f"the CPU backend has no kernel for {opcode}"
