"""The tiling that XLA:GPU's autotuner chooses without a device for a dot in a Triton kernel.

    default_config(TritonDot(dot, gpu_device("a100")))
    =>  TritonGemmConfig(block_m=16, block_n=8, block_k=128, ...)

The autotuner lists tilings from small to large (dot_search_space.cc), and keeps those in the
architecture's list of known good ones, limited to the problem's size. Without measuring, it takes
the first. The lists here hold what decides that; they were found by compiling dots of many sizes
with the XLA:GPU of JAX 0.10.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isqrt, prod
from typing import Any, Final

from xlanb.gpu.devices import GpuDevice
from xlanb.hlo.instruction import HloInstruction
from xlanb.lazy_dataclass import dataclass

_MAX_WARPS_PER_SCHEDULER: Final = 5
_SCHEDULERS: Final = 4
_MIN_WARPS: Final = 2
_MIN_WARPS_FOR_WGMMA: Final = 4
_MIN_TILE: Final = (16, 8)
_MIN_TILE_FOR_WGMMA: Final = (64, 8)
_MIN_CONTRACTING_TILE: Final = 16
_MMA_CONTRACTING_BITS: Final = 128
_REGISTERS_PER_BLOCK: Final = 65536
_MAX_THREADS: Final = 1024
_TMA_SINCE: Final = (9, 0)
"""Hopper: the tensor memory accelerator and warp-group products (wgmma)."""
_EXPENSIVE: Final = frozenset(
    "atan2 cosine exponential exponential-minus-one log log-plus-one logistic power rsqrt sine sqrt tan tanh".split()
)


@dataclass(frozen=True)
class TritonGemmConfig:
    """A dot's tiling: result tiles of block_m x block_n, contracting steps of block_k."""

    block_m: int
    block_n: int
    block_k: int
    num_stages: int
    num_warps: int
    is_tma_allowed: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """The `triton_gemm_config` of a backend config."""
        return {
            "block_m": str(self.block_m),
            "block_n": str(self.block_n),
            "block_k": str(self.block_k),
            "split_k": "0",
            "num_stages": str(self.num_stages),
            "num_warps": str(self.num_warps),
            "num_ctas": "1",
            "is_tma_allowed": self.is_tma_allowed,
            "is_warp_specialization_allowed": False,
            "waves_per_eu": "0",
        }


_AMPERE: Final = (
    TritonGemmConfig(16, 16, 64, 3, 2),
    TritonGemmConfig(16, 8, 128, 1, 2),
    TritonGemmConfig(32, 8, 16, 1, 2),
)
_HOPPER: Final = (
    TritonGemmConfig(16, 8, 16, 1, 2),
    TritonGemmConfig(64, 32, 64, 3, 2),
    TritonGemmConfig(64, 32, 64, 1, 4),
)
_BLACKWELL: Final = (
    TritonGemmConfig(16, 16, 128, 1, 2),
    TritonGemmConfig(32, 16, 32, 3, 2),
    TritonGemmConfig(128, 64, 16, 3, 2),
    TritonGemmConfig(64, 32, 32, 4, 2),
    TritonGemmConfig(64, 64, 128, 3, 4, is_tma_allowed=True),
)


