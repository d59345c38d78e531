"""Every rule of algsimp fires on an example generated from its pattern, or written below.

It must preserve the semantics.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pytest

from xlanb.errors import XlanbError
from xlanb.evaluator import evaluate
from xlanb.hlo import HloInstruction, HloModule, HloOpcode, parse
from xlanb.hlo import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.shape.primitive_type import BY_TEXT
from xlanb.shape.shape import array, common_factors
from xlanb.tracing import Decision, observing
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import RULES, AlgebraicSimplifier
from xlanb.transforms.match import Anything, ConstantPattern, OpPattern, Pattern
from xlanb.transforms.rules import Rule, RuleSet

SUM = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
MAX = "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }\n"

# Rules that the generator below cannot match: instructions with attributes, particular shapes or
# constants. One module body per rule, its root last.
EXAMPLES = {
    "A & A => A, A | A => A": "p = pred[4] parameter(0) ROOT r = pred[4] and(p, p)",
    "(A * C1) * (B * C2) => (A * B) * (C1 * C2)": "x = f32[] parameter(0) y = f32[] parameter(1) c = f32[] constant(2) d = f32[] constant(4) "
    "p = f32[] multiply(x, c) q = f32[] multiply(y, d) ROOT r = f32[] multiply(p, q)",
    "dot(A, B) => broadcast(A) * broadcast(B) without contracting dimensions": "x = f32[3,4] parameter(0) y = f32[5,3] parameter(1) "
    "ROOT d = f32[3,4,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={}, rhs_contracting_dims={}",
    "dot(A, B) => reduce_add(A * B) of vectors": "x = f32[4,3] parameter(0) y = f32[3,4] parameter(1) "
    "ROOT d = f32[3] dot(x, y), lhs_batch_dims={1}, lhs_contracting_dims={0}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
    "dot(A, B) => reshape(dot(reshape(A), reshape(B))) without dimensions of size 1": "x = f32[2,1,4] parameter(0) y = f32[2,4,3] parameter(1) "
    "ROOT d = f32[2,1,3] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
    "convolution(A, B) => bitcast(dot(bitcast(A), bitcast(B))) for windows of size 1": "x = f32[2,3,3,4]{3,2,1,0} parameter(0) w = f32[1,1,4,5]{3,2,1,0} parameter(1) "
    "ROOT c = f32[2,3,3,5]{3,2,1,0} convolution(x, w), window={size=1x1}, dim_labels=b01f_01io->b01f",
    "constant of equal elements => broadcast(scalar)": "ROOT k = s32[2,2] constant({{3, 3}, {3, 3}})",
    "constant 0, 1, 2, .. => iota": "ROOT k = f32[4] constant({0, 1, 2, 3})",
    "constant 0, C, 2C, .. => iota * C": "ROOT k = s32[4] constant({0, -3, -6, -9})",
    "reshape(iota) => sum of iotas by their strides": "i = s32[24] iota(), iota_dimension=0 ROOT r = s32[2,1,3,4] reshape(i)",
    "transpose(reshape(transpose(reshape(A)))) => A where dimensions of size 1 are added and removed": "x = f32[3,5] parameter(0) a = f32[3,1,5] reshape(x) t = f32[5,3,1] transpose(a), dimensions={2,0,1} "
    "s = f32[5,3] reshape(t) ROOT r = f32[3,5] transpose(s), dimensions={1,0}",
    "dynamic-slice(A, I) => dynamic-slice(A, 0) along fully covered dimensions, dynamic-update-slice likewise": "x = f32[3,5] parameter(0) u = f32[3,2] parameter(1) i = s32[] parameter(2) "
    "ROOT r = f32[3,5] dynamic-update-slice(x, u, i, i)",
    "dynamic-slice(iota, i) => reshape(clamp(0, i, last))": "a = s32[5] iota(), iota_dimension=0 i = u32[] parameter(0) "
    "ROOT r = s32[1] dynamic-slice(a, i), dynamic_slice_sizes={1}",
    "dynamic-slice(iota * C, i) => reshape(clamp(0, i, last) * C)": "a = s32[5] iota(), iota_dimension=0 k = s32[] constant(-7) "
    "c = s32[5] broadcast(k), dimensions={} m = s32[5] multiply(a, c) i = s32[] parameter(0) ROOT r = s32[1] dynamic-slice(m, i), dynamic_slice_sizes={1}",
    "dynamic-update-slice(broadcast(C), A, constants) => pad(A, C)": "z = f32[] constant(2) x = f32[6] broadcast(z), dimensions={} u = f32[3] parameter(0) i = s32[] constant(5) "
    "ROOT r = f32[6] dynamic-update-slice(x, u, i)",
    "C + A => A + C": "x = f32[4] parameter(0) k = f32[4] constant({1, 2, 3, 4}) ROOT r = f32[4] add(k, x)",
    "rsqrt(A) * rsqrt(A) => 1 / A": "x = f32[4] parameter(0) e = f32[4] exponential(x) a = f32[4] rsqrt(e) ROOT r = f32[4] multiply(a, a)",
    "|A| => A for A = exp(B) or B * B": "x = f32[4] parameter(0) e = f32[4] exponential(x) ROOT a = f32[4] abs(e)",
    "(A % C) % C => A % C": "x = s32[4] parameter(0) y = s32[4] parameter(1) a = s32[4] remainder(x, y) ROOT r = s32[4] remainder(a, y)",
    "A*C + B*C => (A + B) * C for powers of two": "x = f32[4] parameter(0) y = f32[4] parameter(1) h = f32[] constant(0.5) c = f32[4] broadcast(h), dimensions={} "
    "p = f32[4] multiply(x, c) q = f32[4] multiply(y, c) ROOT r = f32[4] add(p, q)",
    "convert(P) * A => select(P, A, 0)": "p = pred[4] parameter(0) a = f32[4] parameter(1) c = f32[4] convert(p) ROOT r = f32[4] multiply(c, a)",
    "max(A, lowest) => A, min(A, highest) => A": "x = f32[4] parameter(0) l = f32[] constant(-inf) c = f32[4] broadcast(l), dimensions={} ROOT r = f32[4] maximum(x, c)",
    "max(A, highest) => highest, min(A, lowest) => lowest": "x = s8[4] parameter(0) l = s8[] constant(127) c = s8[4] broadcast(l), dimensions={} ROOT r = s8[4] maximum(x, c)",
    "max(reduce_max(A, C1), C2) => reduce_max(A, C1) if C1 >= C2": MAX
    + "x = f32[4,3] parameter(0) l = f32[] constant(-1) k = f32[] constant(-2) "
    "m = f32[4] reduce(x, l), dimensions={1}, to_apply=max c = f32[4] broadcast(k), dimensions={} ROOT r = f32[4] maximum(m, c)",
    "min(max(A, C1), C2) => clamp(C1, A, C2)": "x = f32[4] parameter(0) l = f32[] constant(-1) h = f32[] constant(1) lo = f32[4] broadcast(l), dimensions={} "
    "hi = f32[4] broadcast(h), dimensions={} m = f32[4] maximum(x, lo) ROOT r = f32[4] minimum(m, hi)",
    "|A| => A for unsigned A": "x = u8[4] parameter(0) ROOT r = u8[4] abs(x)",
    "A / 2^k => A >> k for A >= 0": "x = u32[4] parameter(0) k = u32[] constant(4) c = u32[4] broadcast(k), dimensions={} ROOT r = u32[4] divide(x, c)",
    "A / 2^k => select(A < 0, -(|A| >> k), A >> k)": "x = s32[64] parameter(0) k = s32[] constant(4) c = s32[64] broadcast(k), dimensions={} ROOT r = s32[64] divide(x, c)",
    "A % 2^k => A & (2^k - 1) for A >= 0": "x = u32[4] parameter(0) k = u32[] constant(4) c = u32[4] broadcast(k), dimensions={} ROOT r = u32[4] remainder(x, c)",
    "A % 2^k => select(A < 0, -(|A| & (2^k - 1)), |A| & (2^k - 1))": "x = s32[64] parameter(0) k = s32[] constant(4) c = s32[64] broadcast(k), dimensions={} ROOT r = s32[64] remainder(x, c)",
    "iota % C => iota for C >= its size": "i = s32[4] iota(), iota_dimension=0 k = s32[] constant(5) c = s32[4] broadcast(k), dimensions={} ROOT r = s32[4] remainder(i, c)",
    "A / C => A * (1 / C)": "x = f32[2,4] parameter(0) k = f32[] constant(3) c = f32[2,4] broadcast(k), dimensions={} ROOT r = f32[2,4] divide(x, c)",
    "A / broadcast(B) => A * broadcast(1 / B)": "x = f32[2,4] parameter(0) b = f32[2] parameter(1) e = f32[2] exponential(b) c = f32[2,4] broadcast(e), dimensions={0} "
    "ROOT r = f32[2,4] divide(x, c)",
    "(A / B) / (C / D) => (A * D) / (B * C)": "a = f32[4] parameter(0) b = f32[4] parameter(1) c = f32[4] parameter(2) d = f32[4] parameter(3) f = f32[4] exponential(b) "
    "g = f32[4] exponential(c) h = f32[4] exponential(d) p = f32[4] divide(a, f) q = f32[4] divide(g, h) ROOT r = f32[4] divide(p, q)",
    "(A / B) / C => A / (B * C)": "a = f32[4] parameter(0) b = f32[4] parameter(1) c = f32[4] parameter(2) f = f32[4] exponential(b) g = f32[4] exponential(c) "
    "p = f32[4] divide(a, f) ROOT r = f32[4] divide(p, g)",
    "A / (B / C) => (A * C) / B": "a = f32[4] parameter(0) b = f32[4] parameter(1) c = f32[4] parameter(2) f = f32[4] exponential(b) g = f32[4] exponential(c) "
    "p = f32[4] divide(f, g) ROOT r = f32[4] divide(a, p)",
    "real(complex(A, B)) => A": "a = f32[4] parameter(0) b = f32[4] parameter(1) c = c64[4] complex(a, b) ROOT r = f32[4] real(c)",
    "imag(complex(A, B)) => B": "a = f32[4] parameter(0) b = f32[4] parameter(1) c = c64[4] complex(a, b) ROOT r = f32[4] imag(c)",
    "complex(real(A), imag(A)) => A": "a = c64[4] parameter(0) x = f32[4] real(a) y = f32[4] imag(a) ROOT r = c64[4] complex(x, y)",
    "round(round(A)) => round(A), floor(floor(A)) => floor(A), ...": "a = f32[4] parameter(0) f = f32[4] floor(a) ROOT r = f32[4] floor(f)",
    "A & ones => A": "a = s8[4] parameter(0) o = s8[] constant(-1) c = s8[4] broadcast(o), dimensions={} ROOT r = s8[4] and(a, c)",
    "A | ones => ones": "a = u8[4] parameter(0) o = u8[] constant(255) c = u8[4] broadcast(o), dimensions={} ROOT r = u8[4] or(a, c)",
    "compare(A, A) => true for EQ, LE, GE, false for NE, LT, GT": "a = s32[4] parameter(0) ROOT r = pred[4] compare(a, a), direction=LE",
    "compare(P, false), NE => P; compare(P, true), EQ => P": "a = pred[4] parameter(0) o = pred[] constant(false) c = pred[4] broadcast(o), dimensions={} ROOT r = pred[4] compare(a, c), direction=NE",
    "compare(false, P), NE => P; compare(true, P), EQ => P": "a = pred[4] parameter(0) o = pred[] constant(true) c = pred[4] broadcast(o), dimensions={} ROOT r = pred[4] compare(c, a), direction=EQ",
    "compare(P, false), EQ => !P; compare(P, true), NE => !P": "a = pred[4] parameter(0) o = pred[] constant(true) c = pred[4] broadcast(o), dimensions={} ROOT r = pred[4] compare(a, c), direction=NE",
    "A < 0 => false for A >= 0": "a = u8[4] parameter(0) o = u8[] constant(0) c = u8[4] broadcast(o), dimensions={} ROOT r = pred[4] compare(a, c), direction=LT",
    "A >= 0 => true for A >= 0": "a = u8[4] parameter(0) o = u8[] constant(0) c = u8[4] broadcast(o), dimensions={} ROOT r = pred[4] compare(a, c), direction=GE",
    "0 > A => false for A >= 0": "a = u8[4] parameter(0) o = u8[] constant(0) c = u8[4] broadcast(o), dimensions={} ROOT r = pred[4] compare(c, a), direction=GT",
    "clamp(lowest, A, highest) => A": "a = s8[4] parameter(0) l = s8[] constant(-128) h = s8[] constant(127) lo = s8[4] broadcast(l), dimensions={} hi = s8[4] broadcast(h), dimensions={} ROOT r = s8[4] clamp(lo, a, hi)",
    "convert(A) => A to its own type": "a = s8[4] parameter(0) ROOT r = s8[4] convert(a)",
    "convert(convert(A, wider), type of A) => A": "a = bf16[4] parameter(0) w = f32[4] convert(a) ROOT r = bf16[4] convert(w)",
    "convert(convert(A, wider), widest) => convert(A, widest)": "a = u8[4] parameter(0) w = s16[4] convert(a) ROOT r = f32[4] convert(w)",
    "bitcast-convert(bitcast-convert(A)) => bitcast-convert(A)": "a = s32[4] parameter(0) w = f32[4] bitcast-convert(a) ROOT r = u32[4] bitcast-convert(w)",
    "bitcast-convert(A) => bitcast(A)": "a = s32[4] parameter(0) ROOT r = f32[4] bitcast-convert(a)",
    "reduce-precision(reduce-precision(A)) => reduce-precision(A)": "a = f32[4] parameter(0) w = f32[4] reduce-precision(a), exponent_bits=5, mantissa_bits=3 "
    "ROOT r = f32[4] reduce-precision(w), exponent_bits=5, mantissa_bits=3",
    "reshape(A) => A to its own shape": "a = f32[4] parameter(0) ROOT r = f32[4] reshape(a)",
    "reshape(reshape(A)) => reshape(A)": "a = f32[4,3] parameter(0) w = f32[12] reshape(a) ROOT r = f32[2,6] reshape(w)",
    "reshape(broadcast(A)) => broadcast(A)": "a = f32[3] parameter(0) w = f32[4,2,3] broadcast(a), dimensions={2} ROOT r = f32[8,1,3] reshape(w)",
    "reshape(iota) => iota": "a = s32[4,3] iota(), iota_dimension=0 ROOT r = s32[1,4,1,3] reshape(a)",
    "reshape(A) => bitcast(A)": "a = f32[4,3] parameter(0) ROOT r = f32[12] reshape(a)",
    "bitcast(bitcast(A)) => bitcast(A)": "a = f32[4,3] parameter(0) w = f32[12] bitcast(a) ROOT r = f32[2,6] bitcast(w)",
    "bitcast(A) => A to its own shape": "a = f32[4,3] parameter(0) ROOT w = f32[4,3] bitcast(a)",
    "copy(A) => bitcast(A)": "a = f32[4,1]{1,0} parameter(0) ROOT w = f32[4,1]{0,1} copy(a)",
    "copy(A) => A": "a = f32[4,1] parameter(0) ROOT w = f32[4,1] copy(a)",
    "transpose(A) => A in its own order": "a = f32[4,3] parameter(0) ROOT r = f32[4,3] transpose(a), dimensions={0,1}",
    "transpose(transpose(A)) => transpose(A)": "a = f32[4,3,2] parameter(0) w = f32[2,4,3] transpose(a), dimensions={2,0,1} ROOT r = f32[4,2,3] transpose(w), dimensions={1,0,2}",
    "transpose(broadcast(A)) => broadcast(A)": "a = f32[4,3] parameter(0) w = f32[2,4,3] broadcast(a), dimensions={1,2} ROOT r = f32[3,2,4] transpose(w), dimensions={2,0,1}",
    "transpose(iota) => iota": "a = s32[4,3] iota(), iota_dimension=0 ROOT r = s32[3,4] transpose(a), dimensions={1,0}",
    "transpose(dot(A, B)) => dot(B, A)": "a = f32[2,4,3] parameter(0) b = f32[2,3,5] parameter(1) "
    "d = f32[2,4,5] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1} ROOT r = f32[2,5,4] transpose(d), dimensions={0,2,1}",
    "transpose(A) => reshape(A) where only dimensions of size 1 move": "a = f32[4,1,3] parameter(0) ROOT r = f32[1,4,3] transpose(a), dimensions={1,0,2}",
    "transpose(A) => bitcast(A)": "a = f32[4,3]{1,0} parameter(0) ROOT r = f32[3,4]{0,1} transpose(a), dimensions={1,0}",
    "reverse(A) => A along dimensions of size 1": "a = f32[4,1] parameter(0) ROOT r = f32[4,1] reverse(a), dimensions={1}",
    "broadcast(A) => transpose(A) of the same elements": "a = f32[4,2,3] parameter(0) ROOT r = f32[2,3,4] broadcast(a), dimensions={2,0,1}",
    "broadcast(A) => reshape(A) of the same elements": "a = f32[4,2] parameter(0) ROOT r = f32[4,1,2] broadcast(a), dimensions={0,2}",
    "broadcast(broadcast(A)) => broadcast(A)": "a = f32[4] parameter(0) w = f32[4,2] broadcast(a), dimensions={0} ROOT r = f32[2,3,4] broadcast(w), dimensions={2,0}",
    "broadcast(iota) => iota": "a = s32[4] iota(), iota_dimension=0 ROOT r = s32[3,4] broadcast(a), dimensions={1}",
    "iota of a dimension of size 1 => 0": "ROOT a = s32[4,1] iota(), iota_dimension=1",
    "op(broadcast(A), broadcast(B)) => broadcast(op(A, B))": "a = f32[4] parameter(0) b = f32[4] parameter(1) x = f32[4,3] broadcast(a), dimensions={0} y = f32[4,3] broadcast(b), dimensions={0} "
    "ROOT r = f32[4,3] subtract(x, y)",
    "reduce(A) => A over no dimension": SUM
    + "a = f32[4] parameter(0) z = f32[] constant(0) ROOT r = f32[4] reduce(a, z), dimensions={}, to_apply=sum",
    "reduce(A) => reshape(A) over dimensions of size 1": MAX
    + "a = f32[4,1,2] parameter(0) z = f32[] constant(-inf) ROOT r = f32[4,2] reduce(a, z), dimensions={1}, to_apply=max",
    "reduce of an empty array => broadcast(init)": SUM
    + "a = f32[4,0] parameter(0) z = f32[] parameter(1) ROOT r = f32[4] reduce(a, z), dimensions={1}, to_apply=sum",
    "reduce_add(-A) => -reduce_add(A)": SUM
    + "a = f32[4,3] parameter(0) n = f32[4,3] negate(a) z = f32[] constant(0) ROOT r = f32[4] reduce(n, z), dimensions={1}, to_apply=sum",
    "reduce(transpose(A)) => reduce(A)": SUM
    + "a = f32[4,3,2] parameter(0) z = f32[] parameter(1) t = f32[2,4,3] transpose(a), dimensions={2,0,1} "
    "ROOT r = f32[4,3] reduce(t, z), dimensions={0}, to_apply=sum",
    "reduce(reduce(A)) => reduce(A)": SUM
    + "a = f32[4,3,2] parameter(0) z = f32[] constant(0) s = f32[4,2] reduce(a, z), dimensions={1}, to_apply=sum "
    "ROOT r = f32[4] reduce(s, z), dimensions={1}, to_apply=sum",
    "reduce_add(broadcast(A)) => A * count over broadcast dimensions": SUM
    + "a = f32[] parameter(0) z = f32[] constant(0) b = f32[4,3] broadcast(a), dimensions={} "
    "ROOT r = f32[4] reduce(b, z), dimensions={1}, to_apply=sum",
    "reduce-window(A) => A for windows of size 1": SUM
    + "a = f32[4] parameter(0) z = f32[] constant(0) ROOT r = f32[4] reduce-window(a, z), window={size=1}, to_apply=sum",
    "reduce-window(pad(A, C), C) => reduce-window(A, C) with the padding in its window": SUM
    + "a = f32[5,4] parameter(0) z = f32[] constant(0) y = f32[] constant(0) p = f32[9,4] pad(a, y), padding=3_1x0_0 "
    "ROOT r = f32[4,3] reduce-window(p, z), window={size=3x2 stride=2x1}, to_apply=sum",
    "slice(A) => A when it covers all of A": "a = f32[4] parameter(0) ROOT r = f32[4] slice(a), slice={[0:4]}",
    "slice(slice(A)) => slice(A)": "a = f32[9] parameter(0) s = f32[6] slice(a), slice={[2:8]} ROOT r = f32[3] slice(s), slice={[1:4]}",
    "slice(concatenate(.., A, ..)) => slice(A)": "a = f32[2] parameter(0) b = f32[5] parameter(1) c = f32[7] concatenate(a, b), dimensions={0} ROOT r = f32[2] slice(c), slice={[3:7:2]}",
    "slice(pad(A)) => slice(A) within A": "a = f32[5] parameter(0) v = f32[] parameter(1) p = f32[9] pad(a, v), padding=2_2 ROOT r = f32[3] slice(p), slice={[3:6]}",
    "pad(A) => A without padding": "a = f32[5] parameter(0) v = f32[] parameter(1) ROOT p = f32[5] pad(a, v), padding=0_0",
    "pad of an empty array => broadcast(value)": "a = f32[0] parameter(0) v = f32[] parameter(1) ROOT p = f32[5] pad(a, v), padding=2_3",
    "pad(broadcast(C), C) => broadcast(C)": "v = f32[] parameter(0) a = f32[2] broadcast(v), dimensions={} ROOT p = f32[6] pad(a, v), padding=2_1_1",
    "pad(A) with negative padding => slice(A)": "a = f32[5] parameter(0) v = f32[] parameter(1) ROOT p = f32[2] pad(a, v), padding=-1_-2",
    "concatenate(A) => A": "a = f32[5] parameter(0) ROOT c = f32[5] concatenate(a), dimensions={0}",
    "concatenate(A, empty) => A": "a = f32[5] parameter(0) b = f32[0] parameter(1) ROOT c = f32[10] concatenate(a, b, a), dimensions={0}",
    "concatenate(slice(A, i, j), slice(A, j, k)) => slice(A, i, k)": "a = f32[5] parameter(0) x = f32[1] slice(a), slice={[1:2]} y = f32[2] slice(a), slice={[2:4]} "
    "ROOT c = f32[8] concatenate(a, x, y), dimensions={0}",
    "concatenate(broadcast(C), broadcast(C)) => broadcast(C)": "a = f32[] parameter(0) x = f32[1] broadcast(a), dimensions={} y = f32[2] broadcast(a), dimensions={} "
    "ROOT c = f32[3] concatenate(x, y), dimensions={0}",
    "dynamic-slice(A) => A when it covers all of A": "a = f32[5] parameter(0) i = s32[] parameter(1) ROOT c = f32[5] dynamic-slice(a, i), dynamic_slice_sizes={5}",
    "dynamic-slice(broadcast(scalar)) => broadcast(scalar)": "a = f32[] parameter(0) i = s32[] parameter(1) b = f32[5] broadcast(a), dimensions={} "
    "ROOT c = f32[2] dynamic-slice(b, i), dynamic_slice_sizes={2}",
    "dynamic-slice(A, constants) => slice(A)": "a = f32[5] parameter(0) i = s32[] constant(4) ROOT c = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}",
    "dynamic-update-slice(A, B) => B when it covers all of A": "a = f32[5] parameter(0) b = f32[5] parameter(1) i = s32[] parameter(2) ROOT c = f32[5] dynamic-update-slice(a, b, i)",
    "dynamic-update-slice(A, nothing) => A": "a = f32[5] parameter(0) b = f32[0] parameter(1) i = s32[] parameter(2) ROOT c = f32[5] dynamic-update-slice(a, b, i)",
    "dynamic-update-slice(A, dynamic-slice(A, i), i) => A": "a = f32[5] parameter(0) i = s32[] parameter(1) b = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2} "
    "ROOT c = f32[5] dynamic-update-slice(a, b, i)",
    "dot(empty, empty) => 0": "a = f32[2,0] parameter(0) b = f32[0,3] parameter(1) ROOT d = f32[2,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "get-tuple-element(tuple(.., A, ..)) => A": "a = f32[2] parameter(0) b = f32[3] parameter(1) t = (f32[2], f32[3]) tuple(a, b) ROOT e = f32[3] get-tuple-element(t), index=1",
    "map(A, B) of one opcode => opcode(A, B)": SUM
    + "a = f32[2] parameter(0) b = f32[2] parameter(1) ROOT m = f32[2] map(a, b), dimensions={0}, to_apply=sum",
    "map to a constant => broadcast(constant)": "seven { a = f32[] parameter(0)  ROOT s = f32[] constant(7) }\na = f32[2] parameter(0) ROOT m = f32[2] map(a), dimensions={0}, to_apply=seven",
    "sort along a dimension of size 1 => its operands": "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = pred[] compare(a, b), direction=LT }\n"
    "a = f32[2,1] parameter(0) ROOT m = f32[2,1] sort(a), dimensions={1}, to_apply=less",
    "(C1 - A) + C2 => (C1 + C2) - A": "x = f32[4] parameter(0) k = f32[4] constant({1, 2, 3, 4}) l = f32[4] constant({5, 6, 7, 9}) s = f32[4] subtract(k, x) "
    "ROOT r = f32[4] add(s, l)",
    "(A * C) * broadcast(B) => A * broadcast(B * C)": "x = f32[4,3] parameter(0) y = f32[4] parameter(1) k = f32[] constant(3) c = f32[4,3] broadcast(k), dimensions={} "
    "p = f32[4,3] multiply(x, c) q = f32[4,3] broadcast(y), dimensions={0} ROOT r = f32[4,3] multiply(p, q)",
    "broadcast(reshape(A)) => broadcast(A) where the reshape adds dimensions of size 1": "a = f32[4,3] parameter(0) w = f32[1,4,1,3] reshape(a) "
    "ROOT r = f32[3,1,2,4,1] broadcast(w), dimensions={1,3,4,0}",
    "reorder(broadcast(scalar)) => broadcast(scalar)": "a = f32[] parameter(0) b = f32[4,3] broadcast(a), dimensions={} ROOT r = f32[4,2] slice(b), slice={[0:4], [1:3]}",
    "broadcast(A) => broadcast(reshape(A)) without dimensions of size 1": "a = f32[4,1,3] parameter(0) ROOT r = f32[3,2,1,4] broadcast(a), dimensions={3,2,0}",
    "reverse(reverse(A)) => reverse(A) along dimensions that only one of them reverses": "a = f32[4,2,3] parameter(0) w = f32[4,2,3] reverse(a), dimensions={1,0} ROOT r = f32[4,2,3] reverse(w), dimensions={0,2}",
    "slice(A) with strides => slice(A) with stride 1": "a = f32[9,5] parameter(0) ROOT s = f32[1,2] slice(a), slice={[2:8:7], [1:5:2]}",
    "slice(broadcast(A)) => broadcast(slice(A))": "a = f32[9] parameter(0) s = f32[4,9] broadcast(a), dimensions={1} ROOT r = f32[2,3] slice(s), slice={[1:3], [1:9:3]}",
    "slice(reverse(A)) => reverse(slice(A))": "a = f32[9,4] parameter(0) s = f32[9,4] reverse(a), dimensions={0} ROOT r = f32[3,2] slice(s), slice={[1:9:3], [1:3]}",
    "slice(reshape(A)) => reshape(slice(A)) from the front along the first dimension": "a = f32[4,3,2] parameter(0) s = f32[12,2] reshape(a) ROOT r = f32[6,2] slice(s), slice={[0:6], [0:2]}",
    "pad(A) => pad(A) without interior padding of one element": "a = f32[1,3] parameter(0) v = f32[] parameter(1) ROOT p = f32[4,5] pad(a, v), padding=1_2_3x0_0_1",
    "pad(broadcast(A)) => broadcast(pad(broadcast(A))) of the padded dimensions": "a = f32[3] parameter(0) v = f32[] parameter(1) b = f32[4,3,2] broadcast(a), dimensions={1} "
    "ROOT p = f32[4,6,3] pad(b, v), padding=0_0x2_1x0_1",
    "concatenate(A, concatenate(B, C)) => concatenate(A, B, C)": "a = f32[2] parameter(0) b = f32[3] parameter(1) x = f32[5] concatenate(a, b), dimensions={0} ROOT c = f32[8] concatenate(x, b), dimensions={0}",
    "concatenate(A, broadcast(scalar)) => pad(A, scalar)": "a = f32[2,3] parameter(0) b = f32[] parameter(1) x = f32[4,3] broadcast(b), dimensions={} ROOT c = f32[6,3] concatenate(x, a), dimensions={0}",
    "concatenate(A, A, ..) => broadcast(reshape(A)) along a dimension of size 1": "a = f32[2,1,3] parameter(0) ROOT c = f32[2,4,3] concatenate(a, a, a, a), dimensions={1}",
    "pad(A) with negative padding => slice(pad(A))": "a = f32[4,5] parameter(0) v = f32[] parameter(1) ROOT p = f32[8,3] pad(a, v), padding=-1_2_1x0_-2",
    "conditional(convert(P), A, B) => conditional(P, B, A)": "f {\n p = f32[4] parameter(0)\n ROOT r = f32[4] negate(p)\n}\ng {\n p = f32[4] parameter(0)\n ROOT r = f32[4] cosine(p)\n}\n"
    "a = f32[4] parameter(0) b = f32[4] parameter(1) w = pred[] parameter(2) n = s32[] convert(w) "
    "ROOT r = f32[4] conditional(n, a, b), branch_computations={f, g}",
    "bitcast(broadcast(A)) => broadcast(A)": "a = f32[3] parameter(0) x = f32[2,3]{1,0} broadcast(a), dimensions={1} ROOT c = f32[3,2]{0,1} bitcast(x)",
    "reduce(reshape(A)) => reshape(reduce(A)) where only kept dimensions are reshaped": SUM
    + "a = f32[6,4] parameter(0) z = f32[] parameter(1) t = f32[2,3,4] reshape(a) ROOT r = f32[2,3] reduce(t, z), dimensions={2}, to_apply=sum",
    "reduce(reshape(A)) => reduce(A) where only reduced dimensions are reshaped": SUM
    + "a = f32[4,3,2] parameter(0) z = f32[] parameter(1) t = f32[4,6] reshape(a) ROOT r = f32[4] reduce(t, z), dimensions={1}, to_apply=sum",
}
OF_DEVICES = {"clamp(0, partition-id, C) => partition-id, replica-id likewise"}
LABELS = [r.label for r in RULES.rules]
TYPES = (PrimitiveType.F32, PrimitiveType.S32, PrimitiveType.PRED, PrimitiveType.C64)


SHIFTS = (O.SHIFT_LEFT, O.SHIFT_RIGHT_ARITHMETIC, O.SHIFT_RIGHT_LOGICAL)
ORDERS = (O.MAXIMUM, O.MINIMUM, O.CLAMP)


def written(body: str) -> str:
    *computations, main = body.split("\n")
    lines = main.replace(" ROOT ", "\nROOT ")
    return "HloModule example\n" + "\n".join(computations) + f"\nENTRY main {{\n{lines}\n}}\n"


def generated(rule: Rule) -> Iterator[str]:
    """Modules that the pattern matches, of every element type and root opcode."""
    roots = sorted(rule.pattern.opcodes or (), key=str)
    for kind, root in itertools.product(TYPES, roots):
        module = HloModule("generated")
        entry = module.add_computation("main", entry=True)
        try:
            entry.set_root(build(rule.pattern, root, kind, entry, {}))
        except XlanbError:
            continue  # the opcode does not take this type
        if not any(i.opcode in without_value(kind) for i in entry.instructions):
            yield str(module)


def without_value(kind: PrimitiveType) -> tuple[HloOpcode, ...]:
    """Opcodes that HLO's rules allow for a type, but that have no value."""
    return (() if kind.is_integral else SHIFTS) + (ORDERS if kind.is_complex else ())


