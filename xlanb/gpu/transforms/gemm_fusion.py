"""Fuse dots with their producers and users into one kernel (the pass triton-gemm-rewriter).

Follows xla/backends/gpu/transforms/gemm_fusion.cc.

    c = convert(x);  d = dot(c, y);  r = maximum(d, 0)
    =>  fusion(x, y), kind=kCustom, calls={convert, dot, maximum}, "__triton_gemm"

The fusion grows from the dot into its operands and into its only user, as long as the emitter can
follow the dot's dimensions (`tiling_propagation`) and no more memory is accessed than before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import Final

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.dot_dimensions import free_dimensions
from xlanb.analysis.operand_use import is_elementwise
from xlanb.conditions import Condition, decide, first_failing, objecting
from xlanb.errors import PassError
from xlanb.gpu import backend_config
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.triton import support_legacy
from xlanb.gpu.triton.support_legacy import UNSET, elements_of, has_triton
from xlanb.gpu.triton.tiling_propagation import (
    WHOLE,
    DimensionOrder,
    DotSide,
    Propagated,
    TilingDirection,
    combined,
    propagate,
    side_of_operand,
    side_of_result,
)
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType as T
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

KIND: Final = "__triton_gemm"
"""The kind of the fusions in their backend config."""

_MAX_PARAMETERS: Final = 4
"""Per operand of a dot."""
TINY: Final = 100
"""A dot with at most this many operand elements is emitted as a plain loop."""
_LOOP_TYPES: Final = frozenset((T.F16, T.F32, T.BF16))
_TOLERATED_BYTES: Final = 1024
_NOT_FUSED: Final = frozenset(
    (O.TUPLE, O.GET_TUPLE_ELEMENT, O.REDUCE, O.ALL_REDUCE, O.ALL_REDUCE_START, O.ALL_REDUCE_DONE, O.PAD)
)


@dataclass(frozen=True)
class GemmFusion(HloPass):
    """Fuses dots with their operands and users.

    Applies to devices that run Triton's kernels: NVIDIA's from Ampere on.
    """

    name = "triton-gemm-rewriter"
    triggers = frozenset((O.DOT,))
    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))

    def apply(self, module: HloModule) -> None:
        if not has_triton(self.device):
            return
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.DOT and i in c:
                    _fuse(i, self.device)


def is_triton_gemm(i: HloInstruction) -> bool:
    """Whether an instruction is a fusion made by this pass."""
    return i.opcode is O.FUSION and backend_config.fusion_config(i).get("kind") == KIND


# -- conditions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _FusibleDot:
    """A dot that may become a fusion."""

    dot: HloInstruction
    device: GpuDevice


_SIDES: Final = ("lhs", "rhs")


def is_left_to_loops(dot: HloInstruction) -> bool:
    """Whether a dot is so small that a plain loop is as fast as a matrix product kernel."""
    return elements_of(dot) < TINY and dot.shape.element_type in _LOOP_TYPES and dot.get("algorithm") == UNSET


def _form_objection(s: _FusibleDot) -> str:
    if len(s.dot.operands) != 2:
        return "it has a sparsity descriptor"
    for side in _SIDES:
        if len(s.dot.ints(f"{side}_contracting_dims")) != 1 or len(free_dimensions(s.dot, side)) != 1:
            return f"the {side} does not have exactly one contracting and one non-contracting dimension"
    return ""


_DOT_CONDITIONS: Final[tuple[Condition[_FusibleDot], ...]] = (
    Condition("it has no control dependencies", lambda s: not (s.dot.control_predecessors or s.dot.control_successors)),
    objecting("each operand has one contracting and one non-contracting dimension", _form_objection),
    Condition(
        f"it is large enough: its operands have {TINY} elements or more",
        lambda s: not is_left_to_loops(s.dot),
        lambda s: f"{elements_of(s.dot)} elements",
        lambda s: f"use larger operands for `{s.dot.name}`",
    ),
    objecting("the emitter supports it", lambda s: support_legacy.dot_objection(s.dot, s.device)),
)


@dataclass(frozen=True)
class _FusionStep:
    """An instruction that the fusion may include next.

    Attributes:
        order: how the dot's dimensions are arranged on its known side.
        major_part: size of the major part of the dimension that may be split in two, as fused so
            far.
        source: the operand already fused, if the fusion grows towards users.
    """

    instruction: HloInstruction
    order: DimensionOrder
    direction: TilingDirection
    side: DotSide
    device: GpuDevice
    major_part: int = WHOLE
    source: int | None = None

    @cached_property
    def found(self) -> Propagated | str:
        """The orders on the other side, or why there are none."""
        return propagate(self.instruction, self.order, self.direction, self.side)

    @property
    def orders(self) -> Propagated:
        """The orders on the other side, if they can be followed."""
        found = self.found
        if isinstance(found, str):
            raise PassError(f"{self.instruction.name} cannot be followed: {found}")
        return found

    @property
    def next_major_part(self) -> int | None:
        """The major part's size including this instruction, or None if the split differs."""
        return combined(self.major_part, self.orders.major_part)


