"""GPUs as the compiler sees them: one table of facts.

It serves the cost model, the launch dimensions, occupancy, and the description that the real
XLA:GPU compiles for.

Sources: the CUDA C++ Programming Guide (compute capabilities: limits of a multiprocessor), NVIDIA's
architecture white papers (rates of the units), the data sheets of the boards (cores, clocks,
memory, bandwidth), AMD's and Intel's data sheets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from xlanb.errors import XlanbError, did_you_mean
from xlanb.lazy_dataclass import dataclass

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True)
class Architecture:
    """The common facts of all devices of a compute capability, or of an AMD or Intel architecture.

    A core is a multiprocessor. `fma` are fused multiply-adds per clock of one core in its ordinary
    units,
    `matrix_fma` those in its tensor cores (dense), by dtype; one is two floating-point operations.
    Sizes are in bytes; registers have 32 bits.
    """

    platform: str
    """"CUDA", "ROCM" or "SYCL"."""

    name: str
    """The target of its code: "sm_90a", "gfx942", "PVC"."""

    capability: tuple[int, int] = (0, 0)
    """The CUDA compute capability."""

    threads_per_warp: int = 32
    threads_per_core: int = 2048
    blocks_per_core: int = 32
    registers_per_core: int = 65536
    shared_memory_per_core: int = 0
    shared_memory_per_block: int = 48 * KIB
    """What a block may use without requesting more."""

    shared_memory_per_block_optin: int = 0
    reserved_shared_memory_per_block: int = 0
    """Shared memory per block that the system reserves."""

    shared_memory_unit: int = 128
    """The granularity of shared memory allocation."""

    block_dim_limit: tuple[int, int, int] = (2147483647, 65535, 65535)
    l1_bytes: int = 2 * KIB
    """The L1 bytes per core that the model assumes a kernel can use.

    The rest of the L1 cache mostly serves as shared memory.
    """

    dram_transaction_bytes: int = 64
    """Bytes per transaction from memory to the L2 cache."""

    transaction_bytes_per_clock: int = 32
    """Bytes that a core can request from memory per clock."""

    fpus_per_core: int = 128
    fma: Mapping[str, float] = field(default_factory=dict, hash=False)
    matrix_fma: Mapping[str, float] = field(default_factory=dict, hash=False)

    @property
    def warps_per_core(self) -> int:
        """The most warps that a core holds at once."""
        return self.threads_per_core // self.threads_per_warp

    @property
    def is_accelerated(self) -> bool:
        """Whether code uses features of this architecture only (`sm_90a`)."""
        return self.name.endswith("a") and self.platform == "CUDA"


@dataclass(frozen=True)
class GpuDevice:
    """One GPU.

    Attributes:
        cores: the number of multiprocessors.
        clock_ghz: their clock.
        memory_bytes: size of memory.
        bandwidth: of memory, in bytes per second.
        l2_bytes: size of the second-level cache.
        matrix_clock_ghz: the clock while tensor cores work, 0 if it is the same.
    """

    key: str
    name: str
    architecture: Architecture
    cores: int
    clock_ghz: float
    memory_bytes: int
    bandwidth: float
    l2_bytes: int
    matrix_clock_ghz: float = 0.0
    links: int = 0
    """The number of NVLinks."""

    def flops(self, dtype: str) -> float:
        """Return peak operations per second for a dtype, in the fastest units.

        Examples of dtypes are "f32", "bf16", "f8e4m3fn" and "s8". Returns 0 if the device has no
        units for it. f32 products count in the ordinary units, because XLA uses tf32 only on
        request.
        """
        arch = self.architecture
        plain = arch.fma.get(dtype, 0) * self.clock_ghz
        matrix = arch.matrix_fma.get(dtype, 0) * (self.matrix_clock_ghz or self.clock_ghz)
        return 2e9 * self.cores * max(plain, matrix)


_F8 = ("f8e4m3fn", "f8e5m2")


def _matrix(f16: float, *, tf32: bool = True, f64: float = 0, s8: bool = True, f8: bool = False) -> dict[str, float]:
    """Return tensor-core rates from f16's: half for tf32, double for one-byte types."""
    rates: dict[str, float] = {"f16": f16}
    if tf32:
        rates |= {"bf16": f16, "tf32": f16 / 2}
    if s8:
        rates |= {"s8": 2 * f16, "u8": 2 * f16}
    if f8:
        rates |= dict.fromkeys(_F8, 2 * f16)
    return rates | ({"f64": f64} if f64 else {})


