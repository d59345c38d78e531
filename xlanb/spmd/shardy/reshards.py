"""Insert the reshards that Shardy makes explicit before partitioning.

Follows shardy/dialect/sdy/transforms/export/insert_explicit_reshards.cc.

    c = concatenate(x {rows in 4}, y {rows in 2})
    =>  y' = reshard(y) {rows in 4}; c' = concatenate(x, y') {rows in 4}; c = reshard(c')
    d = dot(a, b), scattered over the axes that it sums over
    =>  d' = dot(a, b) split as the operand is; d = reshard(d')

The partitioner handles everything else.
"""

from __future__ import annotations

from itertools import pairwise

from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import AxisRef, TensorSharding
from xlanb.spmd.shardy.axes import Axes, is_strict_list_prefix, overlaps, prefix_without_overlaps, total_size
from xlanb.spmd.shardy.editing import set_operand, set_result
from xlanb.spmd.shardy.program import ShardyOp, ShardyProgram, ShardyValue, ValueKind
from xlanb.spmd.shardy.projection import ShardingProjection, TensorFactorShardings
from xlanb.spmd.shardy.rule import OpShardingRule
from xlanb.spmd.shardy.rules import sharding_rule


def insert_reshards(program: ShardyProgram) -> None:
    """Insert the reshards of concatenations, ragged dots and dots."""
    for op in list(program.walk()):
        if op.kind is not ValueKind.HLO or op.opcode not in (O.CONCATENATE, O.RAGGED_DOT, O.DOT):
            continue
        site = _site(program, op)
        if site is None:
            continue
        if op.opcode is O.DOT:
            _reshard_dot(site)
        elif op.opcode is O.RAGGED_DOT or any(s != site.outputs[0] for s in site.inputs):
            _reshard(site)


@dataclass
class _ReshardSite:
    """An operation, its rule, and its shardings by factor."""

    op: ShardyOp
    rule: OpShardingRule
    mesh: Mesh
    inputs: list[TensorSharding | None]
    outputs: list[TensorSharding | None]
    projection: ShardingProjection

    def sizes(self) -> list[int]:
        """Return the element counts, operands first."""
        return [_element_count(v) for v in (*self.op.operands, *self.op.results)]


def _element_count(value: ShardyValue) -> int:
    count = 1
    for d in value.dimensions:
        count *= d
    return count


def _site(program: ShardyProgram, op: ShardyOp) -> _ReshardSite | None:
    rule = sharding_rule(op)
    inputs = [None if v.sharding is None else v.sharding.closed() for v in op.operands]
    outputs = [None if v.sharding is None else v.sharding.closed() for v in op.results]
    meshes = [program.meshes[s.mesh] for s in (*inputs, *outputs) if s is not None]
    if rule is None or not meshes or meshes[0].is_maximal or len({(m.axes, m.device_ids) for m in meshes}) > 1:
        return None
    return _ReshardSite(op, rule, meshes[0], inputs, outputs, ShardingProjection.of(inputs, outputs, rule, meshes[0]))


# -- changes ---------------------------------------------------------------------------------------


def _reshard_operand(op: ShardyOp, number: int, sharding: TensorSharding) -> None:
    value = op.operands[number]
    made = ShardyOp(ValueKind.CONSTRAINT, O.COPY, op.hlo, [value], region=op.region)
    made.results = [ShardyValue(value.name, value.shape, made, own_sharding=sharding)]
    value.uses.append((made, 0))
    set_operand(op, number, made.results[0])
    if op.region is not None:
        op.region.ops.insert(op.region.ops.index(op), made)


def _reshard_result(op: ShardyOp, number: int, computed: TensorSharding) -> None:
    """Compute a result with another sharding, and reshard it for its users."""
    value = op.results[number]
    seen = value.sharding or TensorSharding.fully_closed(computed.mesh, value.rank)
    uses, returned = list(value.uses), list(value.returned)
    made = ShardyOp(ValueKind.CONSTRAINT, O.COPY, op.hlo, [value], region=op.region)
    made.results = [ShardyValue(value.name, value.shape, made, own_sharding=seen)]
    value.uses.append((made, 0))
    for user, place in uses:
        set_operand(user, place, made.results[0])
    for region, place in returned:
        set_result(region, place, made.results[0])
    value.sharding = computed
    if op.region is not None:
        op.region.ops.insert(op.region.ops.index(op) + 1, made)


