"""An NVIDIA GPU as a code generation target: LLVM's NVPTX target for a device."""

from __future__ import annotations

from functools import cached_property

from xlanb.codegen.costs import COMMON, Costs
from xlanb.errors import CompilationError
from xlanb.gpu.devices import GpuDevice
from xlanb.lazy_dataclass import dataclass

_PTX_VERSIONS = (((12, 0), 87), ((10, 3), 88), ((10, 0), 86), ((9, 0), 80), ((0, 0), 80))
"""The first version of PTX (times ten) that supports a compute capability."""


@dataclass(frozen=True)
class GpuTarget:
    """A device as an emitter's target (see codegen.module.Target).

    One thread's code is scalar, and has no C library.

    Raises:
        CompilationError: the device is not NVIDIA's.
    """

    device: GpuDevice
    triple: str = "nvptx64-nvidia-cuda"
    data_layout: str = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
    vector_bits: int = 128
    vector_registers: int = 64
    explicit_vectors: bool = False
    enabled: frozenset[str] = frozenset()
    threads: int = 1
    polls: bool = False
    has_c_library: bool = False
    debug_locations: str = "DebugDirectivesOnly"
    """Emit line numbers (.loc) without debug sections, which would disable ptxas' optimizations."""

    def __post_init__(self) -> None:
        if self.device.architecture.platform != "CUDA":
            raise CompilationError(
                f"{self.device.name} does not run PTX: xlanb generates kernels for NVIDIA GPUs (a100, h100, b200, ...)"
            )

    @property
    def cpu(self) -> str:
        """The target architecture ("sm_80")."""
        return self.device.architecture.name

    @cached_property
    def features(self) -> str:
        """The PTX version, as LLVM names it."""
        capability = self.device.architecture.capability
        return f"+ptx{next(version for least, version in _PTX_VERSIONS if capability >= least)}"

    @property
    def costs(self) -> Costs:
        """Costs that shared emitters use."""
        return COMMON
