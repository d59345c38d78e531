"""Clusters on a GPU that is emulated (--xlanb_gpu): compiled for it, and run on the CPU thread by thread."""

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
    """A cluster's executable for a GPU, called as one for the CPU is."""

    __slots__ = ("compiled",)

    def __init__(self, compiled: GpuExecutable) -> None:
        self.compiled = compiled

    def __call__(self, *arrays: Any) -> Any:
        """Run the kernels on the CPU.

        Raises:
            ArgumentError: the arrays do not fit.
        """
        return self.compiled.emulate(*arrays)

    @property
    def buffer_assignment(self) -> BufferAssignment:
        """Where its values live."""
        return self.compiled.buffer_assignment

    @property
    def hlo_module(self) -> HloModule:
        """The optimized module."""
        return self.compiled.hlo_module

    def cancel(self) -> int:
        """An emulated run is not stopped: it ends by itself."""
        return 0


def is_on_gpu(device: str) -> bool:
    """Whether a cluster on a device, by its full name, is compiled for the emulated GPU."""
    return bool(current().xlanb_gpu) and device_type(device) in ("GPU", "XLA_GPU")


def emulated_stages(module: HloModule, key: int) -> Stages[EmulatedExecutable]:
    """Compile for the GPU that the flags name.

    Raises:
        XlanbError: no GPU has that name, or the program is refused.
    """
    from xlanb.runtime.gpu_compiler import gpu_hlo_stages, gpu_options  # not loaded for the CPU

    compiled = yield from gpu_hlo_stages(module, key, gpu_options(current().xlanb_gpu))
    return EmulatedExecutable(compiled)