def build(
    pattern: Pattern, opcode: HloOpcode | None, kind: PrimitiveType, entry, made: dict[str, HloInstruction]
) -> HloInstruction:
    name = getattr(pattern, "name", "")
    if name in made:
        return made[name]
    shape = array(kind, (3, 4))
    if isinstance(pattern, ConstantPattern):
        value = 1 if pattern.value is None else pattern.value
        new = entry.add(O.BROADCAST, (entry.constant(np.asarray(value, kind.dtype)),), shape, dimensions=())
    elif isinstance(pattern, Anything):
        type_here = array(PrimitiveType.PRED, (3, 4)) if name == "p" else shape
        new = entry.add(O.PARAMETER, (), type_here, name=name, parameter_number=len(entry.parameters))
    else:
        assert isinstance(pattern, OpPattern)
        chosen = opcode if opcode is not None else pattern.codes[0]
        operands = [build(p, None, kind, entry, made) for p in pattern.operands or ()]
        attributes = {"direction": "NE"} if chosen is O.COMPARE else {}
        new = entry.add(chosen, operands, **attributes)
    if name:
        made[name] = new
    return new


class Fired:
    def __init__(self):
        self.labels = set()

    def on_event(self, event):
        if isinstance(event, Decision) and event.taken:
            self.labels.add(event.action)


