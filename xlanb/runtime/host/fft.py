"""Fourier transforms over any axes (core/ops/spectral_ops.cc).

TensorFlow has no kernels of these ops for a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlanb.graph.operation import Operation
from xlanb.runtime.host.ops import HostState, fault, host

_TRANSFORMS: dict[str, Callable[..., Any]] = {
    "FFTND": np.fft.fftn,
    "IFFTND": np.fft.ifftn,
    "RFFTND": np.fft.rfftn,
    "IRFFTND": np.fft.irfftn,
}


@host(*_TRANSFORMS)
def _fft(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Cut or zero-pad the input to fft_length along these axes, then transform.

    A transform of reals halves the last of the axes.
    """
    x, lengths, axes = np.asarray(inputs[0]), [int(n) for n in inputs[1]], [int(a) for a in inputs[2]]
    if len(lengths) != len(axes) or any(n < 1 for n in lengths):
        raise fault(op, f"fft_length must be one positive number for each of the axes {axes}, not {lengths}")
    if len({a % x.ndim for a in axes}) != len(axes) or not all(-x.ndim <= a < x.ndim for a in axes):
        raise fault(op, f"axes must be different dimensions of shape {list(x.shape)}, not {axes}")
    return [_TRANSFORMS[op.type](x, lengths, axes).astype(op.outputs[0].dtype.numpy_dtype)]
