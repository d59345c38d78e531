"""Fourier transforms over the last dimensions (tf2xla/kernels/fft_ops.cc)."""

from __future__ import annotations

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import scalar
from xlanb.tf2xla.registry import register

_RANKS = {"": 1, "2D": 2, "3D": 3}


def _rank(ctx: OpContext) -> int:
    rank = _RANKS[ctx.op.type.partition("FFT")[2]]
    if ctx.shape(0).rank < rank:
        ctx.fail(f"expected at least {rank} dimensions, not {ctx.shape(0)}")
    return rank


def _transform(ctx: OpContext, x: HloInstruction, kind: str, lengths: list[int]) -> HloInstruction:
    return ctx.b.instruction(HloOpcode.FFT, (x,), fft_type=kind, fft_length=tuple(lengths))


@register(*(f"{kind}{rank}" for kind in ("FFT", "IFFT") for rank in _RANKS))
def _fft(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return _transform(ctx, x, ctx.op.type.partition("FFT")[0] + "FFT", list(x.array_shape.dimensions[-_rank(ctx) :]))


@register(*(f"{kind}{rank}" for kind in ("RFFT", "IRFFT") for rank in _RANKS), constants=(1,))
def _rfft(ctx: OpContext) -> HloInstruction:
    """Cut or zero-pad the input to fft_length, then transform.

    For a transform to reals, the last dimension is fft_length // 2 + 1.
    """
    x, lengths, rank = ctx.input(0), ctx.sizes(1), _rank(ctx)
    if len(lengths) != rank or any(n < 1 for n in lengths):
        ctx.fail(f"fft_length must be {rank} positive numbers, not {lengths}")
    kind = ctx.op.type.partition("FFT")[0] + "FFT"
    wanted = [*lengths[:-1], lengths[-1] // 2 + 1] if kind == "IRFFT" else lengths
    dims = x.array_shape.dimensions
    change = [w - d for w, d in zip(wanted, dims[-rank:], strict=True)]
    if any(change):
        x = ctx.b.pad(x, scalar(ctx, x, 0), [*((0, 0, 0) for _ in dims[:-rank]), *((0, c, 0) for c in change)])
    return _transform(ctx, x, kind, lengths)
