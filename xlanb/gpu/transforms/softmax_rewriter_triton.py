"""Fuse normalizations into one kernel (the pass triton-softmax-rewriter).

Follows xla/backends/gpu/transforms/softmax_rewriter_triton.cc.

    m = reduce(x), dimensions={1};  b = broadcast(m);  subtract(x, b)
    =>  fusion(x), kind=kCustom, calls={reduce, broadcast, subtract}, "__triton"

Such a diamond combines a value with a reduction of its own rows, and reads each row twice; in one
kernel a row stays in registers. Its sides may contain elementwise instructions of one value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from itertools import pairwise
from typing import Final

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.operand_use import is_elementwise
from xlanb.conditions import Condition, decide, first_failing, objecting
from xlanb.gpu import backend_config
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.model.cost_analysis import GpuCostAnalysis
from xlanb.gpu.model.fusion_view import FusionView
from xlanb.gpu.model.tiling import Tiling, best_tiling
from xlanb.gpu.triton import support
from xlanb.gpu.triton.support_legacy import has_triton
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import Shape
from xlanb.tracing import unobserved
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

KIND: Final = "__triton"
"""The kind of the fusions in their backend config."""

_NAME: Final = "triton_softmax"


@dataclass(frozen=True)
class SoftmaxRewriterTriton(HloPass):
    """Fuses diamonds around row reductions, for devices that run Triton's kernels."""

    name = "triton-softmax-rewriter"
    triggers = frozenset((O.REDUCE,))
    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))

    def apply(self, module: HloModule) -> None:
        if not has_triton(self.device):
            return
        found = [
            d for c in nonfusion_computations(module) for i in c.post_order() if (d := self._diamond(i)) is not None
        ]
        # Last first: the root of a diamond may be the producer of the next one.
        for diamond in reversed(found):
            if _is_worth_it(diamond):
                _fuse(diamond)

    def _diamond(self, root: HloInstruction) -> Diamond | None:
        """Return the diamond that ends in an instruction, or None."""
        if not is_elementwise(root) or len(root.operands) != 2:
            return None
        diamond = Diamond(root, self.device)
        # Most binary instructions are in no diamond: report a decision only with a reduction.
        if diamond.reduce is None:
            return diamond if first_failing(_FORM, diamond) is None else None
        return diamond if decide("match a normalisation", (root.name,), _FORM, diamond) else None


@dataclass(frozen=True)
class Diamond:
    """The parts of a diamond that ends in a binary instruction, as far as they exist.

    `broadcast` and `reduce` are above its right operand; `producer` is where the reduction and the
    left operand start.
    """

    root: HloInstruction
    device: GpuDevice

    @cached_property
    def broadcast(self) -> HloInstruction | None:
        """The broadcast of the reduced value along rows."""
        return _above(self.root.operands[1], O.BROADCAST, self.device)

    @cached_property
    def reduce(self) -> HloInstruction | None:
        """The row reduction."""
        return None if self.broadcast is None else _above(self.broadcast.operands[0], O.REDUCE, self.device)

    @cached_property
    def found(self) -> tuple[HloInstruction, HloInstruction]:
        """The broadcast and the reduction of a complete diamond."""
        if self.broadcast is None or self.reduce is None:
            raise ValueError(f"{self.root.name} is not part of a softmax diamond")
        return self.broadcast, self.reduce

    @cached_property
    def producer(self) -> HloInstruction:
        """The value that is normalized."""
        i = self.found[1].operands[0]
        while _is_passed(i, self.device):
            i = _main_operand(i)
        return i

    @cached_property
    def tiling(self) -> Tiling | str:
        """The fastest tiling, or why there is none."""
        with unobserved():
            fusion = _trial(self).entry_computation.root
            return best_tiling(FusionView(fusion), GpuCostAnalysis(self.device), self.device)


# -- matching --------------------------------------------------------------------------------------


def _above(i: HloInstruction, opcode: O, device: GpuDevice) -> HloInstruction | None:
    """Return the nearest instruction of an opcode from `i` upwards through skippable ones."""
    while i.opcode is not opcode:
        if not _is_passed(i, device):
            return None
        i = _main_operand(i)
    return i


def _is_passed(i: HloInstruction, device: GpuDevice) -> bool:
    """Whether an instruction can be part of a diamond's side.

    It is elementwise with one value, or a bitcast, so it reads no more than it returns for any
    tile.
    """
    if i.user_count > 1 or not _is_row_major(i.shape) or i.control_predecessors or i.control_successors:
        return False
    if i.opcode is O.BITCAST:
        return True
    if not is_elementwise(i) or i.opcode is O.CONSTANT:
        return False
    if len(i.operands) == 2 and i.operands[0] is not i.operands[1]:
        repeated = [_is_repeated(o) for o in i.operands]
        if repeated[0] == repeated[1]:
            return False
    return len(i.operands) <= 2 and not support.objection(i, device)


def _main_operand(i: HloInstruction) -> HloInstruction:
    return i.operands[1] if len(i.operands) > 1 and _is_repeated(i.operands[0]) else i.operands[0]


def _is_repeated(i: HloInstruction) -> bool:
    """Whether it is a scalar constant, or a broadcast parameter."""
    if i.opcode is not O.BROADCAST:
        return False
    source = i.operands[0]
    return source.opcode is O.PARAMETER or (source.opcode is O.CONSTANT and source.array_shape.is_scalar)


