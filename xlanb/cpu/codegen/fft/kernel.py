"""Fourier transforms: the kernel of HLO's fft, one dimension after the other."""

from __future__ import annotations

import math
from functools import cache

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.fft.emit import Blocks
from xlanb.cpu.codegen.fft.plan import Axis, axis
from xlanb.cpu.codegen.fft.single import Singles
from xlanb.cpu.codegen.indexing import IrArray
from xlanb.cpu.codegen.kernel import Kernel, special
from xlanb.cpu.codegen.types import part
from xlanb.cpu.emitters.kernel import ROUNDS, SCRATCH, SCRATCH_EACH
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
_LONGEST = 1 << 24
"""Numbers of the longest line."""


def _kind(i: HloInstruction) -> str:
    return str(i.attributes["fft_type"]).removeprefix("FFT_TYPE_")


def _axes(i: HloInstruction) -> tuple[Axis, ...]:
    """The dimensions, in order: the one that is half as long as complex numbers is the first or the last."""
    source, result = array_of(i.operands[0]), array_of(i)
    return _planned(
        _kind(i), source.dimensions, result.dimensions, i.ints("fft_length"), part(result.element_type).byte_size
    )


@cache
def _planned(
    kind: str, before: tuple[int, ...], after: tuple[int, ...], lengths: tuple[int, ...], part_bytes: int
) -> tuple[Axis, ...]:
    rank, inverse = len(before), kind in ("IFFT", "IRFFT")
    places = list(range(rank - len(lengths), rank))
    places = places if kind == "IRFFT" else places[::-1]
    dims, made = list(before), []
    for place in places:
        last = place == rank - 1
        outer, inner = math.prod(dims[:place]), math.prod(dims[place + 1 :])
        real = kind == "RFFT" and last, kind == "IRFFT" and last
        read, written = dims[place], after[place]
        made.append(axis(Axis(lengths[place - rank], outer, inner, read, written, part_bytes, inverse, *real)))
        dims[place] = written
    return tuple(made)


def has_kernel(i: HloInstruction) -> bool:
    """Whether a transform has a kernel: arrays are row-major, and no line is longer than any that was thought of."""
    source, result = array_of(i.operands[0]), array_of(i)
    flat = all(list(s.minor_to_major) == list(range(s.rank))[::-1] for s in (source, result))
    if not flat or not result.element_count or not source.element_count or _kind(i) not in _KINDS:
        return False
    return not source.is_dynamic and max(i.ints("fft_length")) <= _LONGEST


# -- scratch: what lies between two dimensions of another size than the result, lines that threads share, and each thread's own ------------------------


def _between(i: HloInstruction) -> int:
    """Bytes of the complex numbers between the dimensions of an inverse real transform."""
    if _kind(i) != "IRFFT" or len(_axes(i)) == 1:
        return 0
    source = array_of(i.operands[0])
    return -(-source.element_count * source.element_type.byte_size // 64) * 64


def _once(i: HloInstruction) -> int:
    return _between(i) + max(a.scratch_bytes[0] for a in _axes(i)) if has_kernel(i) else 0


def _each(i: HloInstruction) -> int:
    return max(a.scratch_bytes[1] for a in _axes(i)) if has_kernel(i) else 0


def _rounds(i: HloInstruction) -> tuple[int, float]:
    """Those of the loop that is most worth a second thread."""
    if not has_kernel(i):
        return 1, 0.0
    return max((a.rounds for a in _axes(i)), key=lambda r: (r[0] > 1, r[0] * r[1]))


SCRATCH[Op.FFT] = _once
SCRATCH_EACH[Op.FFT] = _each
ROUNDS[Op.FFT] = _rounds


@special(Op.FFT, memory_only=True)
def _fft(k: Kernel) -> bool:
    i, e = k.root, k.e
    operand = i.operands[0]
    bound = e.constants(operand) if operand.opcode is Op.CONSTANT else e.bindings[operand][()]
    if not isinstance(bound, IrArray):
        return False
    axes = _axes(i)
    source, target = bound.pointer, k.output.pointer
    for number, made in enumerate(axes):
        is_last = number == len(axes) - 1
        to = target if is_last or not _between(i) else k.scratch
        (Blocks(k, made) if made.line is None else Singles(k, made, made.line)).emit(source, to)
        source = to
    k.f.ready = k.f.calls_only = True
    return True
