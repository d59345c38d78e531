"""The program of a module: `run(args, results, temp)` calls the kernels in schedule order.

Loops and branches are machine code too.

args      pointers to the arrays of the entry's parameters, by leaf
results   pointers to the arrays of the entry's result, by leaf
temp      the arena of the buffer assignment
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from xlanb.analysis.cost import Cost, cost
from xlanb.analysis.dataflow import FORWARDING, is_plain_reshape
from xlanb.analysis.while_loop import trip_count
from xlanb.buffers.buffer_assignment import BufferAssignment, Slice
from xlanb.buffers.heap_simulator import ALIGNMENT
from xlanb.buffers.live_ranges import ElementCopy, LiveRange, LoopState
from xlanb.codegen import polling
from xlanb.codegen.elemental import UnplannedKernelError, array_of
from xlanb.codegen.elements import load, real
from xlanb.codegen.function import PARALLEL, Function, Parameter, Phi
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder, identifier
from xlanb.codegen.plan import KernelPlan
from xlanb.codegen.target import Target
from xlanb.codegen.types import I8, I32, I64, PTR
from xlanb.codegen.values import Value
from xlanb.cpu.codegen.equal_kernels import KernelSite, KernelSites, WrittenKernel
from xlanb.cpu.codegen.kernel_function import ATTRIBUTES, KernelFunction, is_host_call
from xlanb.cpu.codegen.steps import CONSTANTS, STEPS, TABLE, TEMP, Address, ProgramStep, ProgramSteps, steps_of
from xlanb.cpu.codegen.units import LONG, Unit, cut, heavy_unit, kernels_of_steps
from xlanb.cpu.emitters.copies import emit_bytes
from xlanb.errors import CompilationError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.memory import out_of_memory
from xlanb.shape import PrimitiveType
from xlanb.shape.literal import aligned_zeros

EXTERNAL_BYTES = 4096
"""Larger constants, in bytes, are not put in the IR: the executable keeps their memory."""
_QUICK = 1 << 23
"""Operations and bytes of a whole loop that take about ten milliseconds at most."""
_TRANSCENDENTAL, _CALLED = 16, 16
"""The cost of a transcendental function, and of a kernel call per iteration, in operations."""
_LEAST_ROUNDS = 16
"""The least number of iterations between two polls if the iterations do not poll.

The cost of the additional check is then negligible.
"""
_NO_CODE = frozenset({Op.PARAMETER, Op.CONSTANT, Op.TUPLE, Op.GET_TUPLE_ELEMENT, Op.AFTER_ALL}) | FORWARDING


@dataclass
class Program:
    """LLVM IR of a module, and what it needs to run.

    `kernels` maps functions to HLO instructions, in order of their numbers; `constants` are by
    symbol.
    `steps` are the calls of `run` if it does nothing else.
    """

    module: ModuleBuilder
    run: Function
    kernels: Mapping[str, str]
    constants: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    host: dict[str, HloInstruction] = field(default_factory=dict)
    target: Target = field(kw_only=True)
    loops: bool = False
    steps: tuple[ProgramStep, ...] | None = None

    @property
    def text(self) -> str:
        """The whole program as one module."""
        return self.module.text()

    @property
    def plans(self) -> dict[str, KernelPlan]:
        """The decisions made for each kernel, by its function; needs debug locations."""
        return {
            f.name: KernelPlan(f.name, self.kernels[f.name], tuple(f.plans))
            for f in self.module.functions
            if f.name in self.kernels and f.plans
        }

    @property
    def is_parallel(self) -> bool:
        """Whether threads share any of the program's loops."""
        return PARALLEL in self.module.declarations

    @property
    def symbols(self) -> dict[str, int]:
        """The addresses of the constants that are not part of the IR."""
        return {name: memory.ctypes.data for name, memory in self.constants.items()}

    def units(self) -> list[Unit]:
        """The program as modules that are compiled separately."""
        return cut(self.module, self.target, self.run, self.steps, loops=self.loops)

    def parts(self) -> tuple[list[Unit], ProgramSteps | None]:
        """The same for this process, where a table of steps need not be an LLVM global.

        Returns the modules of everything else, and the table; None if the program is not a table.
        """
        steps = steps_of(self.module, self.run, self.steps) if self.steps is not None else None
        if steps is None:
            return self.units(), None
        return kernels_of_steps(self.module, self.target, steps, self.run), steps