def _is_row_major(shape: Shape) -> bool:
    if not shape.is_array:
        return False
    order = shape.as_array().minor_to_major
    return all(a > b for a, b in pairwise(order))


def _reduction_objection(d: Diamond) -> str:
    _, reduce = d.found
    if text := support.objection(reduce, d.device):
        return text
    if reduce.dimensions != (reduce.operands[0].array_shape.rank - 1,):
        return f"`{reduce.name}` does not reduce exactly the last dimension"
    start = reduce.operands[1]
    if start.opcode is O.CONVERT and not support.objection(start, d.device):
        start = start.operands[0]
    return "" if start.opcode is O.CONSTANT else f"`{reduce.name}` starts from `{start.name}`, not a constant"


def _sides_objection(d: Diamond) -> str:
    left = d.root.operands[0]
    if not _is_row_major(d.producer.shape):
        return f"`{d.producer.name}` is not row-major"
    if not _begins_with(left, d.producer, d.device):
        return f"`{left.name}` is not derived from `{d.producer.name}` by unary instructions"
    return f"`{left.name}` has other users" if left is not d.producer and left.user_count != 1 else ""


def _begins_with(i: HloInstruction, producer: HloInstruction, device: GpuDevice) -> bool:
    """Whether a value comes from another through skippable instructions."""
    while i is not producer:
        if not _is_passed(i, device):
            return False
        i = _main_operand(i)
    return True


def _users(*instructions: HloInstruction) -> str:
    return ", ".join(f"{i.name} has {i.user_count}" for i in instructions)


_FORM: Final[tuple[Condition[Diamond], ...]] = (
    objecting("the emitter supports the root", lambda d: support.objection(d.root, d.device)),
    Condition(
        "it has no control dependencies", lambda d: not (d.root.control_predecessors or d.root.control_successors)
    ),
    Condition("its right operand is a broadcast along one dimension", lambda d: d.broadcast is not None),
    Condition("the broadcast operand is a reduction", lambda d: d.reduce is not None),
    Condition("both are row-major", lambda d: all(_is_row_major(i.shape) for i in d.found)),
    objecting("it is a row reduction", _reduction_objection),
    Condition(
        "the reduction and the broadcast have no other users",
        lambda d: all(i.user_count == 1 for i in d.found),
        lambda d: _users(*d.found),
    ),
    Condition(
        "the broadcast is along the reduced dimension",
        lambda d: d.found[0].array_shape.rank - 1 not in d.found[0].dimensions,
    ),
    objecting("both sides start from the same value", _sides_objection),
)
_PROFIT: Final[tuple[Condition[Diamond], ...]] = (
    objecting(
        "a tile of the result can be computed by one block",
        lambda d: d.tiling if isinstance(d.tiling, str) else "",
        lambda d: "" if isinstance(d.tiling, str) else "x".join(map(str, d.tiling.sizes)),
    ),
)


def _is_worth_it(d: Diamond) -> bool:
    return decide("fuse a normalisation", (d.root.name,), _PROFIT, d)


# -- the fusion ------------------------------------------------------------------------------------


@reason("f(A, broadcast(reduce(A))) => one fusion of A")
def _fuse(d: Diamond) -> None:
    c = d.root.parent
    fused = c.module.add_computation(f"{_NAME}_computation", execution_thread=c.execution_thread)
    given = _copied(d, fused, lambda reducer: reducer)
    fusion = c.add(O.FUSION, given, d.root.shape, name=_NAME, kind="kCustom", calls=fused)
    config: dict[str, object] = {"kind": KIND}
    if not isinstance(d.tiling, str):
        config["block_level_fusion_config"] = d.tiling.config
    c.update(fusion, backend_config=backend_config.changed(fusion_backend_config=config))
    c.replace(d.root, fusion)


def _trial(d: Diamond) -> HloModule:
    """Return a module with the diamond as its only fusion."""
    module = HloModule("trial")
    fused, entry = module.add_computation("diamond"), module.add_computation("entry", entry=True)
    given = _copied(d, fused, module.clone_computation)
    operands = [_parameter(entry, n, o) for n, o in enumerate(given)]
    entry.set_root(entry.add(O.FUSION, operands, d.root.shape, kind="kCustom", calls=fused))
    return module


def _parameter(c: HloComputation, number: int, like: HloInstruction) -> HloInstruction:
    return c.add(O.PARAMETER, (), like.shape, name=f"parameter_{number}", parameter_number=number)


def _copied(
    d: Diamond, target: HloComputation, called: Callable[[HloComputation], HloComputation]
) -> list[HloInstruction]:
    """Copy a diamond into a computation as its root; return the values of its parameters.

    Nothing above the producer is copied, nor are parameters; broadcasts on the sides are.
    """
    given = [d.producer]
    made = {d.producer: _parameter(target, 0, d.producer)}
    stack = [d.root]
    while stack:
        i = stack[-1]
        missing = [o for o in i.operands if o not in made]
        if i in made:
            stack.pop()
        elif missing:
            stack.extend(reversed(missing))
        elif i.opcode is O.PARAMETER:
            made[i] = _parameter(target, len(given), i)
            given.append(i)
        else:
            copy = made[i] = target.clone_instruction(i, [made[o] for o in i.operands])
            if i.opcode is O.REDUCE and (reducer := called(i.to_apply)) is not i.to_apply:
                target.update(copy, attributes={"to_apply": reducer})
    target.set_root(made[d.root])
    return given
