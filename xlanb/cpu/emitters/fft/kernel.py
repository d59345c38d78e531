"""The kernel of HLO's fft; it transforms one dimension after another."""

from __future__ import annotations

import math
from functools import cache

from xlanb.codegen.elemental import array_of
from xlanb.codegen.elements import part
from xlanb.cpu.emitters.fft.emit import FftEmitter
from xlanb.cpu.emitters.fft.plan import FftAxis
from xlanb.cpu.emitters.kernel import HAS_KERNEL, ROUNDS, SCRATCH, SCRATCH_EACH, Kernel, emitter
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")


def has_kernel(i: HloInstruction) -> bool:
    """Whether a transform has a kernel.

    Its arrays must be row-major and not empty, and no length too long; those with a large prime
    factor are too long sooner.
    """
    return bool(_axes(i))


def _axes(i: HloInstruction) -> tuple[FftAxis, ...]:
    """The dimensions in order; empty if there is no kernel."""
    source, result = array_of(i.operands[0]), array_of(i)
    flat = all(s.minor_to_major == tuple(range(s.rank))[::-1] and s.element_count for s in (source, result))
    if not flat or _kind(i) not in _KINDS or source.is_dynamic:
        return ()
    size = part(result.element_type).byte_size
    return _planned(_kind(i), source.dimensions, result.dimensions, i.ints("fft_length"), size)


def _kind(i: HloInstruction) -> str:
    return str(i.attributes["fft_type"]).removeprefix("FFT_TYPE_")


@cache
def _planned(
    kind: str, before: tuple[int, ...], after: tuple[int, ...], lengths: tuple[int, ...], part_bytes: int
) -> tuple[FftAxis, ...]:
    """The dimensions in order, the real one first or last; empty if a length is unsupported."""
    rank, inverse = len(before), kind in ("IFFT", "IRFFT")
    places = list(range(rank - len(lengths), rank))
    dims, made = list(before), list[FftAxis]()
    for place in places if kind == "IRFFT" else places[::-1]:
        outer, inner = math.prod(dims[:place]), math.prod(dims[place + 1 :])
        is_real = kind in ("RFFT", "IRFFT") and place == rank - 1
        sizes = dims[place], after[place]
        axis = FftAxis(lengths[place - rank], outer, inner, sizes, part_bytes, inverse, is_real).planned()
        if axis is None:
            return ()
        made.append(axis)
        dims[place] = after[place]
    return tuple(made)


# -- scratch memory: numbers between two dimensions, and of lines that threads share ---------------


def _between(i: HloInstruction) -> int:
    """Bytes of the intermediate complex numbers of an inverse real transform."""
    return -(-i.operands[0].shape.byte_size // 64) * 64 if _kind(i) == "IRFFT" and len(_axes(i)) > 1 else 0


def _shared_scratch(i: HloInstruction) -> int:
    return _between(i) + max((a.scratch_bytes[0] for a in _axes(i)), default=0)


def _thread_scratch(i: HloInstruction) -> int:
    return max((a.scratch_bytes[1] for a in _axes(i)), default=0)


def _rounds(i: HloInstruction) -> tuple[int, float]:
    """The trip count and nanoseconds of the loop that gains most from a second thread."""
    rounds = [(2, a.rounds[1]) if a.is_whole else a.rounds for a in _axes(i)]
    return max(rounds, key=lambda r: (r[0] > 1, r[0] * r[1]), default=(1, 0.0))


SCRATCH[Op.FFT] = _shared_scratch
SCRATCH_EACH[Op.FFT] = _thread_scratch
ROUNDS[Op.FFT] = _rounds
HAS_KERNEL[Op.FFT] = has_kernel


@emitter(Op.FFT)
def _fft(k: Kernel) -> bool:
    i = k.root
    source, axes = k.memory(i.operands[0]).pointer, _axes(i)
    between = k.scratch if _between(i) and k.scratch is not None else k.output.pointer
    for axis in axes:
        target = k.output.pointer if axis is axes[-1] else between
        k.f.plans.append(axis.choice)
        FftEmitter(k, axis, source, target).emit()
        source = target
    k.f.ready = k.f.calls_only = True
    return True
