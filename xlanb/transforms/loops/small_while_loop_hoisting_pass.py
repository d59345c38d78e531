"""Move small while loops into calls of one kernel (small-while-loop-hoisting).

    w = while(t), condition=c, body=b
      =>  w = call(t), to_apply={ROOT while(p), condition=c, body=b},
          frontend_attributes={xla_cpu_small_call="true"}

XLA:CPU compiles such a call into one function, so that a loop that accesses fewer than
`small_buffer_access_size` bytes per iteration does not pay for launching every instruction. A loop
that needs the runtime (collectives, custom calls, libraries) stays.
Source: xla/service/cpu/small_while_loop_hoisting_pass.h.
"""

from __future__ import annotations

from xlanb.analysis.cost import cost
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.base import HloPass

_UNAVAILABLE = frozenset({O.CUSTOM_CALL, O.INFEED, O.OUTFEED, O.SCATTER, O.SORT, O.FFT, O.PARTITION_ID, O.REPLICA_ID})
_SMALL = ("xla_cpu_small_call", "true")


@dataclass(frozen=True)
class SmallWhileLoopHoistingPass(HloPass):
    """Moves each small while loop into its own computation.

    `small_buffer_access_size` is the limit in bytes.
    """

    name = "small-while-loop-hoisting"
    small_buffer_access_size: int = 1024

    def apply(self, module: HloModule) -> None:
        known: dict[HloComputation, bool] = {}
        loops = [i for c in module.post_order() for i in c if i.opcode is O.WHILE]
        for loop in loops:
            if (
                not _is_hoisted(loop)
                and not _needs_runtime(loop, known)
                and _bytes_of_a_round(loop) < self.small_buffer_access_size
            ):
                _hoist(loop)


def _is_hoisted(loop: HloInstruction) -> bool:
    return any(_SMALL in caller.frontend_attributes for caller in loop.parent.module.callers(loop.parent))


def _needs_runtime(i: HloInstruction, known: dict[HloComputation, bool]) -> bool:
    if i.opcode in _UNAVAILABLE or i.opcode.kind in {"collective", "async"}:
        return True
    if i.opcode is O.FUSION:
        return bool(i.get("kind") == "kCustom")
    for c in i.called_computations:
        if c not in known:
            known[c] = any(_needs_runtime(inner, known) for inner in c)
        if known[c]:
            return True
    return False


def _bytes_of_a_round(loop: HloInstruction) -> float:
    """Bytes that an iteration accesses; nested loops count as one iteration each."""
    return sum(_bytes(i) for c in loop.called_computations for i in c)


def _bytes(i: HloInstruction) -> float:
    if i.opcode in (O.WHILE, O.CALL):
        return _bytes_of_a_round(i)
    return cost(i).bytes_accessed


def _hoist(loop: HloInstruction) -> None:
    parent, module = loop.parent, loop.parent.module
    start = loop.operands[0]
    c = module.add_computation(f"{loop.name}_computation", execution_thread=parent.execution_thread)
    p = c.add(O.PARAMETER, (), start.shape, name=start.name, parameter_number=0)
    c.set_root(c.clone_instruction(loop, (p,)))
    call = parent.add(O.CALL, (start,), loop.shape, like=loop, to_apply=c)
    parent.update(call, frontend_attributes=(*call.frontend_attributes, _SMALL))
    for before in loop.control_predecessors:
        parent.add_control_dependency(before, call)
    for after in loop.control_successors:
        parent.add_control_dependency(call, after)
    parent.drop_control_dependencies(loop)
    parent.replace_uses(loop, call)
    parent.remove(loop)
