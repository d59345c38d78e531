"""SpmdPartitioningVisitor: partitions one computation, instruction by instruction.

A handler of an opcode is a function of the visitor and the instruction, registered where it is
defined:

    @handles("transpose")
    def handle_transpose(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from xlanb.errors import UnimplementedError, XlanbError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import BY_TEXT, HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType, Shape
from xlanb.shape.shape import array
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.builder import SpmdBuilder
from xlanb.spmd.partitioner.causes import CauseKind, Causes
from xlanb.spmd.partitioner.collectives import Channels, CollectiveOps
from xlanb.spmd.partitioner.manual import visiting
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.state import PartitionerOptions, PartitioningState
from xlanb.spmd.partitioner.utilities import create_zero, set_sharding, sharding_of, unique_device

_O = HloOpcode
Handler = Callable[["SpmdPartitioningVisitor", HloInstruction], None]
HANDLERS: dict[HloOpcode, Handler] = {}
"""The handler of each opcode; others use `default_action`."""
TARGET_HANDLERS: dict[str, Handler] = {}
"""The handler of each custom-call target."""


def handles(*opcodes: str) -> Callable[[Handler], Handler]:
    """Register a function as the handler of these opcodes."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update((BY_TEXT[o], handler) for o in opcodes)
        return handler

    return register


def handles_target(*targets: str) -> Callable[[Handler], Handler]:
    """Register a function as the handler of these custom-call targets."""

    def register(handler: Handler) -> Handler:
        TARGET_HANDLERS.update((t, handler) for t in targets)
        return handler

    return register


@dataclass(frozen=True)
class SpmdProgram:
    """State shared by all computations of a partitioned module."""

    num_partitions: int
    num_replicas: int
    options: PartitionerOptions
    channels: Channels

    @property
    def causes(self) -> Causes:
        """Why each collective is made."""
        return self.channels.causes


