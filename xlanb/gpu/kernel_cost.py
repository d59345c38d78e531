"""Count operations and bytes of one XLA:GPU launch, on the HLO instruction that it runs.

Counts as XLA's own analysis (gpu_hlo_cost_analysis.h): a fusion operand of which only slices are
used costs these slices, and an in-place update costs the update. Calls of cuBLAS and cuDNN cost
their products.
"""

from __future__ import annotations

import math
import re

from xlanb.analysis.cost import cost
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Shape

_SEEN_THROUGH = frozenset((O.BITCAST, O.RESHAPE, O.CONVERT, O.COPY))
_SLICES = frozenset((O.SLICE, O.DYNAMIC_SLICE, O.GATHER))
_CONTRACTED = re.compile(r'"lhs_contracting_dimensions"\s*:\s*\[([\d", ]*)\]')
_CONVOLUTION = re.compile(r"__cudnn\$conv(Forward|BackwardInput|BackwardFilter|BiasActivationForward)")
_MESH = re.compile(r"mesh\[(?P<axes>[^\]]*)\]\s*\{(?P<groups>[^}]*)\}")
_AXIS = re.compile(r"'([^']*)'=(\d{1,6})")
_COLLECTIVES = frozenset(
    (O.ALL_REDUCE, O.ALL_REDUCE_START, O.ALL_GATHER, O.ALL_GATHER_START, O.ALL_TO_ALL, O.REDUCE_SCATTER,
     O.COLLECTIVE_PERMUTE, O.COLLECTIVE_PERMUTE_START, O.COLLECTIVE_BROADCAST)
)  # fmt: skip


@dataclass(frozen=True)
class KernelCost:
    """The counts of one launch.

    Attributes:
        flops: floating-point operations; a transcendental function counts as one.
        bytes_read: bytes read.
        bytes_written: bytes written.
        dtype: the dtype of most of the work ("f32", "bf16").
        network_bytes: what each device sends in a ring.
        participants: the devices in the ring.
    """

    flops: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    dtype: str = "f32"
    network_bytes: float = 0.0
    participants: int = 1

    @property
    def bytes(self) -> float:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written


def kernel_cost(i: HloInstruction) -> KernelCost:
    """Return the cost of one launch that computes an instruction."""
    if i.opcode is O.ASYNC_START and i.called_computations:
        i = i.called_computations[0].root
    counts = cost(i)
    flops = counts.flops + counts.transcendentals
    dtype = _dtype(i)
    if i.opcode is O.FUSION:
        body = i.called_computations[0]
        read = sum(_read_of(p) for p in body.parameters)
        return KernelCost(flops, read, _written(body.root), dtype)
    if i.opcode is O.CUSTOM_CALL:
        flops = _library_flops(i)
    if i.opcode in _COLLECTIVES:
        given = float(sum(o.shape.byte_size for o in i.operands))
        count = _participants(i)
        return KernelCost(flops, given, given, dtype, _sent(i.opcode, given, count), count)
    # XLA's counts already handle slices outside fusions; the result is what is written.
    written = min(float(i.shape.byte_size), counts.bytes_accessed)
    if i.opcode is O.CUSTOM_CALL:
        return KernelCost(flops, sum(o.shape.byte_size for o in dict.fromkeys(i.operands)), written, dtype)
    return KernelCost(flops, counts.bytes_accessed - written, written, dtype)


def _read_of(parameter: HloInstruction) -> float:
    """Return the bytes that a fusion reads of one operand.

    If only slices of it are used, those of the slices; for an operand updated in place, none.
    """
    whole = float(parameter.shape.byte_size)
    read = 0.0
    stack, seen = [parameter], {parameter}
    while stack:
        value = stack.pop()
        for user in value.users:
            if user.opcode in _SLICES and user.operands[0] is value and value not in user.operands[1:]:
                read += user.shape.byte_size
            elif user.opcode is O.DYNAMIC_UPDATE_SLICE and user.operands[0] is value and value not in user.operands[1:]:
                continue  # in place: only the update is written
            elif user.opcode in _SEEN_THROUGH and user is not user.parent.root:
                if user not in seen:
                    seen.add(user)
                    stack.append(user)
            else:
                return whole
        if value is parameter.parent.root:
            return whole
    return min(read, whole)


def _written(root: HloInstruction) -> float:
    """Return the bytes that a fusion writes; of results updated in place, only the updates."""
    parts = root.operands if root.opcode is O.TUPLE else (root,)
    return sum(_written_of(p) for p in parts)