PASCAL = Architecture(
    "CUDA", "sm_60", (6, 0), fpus_per_core=64, shared_memory_per_core=64 * KIB, shared_memory_per_block_optin=48 * KIB,
    shared_memory_unit=256, fma={"f32": 64, "f64": 32, "f16": 128},
)  # fmt: skip
VOLTA = Architecture(
    "CUDA", "sm_70", (7, 0), fpus_per_core=64, shared_memory_per_core=96 * KIB, shared_memory_per_block_optin=96 * KIB,
    shared_memory_unit=256, fma={"f32": 64, "f64": 32, "f16": 128}, matrix_fma=_matrix(512, tf32=False, s8=False),
)  # fmt: skip
AMPERE = Architecture(
    "CUDA", "sm_80", (8, 0), fpus_per_core=64,
    shared_memory_per_core=164 * KIB, shared_memory_per_block_optin=163 * KIB,
    reserved_shared_memory_per_block=KIB, fma={"f32": 64, "f64": 32, "f16": 256, "bf16": 128},
    matrix_fma=_matrix(1024, f64=64),
)  # fmt: skip
AMPERE_GRAPHICS = Architecture(
    "CUDA", "sm_86", (8, 6), threads_per_core=1536, blocks_per_core=16, shared_memory_per_core=100 * KIB,
    shared_memory_per_block_optin=99 * KIB, reserved_shared_memory_per_block=KIB,
    fma={"f32": 128, "f64": 2, "f16": 128, "bf16": 128}, matrix_fma=_matrix(512),
)  # fmt: skip
HOPPER = Architecture(
    "CUDA", "sm_90a", (9, 0), shared_memory_per_core=228 * KIB, shared_memory_per_block_optin=227 * KIB,
    reserved_shared_memory_per_block=KIB, fma={"f32": 128, "f64": 64, "f16": 256, "bf16": 256},
    matrix_fma=_matrix(2048, f64=128, f8=True),
)  # fmt: skip
BLACKWELL = Architecture(
    "CUDA", "sm_100a", (10, 0), shared_memory_per_core=228 * KIB, shared_memory_per_block_optin=227 * KIB,
    reserved_shared_memory_per_block=KIB, fma={"f32": 128, "f64": 64, "f16": 256, "bf16": 256},
    matrix_fma=_matrix(4096, f64=64, f8=True) | {"f4e2m1fn": 16384.0},
)  # fmt: skip
BLACKWELL_ULTRA = Architecture(
    "CUDA", "sm_103a", (10, 3), shared_memory_per_core=228 * KIB, shared_memory_per_block_optin=227 * KIB,
    reserved_shared_memory_per_block=KIB, fma={"f32": 128, "f64": 64, "f16": 256, "bf16": 256},
    matrix_fma=_matrix(4096, f64=64, f8=True) | {"f4e2m1fn": 16384.0},
)  # fmt: skip
BLACKWELL_GRAPHICS = Architecture(
    "CUDA", "sm_120", (12, 0), threads_per_core=1536, blocks_per_core=24, shared_memory_per_core=100 * KIB,
    shared_memory_per_block_optin=99 * KIB, reserved_shared_memory_per_block=KIB,
    fma={"f32": 128, "f64": 2, "f16": 128, "bf16": 128}, matrix_fma=_matrix(512, f8=True) | {"f4e2m1fn": 2048.0},
)  # fmt: skip
CDNA2 = Architecture(
    "ROCM", "gfx90a", threads_per_warp=64, l1_bytes=16 * KIB,
    shared_memory_per_core=64 * KIB, shared_memory_per_block=64 * KIB,
    shared_memory_per_block_optin=64 * KIB, block_dim_limit=(2147483647, 2147483647, 2147483647),
    registers_per_core=131072, fma={"f32": 64, "f64": 64},
    matrix_fma={"f16": 512, "bf16": 512, "f32": 128, "f64": 128, "s8": 512},
)  # fmt: skip
CDNA3 = Architecture(
    "ROCM", "gfx942", threads_per_warp=64, l1_bytes=32 * KIB, dram_transaction_bytes=128,
    transaction_bytes_per_clock=16,
    shared_memory_per_core=64 * KIB, shared_memory_per_block=64 * KIB,
    shared_memory_per_block_optin=64 * KIB, block_dim_limit=(2147483647, 65536, 65536),
    registers_per_core=131072, fma={"f32": 128, "f64": 64},
    matrix_fma={"f16": 1024, "bf16": 1024, "f32": 128, "f64": 128, "s8": 2048, "f8e4m3fnuz": 2048, "f8e5m2fnuz": 2048},
)  # fmt: skip
CDNA4 = Architecture(
    "ROCM", "gfx950", threads_per_warp=64, l1_bytes=32 * KIB, dram_transaction_bytes=128,
    transaction_bytes_per_clock=16,
    shared_memory_per_core=160 * KIB, shared_memory_per_block=160 * KIB,
    shared_memory_per_block_optin=160 * KIB, block_dim_limit=(2147483647, 65536, 65536),
    registers_per_core=131072, fma={"f32": 128, "f64": 64},
    matrix_fma={"f16": 2048, "bf16": 2048, "f32": 128, "f64": 64, "s8": 4096, "f8e4m3fn": 4096, "f8e5m2": 4096},
)  # fmt: skip
PONTE_VECCHIO = Architecture(
    "SYCL", "PVC", threads_per_core=1024, shared_memory_per_core=128 * KIB, shared_memory_per_block=128 * KIB,
    shared_memory_per_block_optin=128 * KIB, block_dim_limit=(4294967295, 4294967295, 4294967295),
    registers_per_core=0, fma={"f32": 128, "f64": 128, "f16": 256},
    matrix_fma={"f16": 2048, "bf16": 2048, "tf32": 1024, "s8": 4096},
)  # fmt: skip
BATTLEMAGE = Architecture(
    "SYCL", "BMG", threads_per_core=1024, shared_memory_per_core=128 * KIB, shared_memory_per_block=128 * KIB,
    shared_memory_per_block_optin=128 * KIB, block_dim_limit=(4294967295, 4294967295, 4294967295),
    registers_per_core=0, fma={"f32": 128, "f16": 256}, matrix_fma={"f16": 1024, "bf16": 1024, "tf32": 512, "s8": 2048},
)  # fmt: skip