class SpmdPartitioningVisitor:
    """Partitions one computation.

    `b` builds the device's computation; `state` is passed to each PartitionedHlo.
    """

    def __init__(self, computation: HloComputation, program: SpmdProgram) -> None:
        self.source = computation
        self.program = program
        self.b = SpmdBuilder(computation.module.add_computation(f"{computation.name}_spmd"))
        collectives = CollectiveOps(self.b, program.channels, program.num_partitions, program.num_replicas)
        self.state = PartitioningState(
            self.b,
            program.num_partitions,
            program.num_replicas,
            collectives.partition_id(),
            collectives,
            program.options,
            program.causes,
        )
        self._partitioned: dict[HloInstruction, PartitionedHlo] = {}

    # -- for handlers ------------------------------------------------------------------------------

    @property
    def num_partitions(self) -> int:
        """Number of devices.

        While an instruction with manual subgroups is visited, the number of devices in a group.
        """
        return self.state.num_partitions

    def sharding(self, hlo: HloInstruction) -> HloSharding:
        """Return the sharding of a source instruction."""
        return sharding_of(hlo)

    def partitioned(self, hlo: HloInstruction) -> PartitionedHlo:
        """Return what a source instruction was partitioned into."""
        return self._partitioned[hlo]

    def resharded(self, hlo: HloInstruction, number: int, target: HloSharding, reason: str = "") -> PartitionedHlo:
        """Reshard a source instruction's operand to `target`; its collectives name this operand."""
        operand = self.partitioned(hlo.operands[number])
        reason = reason or f"{hlo.opcode} needs operands with the sharding of its result"
        with self.state.because(hlo, number, operand.sharding, target, reason):
            return operand.reshard(target)

    def replicated(self, hlo: HloInstruction, number: int, reason: str = "") -> PartitionedHlo:
        """Return a source instruction's operand, replicated."""
        operand = self.partitioned(hlo.operands[number])
        reason = reason or f"{hlo.opcode} needs the whole operand on every device"
        with self.state.because(hlo, number, operand.sharding, HloSharding.replicate(), reason):
            return operand.replicate()

    def arrived(self, hlo: HloInstruction, made: HloInstruction, sharding: HloSharding, shape: Shape) -> PartitionedHlo:
        """Reshard a result to the sharding of the source instruction.

        `sharding` is what it has now, `shape` the shape of the whole.
        """
        set_sharding(made, sharding)
        wanted = sharding_of(hlo)
        reason = f"another sharding of the result of {hlo.opcode} is needed than its operands imply"
        with self.state.because(hlo, None, sharding, wanted, reason):
            return PartitionedHlo(made, shape, self.state).reshard(wanted)

    def set_partitioned(
        self, hlo: HloInstruction, made: PartitionedHlo | HloInstruction | Callable[[], HloInstruction]
    ) -> None:
        """Record what a source instruction was partitioned into; a new one gets its sharding."""
        if not isinstance(made, PartitionedHlo):
            new = made if isinstance(made, HloInstruction) else made()
            set_sharding(new, sharding_of(hlo))
            made = PartitionedHlo(new, hlo.shape, self.state)
        self._partitioned[hlo] = made

    def replace_partitioned(self, hlo: HloInstruction, made: PartitionedHlo) -> None:
        """Replace the recorded value of an instruction."""
        self._partitioned[hlo] = made

    def default_action(self, hlo: HloInstruction) -> None:
        """Run the instruction on replicated operands, or on the device that has them.

        Its result is resharded to the instruction's sharding.
        """
        sharding = sharding_of(hlo)
        if hlo.has_side_effect and not sharding.has_unique_device:
            raise UnimplementedError(f"an instruction with a side effect cannot be replicated: {hlo}")
        device = sharding.unique_device
        base = HloSharding.replicate() if device is None else HloSharding.assign_device(device)
        operands = [
            self.resharded(
                hlo, n, base.normalize_tuple(o.shape), f"{hlo.opcode} is not partitioned: it needs the whole operand"
            ).hlo
            for n, o in enumerate(hlo.operands)
        ]
        clone = self.b.clone(hlo, operands)
        self.set_partitioned(hlo, self.arrived(hlo, clone, base.normalize_tuple(hlo.shape), hlo.shape))

    def handle_single_device(self, hlo: HloInstruction) -> None:
        """Run on one device by a conditional; the other devices get zero (HandleSingleDevice)."""
        device = unique_device(self.sharding(hlo))
        sharding = HloSharding.assign_device(device)
        b = self.b
        operands = [self.resharded(hlo, n, sharding).hlo for n in range(len(hlo.operands))]
        operand = b.add(_O.TUPLE, operands)
        here = b.constant(np.uint32(device))
        is_here = b.add(_O.COMPARE, (self.state.partition_id, here), array(PrimitiveType.PRED), direction="EQ")
        then = SpmdBuilder(b.module.add_computation("true_computation"), hlo)
        given = then.add(_O.PARAMETER, (), operand.shape, name="true_branch_param", parameter_number=0)
        parts = [then.get_tuple_element(given, n) for n in range(len(operands))]
        then.finish(then.clone(hlo, parts))
        other = SpmdBuilder(b.module.add_computation("false_computation"), hlo)
        other.add(_O.PARAMETER, (), operand.shape, name="false_branch_param", parameter_number=0)
        other.finish(create_zero(hlo.shape, other))
        made = b.add(
            _O.CONDITIONAL,
            (is_here, operand, operand),
            hlo.shape,
            true_computation=then.computation,
            false_computation=other.computation,
        )
        self.set_partitioned(hlo, made)

    # -- visiting ----------------------------------------------------------------------------------

    def run(self, root_sharding: HloSharding) -> HloComputation:
        """Partition the computation; its result has sharding `root_sharding`."""
        for hlo in self._order():
            self.b.visiting = hlo
            with self.program.causes.because(CauseKind.RESHARD, "", hlo=hlo), visiting(self, hlo):
                self.dispatch(hlo)
            self.b.visiting = None
        root = self.source.root
        reason = "another sharding of the computation's result is needed"
        with self.state.because(root, None, sharding_of(root), root_sharding, reason):
            made = self.partitioned(root).reshard(root_sharding)
        return self.b.finish(made.hlo)

    def dispatch(self, hlo: HloInstruction) -> None:
        """Partition an instruction by its registered handler."""
        handler = HANDLERS.get(hlo.opcode)
        if hlo.opcode is _O.CUSTOM_CALL:
            handler = TARGET_HANDLERS.get(hlo.attributes["custom_call_target"], handler)
        if handler is None:
            self.default_action(hlo)
        else:
            handler(self, hlo)
        if hlo not in self._partitioned:
            raise XlanbError(f"partitioning {hlo.name} produced nothing")

    def _order(self) -> Iterator[HloInstruction]:
        """Yield operands before users: dead instructions first, then what the root needs.

        Follows HloComputation::Accept.
        """
        root = self.source.root
        starts = [i for i in self.source if not i.users and i is not root]
        done: set[HloInstruction] = set()
        for start in (*starts, root):
            stack: list[tuple[HloInstruction, bool]] = [(start, False)]
            while stack:
                hlo, is_open = stack.pop()
                if hlo in done:
                    continue
                if is_open:
                    done.add(hlo)
                    yield hlo
                    continue
                stack.append((hlo, True))
                before = (*hlo.operands, *hlo.control_predecessors)
                stack.extend((o, False) for o in reversed(before) if o not in done)