@pytest.mark.parametrize("label", [label for label in LABELS if label not in OF_DEVICES])
def test_rule_fires_and_keeps_the_meaning(label, keeps_meaning):
    rule = next(r for r in RULES.rules if r.label == label)
    alone = RuleSet("alone", [rule])
    texts = [written(EXAMPLES[label])] if label in EXAMPLES else list(generated(rule))
    options = [AlgebraicSimplifier(is_layout_sensitive=s) for s in (False, True)]
    fired = Fired()
    for text, option in itertools.product(texts, options):
        with observing(fired):
            keeps_meaning(text, lambda m, option=option: alone.run(m.entry_computation, option))
    assert label in fired.labels


@pytest.mark.parametrize(
    ("header", "number", "last", "is_clamped"),
    [
        ("num_partitions=8", "partition-id", 7, False),
        ("num_partitions=8", "partition-id", 6, True),
        ("num_partitions=8", "replica-id", 7, True),
        ("replica_count=4", "replica-id", 5, False),
        ("replica_count=1", "replica-id", 5, True),
    ],
)
def test_the_number_of_a_device_is_not_clamped_to_what_it_cannot_leave(header, number, last, is_clamped):
    module = parse(
        f"HloModule m, {header}\nENTRY e {{\n  z = u32[] constant(0)\n  d = u32[] {number}()\n  n = u32[] constant({last})\n"
        "  ROOT c = u32[] clamp(z, d, n)\n}\n"
    )
    AlgebraicSimplifier().run(module)
    assert module.entry_computation.root.opcode.text == ("clamp" if is_clamped else number)


