"""The program of a module: `run(args, results, temp)`, which calls the kernels in schedule order, with loops and branches in machine code.

args      pointers to the arrays of the entry's parameters, leaf after leaf
results   pointers to the arrays of the entry's result, leaf after leaf
temp      the arena of the buffer assignment
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xlanb.buffers.buffer_assignment import BufferAssignment, Slice
from xlanb.buffers.heap_simulator import ALIGNMENT
from xlanb.buffers.values import FORWARDING, HloValue, LoopState, is_plain_reshape
from xlanb.codegen import elemental as typed_elemental
from xlanb.codegen import function as typed
from xlanb.codegen import indexing as typed_indexing
from xlanb.codegen.elemental import KernelTooLargeError
from xlanb.codegen.plan import KernelPlan
from xlanb.codegen.types import PTR
from xlanb.codegen.values import Value as TypedValue
from xlanb.cpu.codegen import fft
from xlanb.cpu.codegen import kernel as kernels
from xlanb.cpu.codegen.copies import Copies
from xlanb.cpu.codegen.elemental import RULES, Elemental, Leaf, array_of
from xlanb.cpu.codegen.indexing import IrArray
from xlanb.cpu.codegen.ir import PARALLEL, Function, ModuleBuilder, identifier
from xlanb.cpu.codegen.linalg import routines as linalg
from xlanb.cpu.codegen.types import from_memory, register
from xlanb.cpu.codegen.units import LONG, Unit, cut
from xlanb.cpu.emitters import kernel as typed_kernels
from xlanb.cpu.emitters import updates
from xlanb.cpu.guard import HOST
from xlanb.cpu.host_call import HOST_OPCODES
from xlanb.cpu.target import Target
from xlanb.errors import CompilationError, UnimplementedError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.diagnostic import with_origin
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.memory import out_of_memory
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import has_dynamic

_ATTRIBUTES = 'nounwind "prefer-vector-width"="512"'
_INLINE_LINES = 120
EXTERNAL_BYTES = 4096
"""Constants of more bytes are not written into the IR: the program refers to memory that the executable keeps."""
_NO_CODE = frozenset({Op.PARAMETER, Op.CONSTANT, Op.TUPLE, Op.GET_TUPLE_ELEMENT, Op.AFTER_ALL}) | FORWARDING


@dataclass
class Program:
    """LLVM IR of a module, and what it needs to run: constants by symbol, kernels (function, HLO instruction) in the order of their numbers."""

    module: ModuleBuilder
    run: Function
    kernels: Mapping[str, str]
    constants: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    host: dict[str, HloInstruction] = field(default_factory=dict)
    target: Target = field(kw_only=True)
    loops: bool = False

    @property
    def text(self) -> str:
        """The whole program as one module."""
        return self.module.text()

    @property
    def plans(self) -> dict[str, KernelPlan]:
        """What was decided about each kernel, by its function; of a program with debug locations."""
        return {
            f.name: KernelPlan(f.name, self.kernels[f.name], tuple(f.plans))
            for f in self.module.functions
            if isinstance(f, typed.Function) and f.name in self.kernels and f.plans
        }

    @property
    def is_parallel(self) -> bool:
        """Whether the program shares loops among threads."""
        return PARALLEL in self.module.declarations

    @property
    def symbols(self) -> dict[str, int]:
        """The addresses of the constants that are not part of the IR."""
        return {name: memory.ctypes.data for name, memory in self.constants.items()}

    def units(self) -> list[Unit]:
        """The program as modules that are compiled each for itself."""
        return cut(self.module, self.run, loops=self.loops)


def emit_program(
    assignment: BufferAssignment,
    target: Target,
    line_of: dict[str, int] | None = None,
    *,
    profile: bool = False,
) -> Program:
    """The LLVM IR of a scheduled module with its buffers.

    `line_of` gives the line of each HLO instruction, for debug locations. With `profile`, `run` has a fourth parameter: an array of u64 pairs, calls and cycles
    per kernel, in the order of `Program.calls`.

    Raises:
        UnimplementedError: an instruction that the backend does not know; the message shows it.
        KernelTooLargeError: a fusion whose kernel would grow out of hand; its `instruction` names it.
    """
    emitter = _Emitter(assignment, target, line_of, profile=profile)
    emitter.emit()
    m = emitter.module
    return Program(
        m,
        emitter.run,
        dict(m.kernels),
        emitter.constants,
        tuple(emitter.calls),
        emitter.host,
        target=target,
        loops=bool(emitter.flow.loops or emitter.flow.choices),
    )


class _Emitter:
    def __init__(
        self,
        assignment: BufferAssignment,
        target: Target,
        line_of: dict[str, int] | None,
        *,
        profile: bool,
    ) -> None:
        self.assignment = assignment
        self.flow = assignment.dataflow
        self.module = ModuleBuilder(identifier(assignment.module.name), target, line_of)
        self.profile = profile
        self.constants: dict[str, NDArray[np.uint8]] = {}
        self.calls: dict[str, int] = {}
        self.host: dict[str, HloInstruction] = {}
        self._constant_names: dict[object, str] = {}
        self._same: dict[str, str] = {}
        self.memory_copies = Copies(_ATTRIBUTES)
        self._bases: dict[int, str] = {}
        self._loop_of: dict[HloInstruction, LoopState] = {loop.instruction: loop for loop in self.flow.loops}
        self._choice_of = {c.instruction: c for c in self.flow.choices}
        self.depth = 0
        parameters = [f"ptr noalias %{p}" for p in ("args", "results", "temp", *(["profile"] if profile else []))]
        entry = assignment.module.entry_computation
        self.run: Function = self.module.function("run", parameters, _ATTRIBUTES, entry.root.name, linkage="")
        self.module.kernels.pop("run")

    def emit(self) -> None:
        entry = self.assignment.module.entry_computation
        built = self.run
        for a in self.assignment.allocations:
            if a.kind in ("parameter", "output"):
                table = "%args" if a.kind == "parameter" else "%results"
                at = built.let(f"getelementptr inbounds ptr, ptr {table}, i64 {a.number}")
                self._bases[a.index] = built.let(f"load ptr, ptr {at}")
            elif a.kind == "temp":
                self._bases[a.index] = "%temp"
        self._computation(entry)
        outputs = {a.number: a.index for a in self.assignment.allocations if a.kind == "output"}
        for value, number in self.assignment.result_copies:
            if value.size:
                self.memory_copies.emit(
                    self.run,
                    self._bases[outputs[number]],
                    self._pointer(self.assignment.slice_of_value(value)),
                    value.size,
                )
        self._limit_inlining()
        # functions called stand before their caller
        self.module.functions.remove(built)
        self.module.functions.append(built)

    def _limit_inlining(self) -> None:
        """Call kernels of loops, however small, where `run` would become too long for LLVM's passes with them in it."""
        inlined = [f for f in self.module.functions if "alwaysinline" in f.attributes]
        if self.run.size + sum(f.size for f in inlined) > LONG:
            for f in inlined:
                f.attributes = f.attributes.replace("alwaysinline", "noinline")

    # -- memory -------------------------------------------------------------------------------------------------

    def _pointer(self, place: Slice) -> str:
        """The address of a slice, in `run`."""
        allocation = self.assignment.allocations[place.allocation]
        if allocation.constant is not None:
            return self.constant(allocation.constant)
        base = self._bases[place.allocation]
        return base if place.offset == 0 else self.run.let(f"getelementptr inbounds i8, ptr {base}, i64 {place.offset}")

    def _aligned(self, place: Slice) -> str:
        """The address of scratch memory: at a cache line. In the memory of a result, which may lie anywhere, it has room for that."""
        pointer = self._pointer(place)
        if self.assignment.allocations[place.allocation].kind == "temp":
            return pointer
        self.module.declare("ptr", "llvm.ptrmask.p0.i64", "ptr, i64")
        beyond = self.run.let(f"getelementptr i8, ptr {pointer}, i64 {ALIGNMENT - 1}")
        return self.run.let(f"call ptr @llvm.ptrmask.p0.i64(ptr {beyond}, i64 {-ALIGNMENT})")

    def constant(self, i: HloInstruction) -> str:
        """The global that holds a constant, laid out as its shape says."""
        known = self._constant_names.get(i.literal)
        if known is not None:
            return known
        size = i.shape.byte_size
        name = "@" + self.module.unique(f"const.{i.name}")
        kind = f"[{size} x i8]"
        if size > EXTERNAL_BYTES:
            try:
                self.constants[name[1:]] = _aligned_bytes(i)
            except MemoryError as error:
                raise out_of_memory(f"constant {i.name}, {i.shape.text(layout=False)}", size) from error
            self.module.globals[name[1:]] = f"{name} = external constant {kind}, align 64"
        else:
            data = _laid_out(i)
            text = "\\" + data.tobytes().hex("\\").upper() if data.size else ""
            self.module.globals[name[1:]] = f'{name} = private constant {kind} c"{text}", align 64'
        self._constant_names[i.literal] = name
        return name

    def _copies(self, position: int) -> None:
        """What has to be copied at a position: first what others overwrite goes aside, then all of it to its place."""
        copies = self.assignment.copies.get(position, ())
        where: dict[HloValue, str] = {}
        for c in copies:
            if c.source not in where:
                where[c.source] = self._pointer(self.assignment.slice_of_value(c.source))
                aside = self.assignment.staged.get((position, c.source))
                if aside is not None:
                    target = self._pointer(aside)
                    self.memory_copies.emit(self.run, target, where[c.source], c.source.size)
                    where[c.source] = target
        for c in copies:
            self.memory_copies.emit(
                self.run, self._pointer(self.assignment.slice_of_value(c.target)), where[c.source], c.source.size
            )

    # -- the program --------------------------------------------------------------------------------------------

    def _computation(self, c: HloComputation) -> None:
        for i in self.assignment.orders[c]:
            if i.opcode in _NO_CODE or is_plain_reshape(i):
                continue
            mark = self.run.at(i.name)
            if i.opcode is Op.WHILE:
                self._while(i)
            elif i.opcode is Op.CONDITIONAL:
                self._conditional(i)
            elif i.opcode is Op.CALL:
                self._computation(i.called_computations[0])
            else:
                self._call(i)
            self.run.restore(mark)

    def _while(self, i: HloInstruction) -> None:
        loop, f = self._loop_of[i], self.run
        if not loop.state and not i.has_side_effect:
            return  # the body changes nothing: where the loop ends at all, its result is what it began with
        condition, body = i.attributes["condition"], i.attributes["body"]
        self._copies(loop.begin)
        head, inside, exit_ = f.fresh("while"), f.fresh("body"), f.fresh("exit")
        f.branch(head)
        f.label(head)
        self.depth += 1
        self._computation(condition)
        f.branch_if(self._scalar(condition.root), inside, exit_)
        f.label(inside)
        self._computation(body)
        self.depth -= 1
        self._copies(loop.body_end)
        f.branch(head)
        f.label(exit_)

    def _scalar(self, i: HloInstruction) -> str:
        """The value of a scalar pred or integer, in `run`."""
        t = array_of(i).element_type
        pointer = self._pointer(self.assignment.slice_of(i))
        return from_memory(
            self.run, t, self.run.let(f"load {'i8' if t is PrimitiveType.PRED else register(t)}, ptr {pointer}")
        )

    def _conditional(self, i: HloInstruction) -> None:
        f = self.run
        computations = i.called_computations
        chosen = self._scalar(i.operands[0])
        labels = [f.fresh("branch") for _ in computations]
        exit_ = f.fresh("exit")
        if array_of(i.operands[0]).element_type is PrimitiveType.PRED:
            f.branch_if(chosen, labels[0], labels[1])
        else:  # an index out of range takes the last branch
            cases = " ".join(f"i32 {k}, label {label}" for k, label in enumerate(labels[:-1]))
            f.do(f"switch i32 {chosen}, label {labels[-1]} [ {cases} ]")
        for label, c, (end, _) in zip(labels, computations, self._choice_of[i].branches, strict=True):
            f.label(label)
            self._computation(c)
            self._copies(end)
            f.branch(exit_)
        f.label(exit_)

    # -- kernels ------------------------------------------------------------------------------------------------

    def _call(self, i: HloInstruction) -> None:
        built = _KernelBuilder(self, i)
        try:
            built.emit()
        except KernelTooLargeError as error:
            error.instruction = i  # type: ignore[attr-defined]
            raise
        callee = self._shared(built.f)
        scratch = self.assignment.scratch_of(i)
        arguments = ", ".join(
            f"ptr {self._aligned(place) if place == scratch else self._pointer(place)}" for place in built.slices
        )
        f = self.run
        if not self.profile:
            f.do(f"call void @{callee}({arguments})")
            return
        self.module.declare("i64", "llvm.readcyclecounter", "")
        number = self.calls.setdefault(built.f.name, len(self.calls))
        before = f.let("call i64 @llvm.readcyclecounter()")
        f.do(f"call void @{built.f.name}({arguments})")
        after = f.let("call i64 @llvm.readcyclecounter()")
        for k, amount in ((2 * number, "1"), (2 * number + 1, f.let(f"sub i64 {after}, {before}"))):
            at = f.let(f"getelementptr inbounds i64, ptr %profile, i64 {k}")
            total = f.let(f"add i64 {f.let(f'load i64, ptr {at}')}, {amount}")
            f.do(f"store i64 {total}, ptr {at}")

    def _shared(self, kernel: Function) -> str:
        """The function that does what a kernel does: the kernel, or one before it that differs in nothing but its name, which then serves both.

        Who reads the program, or its profile, sees a function for each instruction.
        """
        if self.profile or self.module.debug:
            return kernel.name
        key = "\n".join(kernel.text()).replace(f"@{kernel.name}", "@")
        first = self._same.setdefault(key, kernel.name)
        if first != kernel.name:
            self.module.functions.remove(kernel)
        return first