# -- whole operations ------------------------------------------------------------------------------


def _reshard(site: _ReshardSite) -> None:
    """Give each factor the same axes in all operands and results."""
    common = _compatible_axes(site)
    if common is None:
        common = _best_axes(site)
    mappings = (*site.rule.operands, *site.rule.results)
    for n, tensor in enumerate(site.projection.tensors):
        changed = any(f.overflow or common.get(factor, ()) != f.axes for factor, f in tensor.factors.items())
        if not changed:
            continue
        for factor, at in tensor.factors.items():
            at.axes, at.overflow = common.get(factor, ()), ()
        sharding = tensor.sharding(mappings[n], site.rule.factor_sizes, site.mesh)
        count = len(site.op.operands)
        if n < count:
            _reshard_operand(site.op, n, sharding)
        else:
            _reshard_result(site.op, n - count, sharding)


def _compatible_axes(site: _ReshardSite) -> dict[int, Axes] | None:
    """Return each factor's axes if all arrays agree and no axis is used twice."""
    out: dict[int, Axes] = {}
    seen: list[AxisRef] = []
    for factor in range(len(site.rule.factor_sizes)):
        found = {t.factors[factor].axes for t in site.projection.tensors if factor in t.factors}
        if len(found) > 1:
            return None
        axes = next(iter(found), ())
        if factor in site.rule.need_replication:
            if axes:
                return None
            continue
        if any(overlaps(a, b) for a in axes for b in seen):
            return None
        out[factor] = axes
        seen += axes
    return out


@dataclass
class _Candidate:
    """Axes of an operand or result along a factor, and the criteria for choosing them."""

    factor: int
    axes: Axes
    source_size: int = 0
    precedence: int = 0
    sharding_size: int = 0

    def key(self, mesh: Mesh) -> tuple[object, ...]:
        """Return the criteria for choosing the best."""
        axes = [(mesh.index(a.name), a.pre_size, a.size(mesh)) for a in self.axes]
        return self.source_size, self.precedence, self.sharding_size, self.factor, axes


def _candidates(site: _ReshardSite) -> list[_Candidate]:
    """Yield each prefix of each factor's axes, with the sizes of the arrays that it splits."""
    found: dict[tuple[int, Axes], _Candidate] = {}
    tensors = list(zip(site.sizes(), site.projection.tensors, strict=True))
    for _, tensor in tensors:
        for factor, at in tensor.factors.items():
            for length in range(1, len(at.axes) + 1):
                axes = at.axes[:length]
                size = total_size(axes, site.mesh)
                found.setdefault((factor, axes), _Candidate(factor, axes, 0, _precedence(site.rule, factor), size))
    for size, tensor in tensors:
        for factor, at in tensor.factors.items():
            for candidate in found.values():
                same = candidate.axes == at.axes or is_strict_list_prefix(candidate.axes, at.axes)
                if candidate.factor == factor and same:
                    candidate.source_size += size
    return list(found.values())


def _precedence(rule: OpShardingRule, factor: int) -> int:
    if factor in rule.need_replication:
        return 0
    if factor in rule.permutation:
        return 1
    return 2 if factor in rule.reduction else 3


def _best_axes(site: _ReshardSite) -> dict[int, Axes]:
    """Choose each factor's axes, from the largest arrays first; overlapping axes are trimmed."""
    chosen: dict[int, Axes] = {}
    candidates = _candidates(site)
    waits: dict[int, set[int]] = {}
    for mapping in (*site.rule.operands, *site.rule.results):
        for dim in mapping:
            for before, factor in pairwise(dim):
                waits.setdefault(factor, set()).add(before)
    while True:
        ready = [c for c in candidates if not waits.get(c.factor)]
        if not ready:
            break
        best = max(ready, key=lambda c: c.key(site.mesh))
        chosen[best.factor] = best.axes
        if total_size(best.axes, site.mesh) == site.rule.factor_sizes[best.factor]:
            for factors in waits.values():
                factors.discard(best.factor)
        candidates = _remaining(candidates, best, chosen, site.mesh)
    for factor in site.rule.need_replication:
        spare = chosen.pop(factor, ())
        everywhere = all(factor in t.factors for t in site.projection.tensors if t.factors)
        if spare and everywhere:
            _distribute(spare, site, chosen)
    return chosen