def test_labels_are_unique_and_examples_belong_to_rules():
    assert len(set(LABELS)) == len(LABELS)
    assert set(EXAMPLES) <= set(LABELS)


def test_the_text_of_a_rule_says_where_it_stands():
    text = str(RULES)
    assert "A + 0 => A    [xlanb/transforms/algebraic_simplifier/arithmetic.py:" in text
    assert "add(a, 0)" in text


@pytest.mark.parametrize(
    ("a", "b", "runs"),
    [
        ((2, 3), (6,), [(0, 2, 0, 1)]),
        ((2, 3, 4), (2, 12), [(0, 1, 0, 1), (1, 3, 1, 2)]),
        ((4,), (4, 1), [(0, 1, 0, 1), (1, 1, 1, 2)]),
        ((6, 4), (3, 8), [(0, 2, 0, 2)]),
        ((0, 2), (2, 0), [(0, 2, 0, 2)]),
    ],
)
def test_common_factors(a, b, runs):
    assert common_factors(a, b) == tuple(runs)


def test_minus_zero_and_nan_are_kept_apart():
    text = written("x = f32[] parameter(0) ROOT r = pred[] compare(x, x), direction=EQ")
    module = parse(text)
    AlgebraicSimplifier().run(module)
    assert module.entry_computation.root.opcode is O.COMPARE  # NaN is not equal to itself