_TRANSFERS = frozenset({Op.SEND, Op.SEND_DONE, Op.RECV, Op.RECV_DONE})


def _is_host_call(i: HloInstruction) -> bool:
    """Whether the runtime computes an instruction: also each that takes or gives arrays of dynamic size, which the padder leaves where it can do nothing better."""
    if any(has_dynamic(s) for s in (i.shape, *(o.shape for o in i.operands))):
        return True
    if i.opcode is Op.SCAN:
        return not updates.scans_by_element(i)
    return i.opcode in HOST_OPCODES and not (i.opcode is Op.FFT and fft.has_kernel(i)) and not linalg.has_kernel(i)


class _KernelBuilder:
    """Builds the function of one instruction; `slices` are the arguments of the call, in order."""

    def __init__(self, program: _Emitter, i: HloInstruction) -> None:
        self.program = program
        self.instruction = i
        self.assignment = program.assignment
        self.slices: dict[Slice, str] = {}
        self.written: set[Slice] = set()
        self.f = program.module.function(i.name, [], "", i.name)

    def emit(self) -> None:
        i, f = self.instruction, self.f
        if _is_host_call(i):
            self._emit_host_call()
            return
        outputs = {}
        for leaf, shape in i.shape.leaves():
            if not shape.is_token and self.assignment.has_place(i, leaf):
                place = self.assignment.slice_of(i, leaf)
                self.written.add(place)
                outputs[leaf] = IrArray(self._argument(place), shape.as_array())
        outside = Elemental(f, {}, self._memory)
        bindings: dict[HloInstruction, Mapping[Leaf, object]] = {}
        fused = i.opcode is Op.FUSION
        root = i.fused_computation.root if fused else i
        targets: Sequence[HloInstruction] = i.fused_computation.parameters if fused else i.operands
        for target, operand in zip(targets, i.operands, strict=True):
            if operand.opcode is not Op.CONSTANT:
                bindings[target] = {
                    leaf: self._operand(operand, leaf) for leaf, s in operand.shape.leaves() if not s.is_token
                }
            elif fused:
                bindings[target] = {(): lambda index, operand=operand: RULES[Op.CONSTANT](outside, operand, index)}
        e = Elemental(f, bindings, self._memory)  # type: ignore[arg-type]
        scratch = self.assignment.scratch_of(i)
        memory = self._argument(scratch) if scratch is not None else ""
        copies = self.program.memory_copies

        def typed_kernel() -> AbstractContextManager[typed_kernels.Kernel]:
            return self._typed(root, targets, outputs, memory)

        k = kernels.Kernel(f, e, i, root, outputs, copies, memory, *kernels.scratch_of(root), typed=typed_kernel)
        if scratch is not None:
            self.written.add(scratch)
        if (
            not fused
            and root.opcode not in typed_elemental.RULES
            and root.opcode not in kernels.SPECIAL
            and root.opcode not in typed_kernels.EMITTERS
        ):
            reason = f"the CPU backend has no kernel for {root.opcode}"
            if root.opcode in _TRANSFERS:
                reason = f"{root.opcode} needs another device to talk to, or a host program: XLA's CPU has neither"
            raise UnimplementedError(f"{reason}:\n  {with_origin(i)}")
        kernels.emit(k)
        self._sign()

    @contextmanager
    def _typed(
        self, root: HloInstruction, targets: Sequence[HloInstruction], outputs: Mapping[Leaf, IrArray], scratch: str
    ) -> Iterator[typed_kernels.Kernel]:
        """A kernel on the typed layer, which takes the place of this one."""
        i, module, fused = self.instruction, self.program.module, self.instruction.opcode is Op.FUSION
        f = typed.Function(module, self.f.name, [], "", self.f.scope, "internal", i.name)  # type: ignore[arg-type]
        module.functions[module.functions.index(self.f)] = f  # type: ignore[call-overload]
        self.f = f  # type: ignore[assignment]
        if module.debug:
            f.locate(i.name)

        def array(a: IrArray) -> typed_indexing.IrArray:
            return typed_indexing.IrArray(TypedValue(f, PTR, a.pointer), a.shape)

        def memory(c: HloInstruction) -> typed_indexing.IrArray:
            return array(self._memory(c))

        outside = typed_elemental.Elemental(f, {}, memory)
        bindings: dict[HloInstruction, dict[Leaf, object]] = {}
        for target, operand in zip(targets, i.operands, strict=True):
            if operand.opcode is not Op.CONSTANT:
                bindings[target] = {
                    leaf: array(self._operand(operand, leaf)) for leaf, s in operand.shape.leaves() if not s.is_token
                }
            elif fused:
                bindings[target] = {
                    (): lambda index, operand=operand: typed_elemental.RULES[Op.CONSTANT](outside, operand, index)
                }
        e = typed_elemental.Elemental(f, bindings, memory)  # type: ignore[arg-type]
        given = TypedValue(f, PTR, scratch) if scratch else None
        places = {leaf: array(a) for leaf, a in outputs.items()}
        yield typed_kernels.Kernel(f, e, i, root, places, given, *kernels.scratch_of(root))

    def _emit_host_call(self) -> None:
        """A call of the runtime with the addresses of all operands and results."""
        i, f = self.instruction, self.f
        called = i.get("custom_call_target") or i.opcode
        symbol = self.program.module.unique(f"host.{called}.{i.name}")
        self.program.host[symbol] = i
        places = [self.assignment.slice_of(o, leaf) for o in i.operands for leaf, _ in o.shape.leaves()]
        own = [self.assignment.slice_of(i, leaf) for leaf, _ in i.shape.leaves()]
        self.written.update(own)
        table = f.alloca("ptr", len(places) + len(own))
        for k, place in enumerate((*places, *own)):
            constant = self.assignment.allocations[place.allocation].constant
            address = self._memory(constant).pointer if constant is not None else self._argument(place)
            f.do(f"store ptr {address}, ptr {f.let(f'getelementptr inbounds ptr, ptr {table}, i64 {k}')}")
        self.program.module.declare("i32", symbol, "ptr")
        self.program.module.declare("void", HOST, "ptr, ptr")
        f.do(f"call void @{HOST}(ptr @{symbol}, ptr {table})")
        self._sign()

    def _sign(self) -> None:
        """Parameters and attributes of the finished function."""
        small = self.program.depth > 0 and self.f.size <= _INLINE_LINES and not self.program.profile
        attributes = f"{'alwaysinline' if small else 'noinline'} {_ATTRIBUTES}"
        promises = {name: self._promise(place) for place, name in self.slices.items()}
        f: object = self.f
        if isinstance(f, typed.Function):
            f.sign([typed.Parameter(PTR, name[1:], promise) for name, promise in promises.items()], attributes)
        else:
            self.f.sign([f"ptr {promise} {name}" for name, promise in promises.items()], attributes)

    def _promise(self, place: Slice) -> str:
        """The attributes of the parameter for a slice."""
        access = "" if place in self.written else " readonly"
        size = f" dereferenceable({place.size})" if place.size else ""
        return f"noalias{access} noundef{size}"

    def _argument(self, place: Slice) -> str:
        """The parameter for a slice; one for both where a result lies in an operand's place."""
        return self.slices.setdefault(place, f"%p{len(self.slices)}")

    def _operand(self, operand: HloInstruction, leaf: Leaf) -> IrArray:
        place = self.assignment.slice_of(operand, leaf)
        shape = array_of(operand, leaf)
        constant = self.assignment.allocations[place.allocation].constant
        return IrArray(self._memory(constant).pointer if constant is not None else self._argument(place), shape)

    def _memory(self, i: HloInstruction) -> IrArray:
        return IrArray(self.program.constant(i), array_of(i))


__all__ = ["CompilationError", "Program", "emit_program"]


def _laid_out(i: HloInstruction) -> NDArray[np.uint8]:
    """The bytes of a constant in the order of its layout."""
    value = i.literal.array.transpose(tuple(reversed(array_of(i).minor_to_major)))
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def _aligned_bytes(i: HloInstruction) -> NDArray[np.uint8]:
    """The bytes of a constant at a cache line. Those of an elided one are zeros, which take no memory before they are read."""
    size = i.shape.byte_size
    memory = np.zeros(size + 64, np.uint8)
    aligned = memory[-memory.ctypes.data % 64 :][:size]
    if not i.literal.is_elided:
        aligned[:] = _laid_out(i)
    return aligned
