"""f16 on machines that have no instructions for it: LLVM calls the functions of its compiler's runtime there, which a process need not have, so they go with the code that calls them."""

from __future__ import annotations

from xlanb.cpu.target import Target

_TEXT = """
define weak hidden float @__extendhfsf2(half %x) nounwind {
  %h = bitcast half %x to i16
  %w = zext i16 %h to i32
  %sign.low = and i32 %w, 32768
  %sign = shl i32 %sign.low, 16
  %magnitude = and i32 %w, 32767
  %moved = shl i32 %magnitude, 13
  %small = bitcast i32 %moved to float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %is.special = icmp uge i32 %magnitude, 31744
  %is.nan = icmp ugt i32 %magnitude, 31744
  %infinite = or i32 %moved, 2139095040
  %quiet = or i32 %infinite, 4194304
  %special = select i1 %is.nan, i32 %quiet, i32 %infinite
  %chosen = select i1 %is.special, i32 %special, i32 %finite
  %bits = or i32 %sign, %chosen
  %r = bitcast i32 %bits to float
  ret float %r
}

define weak hidden half @__truncsfhf2(float %x) nounwind {
  %b = bitcast float %x to i32
  %sign.high = lshr i32 %b, 16
  %sign = and i32 %sign.high, 32768
  %magnitude = and i32 %b, 2147483647
  %cut = lshr i32 %magnitude, 13
  %odd = and i32 %cut, 1
  %half.up = add i32 %magnitude, 4095
  %rounded = add i32 %half.up, %odd
  %rebased = sub i32 %rounded, 939524096
  %normal = lshr i32 %rebased, 13
  %absolute = bitcast i32 %magnitude to float
  %at.half = fadd float %absolute, 5.0e-01
  %at.half.bits = bitcast float %at.half to i32
  %subnormal = sub i32 %at.half.bits, 1056964608
  %is.small = icmp ult i32 %magnitude, 947912704
  %finite = select i1 %is.small, i32 %subnormal, i32 %normal
  %is.large = icmp uge i32 %magnitude, 1199566848
  %bounded = select i1 %is.large, i32 31744, i32 %finite
  %is.nan = icmp ugt i32 %magnitude, 2139095040
  %payload = and i32 %cut, 1023
  %nan = or i32 %payload, 32256
  %chosen = select i1 %is.nan, i32 %nan, i32 %bounded
  %bits = or i32 %sign, %chosen
  %low = trunc i32 %bits to i16
  %r = bitcast i16 %low to half
  ret half %r
}

; By way of a float that is rounded to odd, so that the second rounding sees on which side of a tie the number is.
define weak hidden half @__truncdfhf2(double %x) nounwind {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %near.bits = bitcast float %near to i32
  %back.bits = bitcast double %back to i64
  %x.bits = bitcast double %x to i64
  %back.magnitude = and i64 %back.bits, 9223372036854775807
  %x.magnitude = and i64 %x.bits, 9223372036854775807
  %is.above = icmp ugt i64 %back.magnitude, %x.magnitude
  %one = zext i1 %is.above to i32
  %below = sub i32 %near.bits, %one
  %odd = or i32 %below, 1
  %is.inexact = fcmp one double %back, %x
  %bits = select i1 %is.inexact, i32 %odd, i32 %near.bits
  %f = bitcast i32 %bits to float
  %r = call half @__truncsfhf2(float %f)
  ret half %r
}
"""


def conversions(text: str, target: Target) -> str:
    """The functions that the code of a module of LLVM IR will call to convert f16; "" where it converts none, or the machine does it itself."""
    if "half" not in text or not target.triple.startswith(("x86_64", "i686", "i386")) or "f16c" in target.enabled:
        return ""
    return _TEXT