def _written_of(i: HloInstruction) -> float:
    seen = i
    while seen.opcode is O.BITCAST:
        seen = seen.operands[0]
    return float((seen.operands[1] if seen.opcode is O.DYNAMIC_UPDATE_SLICE else i).shape.byte_size)


def _dtype(i: HloInstruction) -> str:
    """Return the element type of the first product, else of a floating-point or any result."""
    for inner in _instructions(i):
        if inner.opcode in (O.DOT, O.CONVOLUTION, O.SCALED_DOT, O.RAGGED_DOT):
            return _element(inner.operands[0].shape)
    leaves = [s for _, s in i.shape.leaves() if isinstance(s, ArrayShape)]
    floating = next((s for s in leaves if s.element_type.is_floating), None)
    chosen = floating or next(iter(leaves), None)
    return str(chosen.element_type) if chosen is not None else "f32"


def _instructions(i: HloInstruction) -> list[HloInstruction]:
    """Yield an instruction with all that it calls."""
    found = [i]
    pending: list[HloComputation] = list(i.called_computations)
    seen = set(pending)
    while pending:
        for inner in pending.pop():
            found.append(inner)
            new = [c for c in inner.called_computations if c not in seen]
            seen.update(new)
            pending += new
    return found


def _element(shape: Shape) -> str:
    return str(shape.element_type) if isinstance(shape, ArrayShape) else "f32"


def _library_flops(i: HloInstruction) -> float:
    """Return the operations of a cuBLAS or cuDNN call, 0 for any other."""
    target = str(i.attributes.get("custom_call_target", ""))
    results = [s for _, s in i.shape.leaves() if isinstance(s, ArrayShape)]
    operands = [o.shape for o in i.operands[:2] if isinstance(o.shape, ArrayShape)]
    if not results or len(operands) < 2:
        return 0.0
    left, right = operands
    if target.startswith("__cublas"):
        found = _CONTRACTED.search(i.backend_config)
        dims = [int(n) for n in re.findall(r"\d{1,4}", found[1])] if found is not None else []
        if not dims or max(dims) >= len(left.dimensions):
            return 0.0
        return 2.0 * results[0].element_count * math.prod(left.dimensions[d] for d in dims)
    kind = _CONVOLUTION.match(target)
    if kind is None or "dim_labels" not in i.attributes:
        return 0.0
    # Each element of the output side is multiplied by a whole filter without its output features,
    # whichever of the two is computed.
    output, kernel = {"BackwardInput": (left, right), "BackwardFilter": (right, results[0])}.get(
        kind[1], (results[0], right)
    )
    features: int = i.attributes["dim_labels"].output_feature
    if features >= len(output.dimensions) or not output.dimensions[features]:
        return 0.0
    return 2.0 * output.element_count * kernel.element_count / output.dimensions[features]


def _sent(code: O, given: float, count: int) -> float:
    """Return the bytes that one device sends in a ring; an all-reduce goes around twice."""
    if code in (O.ALL_GATHER, O.ALL_GATHER_START):
        return given * (count - 1)
    if code in (O.COLLECTIVE_PERMUTE, O.COLLECTIVE_PERMUTE_START, O.COLLECTIVE_BROADCAST):
        return given
    return given * (count - 1) / count * (2 if code in (O.ALL_REDUCE, O.ALL_REDUCE_START) else 1)


def _participants(i: HloInstruction) -> int:
    """Return how many devices take part in a collective: those of its first group, else all."""
    text = str(i.attributes.get("replica_groups", ""))
    if (mesh := _MESH.match(text)) is not None:
        axes = {name: int(size) for name, size in _AXIS.findall(mesh["axes"])}
        return max(math.prod(axes.get(name, 1) for name in re.findall(r"'([^']*)'", mesh["groups"])), 1)
    listed, iota, _ = text.partition("<=")
    sizes = [int(n) for n in re.findall(r"\d{1,6}", listed if iota else text.partition("}")[0])]
    if sizes:
        return max(sizes[-1], 1) if iota else len(sizes)
    if i.opcode in (O.COLLECTIVE_PERMUTE, O.COLLECTIVE_PERMUTE_START):
        return 2
    counts = (i.parent.module.header.get(name, "1") for name in ("num_partitions", "replica_count"))
    return max(math.prod(int(n) for n in counts if n.isdigit()), 1)
