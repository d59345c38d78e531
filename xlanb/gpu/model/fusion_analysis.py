"""Which emitter a fusion gets: its roots, their heroes and its kind.

Follows xla/service/gpu/hlo_fusion_analysis.h.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any, Final

from xlanb.gpu.backend_config import fusion_config
from xlanb.gpu.devices import GpuDevice
from xlanb.gpu.heroes import grouped_transpose, is_intermediate, is_tiled_transpose
from xlanb.gpu.model.fusion_view import FusionView
from xlanb.gpu.reductions import dimensions_of, is_real_reduction_hero
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Shape
from xlanb.transforms.bitcasts import is_bitcast

TRITON_KIND: Final = "__triton"
_TRITON_KINDS = frozenset((TRITON_KIND, "__triton_gemm", "__triton_nested_gemm_fusion", "__triton_collective"))
_BANKS: Final = 32
_BANK_BITS: Final = 32
_MAX_CONCATENATED: Final = 4


class EmitterKind(Enum):
    """The emitters of XLA:GPU's fusions."""

    LOOP = "loop"
    REDUCTION = "reduction"
    TRANSPOSE = "transpose"
    SCATTER = "scatter"
    CONCATENATE = "concatenate"
    SORT = "sort"
    TRITON = "triton"
    CUSTOM = "custom"
    CUDNN = "cudnn"


@dataclass(frozen=True)
class Transpose:
    """A transpose through shared memory, with adjacent dimensions of its result merged."""

    dimensions: tuple[int, ...]
    permutation: tuple[int, ...]
    bits: int
    operand_shape: ArrayShape
    shared_bytes: int
    tile: tuple[int, ...] = ()
    """For a packed transpose, the canonical result's tile."""
    canonical: tuple[int, ...] = ()
    """For a packed transpose, the canonical result's sizes."""

    def is_equivalent(self, other: Transpose) -> bool:
        """Whether both exchange equal dimensions."""
        return (self.dimensions, self.permutation, self.bits) == (other.dimensions, other.permutation, other.bits)