def _kind_objection(s: _FusionStep) -> str:
    i = s.instruction
    if i.control_predecessors or i.control_successors:
        return "it has control dependencies"
    if i.opcode in _NOT_FUSED or (i.opcode is O.DYNAMIC_SLICE and s.direction is TilingDirection.TO_OPERANDS):
        return f"{i.opcode} is not fused into a dot"
    if i.opcode is O.PARAMETER:
        return "it is a parameter"
    if i.opcode is O.POWER and i.user_count > 1:
        return "it is expensive and would be recomputed for its other users"
    return ""


def _input_objection(s: _FusionStep) -> str:
    i = s.instruction
    if _reads_broadcast(s) or _is_input_worth_fusing(i):
        return ""
    growth = _bytes_in_less_out(i)
    return "it has a tuple operand" if growth is None else f"it reads {growth} bytes more than it writes"


def _output_objection(s: _FusionStep) -> str:
    i = s.instruction
    computed = [o for n, o in enumerate(i.operands) if n != s.source and not _is_plain_input(o)]
    if computed:
        return f"its other operand `{computed[0].name}` is computed"
    growth = _bytes_in_less_out(i)
    if growth is None:
        return "it has a tuple operand"
    ends = i.is_root or (i.user_count == 1 and i.users[0].is_root and i.users[0].opcode is O.TUPLE)
    return "" if ends or growth >= -_TOLERATED_BYTES else f"it writes {-growth} bytes more than it reads"


_COMMON: Final[tuple[Condition[_FusionStep], ...]] = (
    objecting("it is of a kind that is fused", _kind_objection),
    objecting("the emitter supports it", lambda s: support_legacy.objection(s.instruction, s.device)),
    objecting(
        "the dot's dimensions can be propagated through it", lambda s: s.found if isinstance(s.found, str) else ""
    ),
)
_AGREES: Final[Condition[_FusionStep]] = Condition(
    "it needs no different split of the dimension that may be split in two", lambda s: s.next_major_part is not None
)
_INPUT_CONDITIONS: Final = (*_COMMON, objecting("fusing does not read more bytes", _input_objection), _AGREES)
_OUTPUT_CONDITIONS: Final = (
    *_COMMON,
    objecting("fusing does not read and write more bytes", _output_objection),
    _AGREES,
)


def _takes(step: _FusionStep, conditions: Sequence[Condition[_FusionStep]], dot: HloInstruction) -> bool:
    """Whether the instruction is fused with `dot`; reported to observers."""
    return decide("fuse", (step.instruction.name, dot.name), conditions, step)


def _reads_broadcast(s: _FusionStep) -> bool:
    """Whether a binary elementwise instruction reads a broadcast parameter or constant.

    That broadcast can be fused too.
    """
    i = s.instruction
    if not is_elementwise(i) or len(i.operands) != 2:
        return False
    return any(
        o.opcode is O.BROADCAST
        and o.operands[0].opcode in (O.PARAMETER, O.CONSTANT)
        and first_failing(
            _INPUT_CONDITIONS, _FusionStep(o, s.orders.orders[o], TilingDirection.TO_OPERANDS, s.side, s.device)
        )
        is None
        for o in i.operands
    )


def _is_input_worth_fusing(i: HloInstruction) -> bool:
    """Whether fusing an input reads no more than its result, or its only reader is here.

    In the second case its operands must be in memory.
    """
    growth = _bytes_in_less_out(i)
    if growth is None:
        return False
    if growth <= _TOLERATED_BYTES:
        return True
    if i.user_count > 1 or i.opcode is O.MULTIPLY:
        return False
    if i.opcode is O.SLICE:  # it reads only a part
        return _is_in_memory_anyway(i)
    return all(o.opcode in (O.PARAMETER, O.CONSTANT) and o.user_count == 1 for o in i.operands)


