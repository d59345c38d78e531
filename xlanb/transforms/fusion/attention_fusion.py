"""Fuse attention, softmax(f(q k^T)) v, into one kernel that does not store all scores.

s = dot(q, k), p = softmax(f(s, mask)), r = dot(p, v)
  =>  r = fusion(q, k, v, mask), kind=kCustom, calls={s, p, ROOT r}, "__xlanb_attention"

XLA:CPU has no such pass: it stores scores, probabilities and result one after the other. The fused
computation is the same plain HLO. The kernel goes over tiles of queries and keys with a running
maximum and sum per row (M. Milakov, N. Gimelshein 2018; T. Dao et al. 2022, FlashAttention). Scores
stay in a core's cache, and tiles that are fully masked out are skipped. The fusion includes the
masks and the shape changes of q, k, v and the result: the kernel reads and writes with any strides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.operand_use import is_elementwise
from xlanb.conditions import Condition, decide, objecting
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion_editing import fuse_group
from xlanb.transforms.reason import reason

if TYPE_CHECKING:
    from xlanb.analysis.attention import Attention

KIND = "__xlanb_attention"
"""The fusion's kind in its backend config."""
_CONFIG = f'{{"fusion_config":{{"kind":"{KIND}"}}}}'
_LEAST_KEYS = 48
"""With fewer keys, packing them costs as much as storing the scores."""
_LEAST_QUERIES, _LEAST_NARROW_QUERIES = 48, 8
"""With fewer queries, packing the keys costs more than it saves.

The limit is lower for 16-bit floats, which the unfused products pack too.
"""
_LEAST_SCORES = 1 << 15
"""With fewer scores over all heads, there is too little to save."""
_DEEPEST = 16
"""The depth to which operands are searched for iotas."""