def tiled_transpose(i: HloInstruction) -> Transpose | None:
    """Return how a transpose uses shared memory, or None for any other instruction."""
    if i.opcode is not O.TRANSPOSE:
        return None
    read, permutation = grouped_transpose(i)
    if len(permutation) < 2:
        return None
    sizes = tuple(read[p] for p in permutation)
    operand = i.operands[0].array_shape
    bits = bit_width(operand)
    packed = _packed_tile(sizes, permutation, bits)
    if packed is not None:
        shared = _BANKS * (_BANK_BITS // 8) * _BANKS * (_BANK_BITS // bits)
        return Transpose(sizes, permutation, bits, operand, shared, *packed)
    if not is_tiled_transpose(i):
        return None
    keeps_minor = permutation[-1] == len(sizes) - 1
    if bits == 4 and not keeps_minor:
        return None
    shared_bits = _BANKS * (_BANKS + 1) * bits * (sizes[-1] if keeps_minor else 1)
    return Transpose(sizes, permutation, bits, operand, -(-shared_bits // 8))


def _packed_tile(
    sizes: tuple[int, ...], permutation: tuple[int, ...], bits: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return tile and canonical sizes [.., T2, .., A, T1, B] of a packed transpose.

    Its elements are narrower than a bank.
    """
    if bits >= _BANK_BITS:
        return None
    output, permuted = list(sizes), list(permutation)
    if permuted[-1] != len(output) - 1:
        permuted.append(len(output))
        output.append(1)
    rank = len(output)
    if permuted[rank - 3] != rank - 3:
        output.insert(rank - 2, 1)
        permuted = [p + (p > rank - 3) for p in permuted]
        permuted.insert(rank - 2, rank - 2)
    rank = len(output)
    inverse = [permuted.index(n) for n in range(rank)]
    read = [output[n] for n in inverse]
    vector = _BANK_BITS // bits
    edge = _BANKS * vector
    # The result is [.., T1, .., A, T2, B] if the operand is [.., T2, .., A, T1, B].
    t1, t2, a, b = read[rank - 2], output[rank - 2], output[rank - 3], output[-1]
    tile_t1 = min(t1, edge)
    tile_a = min(a, edge // tile_t1)
    tile_t2 = min(t2, edge)
    columns = tile_a * tile_t1
    least = 10 * vector
    if columns < least or tile_t2 < least:
        return None
    if b != 1 or tile_t2 % vector or columns % vector or t2 % tile_t2 % vector:
        return None
    tile = [1] * rank
    tile[inverse[rank - 2]] = tile_t1
    tile[rank - 2] = tile_t2
    tile[rank - 3] = tile_a
    return tuple(tile), tuple(output)


def bit_width(shape: Shape) -> int:
    """Return the bits of an element in memory; a pred has 8."""
    return shape.element_type.bits if isinstance(shape, ArrayShape) else 0


def find_hero(root: HloInstruction, view: FusionView) -> HloInstruction:
    """Return the hero of a root within a fusion; see xlanb.gpu.heroes."""
    hero = root
    while is_intermediate(hero, 1):
        above = view.resolve(hero.operands[0])
        if not view.contains(above):
            break
        hero = above
    for opcode in (O.TRANSPOSE, O.CONCATENATE):
        found = _only_above(hero, view, opcode) if opcode in view.opcodes else None
        if found is not None:
            return found
    return hero if hero.opcode is O.REDUCE else root


def _only_above(root: HloInstruction, view: FusionView, opcode: O) -> HloInstruction | None:
    """Return the only concatenation or tiled transpose above a root, or None.

    It must be reached through intermediate instructions, and only such may depend on it.
    """
    hero: HloInstruction | None = None
    passed: set[HloInstruction] = set()

    def advances(i: HloInstruction) -> bool:
        return i not in passed and is_intermediate(i)

    for i in view.walk((root,), view.operands, advances):
        if i.opcode is opcode and (opcode is not O.TRANSPOSE or tiled_transpose(i) is not None):
            if hero is not None:
                return None
            hero = i
            passed.add(i)
    if hero is None:
        return None
    below = view.walk(view.users(hero), view.users)
    return hero if all(i.opcode in (O.TUPLE, O.PARAMETER) or is_intermediate(i) for i in below) else None


class FusionAnalysis:
    """Facts about a fusion: an instruction, or a producer and consumer that could be fused."""

    def __init__(self, view: FusionView, device: GpuDevice, config: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.view = view
        self.device = device
        self.config = config
        self.roots = view.roots
        heroes = tuple(find_hero(root, view) for root in view.roots)
        self.transpose = _consistent_transpose(view.roots, heroes)
        self.kind = _kind(config.get("kind", ""), view, heroes, self.transpose)
        if self.kind is EmitterKind.LOOP:
            heroes, self.transpose = view.roots, None
        self.heroes = heroes

    @staticmethod
    def of(*parts: HloInstruction, device: GpuDevice) -> FusionAnalysis:
        """Return the analysis of an instruction, or of a producer fused into a consumer."""
        configs = (fusion_config(p) for p in reversed(parts) if p.backend_config)
        return FusionAnalysis(FusionView(*parts), device, next(configs, {}))

    @cached_property
    def smallest_input_bits(self) -> int:
        """Bits of the narrowest element read; a large number if nothing is read."""
        return _smallest_bits(p.shape for p in self.view.parameters)

    @cached_property
    def smallest_output_bits(self) -> int:
        """Bits of the narrowest element written."""
        return _smallest_bits(r.shape for r in self.roots)

    @cached_property
    def hero_reduction(self) -> HloInstruction:
        """The first hero that makes the fusion a reduction."""
        pairs = zip(self.roots, self.heroes, strict=True)
        return next(hero for root, hero in pairs if is_real_reduction_hero(root, hero))


def _smallest_bits(shapes: object) -> int:
    widths = [bit_width(s) for s in shapes if isinstance(s, ArrayShape)]  # type: ignore[attr-defined]
    return min(widths, default=2147483647)


def _consistent_transpose(roots: Sequence[HloInstruction], heroes: Sequence[HloInstruction]) -> Transpose | None:
    """Return the transpose that all transposing heroes have in common.

    Returns None if they differ, or if another root has not its operand's shape.
    """
    found: Transpose | None = None
    others: list[HloInstruction] = []
    for root, hero in zip(roots, heroes, strict=True):
        t = tiled_transpose(hero)
        if t is None:
            others.append(root)
        elif found is None:
            found = t
        elif not found.is_equivalent(t):
            return None
    if found is None:
        return None
    return found if all(is_reshape_or_transpose_bitcast(r.shape, found.operand_shape) for r in others) else None


def is_reshape_or_transpose_bitcast(a: Shape, b: Shape) -> bool:
    """Whether two arrays have the same elements in the same order in memory, regardless of type."""
    if not isinstance(a, ArrayShape) or not isinstance(b, ArrayShape):
        return False
    if a.element_count != b.element_count:
        return False
    b = b.with_type(a.element_type)
    if a == b or is_bitcast(a, b):
        return True
    # A transpose that is a bitcast: the same sizes in memory order.
    return _physical(a) == _physical(b)


def _physical(shape: ArrayShape) -> list[int]:
    return [n for d in reversed(shape.minor_to_major) if (n := shape.dimensions[d]) != 1]


def _kind(
    configured: str, view: FusionView, heroes: Sequence[HloInstruction], transpose: Transpose | None
) -> EmitterKind:
    if configured == "__custom_fusion":
        return EmitterKind.CUSTOM
    if configured in _TRITON_KINDS:
        return EmitterKind.TRITON
    if configured == "__cudnn$fusion":
        return EmitterKind.CUDNN
    if _is_reduction(view.roots, heroes, view):
        return EmitterKind.REDUCTION
    if transpose is not None:
        return EmitterKind.TRANSPOSE
    if len(view.roots) > 1:
        return EmitterKind.LOOP
    root, hero = view.roots[0], heroes[0]
    if root.opcode is O.SCATTER:
        return EmitterKind.SCATTER
    if root.opcode is O.SORT:
        return EmitterKind.SORT
    is_array = isinstance(root.shape, ArrayShape)
    if hero.opcode is O.CONCATENATE and is_array and len(hero.operands) <= _MAX_CONCATENATED:
        return EmitterKind.CONCATENATE
    return EmitterKind.LOOP


def _is_reduction(roots: Sequence[HloInstruction], heroes: Sequence[HloInstruction], view: FusionView) -> bool:
    """Whether a root is a row or column reduction, and the others fit its loop."""
    pairs = list(zip(roots, heroes, strict=True))
    first = next((hero for root, hero in pairs if is_real_reduction_hero(root, hero)), None)
    if first is None:
        return False
    count = elements_in(view.resolve(first.operands[0]).shape)
    for root, hero in pairs:
        if root is first:
            continue
        if not is_real_reduction_hero(root, hero):
            if elements_in(root.shape) != count:
                return False
        elif dimensions_of(hero) != dimensions_of(first):
            return False
    return True


def elements_in(shape: Shape) -> int:
    """Return the element count of an array, or of all leaves of a tuple."""
    if isinstance(shape, ArrayShape):
        return shape.element_count
    return sum(prod(s.dimensions) for _, s in shape.leaves() if isinstance(s, ArrayShape))


class FusionAnalyses:
    """Cached analyses of instructions and pairs (HloFusionAnalysisCache)."""

    def __init__(self, device: GpuDevice) -> None:
        self.device = device
        self._known: dict[tuple[HloInstruction, ...], FusionAnalysis] = {}
        self._keys: dict[HloInstruction, set[tuple[HloInstruction, ...]]] = {}

    def of(self, *parts: HloInstruction) -> FusionAnalysis:
        """Return the analysis of an instruction, or of a producer fused into a consumer."""
        found = self._known.get(parts)
        if found is None:
            found = self._known[parts] = FusionAnalysis.of(*parts, device=self.device)
            for p in parts:
                self._keys.setdefault(p, set()).add(parts)
        return found

    def invalidate(self, i: HloInstruction) -> None:
        """Forget the analyses of an instruction that is about to change."""
        for key in self._keys.pop(i, ()):
            self._known.pop(key, None)