def _is_in_memory_anyway(cut: HloInstruction) -> bool:
    """Whether the sliced value is materialized anyway.

    It is a parameter, or another user reads more of it.
    """
    (whole,) = cut.operands
    if _is_effective_parameter(whole) or whole.opcode is O.CONSTANT:
        return True
    return any(
        u.opcode is not O.SLICE or u.array_shape.element_count > cut.array_shape.element_count
        for u in whole.users
        if u is not cut
    )


def _bytes_in_less_out(i: HloInstruction) -> int | None:
    if not all(o.shape.is_array for o in i.operands):
        return None
    return sum(o.shape.byte_size for o in i.operands) - i.shape.byte_size


def _is_plain_input(o: HloInstruction) -> bool:
    """Whether it is a parameter, or a broadcast scalar or parameter."""
    if o.opcode is O.BROADCAST and (o.operands[0].array_shape.is_scalar or _is_effective_parameter(o.operands[0])):
        return True
    return _is_effective_parameter(o)


def _is_effective_parameter(i: HloInstruction) -> bool:
    while i.opcode in (O.BITCAST, O.GET_TUPLE_ELEMENT):
        i = i.operands[0]
    return i.opcode is O.PARAMETER


# -- what is fused ---------------------------------------------------------------------------------


@dataclass
class _FusionNode:
    """An instruction as the fusion reads it, one node per way of reading it.

    `operands` are node numbers; with None it becomes a parameter.
    """

    instruction: HloInstruction
    order: DimensionOrder
    operands: list[int] | None = None


@dataclass
class _Tree:
    """What is fused from an instruction (node 0) upwards."""

    nodes: list[_FusionNode]

    def leaves(self) -> list[_FusionNode]:
        """Return the nodes that become parameters."""
        return [n for n in self.nodes if n.operands is None]


@dataclass
class _FusionPlan:
    """What a fusion around a dot contains.

    `operands` are the trees above its operands. `users` are its users, with the trees above their
    other operands (None for the fused operand).
    """

    operands: list[_Tree]
    users: list[tuple[HloInstruction, list[_Tree | None]]]

    @property
    def output(self) -> HloInstruction | None:
        """The last fused user, or None if the dot is the result."""
        return self.users[-1][0] if self.users else None


def _planned(dot: HloInstruction, device: GpuDevice) -> _FusionPlan:
    """Plan the fusion as far as all conditions hold."""
    trees, major_part = [], WHOLE
    for n, o in enumerate(dot.operands):
        step = _FusionStep(
            o, DimensionOrder.of(o.array_shape), TilingDirection.TO_OPERANDS, side_of_operand(dot, n), device
        )
        tree, part = _grown_up(step, dot, _MAX_PARAMETERS)
        trees.append(tree)
        major_part = part if n == 0 else major_part
    return _FusionPlan(trees, _grown_down(dot, device, major_part))


def _grown_up(first: _FusionStep, dot: HloInstruction, max_parameters: int | None) -> tuple[_Tree, int]:
    """Return the tree above an instruction, nearest first, and the major part's size with it.

    An instruction that would add too many parameters is retried later: fusing others may reduce
    their number.
    """
    nodes = [_FusionNode(first.instruction, first.order)]
    number_of = {(first.instruction, first.order.strides()): 0}
    leaves, queue, waiting, major_part = {0}, deque([0]), 0, first.major_part
    while len(queue) > waiting:
        n = queue.popleft()
        node = nodes[n]
        if max_parameters is not None and len(leaves) + _added_parameters(node.instruction) > max_parameters:
            queue.append(n)
            waiting += 1
            continue
        waiting = 0
        step = _FusionStep(
            node.instruction, node.order, TilingDirection.TO_OPERANDS, first.side, first.device, major_part
        )
        if node.instruction.opcode is O.PARAMETER or not _takes(step, _INPUT_CONDITIONS, dot):
            continue
        major_part = step.next_major_part or major_part
        leaves.discard(n)
        node.operands = []
        for o in node.instruction.operands:
            # Operands that the emitter need not follow, such as a padding value, have no order.
            order = step.orders.orders[o]
            key = (o, order.strides())
            if key not in number_of:
                number_of[key] = len(nodes)
                leaves.add(len(nodes))
                queue.append(len(nodes))
                nodes.append(_FusionNode(o, order))
            node.operands.append(number_of[key])
    return _Tree(nodes), major_part