def test_division_by_what_has_no_reciprocal_stays():
    for value in ("0", "inf", "nan", "1e-40", "3e38"):
        module = parse(
            written(
                f"x = f32[4] parameter(0) k = f32[] constant({value}) c = f32[4] broadcast(k), dimensions={{}} ROOT r = f32[4] divide(x, c)"
            )
        )
        AlgebraicSimplifier().run(module)
        wanted = O.MULTIPLY if value == "3e38" else O.DIVIDE
        assert module.entry_computation.root.opcode is wanted, value


@pytest.mark.parametrize(("count", "is_kept"), [(128, False), (129, True)])
def test_an_iota_that_wraps_is_not_taken_for_non_negative(count: int, is_kept: bool) -> None:
    text = written(
        f"i = s8[{count}] iota(), iota_dimension=0 z = s8[] constant(0) c = s8[{count}] broadcast(z), dimensions={{}} ROOT r = pred[{count}] compare(i, c), direction=GE"
    )
    module = parse(text)
    AlgebraicSimplifier().run(module)
    assert any(i.opcode is O.COMPARE for i in module.entry_computation) is is_kept
    assert bool(evaluate(module).all()) is not is_kept


@pytest.mark.parametrize("count", [15, 16, 100, 162, 256, 300])
@pytest.mark.parametrize("t", ["s2", "u4", "s8", "u8", "s16", "f8e4m3", "f8e4m3fnuz", "f8e5m2", "bf16", "f32", "c64"])
def test_sums_of_equal_numbers_count_in_the_element_type(t: str, count: int) -> None:
    text = (
        f"HloModule m\nadd {{\n  a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n  ROOT s = {t}[] add(a, b)\n}}\nENTRY e {{\n"
        f"  x = {t}[] parameter(0)\n  b = {t}[2,{count}] broadcast(x), dimensions={{}}\n  z = {t}[] constant({'(0, 0)' if t == 'c64' else 0})\n"
        f"  ROOT r = {t}[2] reduce(b, z), dimensions={{1}}, to_apply=add\n}}\n"
    )
    module = parse(text)
    one = np.ones((), np.int8).astype(BY_TEXT[t].dtype)
    expected = evaluate(module, one)
    AlgebraicSimplifier().run(module)
    is_kept = any(i.opcode is O.REDUCE for i in module.entry_computation)
    if t[0] in "su":
        assert not is_kept
        np.testing.assert_array_equal(evaluate(module, one), expected)
    else:
        assert is_kept == (count > 256 or complex(np.asarray(count).astype(one.dtype)) != count)


@pytest.mark.parametrize(("inverts", "opcode"), [(True, "multiply"), (False, "divide")])
def test_narrow_constants_are_inverted_where_a_target_does(inverts, opcode):
    module = parse(
        written(
            "x = bf16[4] parameter(0) k = bf16[] constant(9) c = bf16[4] broadcast(k), dimensions={} ROOT r = bf16[4] divide(x, c)"
        )
    )
    AlgebraicSimplifier(inverts_narrow_constants=inverts).run(module)
    assert module.entry.root.opcode.text == opcode


def test_each_file_is_imported_for_the_opcodes_that_its_rules_rewrite() -> None:
    for part, opcodes in RULES.parts.items():
        module, _, name = part.partition(":")
        rules = getattr(import_module(module), name).rules
        assert rules
        assert all(r.pattern.opcodes for r in rules)
        assert {o for r in rules for o in r.pattern.opcodes} == set(opcodes), part