def _remaining(candidates: list[_Candidate], best: _Candidate, chosen: dict[int, Axes], mesh: Mesh) -> list[_Candidate]:
    """Return the candidates that may still be chosen, updated for what they would add."""
    out: list[_Candidate] = []
    for candidate in candidates:
        has = chosen.get(candidate.factor, ())
        if candidate.factor == best.factor:
            if not is_strict_list_prefix(best.axes, candidate.axes):
                continue
        else:
            axes = _without_overlap(candidate.axes, best.axes)
            if axes != candidate.axes:
                candidate.axes = axes
                if axes == has:
                    continue
        candidate.sharding_size = total_size(candidate.axes, mesh) // max(1, total_size(has, mesh))
        out.append(candidate)
    return out


def _without_overlap(axes: Axes, others: Axes) -> Axes:
    """Return the axes up to the first that overlaps others, and its prefix before the overlap."""
    out: list[AxisRef] = []
    for axis in axes:
        kept = prefix_without_overlaps(axis, others)
        if kept is not None:
            out.append(kept)
        if kept != axis:
            break
    return tuple(out)


def _distribute(spare: Axes, site: _ReshardSite, chosen: dict[int, Axes]) -> None:
    """Give axes that a factor may not have to factors that all arrays share."""
    tensors = [t for t in site.projection.tensors if t.factors]
    left = list(spare)
    for factor, size in enumerate(site.rule.factor_sizes):
        batching = site.rule.is_pass_through(factor) and all(factor in t.factors for t in tensors)
        taken = total_size(chosen.get(factor, ()), site.mesh)
        if not batching or not size or size % taken:
            continue
        room = size // taken
        while left and room % left[0].size(site.mesh) == 0:
            axis = left.pop(0)
            chosen[factor] = (*chosen.get(factor, ()), axis)
            room //= axis.size(site.mesh)
        if not left:
            break


# -- dots ------------------------------------------------------------------------------------------


def _reshard_dot(site: _ReshardSite) -> None:
    """Compute a dot's result split as an operand is, then reshard it.

    Applies if the result is split by the axes that the dot sums over. The reshard becomes a
    reduce-scatter.
    """
    if site.outputs[0] is None:
        return
    lhs, rhs = site.projection.operands
    result = site.projection.results[0]
    counts = site.sizes()
    conflict: tuple[int, Axes] | None = None
    reduced: list[AxisRef] = []
    seen: list[AxisRef] = []
    for factor in range(len(site.rule.factor_sizes)):
        left, right = _axes(lhs, factor), _axes(rhs, factor)
        if left is not None and right is not None:
            axes, largest = left, max(counts[0], counts[1])
            if left != right:
                return
            if factor in site.rule.reduction:
                reduced += axes
                continue
        else:
            axes, largest = (left, counts[0]) if left is not None else (right or (), counts[1])
            if any(overlaps(a, b) for a in axes for b in seen):
                return
            seen += axes
        if _axes(result, factor) != axes:
            if not axes or conflict is not None or counts[2] > largest:
                return
            conflict = factor, axes
    if conflict is None:
        return
    at = result.factors[conflict[0]]
    if not at.axes or at.axes != tuple(reduced):
        return
    at.axes = conflict[1]
    _reshard_result(site.op, 0, result.sharding(site.rule.results[0], site.rule.factor_sizes, site.mesh))


def _axes(tensor: TensorFactorShardings, factor: int) -> Axes | None:
    return tensor.factors[factor].axes if factor in tensor.factors else None