def _added_parameters(i: HloInstruction) -> int:
    """Return how many parameters fusing an instruction adds."""
    if i.opcode is O.PARAMETER or (i.opcode is O.CONSTANT and not i.array_shape.is_scalar):
        return 0
    return len(i.operands) - 1


def _grown_down(
    dot: HloInstruction, device: GpuDevice, major_part: int
) -> list[tuple[HloInstruction, list[_Tree | None]]]:
    """Return the fused users, each the only user of the one before."""
    users: list[tuple[HloInstruction, list[_Tree | None]]] = []
    side, last, order = side_of_result(major_part), dot, DimensionOrder.of(dot.array_shape)
    while last.user_count == 1 and not last.is_root:
        user = last.users[0]
        step = _FusionStep(user, order, TilingDirection.TO_RESULT, side, device, major_part, user.operands.index(last))
        if not _takes(step, _OUTPUT_CONDITIONS, dot):
            break
        major_part, order = step.next_major_part or major_part, step.orders.orders[user]
        trees: list[_Tree | None] = [None]
        if len(user.operands) > 1:
            back = _FusionStep(user, order, TilingDirection.TO_OPERANDS, side, device, major_part)
            if isinstance(back.found, str) or back.next_major_part is None:
                break
            major_part, trees = back.next_major_part, []
            for o in user.operands:
                if o is last:
                    trees.append(None)
                    continue
                start = _FusionStep(o, back.orders.orders[o], TilingDirection.TO_OPERANDS, side, device, major_part)
                tree, major_part = _grown_up(start, dot, None)
                trees.append(tree)
        users.append((user, trees))
        last = user
    return users


def _has_batch_innermost_int4(dot: HloInstruction, plan: _FusionPlan) -> bool:
    """Whether an int4 parameter has the batch as its minormost dimension: two share a byte."""
    for side, tree in zip(_SIDES, plan.operands, strict=True):
        for batch in dot.ints(f"{side}_batch_dims"):
            for leaf in tree.leaves():
                if leaf.instruction.shape.element_type is T.S4:
                    runs = dict(leaf.order.strides()).get(batch, ())
                    if runs and runs[0].stride == 1:
                        return True
    return False


# -- the fusion ------------------------------------------------------------------------------------


def _fuse(dot: HloInstruction, device: GpuDevice) -> None:
    subject = _FusibleDot(dot, device)
    if not decide("make a gemm fusion", (dot.name,), _DOT_CONDITIONS, subject):
        return
    plan = _planned(dot, device)
    if not _has_batch_innermost_int4(dot, plan):
        _build(dot, plan)


@reason("dot with its operands and users => one fusion")
def _build(dot: HloInstruction, plan: _FusionPlan) -> None:
    c = dot.parent
    name = f"gemm_fusion_{dot.name}"
    fused = c.module.add_computation(f"{name}_computation", execution_thread=c.execution_thread)
    given: list[HloInstruction] = []
    last = fused.clone_instruction(dot, [_copied(fused, tree, given) for tree in plan.operands])
    for user, trees in plan.users:
        operands = [last if tree is None else _copied(fused, tree, given) for tree in trees]
        last = fused.clone_instruction(user, operands)
    fused.set_root(last)
    fusion = c.add(O.FUSION, given, last.shape, name=name, metadata=dot.metadata, kind="kCustom", calls=fused)
    c.update(fusion, backend_config=backend_config.changed(fusion_backend_config={"kind": KIND}))
    c.replace(plan.output or dot, fusion)


def _copied(fused: HloComputation, tree: _Tree, given: list[HloInstruction]) -> HloInstruction:
    """Copy a tree into a fusion, operands first; add its parameters to `given`."""
    made: dict[int, HloInstruction] = {}
    stack = [0]
    while stack:
        n = stack[-1]
        node = tree.nodes[n]
        open_operands = [o for o in node.operands or () if o not in made]
        if n in made:
            stack.pop()
        elif open_operands:
            stack.extend(reversed(open_operands))
        else:
            stack.pop()
            if node.operands is None:
                number = len(given)
                given.append(node.instruction)
                shape, name = node.instruction.shape, f"parameter_{number}"
                made[n] = fused.add(O.PARAMETER, (), shape, name=name, parameter_number=number)
            else:
                made[n] = fused.clone_instruction(node.instruction, [made[o] for o in node.operands])
    return made[0]


__all__ = ["KIND", "GemmFusion", "is_triton_gemm"]