class TritonDot:
    """A dot in a fused computation, and how a device can tile it."""

    def __init__(self, dot: HloInstruction, device: GpuDevice) -> None:
        self.device = device
        lhs, rhs = (o.array_shape for o in dot.operands[:2])
        self.contracted = prod(lhs.dimensions[d] for d in dot.ints("lhs_contracting_dims"))
        self.batch = prod(lhs.dimensions[d] for d in dot.ints("lhs_batch_dims"))
        around = max(1, self.contracted * self.batch)
        self.m, self.n = lhs.element_count // around, rhs.element_count // around
        self.operand_bits, self.result_bits = lhs.element_type.bits, dot.array_shape.element_type.bits
        self.is_expensive = [_has_expensive(o) for o in dot.operands[:2]]
        largest = self._largest_tile()
        needs_occupancy = self._tiles(largest) < self._desired_warps // _MIN_WARPS_FOR_WGMMA
        uses_wgmma = device.architecture.capability >= _TMA_SINCE and not needs_occupancy
        self.min_tile = _MIN_TILE_FOR_WGMMA if uses_wgmma else _MIN_TILE
        self.max_tile = max(self.min_tile[0], largest[0]), max(self.min_tile[1], largest[1])
        self.min_warps = _MIN_WARPS_FOR_WGMMA if uses_wgmma and self.operand_bits < 32 else _MIN_WARPS
        self.min_step = max(_MMA_CONTRACTING_BITS // self.operand_bits, _MIN_CONTRACTING_TILE)

    @property
    def _desired_warps(self) -> int:
        return _MAX_WARPS_PER_SCHEDULER * _SCHEDULERS * self.device.cores

    def _tiles(self, tile: tuple[int, int]) -> int:
        return self.batch * -(-self.m // tile[0]) * -(-self.n // tile[1])

    def _largest_tile(self) -> tuple[int, int]:
        """Return the squarest result tile that fits a block's registers and the problem."""
        elements = _REGISTERS_PER_BLOCK * 32 // self.result_bits
        m = _power_below(isqrt(elements))
        n = _power_below(elements // m)
        limit_m, limit_n = _power_above(self.m), _power_above(self.n)
        if limit_m < m:
            m, n = limit_m, min(_power_below(elements // limit_m), limit_n)
        if limit_n < n:
            m, n = min(_power_below(elements // limit_n), limit_m), limit_n
        return m, n

    def configs(self) -> Iterator[TritonGemmConfig]:
        """Return all tilings from small to large, in the autotuner's order."""
        for m, n in self._result_tiles():
            most = max(self.min_warps, min(_MAX_THREADS // 32, -(-m // _MIN_TILE[0]) * -(-n // _MIN_TILE[1])))
            for warps in _powers(self.min_warps, most):
                threads = warps * 32
                for k in _powers(max(self.min_step, threads // m, threads // n), self.max_step(m, n)):
                    for stages in range(1, self._max_stages(m, n, k) + 1):
                        yield TritonGemmConfig(m, n, k, stages, warps)
                        if self.device.architecture.capability >= _TMA_SINCE:
                            yield TritonGemmConfig(m, n, k, stages, warps, is_tma_allowed=True)

    def _result_tiles(self) -> Iterator[tuple[int, int]]:
        for m in _powers(self.min_tile[0], self.max_tile[0]):
            low, high = self.min_tile[1], self.max_tile[1]
            if m < self.m and not (m * 2 < low or high < m // 2):  # nearly square tiles read each element less often
                low = low if self.is_expensive[1] else max(m // 2, low)
                high = high if self.is_expensive[0] else min(m * 2, high)
            for n in _powers(low, high):
                yield m, n

    def _shared_steps(self, m: int, n: int) -> int:
        """Return the longest step with which both operands' tiles fit into shared memory."""
        return 8 * self.device.architecture.shared_memory_per_block_optin // self.result_bits // (m + n)

    def max_step(self, m: int, n: int) -> int:
        """The longest step along the contracting dimension."""
        return max(self.min_step, min(_power_above(self.contracted), _power_below(self._shared_steps(m, n))))

    def _max_stages(self, m: int, n: int, k: int) -> int:
        fitting = max(1, -(-self._shared_steps(m, n) // k))
        return min(-(-self.contracted // k), fitting, _MAX_WARPS_PER_SCHEDULER)

    def limited(self, config: TritonGemmConfig) -> TritonGemmConfig:
        """Limit a tiling of an architecture's list to the problem's size."""
        m = min(max(config.block_m, self.min_tile[0]), self.max_tile[0])
        n = min(max(config.block_n, self.min_tile[1]), self.max_tile[1])
        k = min(max(config.block_k, self.min_step), self.max_step(m, n))
        return replace(config, block_m=m, block_n=n, block_k=k)


def default_config(dot: TritonDot) -> TritonGemmConfig:
    """Return the tiling chosen without measuring."""
    known = _known(dot.device)
    wanted = {dot.limited(c) for c in known}
    return next((c for c in dot.configs() if c in wanted), known[0])


def _known(device: GpuDevice) -> tuple[TritonGemmConfig, ...]:
    major = device.architecture.capability[0]
    return {9: _HOPPER, 10: _BLACKWELL}.get(major, _AMPERE)


def _has_expensive(operand: HloInstruction) -> bool:
    """Whether computing an operand involves a function that is too expensive to compute twice."""
    seen, stack = {operand}, [operand]
    while stack:
        i = stack.pop()
        if i.opcode.text in _EXPENSIVE:
            return True
        new = [o for o in i.operands if o not in seen]
        seen.update(new)
        stack.extend(new)
    return False


def _power_above(n: int) -> int:
    """Return the next power of two that is not smaller; 1 for 0."""
    return 1 << (n - 1).bit_length() if n > 0 else 1


def _power_below(n: int) -> int:
    """Return the next power of two that is not larger; 1 for 0."""
    return 1 << (n.bit_length() - 1) if n > 0 else 1


def _powers(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 2