def emit_program(
    assignment: BufferAssignment,
    target: Target,
    line_of: dict[str, int] | None = None,
    *,
    profile: bool = False,
    ahead: Callable[[Unit], object] | None = None,
) -> Program:
    """Emit the LLVM IR of a scheduled module with assigned buffers.

    `line_of` gives the line of each HLO instruction, for debug locations. With `profile`, `run` has
    a fourth parameter: an array of u64 pairs, calls and cycles per kernel, in the order of
    `Program.calls`. `ahead` is called with modules that can be compiled while others are emitted.

    Raises:
        UnimplementedError: The backend does not support an instruction; the message shows it.
        UnplannedKernelError: An instruction's kernel cannot be emitted with these buffers, or not
            as one kernel.
    """
    emitter = _ProgramEmitter(assignment, target, line_of, profile=profile, ahead=ahead)
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
        loops=emitter.has_flow,
        steps=None if emitter.has_flow or profile else emitter.steps,
    )


class _ProgramEmitter:
    def __init__(
        self,
        assignment: BufferAssignment,
        target: Target,
        line_of: dict[str, int] | None,
        *,
        profile: bool,
        ahead: Callable[[Unit], object] | None,
    ) -> None:
        self.assignment = assignment
        self.flow = assignment.live
        self.module = ModuleBuilder(identifier(assignment.module.name), target, line_of, (STEPS, TABLE))
        self.profile = profile
        self._ahead = None if self.has_flow else ahead
        self.constants: dict[str, NDArray[np.uint8]] = {}
        self.calls: dict[str, int] = {}
        self.host: dict[str, HloInstruction] = {}
        self._constant_names: dict[object, str] = {}
        self._same: dict[str, str] = {}
        self._sites = KernelSites(assignment) if not (profile or self.module.debug) else None
        self._written: dict[Hashable, WrittenKernel] = {}
        self._bases: dict[int, Address] = {}
        self._steps: list[ProgramStep] | None = []
        self._loop_of: dict[HloInstruction, LoopState] = {loop.instruction: loop for loop in self.flow.loops}
        self._choice_of = {c.instruction: c for c in self.flow.choices}
        self._spread: set[HloInstruction] = set()
        """Those whose kernels threads share."""
        self.depth = 0
        self._work = 0
        self._calls_out = False
        names = ("args", "results", "temp", *(["profile"] if profile else []))
        self._tables = {name: Parameter(PTR, name, "noalias") for name in names}
        entry = assignment.module.entry_computation
        self.run = self.module.function("run", list(self._tables.values()), ATTRIBUTES, entry.root.name, linkage="")
        self.module.kernels.pop("run")
        self.run.goes_on = True  # an interrupted kernel cannot harm the next one: arrays may hold any values

    @property
    def has_flow(self) -> bool:
        """Whether `run` has loops or branches of its own."""
        return bool(self.flow.loops or self.flow.choices)

    @property
    def steps(self) -> tuple[ProgramStep, ...] | None:
        """The calls of `run`; None if it does anything else."""
        return None if self._steps is None else tuple(self._steps)

    def emit(self) -> None:
        entry = self.assignment.module.entry_computation
        for a in self.assignment.allocations:
            if a.number is not None and a.kind in ("parameter", "output"):
                source = ("parameter", "output").index(a.kind)
                table = Pointer(self.run.argument(self._tables[("args", "results")[source]]), PTR)
                self._bases[a.index] = Address(table[a.number], source, a.number)
            elif a.kind == "temp":
                self._bases[a.index] = Address(self.run.argument(self._tables["temp"]), TEMP, 0)
        self._computation(entry)
        outputs = {a.number: a.index for a in self.assignment.allocations if a.kind == "output"}
        for value, number in self.assignment.result_copies:
            if value.size:
                own = self._address(self.assignment.slice_of_value(value))
                self._copy(self._bases[outputs[number]], own, value.size)
        self._limit_inlining()
        # callees precede their caller
        self.module.functions.remove(self.run)
        self.module.functions.append(self.run)

    def _limit_inlining(self) -> None:
        """Don't inline kernels in loops if `run` would become too long for LLVM's passes."""
        inlined = [f for f in self.module.functions if "alwaysinline" in f.attributes]
        if self.run.size + sum(f.size for f in inlined) > LONG:
            for f in inlined:
                f.attributes = f.attributes.replace("alwaysinline", "noinline")

    # -- memory ------------------------------------------------------------------------------------

    def _address(self, place: Slice) -> Address:
        """The address of a slice, in `run`."""
        allocation = self.assignment.allocations[place.allocation]
        if allocation.constant is not None:
            name = self.constant(allocation.constant)
            return Address(self.run.symbol(name), CONSTANTS, name)
        base = self._bases[place.allocation]
        return base.by(Pointer(base.value, I8).address(place.offset), place.offset)

    def _aligned(self, place: Slice) -> Address:
        """The address of scratch memory, aligned to a cache line.

        Scratch in a result's memory, which may have any alignment, has room for that.
        """
        address = self._address(place)
        if self.assignment.allocations[place.allocation].kind == "temp":
            return address
        beyond = self.run.let(PTR, f"getelementptr i8, {address.value!r}, i64 {ALIGNMENT - 1}")
        aligned = self.run.call(PTR, "llvm.ptrmask.p0.i64", beyond, self.run.const(I64, -ALIGNMENT))
        return address.by(aligned, ALIGNMENT - 1, -ALIGNMENT)

    def _copy(self, target: Address, source: Address, size: int, *, spread: bool = False) -> None:
        """Copy bytes between arrays that do not overlap (see emit_bytes)."""
        called = emit_bytes(self.run, target.value, source.value, size, spread=spread)
        self._record(called, (target, source))

    def _clear(self, number: Address) -> None:
        """Store 0 to a 32-bit number."""
        Pointer(number.value, I32)[0] = self.run.const(I32, 0)
        self._record(None, ())

    def _record(self, called: str | None, addresses: tuple[Address, ...]) -> None:
        """Record a call of `run`; None means any other code."""
        if called is None:
            self._steps = None
        elif self._steps is not None:
            self._steps.append(ProgramStep(called, addresses))

    def constant(self, i: HloInstruction) -> str:
        """The name of the global that holds a constant in its shape's layout."""
        known = self._constant_names.get(i.literal)
        if known is not None:
            return known
        size = i.shape.byte_size
        name = self.module.unique(f"const.{i.name}")
        kind = f"[{size} x i8]"
        if size > EXTERNAL_BYTES:
            try:
                self.constants[name] = _aligned_bytes(i)
            except MemoryError as error:
                raise out_of_memory(f"constant {i.name}, {i.shape.text(layout=False)}", size) from error
            self.module.globals[name] = f"@{name} = external constant {kind}, align 64"
        else:
            data = _laid_out(i)
            self.module.contents[name] = data.tobytes()
            text = "\\" + data.tobytes().hex("\\").upper() if data.size else ""
            self.module.globals[name] = f'@{name} = private constant {kind} c"{text}", align 64'
        self._constant_names[i.literal] = name
        return name

    def _copies(self, position: int) -> None:
        """Emit the copies at a position.

        First saves what later copies overwrite, then copies everything to its destination.
        """
        copies, place_of = self.assignment.copies.get(position, ()), self.assignment.slice_of_value
        spread = self._spread_by(copies) if self.depth else set()
        where: dict[LiveRange, Address] = {}
        for c in copies:
            if c.source not in where:
                where[c.source] = self._address(place_of(c.source))
                aside = self.assignment.staged.get((position, c.source))
                if aside is not None:
                    target = self._address(aside)
                    self._copy(target, where[c.source], c.source.size, spread=place_of(c.source) in spread)
                    where[c.source] = target
        for c in copies:
            target = self._address(place_of(c.target))
            self._copy(target, where[c.source], c.source.size, spread=place_of(c.source) in spread)

    def _spread_by(self, copies: Sequence[ElementCopy]) -> set[Slice]:
        """The sources that threads wrote: in this iteration, or before a copy in the last one."""
        place_of = self.assignment.slice_of_value
        moves = [(place_of(c.source), place_of(c.target)) for c in copies]
        found = {place_of(c.source) for c in copies if c.source.instruction in self._spread}
        before = -1
        while len(found) > before:
            before = len(found)
            found.update([target for source, target in moves if source in found])
        return found

    # -- the program -------------------------------------------------------------------------------

    def _computation(self, c: HloComputation) -> None:
        for i in self.assignment.orders[c]:
            if i.opcode is Op.COPY_START and self.assignment.has_place(i, (2,)):
                self._clear(self._address(self.assignment.slice_of(i, (2,))))
            if i.opcode in _NO_CODE or is_plain_reshape(i):
                continue
            mark = self.run.locate(i.name)
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
        loop = self._loop_of[i]
        if not loop.state and not i.has_side_effect:
            return  # the body changes nothing: if the loop ends, its result is its operand
        condition, body = i.attributes["condition"], i.attributes["body"]
        self._copies(loop.begin)
        self.depth += 1
        self._work = 0
        self._rounds(condition, body, loop.body_end, polls=self.module.target.polls and not _is_quick(i))
        self.depth -= 1
        self._work = polling.BUDGET

    def _rounds(self, condition: HloComputation, body: HloComputation, end: int, *, polls: bool) -> None:
        """Emit a loop that polls in each iteration, or between strips of iterations.

        Between strips it evaluates its condition again. A poll in each iteration would keep LLVM
        from holding values in registers across iterations. If a call does so anyway, the loop polls
        in each iteration.
        """
        f = self.run
        head, inside, exit_ = f.fresh("while"), f.fresh("body"), f.fresh("exit")
        self._calls_out = False
        tested = f.enter(head[1:], barrier=True)
        self._computation(condition)
        again = self._scalar(condition.root)
        f.leave()
        ran = f.enter(inside[1:], barrier=True)
        self._computation(body)
        self._copies(end)
        each = self._calls_out or self._work > polling.BUDGET // _LEAST_ROUNDS or not _may_repeat(condition)
        if polls and each:
            self._poll()
        f.leave()
        strips = polls and not each
        strip, ended = (f.fresh("strip"), f.fresh("ended")) if strips else (head, exit_)
        left = Phi(f.phi_value(I64), [], "")
        lines = f.regions[-1].lines
        if strips:
            f.branch(strip)
            f.label(strip)
        f.branch(head)
        f.label(head)
        lines += [left, *tested.lines] if strips else tested.lines
        f.branch_if(again & left.value.differs(0) if strips else again, inside, ended)
        f.label(inside)
        lines += ran.lines
        if strips:
            rounds = max(_LEAST_ROUNDS, polling.BUDGET // (self._work + polling.LONG_ROUND))
            left.incoming = [(f.const(I64, rounds), strip[1:]), (left.value - 1, ran.block)]
        f.branch(head)
        if strips:
            self._between_strips(again, strip, ended, exit_)
        f.label(exit_)

    def _between_strips(self, again: Value, strip: str, ended: str, exit_: str) -> None:
        """After a strip: poll, and start another strip if the loop continues."""
        f = self.run
        behind = f.fresh("poll")
        f.label(ended)
        f.branch_if(again, behind, exit_)
        f.label(behind)
        self._poll()
        f.branch(strip)

    def _poll(self) -> None:
        if self.module.target.polls:
            polling.write(self.run)
        self._work = 0

    def _poll_before(self, work: int) -> None:
        """Poll before a kernel if too much work has accumulated since the last poll.

        `work` is the kernel's (see KernelFunction.work).
        """
        if self._work and self._work + work > polling.BUDGET:
            self._poll()
        self._work += work

    def _scalar(self, i: HloInstruction) -> Value:
        """The value of a scalar pred or integer, in `run`."""
        return real(load(array_of(i).element_type, self._address(self.assignment.slice_of(i)).value, 0))

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
            f.write(f"switch {chosen!r}, label {labels[-1]} [ {cases} ]")
        for label, c, (end, _) in zip(labels, computations, self._choice_of[i].branches, strict=True):
            f.label(label)
            self._computation(c)
            self._copies(end)
            f.branch(exit_)
        f.label(exit_)

    # -- kernels -----------------------------------------------------------------------------------

    def _call(self, i: HloInstruction) -> None:
        inline = self.depth > 0 and not self.profile
        site = self._sites.of(i, inline=inline) if self._sites is not None else None
        known = self._written.get(site.key) if site is not None else None
        if site is not None and known is not None:
            self.module.kernels[self.module.unique(i.name)] = i.name
            kernel, places = known, [site.places[k] for k in known.taken]
        else:
            kernel, places = self._write(i, site, inline=inline)
        scratch = self.assignment.scratch_of(i)
        addresses = tuple(self._aligned(p) if p == scratch else self._address(p) for p in places)
        self._poll_before(kernel.work)
        self._calls_out |= "alwaysinline" not in kernel.function.attributes
        if PARALLEL in kernel.function.symbols:
            self._spread.add(i)
        before = self._cycles() if self.profile else None
        self.run.call_own(kernel.callee, *(a.value for a in addresses))
        self._record(kernel.callee, addresses)
        if before is not None:
            self._count(kernel.function.name, self._cycles() - before)

    def _write(self, i: HloInstruction, site: KernelSite | None, *, inline: bool) -> tuple[WrittenKernel, list[Slice]]:
        """The kernel of an instruction, and the memory to call it with."""
        built = KernelFunction(self.module, self.assignment, i, self.constant, inline=inline, repeats=self.depth > 0)
        try:
            built.emit()
        except UnplannedKernelError as error:
            error.instruction = i
            raise
        if built.host is not None:
            self.host[built.host] = i
        places = list(built.slices)
        taken = tuple([site.places.index(p) for p in places]) if site is not None else ()
        made = WrittenKernel(built.f, self._shared(built.f), taken, built.work)
        if self._ahead is not None and made.callee == built.f.name:
            unit = heavy_unit(self.module, built.f)
            if unit is not None:
                self._ahead(unit)
        if site is not None and built.host is None:
            self._written[site.key] = made
        return made, places

    def _cycles(self) -> Value:
        return self.run.call(I64, "llvm.readcyclecounter")

    def _count(self, kernel: str, cycles: Value) -> None:
        """Add a call of a kernel, and its cycles, to the profile."""
        number = self.calls.setdefault(kernel, len(self.calls))
        counters = Pointer(self.run.argument(self._tables["profile"]), I64)
        for k, amount in ((2 * number, 1), (2 * number + 1, cycles)):
            counters[k] = counters[k] + amount

    def _shared(self, kernel: Function) -> str:
        """The function to call for a kernel: an earlier identical one, or the kernel itself.

        Profiles and readers of the program see one function per instruction.
        """
        if self.profile or self.module.debug:
            return kernel.name
        key = "\n".join(kernel.text()).replace(f"@{kernel.name}", "@")
        first = self._same.setdefault(key, kernel.name)
        if first != kernel.name:
            self.module.functions.remove(kernel)
        return first


def _is_quick(loop: HloInstruction) -> bool:
    """Whether a loop is too short to need a poll: its trip count is known, its body small."""
    rounds = trip_count(loop)
    if rounds is None:
        return False
    computations = loop.called_computations
    each = sum((cost(c) for c in computations), Cost())
    calls = sum(len(list(c)) for c in computations)
    work = each.flops + each.bytes_accessed + _TRANSCENDENTAL * each.transcendentals + _CALLED * calls
    return rounds * work <= _QUICK


def _may_repeat(condition: HloComputation) -> bool:
    """Whether a condition may be evaluated twice, because it has no side effects."""
    calls = (Op.WHILE, Op.CONDITIONAL, Op.CALL)
    return not any(i.has_side_effect or i.opcode in calls or is_host_call(i) for i in condition)


__all__ = ["CompilationError", "Program", "emit_program"]


def _laid_out(i: HloInstruction) -> NDArray[np.uint8]:
    """The bytes of a constant in the order of its layout."""
    value = i.literal.array.transpose(tuple(reversed(array_of(i).minor_to_major)))
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def _aligned_bytes(i: HloInstruction) -> NDArray[np.uint8]:
    """The bytes of a constant, aligned to a cache line; its own memory if possible.

    Elided constants are zeros, which take no memory until they are read.
    """
    data = None if i.literal.is_elided else _laid_out(i)
    if data is not None and data.ctypes.data % ALIGNMENT == 0:
        return data
    aligned = aligned_zeros(i.shape.byte_size, np.uint8)
    if data is not None:
        aligned[:] = data
    return aligned