class AttentionFusion(HloPass):
    """Fuses each softmax between two dots whose scores have no other user, if it pays."""

    name = "attention-fusion"
    triggers = frozenset((O.DOT,))

    def apply(self, module: HloModule) -> None:
        if O.EXPONENTIAL not in module.opcodes:
            return
        from xlanb.analysis.attention import attention_of, between

        graph = CallGraph(module)
        for c in module.computations:
            if not graph.is_control(c) or sum(i.opcode is O.DOT for i in c) < 2:
                continue
            order = c.post_order()
            places = {i: n for n, i in enumerate(order)}
            for i in reversed(order):
                found = attention_of(i) if i.opcode is O.DOT and i in c else None
                if found is None:
                    continue
                candidate = Candidate(found, dict.fromkeys(between(found, places)))
                if decide("fuse attention", (found.scores.name, i.name), CONDITIONS, candidate):
                    _fuse(c, candidate, places)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An attention; `inside` are the instructions from its scores to its result, result first."""

    attention: Attention
    inside: Mapping[HloInstruction, None]


def _other_use(x: Candidate) -> str:
    """The other users of the scores, or of intermediate values before the result."""
    for i in x.inside:
        if i is x.attention.root:
            continue
        if i.is_root:
            return f"{i.name} is a result of {i.parent.name}"
        for user in i.users:
            if user not in x.inside:
                return f"{user.name} reads {i.name}"
    return ""


def _ordered(x: Candidate) -> str:
    held = next((i for i in x.inside if i.control_predecessors or i.control_successors), None)
    return f"{held.name} has control dependencies" if held is not None else ""


def _scores(a: Attention) -> int:
    return a.head_count * a.rows.size * a.keys.size


def _least_queries(a: Attention) -> int:
    return _LEAST_NARROW_QUERIES if a.operand_type.bits < 32 else _LEAST_QUERIES


def _queries(a: Attention) -> str:
    return f"{a.rows.size} queries of {a.operand_type}; at least {_least_queries(a)} are needed"


def _score_count(a: Attention) -> str:
    product = f"{a.head_count} x {a.rows.size} x {a.keys.size}"
    return f"{product} = {_scores(a)} scores; at least {_LEAST_SCORES} are needed"


CONDITIONS: Sequence[Condition[Candidate]] = (
    objecting(
        "the scores have no other users",
        _other_use,
        lambda x: f"{len(x.inside)} instructions from {x.attention.scores.name} to {x.attention.root.name}",
        lambda _: (
            "a backward pass that reads the probabilities keeps them in memory; "
            "compute the forward pass alone, or apply `jax.checkpoint`"
        ),
    ),
    objecting("there are no control dependencies", _ordered),
    Condition(
        "there are enough keys",
        lambda x: x.attention.keys.size >= _LEAST_KEYS,
        lambda x: f"{x.attention.keys.size} keys; at least {_LEAST_KEYS} are needed",
    ),
    Condition(
        "there are enough queries",
        lambda x: x.attention.rows.size >= _least_queries(x.attention),
        lambda x: _queries(x.attention),
    ),
    Condition(
        "there are enough scores",
        lambda x: _scores(x.attention) >= _LEAST_SCORES,
        lambda x: _score_count(x.attention),
    ),
)
"""Conditions for an attention to become one kernel."""


@reason("softmax(f(q k^T)) v in one pass over tiles of queries and keys, with a running maximum and sum of each row")
def _fuse(c: HloComputation, x: Candidate, places: Mapping[HloInstruction, int]) -> None:
    a, inside = x.attention, x.inside
    moved = {i for access in (a.q, a.k, a.v) for i in access.path}
    beside = _logit_operands(a, inside)
    group = {a.root: None}
    waiting = [(-places[o], o) for o in dict.fromkeys(a.root.operands) if o in places]
    heapify(waiting)
    while waiting:  # the last first: users before operands
        _, i = heappop(waiting)
        if i in group or not (i in inside or _belongs(i, group, moved, beside)):
            continue
        group[i] = None
        for o in i.operands:
            if o in places:
                heappush(waiting, (-places[o], o))
    fusion = fuse_group(tuple(group), "kCustom", "fused_attention", "attention_fusion")
    c.update(fusion, backend_config=_CONFIG)


def _logit_operands(a: Attention, inside: Mapping[HloInstruction, None]) -> set[HloInstruction]:
    """Elementwise operands of the logits that are as large as the scores: masks and biases."""
    found: set[HloInstruction] = set()
    rest = [o for i in inside if i not in (a.scores, a.product) for o in i.operands if o not in inside]
    while rest:
        i = rest.pop()
        large = i.shape.is_array and i.array_shape.element_count >= a.scores.array_shape.element_count
        if i not in found and large and is_elementwise(i) and i.opcode is not O.FUSION:
            found.add(i)
            rest += i.operands
    return found


def _belongs(
    i: HloInstruction,
    group: Collection[HloInstruction],
    moved: set[HloInstruction],
    beside: set[HloInstruction],
) -> bool:
    """Whether an operand is computed inside the fusion."""
    if i.control_predecessors or i.control_successors or not i.shape.is_array:
        return False
    if i.opcode is O.CONSTANT:
        return i.array_shape.rank == 0
    if i.opcode is O.BROADCAST or _is_of_indices(i):
        return True
    return (i in moved or i in beside) and not i.is_root and all(user in group for user in i.users)


def _is_of_indices(i: HloInstruction, depth: int = 0) -> bool:
    """Whether elements depend only on their own indices and constants: causal masks, distances."""
    if i.opcode is O.IOTA or (i.opcode is O.CONSTANT and i.array_shape.rank == 0):
        return True
    looked_through = i.opcode in (O.BROADCAST, O.BITCAST, O.RESHAPE) or is_elementwise(i)
    if depth == _DEEPEST or not looked_through or i.opcode in (O.CONSTANT, O.FUSION, O.MAP):
        return False
    return all(_is_of_indices(o, depth + 1) for o in i.operands)
