"""Clusters on an emulated GPU (--xlanb_gpu): compiled for it, and run on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlanb.buffers.buffer_assignment import BufferAssignment
from xlanb.clustering.devices import device_type
from xlanb.debug_options import current
from xlanb.hlo.module import HloModule
from xlanb.stage import Stages

if TYPE_CHECKING:
    from xlanb.gpu.executable import GpuExecutable


class EmulatedExecutable:
    """A cluster's executable for a GPU, with the interface of one for the CPU."""

    __slots__ = ("compiled",)

    def __init__(self, compiled: GpuExecutable) -> None:
        self.compiled = compiled

    def __call__(self, *arrays: Any) -> Any:
        """Run the kernels on the CPU.

        Raises:
            ArgumentError: The arrays do not fit.
        """
        return self.compiled.emulate(*arrays)

    @property
    def buffer_assignment(self) -> BufferAssignment:
        """The buffer assignment of its values."""
        return self.compiled.buffer_assignment

    @property
    def hlo_module(self) -> HloModule:
        """The optimized module."""
        return self.compiled.hlo_module

    def cancel(self) -> int:
        """Return 0: an emulated run cannot be stopped."""
        return 0


def is_on_gpu(device: str) -> bool:
    """Whether a cluster on a device, given by its full name, is compiled for the emulated GPU."""
    return bool(current().xlanb_gpu) and device_type(device) in ("GPU", "XLA_GPU")


def emulated_stages(module: HloModule, key: int) -> Stages[EmulatedExecutable]:
    """Compile for the GPU that the flags select.

    Raises:
        XlanbError: There is no GPU of that name, or the program is rejected.
    """
    from xlanb.runtime.gpu_compiler import gpu_hlo_stages, gpu_options  # not loaded for the CPU

    compiled = yield from gpu_hlo_stages(module, key, gpu_options(current().xlanb_gpu))
    return EmulatedExecutable(compiled)
