"""tf.signal's Fourier transforms of real signals, and shifts of their spectra.

Source: python/ops/signal/fft_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders.array_ops import pad, shape
from xlanb.graph.builders.array_ops import slice_ as slice_of
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor
from xlanb.tf.arrays import roll


def _transform(function: str, op_type: str, rank: int) -> Callable[..., Tensor]:
    """Make the function that transforms the last `rank` dimensions, real to complex or back."""
    is_inverse = op_type.startswith("I")

    def transform(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        with name_scope(name, function, [input_tensor]):
            x = convert_to_tensor(input_tensor)
            sizes = _lengths(x, fft_length, rank, is_inverse)
            wanted = [*sizes[:-1], sizes[-1] // 2 + 1] if is_inverse else sizes
            return call(op_type, _resized(x, wanted), sizes)

    transform.__name__ = transform.__qualname__ = function
    transform.__doc__ = (
        f"Transform the last {rank} dimensions; `fft_length` are their sizes in the real tensor, by default "
        f"{'2 n - 2 for the last' if is_inverse else 'those of the tensor'}."
    )
    return transform


def _lengths(x: Tensor, given: Any, rank: int, is_inverse: bool) -> list[int]:
    if given is not None:
        found = [int(n) for n in given]
        if len(found) != rank:
            raise GraphValueError(f"fft_length needs {rank} sizes, got {found}")
        return found
    sizes = _last_sizes(x, rank, ": give fft_length")
    return [*sizes[:-1], max(0, 2 * (sizes[-1] - 1))] if is_inverse else sizes


def _last_sizes(x: Tensor, count: int, advice: str = "") -> list[int]:
    found = [] if x.shape.rank is None else x.shape.as_list()[-count:]
    sizes = [n for n in found if n is not None]
    if len(sizes) < count:
        raise GraphValueError(f"the last {count} sizes of {x.name!r} must be known, not {x.shape}{advice}")
    return sizes


def _resized(x: Tensor, wanted: Sequence[int]) -> Tensor:
    """The tensor cut or filled with zeros at the end of its last dimensions."""
    count = len(wanted)
    sizes = _last_sizes(x, count)
    before = (x.shape.rank or count) - count
    if any(n < m for n, m in zip(wanted, sizes, strict=True)):
        smaller = [min(n, m) for n, m in zip(wanted, sizes, strict=True)]
        x = slice_of(x, [0] * (before + count), [-1] * before + smaller)
    missing = [max(0, n - m) for n, m in zip(wanted, sizes, strict=True)]
    return pad(x, [[0, 0]] * before + [[0, n] for n in missing]) if any(missing) else x


rfft, rfft2d, rfft3d = (_transform(f"rfft{s}", f"RFFT{s.upper()}", n) for n, s in enumerate(("", "2d", "3d"), 1))
irfft, irfft2d, irfft3d = (_transform(f"irfft{s}", f"IRFFT{s.upper()}", n) for n, s in enumerate(("", "2d", "3d"), 1))


def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Move the frequency zero of each axis (default: all) to its middle."""
    return _shifted(x, axes, name or "fftshift", lambda size: size // 2)


def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Undo fftshift."""
    return _shifted(x, axes, name or "ifftshift", lambda size: -(size // 2))


def _shifted(x: Any, axes: Any, name: str, distance: Callable[[Any], Any]) -> Tensor:
    with name_scope(name, name, [x]):
        found = convert_to_tensor(x)
        if axes is None:
            if found.shape.rank is None:
                raise GraphValueError(f"{name} needs axes, or a tensor of known rank: {found.name!r}")
            axes = list(range(found.shape.rank))
        chosen = [axes] if isinstance(axes, int) else list(axes)
        sizes = found.shape.as_list() if found.shape.rank is not None else []
        steps = [distance(sizes[a] if sizes and sizes[a] is not None else shape(found)[a]) for a in chosen]
        return roll(found, steps, chosen)