_ROWS = (
    GpuDevice("p100", "Tesla P100-SXM2-16GB", PASCAL, 56, 1.4805, 17066885120, 732.16e9, 4 * MIB, links=4),
    GpuDevice("v100", "Tesla V100-SXM2-16GB", VOLTA, 80, 1.53, 16935682048, 898.048e9, 6 * MIB, links=6),
    GpuDevice("a100_sxm_40", "NVIDIA A100-SXM4-40GB", AMPERE, 108, 1.41, 42331013120, 1555.2e9, 40 * MIB, links=12),
    GpuDevice("a100_sxm_80", "NVIDIA A100-SXM4-80GB", AMPERE, 108, 1.41, 85100068864, 2039.04e9, 40 * MIB, links=12),
    GpuDevice("a100_pcie_80", "NVIDIA A100 80GB PCIe", AMPERE, 108, 1.1105, 79050250240, 2039e9, 40 * MIB),
    GpuDevice("a6000", "NVIDIA RTX A6000", AMPERE_GRAPHICS, 84, 1.8, 51041271808, 768.096e9, 6 * MIB, links=4),
    GpuDevice("h100_sxm", "NVIDIA H100 80GB HBM3", HOPPER, 132, 1.98, 84942979072, 3352.32e9, 50 * MIB, 1.83, 18),
    GpuDevice("h100_pcie", "NVIDIA H100 PCIe", HOPPER, 114, 1.755, 84942979072, 2039.04e9, 50 * MIB, 1.62, 12),
    GpuDevice("h200", "NVIDIA H200", HOPPER, 132, 1.98, 151397597184, 4800e9, 50 * MIB, 1.83, 18),
    GpuDevice("b200", "NVIDIA B200", BLACKWELL, 148, 1.965, 191514411008, 7672.32e9, 132644864, 1.8353, 18),
    GpuDevice("gb200", "NVIDIA GB200", BLACKWELL, 152, 2.062, 197897748480, 7928.064e9, 135528448, 1.9259, 18),
    GpuDevice("b300", "NVIDIA B300", BLACKWELL_ULTRA, 158, 1.965, 297021865984, 7936e9, 135528448, 1.8353, 18),
    GpuDevice("gb300", "NVIDIA GB300", BLACKWELL_ULTRA, 152, 2.07, 297021079552, 7928.064e9, 135528448, 1.9334, 18),
    GpuDevice("rtx6000pro", "NVIDIA RTX PRO 6000 Blackwell", BLACKWELL_GRAPHICS, 188, 2.6, 96 << 30, 1792e9, 128 * MIB),
    GpuDevice("mi250", "AMD Instinct MI250", CDNA2, 110, 1.7, 67628957696, 1638.4e9, 8 * MIB),
    GpuDevice("mi300x", "AMD Instinct MI300X", CDNA3, 304, 2.1, 206158430208, 5300e9, 4 * MIB),
    GpuDevice("mi350x", "AMD Instinct MI350X", CDNA4, 256, 2.2, 309237645312, 8000e9, 4 * MIB),
    GpuDevice("pvc", "Intel Data Center GPU Max 1100", PONTE_VECCHIO, 56, 1.55, 48946688000, 1228.8e9, 192 * MIB),
    GpuDevice("bmg_g21", "Intel Arc B580", BATTLEMAGE, 20, 2.85, 12168933376, 456e9, 18 * MIB),
)  # fmt: skip

DEVICES: Mapping[str, GpuDevice] = MappingProxyType({d.key: d for d in _ROWS})
"""Every device by its key, oldest first."""

ALIASES: Mapping[str, str] = MappingProxyType({
    "a100": "a100_sxm_80", "h100": "h100_sxm", "mi200": "mi250", "mi300": "mi300x", "mi350": "mi350x",
})  # fmt: skip
"""Aliases of device names."""


def gpu_device(name: str) -> GpuDevice:
    """Return the device with that key or short name, in any case: "a100", "H100", "a100_sxm_40".

    Raises:
        XlanbError: there is none; the message lists all names.
    """
    key = name.strip().lower().replace("-", "_")
    found = DEVICES.get(ALIASES.get(key, key))
    if found is None:
        known = (*ALIASES, *DEVICES)
        raise XlanbError(f"unknown GPU {name!r}{did_you_mean(key, known)}; known GPUs: {', '.join(known)}")
    return found


def device_of(description: str) -> GpuDevice | None:
    """Return the device with this driver or dump description, or None.

    An example is "NVIDIA H100 80GB HBM3".
    """
    return next((d for d in _ROWS if d.name == description), None)
